"""The server under plain HTTP: what it refuses, clients that behave badly, limits, metrics, its end."""

import gzip
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from harness import RECORDS, ROOT, SYSTEM, Server, Skipped, events_of, in_parallel, read_demo

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]


def test_every_field_is_read_or_refused():
    wrong = {
        "messages": ["hi", [], {}, [1], [{"role": "king", "content": "x"}], [{"role": "user", "content": 5}],
                     [{"role": "user", "content": [{"type": 5}]}], [{"role": "user", "content": [5]}], [{"role": ["user"], "content": "x"}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
                     [{"role": "user", "content": "x", "tool_calls": [{}]}], [{"role": "user", "content": "x", "y": 1}]],
        "model": [1, "other", {}],
        "temperature": ["hot", -0.5, 1e39, True],
        "top_p": [0, 1.5],
        "top_k": [-1, 1.5],
        "min_p": [2],
        "seed": ["x", 1.5, 1e30],
        "n": [0, 17, "2"],
        "max_tokens": [0, -5, 1 << 40, "5"],
        "max_completion_tokens": [0],
        "stop": [1, [1], ["x"] * 17, "", "x" * 2000],
        "stream": [1, "true"],
        "stream_options": [{"include_usage": True}, 1],
        "documents": ["x", [1], ["missing"], [{}], [{"id": "a", "text": "b"}], [{"text": ""}], [{"text": "x", "z": 1}]],
        "composition": ["fast"],
        "tools": [1, [1], [{"type": "code"}], [{"type": 5}], [{"type": "function", "function": 5}], [{"type": "function", "function": {"name": "f", "strict": True}}]],
        "tool_choice": ["required", {"type": "function", "function": {"name": "f"}}, "some", {"type": "function"}, 5],
        "parallel_tool_calls": ["x"],
        "chat_template_kwargs": [1],
        "stop_token_ids": [["x"], [-1]],
        "logprobs": [5],
        "top_logprobs": [1, 21],
        "response_format": [5, {"type": "x"}, {"type": "json_schema"}, {"type": "json_object", "x": 1},
                            {"type": "json_schema", "json_schema": {"schema": {"type": 5}}}],
        "regex": [1, "("],
        "grammar": ["root ::= ("],
        "choice": [5, [5], [""]],
        "logit_bias": [5, {"x": 1}, {"1": "y"}],
        "frequency_penalty": ["x", 1000],
        "functions": [[{"name": "f"}]],
        "modalities": [["text", "audio"]],
        "store": [True],
        "audio": [{"voice": "x"}],
        "bogus": [1],
    }  # fmt: skip
    with Server() as server:
        for field, values in wrong.items():
            for value in values:
                got, _, data = server.request("POST", CHAT, {"messages": HI, "max_tokens": 1, field: value})
                assert 400 <= got < 500, (field, value, got, data)
                param = json.loads(data)["error"]["param"]
                assert param is not None and param.startswith(field), (field, value, data)
        harmless = {"temperature": None, "n": None, "stop": None, "logprobs": False, "tool_choice": "auto", "user": "x",
                    "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "response_format": {"type": "text"},
                    "parallel_tool_calls": True, "tools": [], "documents": [], "store": False}  # fmt: skip
        assert server.chat(max_tokens=1, **harmless)["choices"][0]["message"]["content"] == "la "


def test_bodies_that_are_no_requests():
    with Server("--max-body-bytes", "20000") as server:
        assert server.refused(CHAT, b"{")["type"] == "invalid_request_error"
        for body in (
            b"",
            b"[]",
            b"nul",
            b'"x"',
            b'{"a":1}x',
            b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
            b'{"messages":' + b"[" * 9000,
            b'{"x":' + b"[" * 500 + b"]" * 500 + b"}",
            gzip.compress(b"{}"),
        ):
            server.refused(CHAT, body)
        assert server.refused(CHAT, {"messages": HI, "x": "y" * 30000}, status=413)["code"] == "body_too_large"
        # The same in pieces, whose length is not told before.
        pieces = b"".join(b"1000\r\n" + b" " * 4096 + b"\r\n" for _ in range(64)) + b"0\r\n\r\n"
        assert exchange(
            server, b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces
        ).startswith(b"HTTP/1.1 413")
        # A small body that would be a large one.
        bomb = gzip.compress(b" " * 50_000_000)[:19000]
        status, _, _ = server.request("POST", CHAT, bomb, {"Content-Encoding": "gzip"})
        assert status in (400, 413), status
        form = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n--b--\r\n'
        status, _, _ = server.request("POST", CHAT, form, {"Content-Type": "multipart/form-data; boundary=b"})
        assert status == 400
        assert server.chat(max_tokens=1)["choices"]


def exchange(server, data, seconds=10):
    """What the server says to these bytes, until it closes or says nothing for a second."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as sock:
        try:
            sock.sendall(data)
            sock.settimeout(0.3)
            said = b""
            while piece := sock.recv(65536):
                said += piece
        except (TimeoutError, ConnectionError):
            pass
        return said


def test_bytes_that_are_no_http():
    with Server() as server:
        for data in (
            b"\x00" * 1000,
            b"GET\r\n\r\n",
            b"POST /v1/chat/completions HTTP/9\r\n\r\n",
            b"\x16\x03\x01" * 100,
            b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: " + b"b" * 9000 + b"\r\n\r\n",
            b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n{}",
        ):
            said = exchange(server, data)
            assert b"HTTP/1.1 2" not in said, (data[:60], said[:200])
        status, _, _ = server.request("GET", "/v1/chunks/" + "a" * 7000)
        assert status == 404
        status, _, _ = server.request("DELETE", CHAT)
        assert status == 404
        assert server.request("GET", "/health")[0] == 200


def test_clients_that_hang_up():
    with Server() as server:
        for stream in (True, False):
            before = server.metrics()['nanolith_requests_total{outcome="cancelled"}']
            free = server.metrics()["nanolith_pages_free"]
            sockets = [server.open_stream({"messages": HI, "stream": stream}) for _ in range(4)]
            server.wait_for("nanolith_answers_running", lambda count: count == 4)
            for sock in sockets:
                sock.close()
            server.wait_for("nanolith_answers_running", lambda count: count == 0, seconds=5)
            server.wait_for('nanolith_requests_total{outcome="cancelled"}', lambda count: count == before + 4)
            server.wait_for("nanolith_pages_free", lambda count: count >= free - 4)


def test_clients_that_do_not_read():
    with Server("--write-seconds", "2") as server:
        slow = server.open_stream({"messages": HI, "stream": True}, receive_buffer=4096)
        server.wait_for("nanolith_answers_running", lambda count: count == 1)
        for _ in range(5):  # others are served meanwhile
            assert server.chat(max_tokens=3)["choices"][0]["message"]["content"] == "la li lu\n"
        server.wait_for('nanolith_requests_total{outcome="cancelled"}', lambda count: count == 1, seconds=20)
        slow.close()


def test_clients_that_read_slowly():
    with Server() as server:
        sock = server.open_stream({"messages": HI, "stream": True, "max_tokens": 300}, receive_buffer=4096)
        data = b""
        while b"[DONE]\n\n" not in data:
            data += sock.recv(2048)
            time.sleep(0.005)
        assert data.count(b'"content":"l') > 10
        assert server.metrics()['nanolith_requests_total{outcome="answered"}'] == 1


def test_too_many_requests():
    with Server("--max-requests", "2") as server:
        sockets = [server.open_stream({"messages": HI, "stream": True}) for _ in range(2)]
        server.wait_for("nanolith_answers_running", lambda count: count == 2)
        status, headers, data = server.request("POST", CHAT, {"messages": HI})
        assert status == 429 and int(headers["Retry-After"]) >= 1, (status, headers)
        assert json.loads(data)["error"]["code"] == "queue_full"
        assert server.request("GET", "/health")[0] == 200
        for sock in sockets:
            sock.close()
        server.wait_for("nanolith_answers_running", lambda count: count == 0)
        server.chat(max_tokens=1)


def test_a_full_queue_of_the_engine():
    with Server("--engine", "QUEUE_LIMIT=1", "--engine", "MAX_OUTPUT_ROWS=1") as server:
        replies = in_parallel(12, lambda _: server.request("POST", CHAT, {"messages": HI, "max_tokens": 300}))
        statuses = {status for status, _, _ in replies}
        assert statuses == {200, 429}, statuses
        assert all("Retry-After" in headers for status, headers, _ in replies if status == 429)


def test_sigterm_lets_answers_end():
    with Server() as server:
        got = []
        asks = threading.Thread(target=lambda: got.append(server.chat(max_tokens=2000)))
        asks.start()
        server.wait_for("nanolith_answers_running", lambda count: count == 1)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        status, headers, _ = server.request("POST", CHAT, {"messages": HI})
        assert status == 503 and "Retry-After" in headers
        assert server.request("GET", "/health")[0] == 503
        asks.join()
        assert got[0]["usage"]["completion_tokens"] == 2000
        assert server.process.wait(10) == 0


def test_sigterm_cancels_what_takes_too_long():
    with Server("--drain-seconds", "1") as server:
        sock = server.open_stream({"messages": HI, "stream": True})
        server.wait_for("nanolith_answers_running", lambda count: count == 1)
        server.process.send_signal(signal.SIGTERM)
        data = b""
        while piece := sock.recv(65536):
            data += piece
        assert b'"code":"stopping"' in data, data[-300:]
        assert server.process.wait(10) == 0


def test_chunks():
    documents, questions = read_demo()
    numbers, question, answer, _ = next(row for row in questions if row[3] == "independent")
    with Server("--max-stored", "9", model="records") as server:
        for index, text in enumerate(documents):
            put = server.post("/v1/chunks", {"id": f"doc{index}", "text": text, "title": f"Record {index}"})
            assert put["computed"] == put["tokens"] > 0, put
        again = server.post("/v1/chunks", {"id": "doc0", "text": documents[0]})
        assert again["computed"] == 0, "it was in the store"
        _, _, data = server.request("GET", "/v1/chunks")
        assert [entry["id"] for entry in json.loads(data)["data"]] == [f"doc{i}" for i in range(len(documents))]
        _, _, data = server.request("GET", "/v1/chunks/doc3")
        assert json.loads(data)["text"] == documents[3]
        body = {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]}
        body["documents"] = [f"doc{number}" if number % 2 else {"id": f"doc{number}"} for number in numbers]
        for composition in ("independent", "exact", "blended"):
            reply = server.post(CHAT, {**body, "composition": composition})
            assert reply["choices"][0]["message"]["content"].strip() == answer, (composition, reply)
            if composition == "independent":
                assert [use["computed"] for use in reply["nanolith"]["documents"]] == [0] * len(numbers), reply
        server.post("/v1/chunks", {"text": "a ninth"})
        assert server.refused("/v1/chunks", {"text": "a tenth"})["code"] == "too_many_documents"
        for pinned in (True, False):
            status, _, data = server.request("PATCH", "/v1/chunks/doc1", {"pinned": pinned})
            assert status == 200 and json.loads(data)["pinned"] == pinned
        assert server.request("DELETE", "/v1/chunks/doc1")[0] == 200
        assert server.request("GET", "/v1/chunks/doc1")[0] == 404
        error = server.refused(CHAT, {**body, "documents": ["doc1"]}, status=404)
        assert error["param"] == "documents[0]"
        for wrong in (
            {},
            {"text": ""},
            {"text": 1},
            {"text": "x", "id": "a/b"},
            {"text": "x", "id": ""},
            {"text": "x", "y": 1},
        ):
            server.refused("/v1/chunks", wrong)


def test_pinned_chunks_stay():
    with Server("--engine", "NUM_PAGES=40", "--engine", "MAX_CONTEXT=1024") as server:
        kept = {"text": "k" * 600, "id": "kept", "pinned": True}
        assert server.post("/v1/chunks", kept)["computed"] > 600
        for index in range(12):
            server.post("/v1/chunks", {"text": f"{index:3}" * 200, "id": f"other{index}"})
        assert server.metrics()["nanolith_chunk_evictions_total"] > 0
        assert server.post("/v1/chunks", {**kept, "id": "same"})["computed"] == 0
        for name in ("kept", "same"):
            server.request("PATCH", "/v1/chunks/" + name, {"pinned": False})
        for index in range(12):
            server.post("/v1/chunks", {"text": f"{index:4}" * 150, "id": f"more{index}"})
        assert server.post("/v1/chunks", {**kept, "id": "third", "pinned": False})["computed"] > 600


def test_tenants():
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("third\n\n")
        keys.flush()
        with Server(
            "--api-key", "first", "--api-key", "second", "--api-key-file", keys.name, model="records"
        ) as server:
            first, second, third = ({"Authorization": f"Bearer {key}"} for key in ("first", "second", "third"))
            text = read_demo()[0][0]
            assert server.post("/v1/chunks", {"id": "a", "text": text}, first)["computed"] > 0
            assert server.post("/v1/chunks", {"id": "a", "text": text}, first)["computed"] == 0
            # The same text is computed for each, and nobody finds another one's.
            assert server.post("/v1/chunks", {"id": "b", "text": text}, second)["computed"] > 0
            assert server.request("GET", "/v1/chunks/a", headers=second)[0] == 404
            body = {"messages": HI, "documents": ["a"]}
            assert server.request("POST", CHAT, body, first)[0] == 200
            assert server.request("POST", CHAT, body, second)[0] == 404
            assert server.request("GET", "/v1/models", headers=third)[0] == 200
            for header in (None, "Bearer ", "Bearer firs", "Bearer first2", "first", "Basic first", "Bearer third\n"):
                headers = {"Authorization": header.strip("\n") + "x"} if header else {}
                for method, path in (("POST", CHAT), ("GET", "/v1/chunks"), ("GET", "/metrics"), ("POST", "/tokenize")):
                    server.refused(path, {} if method == "POST" else None, 401, method, headers)
            assert server.request("GET", "/health")[0] == 200
        assert "first" not in server.log_text() and "second" not in server.log_text()


def test_metrics():
    with Server() as server:
        for _ in range(3):
            server.chat(max_tokens=5)
        server.refused(CHAT, b"{")
        numbers = server.metrics()
        assert numbers['nanolith_requests_total{outcome="answered"}'] == 3
        assert numbers['nanolith_requests_total{outcome="refused"}'] == 1
        assert numbers["nanolith_answer_tokens_total"] == 15
        assert numbers["nanolith_first_token_seconds_count"] == 3
        assert numbers["nanolith_first_token_seconds_count"] + numbers["nanolith_token_gap_seconds_count"] <= 15
        assert numbers["nanolith_pages"] == 4200 and numbers["nanolith_connections"] >= 1
        for name in ("nanolith_first_token_seconds", "nanolith_token_gap_seconds", "nanolith_answer_seconds"):
            counts = [value for key, value in numbers.items() if key.startswith(name + "_bucket")]
            assert counts == sorted(counts) and counts[-1] == numbers[name + "_count"], name


def test_top():
    top = [sys.executable, str(ROOT / "examples/server/nanolith-top"), "--once", "--seconds"]
    with Server() as server:
        shown = subprocess.Popen([*top, "3", server.url], stdout=subprocess.PIPE, text=True)
        time.sleep(1)  # it has looked at the server for the first time
        for _ in range(3):
            server.chat(max_tokens=5)
        text, _ = shown.communicate(timeout=30)
        assert shown.returncode == 0 and "\033" not in text, text
        assert float(re.search(r"^tokens +(\d+) answered a second, \d+ asked", text, re.M)[1]) > 0, text
        assert re.search(r"^first token +[\d.]+ m?s for half of them", text, re.M), text
        assert "3 answered" in text and "0 running, 0 waiting" in text and "of 4200" in text, text
    failed = subprocess.run([*top, "1", server.url], capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stderr.startswith("nanolith-top: " + server.url), failed
    failed = subprocess.run([*top, "0", server.url], capture_output=True, text=True)
    assert failed.returncode == 2 and "--seconds is 0.0" in failed.stderr, failed


def test_tokens():
    with Server(model="records") as server:
        tokens = server.post("/tokenize", {"prompt": "Boso Polm paid"})
        assert tokens["count"] == len(tokens["tokens"]) > 0
        assert server.post("/detokenize", {"tokens": tokens["tokens"]})["prompt"] == "Boso Polm paid"
        chat = server.post("/tokenize", {"messages": HI})
        usage = server.post(CHAT, {"messages": HI, "max_tokens": 1})["usage"]
        assert chat["count"] == usage["prompt_tokens"]
        server.refused("/detokenize", {"tokens": [1 << 30]})
        server.refused("/tokenize", {})
        server.refused("/tokenize", {"prompt": "x", "messages": HI})


def test_configuration():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "server.toml")
        config.write_text(
            'model-name = "named"\nmax-n = 2\nlog-json = true\nengine = ["NUM_PAGES=300", "MAX_CONTEXT=4096"]\n'
        )
        with Server("--config", str(config), model="bare") as server:
            server.chat(max_tokens=1, n=2, model="named")
            server.refused(CHAT, {"messages": HI, "n": 3})
            _, _, data = server.request("GET", "/v1/models")
            assert json.loads(data)["data"][0]["max_model_len"] == 4096
            log = [json.loads(line) for line in server.log_text().splitlines()]
            assert any(line["message"] == "answered" and line["answer_tokens"] == 2 for line in log)
    for arguments in (
        ["--engine", "NO_SUCH=1"],
        ["--engine", "NUM_PAGES=x"],
        ["--port", "99999"],
        ["--no-such-flag"],
        ["--composition", "fast"],
        ["--chat-template", "/nowhere"],
        ["--engine", "NUM_PAGES=0x"],
    ):
        run = subprocess.run([Server.program, *RECORDS, *arguments], capture_output=True, text=True, timeout=60)
        assert run.returncode not in (0, -6, -11) and (run.stderr or run.stdout), arguments


def test_log_lines_are_whole():
    with Server() as server:
        server.request("POST", CHAT, {"messages": HI, "bogus\nerror injected": 1})
        assert not any(line.startswith("error injected") for line in server.log_text().splitlines())


def test_curl():
    if shutil.which("curl") is None:
        raise Skipped("curl is not there")
    with Server() as server:
        body = json.dumps({"messages": HI, "stream": True, "max_tokens": 6})
        command = ["curl", "-sS", "-N", server.url + CHAT, "-H", "Content-Type: application/json", "-d", body]
        events = events_of(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
        assert text == "la li lu\nla li lu\n", text
        # Without a type curl says that this is a form; a long one is read all the same.
        long = json.dumps({"messages": [{"role": "user", "content": "x" * 20000}], "max_tokens": 1})
        run = subprocess.run(
            ["curl", "-sS", server.url + CHAT, "-d", "@-"], input=long.encode(), capture_output=True, timeout=30
        )
        assert json.loads(run.stdout)["choices"], run.stdout


def test_memory_stays():
    with Server() as server:

        def round_of_requests():
            in_parallel(16, lambda index: [server.chat(f"{index} {i}", max_tokens=4) for i in range(6)])
            for _ in range(8):
                server.open_stream({"messages": HI, "stream": True}).close()
            in_parallel(4, lambda _: server.request("POST", CHAT, b"{" * 1000))
            server.wait_for("nanolith_answers_running", lambda count: count == 0)

        for _ in range(2):
            round_of_requests()
        before = server.resident()
        for _ in range(3):
            round_of_requests()
        assert server.resident() < before + (8 << 20), (before, server.resident())


def test_the_page():
    with Server() as server:
        for path, kind in (
            ("/", "text/html"),
            ("/page/style.css", "text/css"),
            ("/page/page.js", "text/javascript"),
            ("/page/icon.svg", "image/svg+xml"),
        ):
            status, headers, data = server.request("GET", path)
            assert status == 200 and headers["Content-Type"].startswith(kind), (path, status)
            outside = data.replace(b"http://www.w3.org/2000/svg", b"")
            assert b"http://" not in outside and b"https://" not in outside, f"{path} names another server"
