#!/usr/bin/env python3
"""Keeps a server busy for minutes with clients of all kinds, near its page limit, and watches what it promises.

    NANOLITH_SERVER=build/release/bin/nanolith-server tests/server/soak.py [--minutes 10] [--clients 64] [--seed N]

Each client asks about documents, streams, draws with a seed, hangs up, reads slowly, or sends what is no request, in
random turns. Answers must be right, seeded ones the same each time, and refusals those that are promised; memory may
not grow. The last line counts and the exit status is 0 only when all held. It needs Python alone.
"""

import argparse
import collections
import json
import os
import random
import socket
import sys
import threading
import time

from harness import SYSTEM, Server, in_parallel, read_demo

CHAT = "/v1/chat/completions"
NUM_PAGES = 300  # answers and a few compositions of documents; the rest is evicted again and again
ALLOWED_GROWTH = 16 << 20  # bytes, from the end of the first quarter to the end


class Soak:
    def __init__(self, server, seconds):
        self.server, self.end = server, time.monotonic() + seconds
        self.documents, self.questions = read_demo()
        self.counts = collections.Counter()
        self.lock = threading.Lock()
        self.drawn = {}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def post(self, path, body, promised=(200,)):
        """A reply, or None where the server had no room, which it may not have for a while."""
        status, headers, data = self.server.request("POST", path, body)
        if status in (429, 503):
            assert int(headers["Retry-After"]) >= 1
            self.count(f"refused with {status}")
            return None
        assert status in promised, (status, data[:300])
        return data

    def question(self, random_numbers, **fields):
        numbers, question, answer, mode = random_numbers.choice(self.questions)
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        documents = [{"text": self.documents[number]} for number in numbers]
        return {"messages": messages, "documents": documents, **fields}, answer, mode

    def asks(self, draw):
        composition = draw.choice(["exact", "independent"])
        body, answer, mode = self.question(draw, composition=composition)
        data = self.post(CHAT, body)
        if data and (composition == "exact" or mode == "independent"):
            assert json.loads(data)["choices"][0]["message"]["content"].strip() == answer, data

    def streams(self, draw):
        body, _, _ = self.question(draw, stream=True, n=draw.choice([1, 3]))
        data = self.post(CHAT, body)
        if data and b'"error"' not in data:
            assert data.endswith(b"data: [DONE]\n\n"), data[-200:]

    def seeded(self, draw):
        seed = draw.randrange(20)
        body = {"prompt": "<|doc|> Boso", "seed": seed, "temperature": 1.5, "max_tokens": 12, "ignore_eos": True}
        data = self.post("/v1/completions", body)
        if data:
            text = json.loads(data)["choices"][0]["text"]
            with self.lock:
                assert self.drawn.setdefault(seed, text) == text, (seed, text, self.drawn[seed])

    def fresh_document(self, draw):
        text = " ".join(draw.choice(self.documents).split()[: draw.randrange(4, 20)]) + f" {draw.random()}"
        self.post(
            CHAT, {"messages": [{"role": "user", "content": "?"}], "documents": [{"text": text}], "max_tokens": 4}
        )

    def long_request(self, draw):
        body, _, _ = self.question(draw, stream=draw.random() < 0.7, max_tokens=2000, ignore_eos=True)
        return body

    def hangs_up(self, draw):
        sock = self.server.open_stream(self.long_request(draw))
        time.sleep(draw.random())
        sock.close()

    def reads_slowly(self, draw):
        body = {**self.long_request(draw), "stream": True, "max_tokens": 60}
        with self.server.open_stream(body, receive_buffer=4096) as sock:
            sock.settimeout(60)
            data = b""
            while not data.endswith(b"0\r\n\r\n") and b'"error"' not in data:
                piece = sock.recv(1024)
                assert piece, data[-300:]
                data += piece
                time.sleep(0.02)

    def nonsense(self, draw):
        kind = draw.randrange(4)
        if kind == 0:
            self.post(CHAT, bytes(draw.randrange(256) for _ in range(200)), (400,))
        elif kind == 1:
            self.post(CHAT, {"messages": [], draw.choice(["bogus", "n", "stop"]): -1}, (400,))
        elif kind == 2:
            self.post(CHAT, {"messages": [{"role": "user", "content": "x" * 300_000}]}, (413,))
        else:
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as sock:
                sock.sendall(bytes(draw.randrange(256) for _ in range(100)))

    def client(self, seed):
        draw = random.Random(seed)
        kinds = [
            self.asks,
            self.streams,
            self.seeded,
            self.fresh_document,
            self.hangs_up,
            self.reads_slowly,
            self.nonsense,
        ]
        weights = [6, 4, 3, 3, 2, 1, 2]
        while time.monotonic() < self.end:
            kind = draw.choices(kinds, weights)[0]
            kind(draw)
            self.count(kind.__name__)
            time.sleep(draw.uniform(0.5, 2.5))

    def watch(self, memory):
        while time.monotonic() < self.end:
            memory.append(self.server.resident())
            time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    Server.program = os.environ["NANOLITH_SERVER"]
    arguments = ["--engine", f"NUM_PAGES={NUM_PAGES}", "--engine", "BATCH_INVARIANT=1", "--max-body-bytes", "200000"]
    with Server(*arguments, "--max-requests", "24", model="records") as server:
        soak, memory = Soak(server, 60 * options.minutes), []
        watcher = threading.Thread(target=soak.watch, args=(memory,))
        watcher.start()
        in_parallel(options.clients, lambda index: soak.client(options.seed + index))
        watcher.join()
        server.wait_for("nanolith_answers_running", lambda count: count == 0, seconds=30)
        numbers = server.metrics()
        quarter = len(memory) // 4
        growth = max(memory[-quarter:]) - max(memory[:quarter])
        for name, count in sorted(soak.counts.items()):
            print(f"{count:8} {name}")
        for name in ("nanolith_chunk_evictions_total", "nanolith_answer_tokens_total", "nanolith_pages_free"):
            print(f"{numbers[name]:8.0f} {name}")
        for outcome in ("answered", "refused", "rejected", "cancelled", "failed"):
            print(f"{numbers['nanolith_requests_total{outcome=%s}' % json.dumps(outcome)]:8.0f} {outcome}")
        print(f"{memory[quarter] >> 10:8} KiB after a quarter, {memory[-1] >> 10} at the end, most {max(memory) >> 10}")
        held = growth < ALLOWED_GROWTH and numbers['nanolith_requests_total{outcome="failed"}'] == 0
        held = held and server.stop() == 0
    print("all held" if held else "NOT ALL HELD")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
