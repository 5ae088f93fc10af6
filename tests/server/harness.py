"""What the server's tests share: a server as a child, plain HTTP requests, and a count of what passed."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = ["--model", str(ROOT / "examples/model"), "--model-name", "records", "--document-role", "document",
           "--chat-template", str(ROOT / "examples/server/records.jinja")]  # fmt: skip
SYSTEM = "Each document is one record. Answer each question from the records, in as few words as possible."


class Skipped(Exception):
    """Says why a test did not run."""


def read_demo():
    """The shipped model's documents, and its questions with the numbers of their documents and the right answers."""
    documents, questions = [], []
    for line in (ROOT / "examples/model/demo.txt").read_text().splitlines():
        kind, _, rest = line.partition(": ")
        if kind == "document":
            documents.append(rest.removeprefix("<|doc|> "))
        elif kind == "question":
            numbers, text, answer, mode = (part.strip() for part in rest.split(" | "))
            text = text.removeprefix("<|user|> ").removesuffix("<|assistant|>")
            questions.append(([int(number) - 1 for number in numbers.split()], text, answer, mode))
    return documents, questions


class Server:
    """A server upon a free port; used with `with`."""

    program = None  # set by main
    chain = None  # the folder of make_model.py's model

    def __init__(self, *arguments, model="chain"):
        chosen = RECORDS if model == "records" else ["--model", str(self.chain)]
        if model == "chain":
            chosen += ["--engine", "NUM_PAGES=4200"]
        self.log = tempfile.NamedTemporaryFile(mode="w+", prefix="nanolith-server-", suffix=".log")
        self.process = subprocess.Popen(
            [self.program, *chosen, "--device", "cpu", "--port", "0", *arguments],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the server did not start: " + self.log_text())
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the server, and says how it ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def request(self, method, path, body=None, headers=None):
        """Status, headers and body of a reply. `body` may be bytes, or what becomes JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        all_headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, {**all_headers, **(headers or {})})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, response.headers, data

    def post(self, path, body, headers=None):
        """The reply's JSON, of a request that succeeds."""
        status, _, data = self.request("POST", path, body, headers)
        assert status == 200, (status, data)
        return json.loads(data)

    def refused(self, path, body, status=400, method="POST", headers=None):
        """The error of a request that is refused with this status, in OpenAI's form."""
        got, _, data = self.request(method, path, body, headers)
        assert got == status, (got, data)
        error = json.loads(data)["error"]
        assert set(error) == {"message", "type", "param", "code"} and error["message"], error
        return error

    def chat(self, text="hi", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def metrics(self):
        """The numbers of /metrics by name and labels."""
        _, _, data = self.request("GET", "/metrics")
        return read_metrics(data.decode())

    def wait_for(self, name, holds, seconds=10):
        """Waits until a metric is as wanted."""
        end = time.monotonic() + seconds
        while not holds(self.metrics()[name]):
            assert time.monotonic() < end, f"{name} is {self.metrics()[name]} after {seconds} s"
            time.sleep(0.02)

    def open_stream(self, body, receive_buffer=None):
        """A socket upon which a request for a stream was sent, and nothing read yet."""
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", self.port))
        text = json.dumps(body)
        sock.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\n\r\n{text}".encode()
        )
        return sock

    def resident(self):
        """Bytes of memory that the server has now."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s*(\d+)", status).group(1))


def read_metrics(text):
    """Prometheus' text format, strictly: every sample has a type before it."""
    numbers, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} has two types"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)', line)
            assert match, f"not a sample: {line}"
            base = re.sub("_(bucket|sum|count)$", "", match[1])
            assert match[1] in types or types.get(base) == "histogram", f"no type: {line}"
            assert match[1] + (match[2] or "") not in numbers, f"twice: {line}"
            numbers[match[1] + (match[2] or "")] = float(match[3])
    return numbers


def events_of(data):
    """The JSON of each event of a stream, which must end with [DONE]."""
    events = [event for event in data.decode().split("\n\n") if event]
    assert all(event.startswith("data: ") for event in events), events[:3]
    assert events[-1] == "data: [DONE]", events[-1]
    return [json.loads(event[6:]) for event in events[:-1]]


def in_parallel(count, work):
    """Runs work(0) to work(count - 1) on threads of their own; gives what they return, or raises what one raised."""
    results, errors = [None] * count, []

    def run(index):
        try:
            results[index] = work(index)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def run_tests(module_names):
    """Runs the functions test_* of the modules, and ends the program with counts."""
    passed = failed = skipped = 0
    for module_name in module_names:
        module = __import__(module_name)
        for name in [name for name in dir(module) if name.startswith("test_")]:
            began = time.monotonic()
            try:
                getattr(module, name)()
                result, passed = "ok", passed + 1
            except Skipped as reason:
                result, skipped, name = "skipped", skipped + 1, f"{name}: {reason}"
            except Exception:  # noqa: BLE001
                traceback.print_exc(file=sys.stdout)
                result, failed = "FAILED", failed + 1
            print(f"{result:7} {module_name} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if passed and not failed else 1)


def main(module_names):
    Server.program = os.environ["NANOLITH_SERVER"]
    Server.chain = os.environ["NANOLITH_CHAIN_MODEL"]
    run_tests(module_names)
