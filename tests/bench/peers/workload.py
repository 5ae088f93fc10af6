"""What is measured of a whole model, for the scripts that run peers: the sizes of each case, as bench_whole_model has
them (tests/bench/whole_model/cases.cpp), and the figures as lines and as JSON (README.md in this folder)."""

import argparse
import dataclasses
import datetime
import json
import pathlib
import random
import sys


@dataclasses.dataclass
class Workload:
    contexts: tuple  # batch1: tokens of context
    tokens: int  # batch1: drawn after each of them
    chunk: int  # shared: tokens of the chunk
    conversations: tuple  # shared: behind that chunk
    shared_tokens: int  # shared: drawn by each of them
    prefill: int  # prefill: tokens
    requests: int  # random
    least: int  # random: tokens in and out of a request
    most: int
    prompt: int = 32  # shared: a conversation's own tokens before what it draws
    turns: int = 3  # of which the median counts


GPU = Workload(
    contexts=(128, 4096, 32768),
    tokens=256,
    chunk=8192,
    conversations=(8, 32, 64, 128, 256),
    shared_tokens=128,
    prefill=8192,
    requests=256,
    least=100,
    most=1024,
)
CPU = Workload(
    contexts=(512,),
    tokens=32,
    chunk=2048,
    conversations=(8,),
    shared_tokens=32,
    prefill=512,
    requests=8,
    least=32,
    most=128,
)
CASES = ("load", "batch1", "shared", "random", "prefill")


def request_lengths(seed, work):
    """(tokens in, tokens out) of each request: the very ones that bench_whole_model draws from this seed."""
    lengths = []
    state = seed
    for _ in range(2 * work.requests):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        lengths.append(work.least + (state >> 33) % (work.most - work.least + 1))
    return list(zip(lengths[::2], lengths[1::2]))


def random_tokens(count, vocab_size):
    return [random.randrange(vocab_size) for _ in range(count)]


def arguments(description, cases=CASES):
    """The options that every peer's script has; --case where it has several."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="a model folder, bench_whole_model's --into say")
    if cases:
        parser.add_argument("--case", action="append", choices=cases, help="all where none is given")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go as JSON")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def vocab_size(folder):
    return json.loads((folder / "config.json").read_text())["vocab_size"]


class Report:
    """The figures of one peer on one model. They are printed as they come."""

    def __init__(self, program, version, model, device):
        self.head = {"program": program, "version": version, "model": model, "device": device}
        self.rows = []

    def add(self, key, value, unit):
        self.rows.append({"key": key, "value": value, "unit": unit})
        who = f"{self.head['program']} {self.head['version']}, {self.head['model']}"
        print(f"{who}: {key} {value:.5g} {unit}", flush=True)

    def write(self, path):
        if path is None:
            return
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        path.write_text(json.dumps({**self.head, "date": today, "rows": self.rows}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit("this file is for the scripts beside it")
