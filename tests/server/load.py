#!/usr/bin/env python3
"""How many tokens a second come through a server, and how soon: many clients, each asking again when it has its answer.

    build/release/bin/nanolith-server MODEL --port 8080 &
    tests/server/load.py --port 8080 [--clients 256] [--seconds 30] [--document 8192] [--prompt 64] [--tokens 256]

Prompts are random token ids. With --document all of them stand behind one document of about so many tokens, which is
put first. Rates are those between the end of a warm-up, of as many seconds as --warm says, and the end; answers have
exactly --tokens tokens. One process and Python alone: events are counted as they come, and not read as JSON.
"""

import argparse
import json
import random
import selectors
import socket
import statistics
import time
import urllib.request

TEXT = b'"text":"'  # in each event that brings text


class Client:
    """One connection at a time, of one request at a time."""

    def __init__(self, load, index):
        self.load, self.random = load, random.Random(index)
        self.begin()

    def begin(self):
        self.socket = socket.create_connection(("127.0.0.1", self.load.options.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.load.selector.register(self.socket, selectors.EVENT_READ, self)
        self.ask()

    def ask(self):
        options = self.load.options
        body = {"prompt": [self.random.randrange(100, options.vocabulary) for _ in range(options.prompt)],
                "max_tokens": options.tokens, "ignore_eos": True, "stream": True, "temperature": 0}  # fmt: skip
        if options.document:
            body["documents"] = ["load-document"]
        text = json.dumps(body).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(text)}\r\n\r\n"
        self.sent = time.monotonic()
        self.last, self.tail = None, b""
        self.socket.sendall(head.encode() + text)

    def read(self, now):
        data = self.socket.recv(1 << 18)
        if not data:
            raise RuntimeError("the server hung up: " + self.tail.decode(errors="replace"))
        if TEXT in data:
            if self.last is None:
                self.load.note(self.load.first, now, now - self.sent)
            else:
                self.load.note(self.load.gaps, now, now - self.last)
            self.last = now
        self.tail = (self.tail + data)[-200:]
        if self.tail.endswith(b"0\r\n\r\n"):
            if b"[DONE]" not in self.tail:
                raise RuntimeError(self.tail.decode(errors="replace"))
            self.load.answers += now >= self.load.begin
            self.ask()
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(data.decode(errors="replace"))


class Load:
    def __init__(self, options):
        self.options, self.selector = options, selectors.DefaultSelector()
        self.first, self.gaps, self.answers = [], [], 0
        if options.document:
            words = [random.Random(0).choice("alpha beta gamma delta epsilon".split()) for _ in range(options.document)]
            self.put(words)
        self.begin = time.monotonic() + options.warm
        self.end = self.begin + options.seconds
        self.clients = [Client(self, index) for index in range(options.clients)]

    def request(self, path, body=None):
        url = f"http://127.0.0.1:{self.options.port}{path}"
        data = json.dumps(body).encode() if body else None
        with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as reply:
            return reply.read().decode()

    def put(self, words):
        count = len(words)
        tokens = json.loads(self.request("/tokenize", {"prompt": " ".join(words)}))["count"]
        text = " ".join(words[: max(1, count * count // tokens)])
        self.request("/v1/chunks", {"id": "load-document", "text": text})

    def note(self, values, now, value):
        if now >= self.begin:
            values.append(value)

    def drawn(self):
        """Tokens that the server has drawn so far."""
        for line in self.request("/metrics").splitlines():
            if line.startswith("nanolith_answer_tokens_total "):
                return float(line.split()[1])
        raise RuntimeError("/metrics has no nanolith_answer_tokens_total")

    def run(self):
        drawn = began = None
        while (now := time.monotonic()) < self.end:
            if drawn is None and now >= self.begin:
                drawn, began = self.drawn(), time.monotonic()
            for key, _ in self.selector.select(0.1):
                key.data.read(time.monotonic())
        rate = (self.drawn() - drawn) / (time.monotonic() - began)

        def spread(values):
            cuts = statistics.quantiles(values, n=100) if len(values) > 1 else [0] * 99
            return f"{1e3 * cuts[49]:.1f} / {1e3 * cuts[98]:.1f} ms"

        print(f"{self.options.clients} clients: {rate:.0f} tokens/s, {self.answers} answers, "
              f"first token {spread(self.first)}, between events {spread(self.gaps)} (median / 99th percentile)")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--document", type=int, default=0)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=2000, help="prompts have ids from 100 to below this")
    Load(parser.parse_args()).run()


if __name__ == "__main__":
    main()
