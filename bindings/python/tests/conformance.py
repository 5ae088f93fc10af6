#!/usr/bin/env python3
"""Runs tests/bindings/conformance/scenarios.txt; its language is described beside it.

    conformance.py SCENARIOS MODEL_FOLDER TEXT_FIXTURES FOLDER_OF_OTHER_MODELS

Prints "scenario NAME ok" for each.
"""

from __future__ import annotations

import importlib.util
import math
import pathlib
import sys
import urllib.parse
from array import array
from typing import Any, Callable, Iterable, Mapping, Sequence

import nanolith
from nanolith import Cache, Chunk, EngineFact, Generation, NanolithError, Pooling, RenderedChat, Tokenizer
from nanolith.options import ENGINE_KEYS, GENERATION_KEYS, SAMPLING_KEYS

COMPOSITIONS = {"exact": nanolith.Composition.EXACT, "independent": nanolith.Composition.INDEPENDENT}


def unquote(word: str) -> bytes:
    return b"" if word == "%" else urllib.parse.unquote_to_bytes(word)


def settings(words: Iterable[str], keys: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Keyword arguments of KEY=VALUE words; the key of a list comes once for each element."""
    read: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "text": unquote}
    found: dict[str, Any] = {}
    for key, word in (word.split("=", 1) for word in words):
        if key in keys:
            found[key] = read[keys[key][1]](word)
        else:
            found.setdefault(key + "s", []).append(read[keys[key + "s"][1].split("_")[0]](word))
    return found


class Impossible(Exception):
    """What this Python can't say."""


def forcing(token: int) -> nanolith.Logits:
    """Leaves one token that can be drawn."""

    def force(tokens: Any, logits: Any) -> None:
        logits[:] = -math.inf
        logits[token] = 0

    return force


class State:
    """What a scenario has made so far. Each operation is a method, called with the words after its name."""

    engine_: nanolith.Engine
    tokenizer_: Tokenizer
    format_: nanolith.ChatFormat
    problem: NanolithError  # of the latest error line

    def __init__(self, model: str, fixtures: str, work: str) -> None:
        self.places = {b"@model": model, b"@text": fixtures, b"@work": work}
        self.arrays: dict[str, list[int]] = {}
        self.chunks: dict[str, Chunk] = {}
        self.caches: dict[str, Cache] = {}
        self.generations: dict[str, Generation] = {}
        self.expected = 0  # words of the result

    def folder(self, word: str) -> bytes:
        path = unquote(word)
        for name, place in self.places.items():
            path = path.replace(name, place.encode())
        return path

    def chunks_of(self, names: Iterable[str]) -> list[Chunk | None]:
        return [None if name == "null" else self.chunks[name] for name in names]

    def engine(self, *words: str) -> None:
        model = next(word for word in words if word.startswith("model="))
        values = settings((word for word in words if word != model), ENGINE_KEYS)
        self.engine_ = nanolith.Engine(self.folder(model[len("model=") :]), **values)

    def tokenizer(self, which: str) -> None:
        self.tokenizer_ = self.engine_.tokenizer() if which == "engine" else Tokenizer(self.folder(which))

    def tokens(self, name: str, *ids: str) -> None:
        self.arrays[name] = [int(word) for word in ids]

    def chunk(self, name: str, tokens: str, level: str, *before: str) -> None:
        self.chunks[name] = self.engine_.prefill(self.arrays[tokens], int(level), self.chunks_of(before))

    def tenant(self, salt: str) -> None:
        self.engine_ = self.engine_.tenant(unquote(salt))

    def priority(self, name: str, priority: str) -> None:
        self.chunks[name].set_priority(int(priority))

    def retain(self, name: str, chunk: str) -> None:
        self.chunks[name] = self.chunks[chunk].retain()

    def cache(self, name: str, composition: str, *chunks: str) -> None:
        how = COMPOSITIONS[composition] if composition in COMPOSITIONS else nanolith.Composition(int(composition))
        self.caches[name] = self.engine_.cache(self.chunks_of(chunks), composition=how)

    def fork(self, name: str, cache: str) -> None:
        self.caches[name] = self.caches[cache].fork()

    def extend(self, cache: str, tokens: str) -> None:
        self.caches[cache].extend(self.arrays[tokens])

    def truncate(self, cache: str, count: str) -> None:
        self.caches[cache].truncate(int(count))

    def sampling(self, cache: str, *words: str) -> None:
        self.caches[cache].set_sampling(**settings(words, SAMPLING_KEYS))

    def score(self, cache: str, tokens: str) -> list[int]:
        return [sum(logprob <= 0 for logprob in self.caches[cache].score(self.arrays[tokens]))]

    def score_next(self, cache: str, tokens: str, candidates: str) -> list[int]:
        logprobs = self.caches[cache].score_next(self.arrays[tokens], self.arrays[candidates])
        return [logprobs.index(max(logprobs))]

    def embed(self, cache: str, tokens: str, pooling: str, flags: str) -> list[int]:
        normalized = int(flags) != 0
        vectors = self.caches[cache].embed(self.arrays[tokens], Pooling(int(pooling)), normalized=normalized)
        return [len(vectors)]

    def generate(self, cache: str) -> list[int]:
        return [nanolith.decode_step([self.caches[cache]])[0] for _ in range(self.expected)]

    def step(self, *names: str) -> list[int]:
        return nanolith.decode_step([None if name == "null" else self.caches[name] for name in names])

    def generation(self, name: str, cache: str, tokens: str, *words: str) -> None:
        options = settings((word for word in words if not word.startswith("force=")), GENERATION_KEYS)
        for word in words:
            if word.startswith("force="):
                if importlib.util.find_spec("numpy") is None:
                    raise Impossible("NumPy is not installed")
                options["logits"] = forcing(int(word[len("force=") :]))
        self.generations[name] = self.caches[cache].generate(self.arrays[tokens], **options)

    def next(self, name: str, timeout_ms: str) -> None:
        timeout = int(timeout_ms)
        self.generations[name].next(None if timeout < 0 else timeout / 1000)

    def read(self, name: str) -> list[Any]:
        """Why it ended, and the text and the tokens until then."""
        pieces = list(self.generations[name])
        tokens = [token for piece in pieces for token in piece.tokens]
        return [int(self.generations[name].end), "".join(piece.text for piece in pieces), *tokens]

    def cancel(self, name: str) -> None:
        (self.engine_ if name == "engine" else self.generations.get(name) or self.caches[name]).cancel()

    def details(self, *expected: str) -> None:
        found = [self.problem.index, self.problem.needed, self.problem.available]
        assert ["-" if value is None else str(value) for value in found] == list(expected), f"gave {found}"

    def generation_fact(self, name: str, fact: str) -> list[int]:
        return [self.generations[name].query(int(fact))]

    def int_bounds(self, option: str) -> Sequence[int]:
        return nanolith.int_bounds(int(option))

    def all_tokens(self, cache: str) -> list[int]:
        return self.caches[cache].tokens()

    def argmax(self, cache: str) -> list[int]:
        logits = array("f", bytes(4 * self.engine_.query(EngineFact.VOCAB_SIZE)))
        assert self.caches[cache].logits_into(logits) == len(logits)
        return [max(range(len(logits)), key=logits.__getitem__)]

    def engine_fact(self, fact: str) -> list[int]:
        return [self.engine_.query(int(fact))]

    def chunk_fact(self, chunk: str, fact: str) -> list[int]:
        return [self.chunks[chunk].query(int(fact))]

    def cache_fact(self, cache: str, fact: str) -> list[int]:
        return [self.caches[cache].query(int(fact))]

    def tokenizer_fact(self, fact: str) -> list[int]:
        return [self.tokenizer_.query(int(fact))]

    def device(self) -> list[str]:
        return [self.engine_.device]

    def end_token(self, token: str) -> list[int]:
        return [int(self.engine_.is_end_token(int(token)))]

    def encode(self, text: str, flags: str) -> list[int]:
        return self.tokenizer_.encode(unquote(text), int(flags))

    def decode(self, tokens: str) -> list[str]:
        return [self.tokenizer_.decode(self.arrays[tokens])]

    def piece(self, token: str) -> list[str]:
        return [self.tokenizer_.piece(int(token))]

    def find(self, text: str) -> list[int]:
        return [self.tokenizer_.find(unquote(text))]

    def stream(self, tokens: str) -> list[str]:
        with self.tokenizer_.text_stream() as stream:
            return [*(stream.push(token) for token in self.arrays[tokens]), stream.finish()]

    def describe(self, path: str, name: str) -> list[str]:
        begin = unquote(name).decode() + ": "
        lines = nanolith.describe_model(self.folder(path)).splitlines()
        return [line[len(begin) :] for line in lines if line.startswith(begin)]

    def format(self, name: str) -> None:
        self.format_ = self.tokenizer_.chat_format(unquote(name))

    def format_name(self) -> list[str]:
        return [self.format_.name]

    def rendered(self, flags: str, *words: str) -> RenderedChat:
        messages = [(int(role), unquote(text)) for role, text in zip(words[::2], words[1::2])]
        return self.format_.render(messages, int(flags))

    def render(self, *words: str) -> list[int]:
        return self.rendered(*words).tokens

    def ends(self, *words: str) -> list[int]:
        return self.rendered(*words).ends

    def render_json(self, flags: str, messages: str, request: str) -> list[int]:
        return self.format_.render_json(unquote(request), int(messages), int(flags)).tokens

    def ends_json(self, flags: str, messages: str, request: str) -> list[int]:
        return self.format_.render_json(unquote(request), int(messages), int(flags)).ends

    def free(self, name: str) -> None:
        handle: Any = self.chunks.get(name) or self.caches.get(name) or self.generations.get(name)
        (self.engine_ if name == "engine" else handle).close()

    def execute(self, words: list[str], expected: list[str] | None) -> None:
        self.expected = 0 if expected is None else len(expected)
        result = getattr(self, words[0])(*words[1:])
        if expected is not None:
            found = [str(value) for value in result]
            wanted = [unquote(word).decode() for word in expected]
            assert found == wanted, f"gave {found}, expected {wanted}"

    def run(self, line: str) -> None:
        words = line.split(" ")
        expected = words[words.index("=") + 1 :] if "=" in words else None
        if "=" in words:
            words = words[: words.index("=")]
        if words[0] != "error":
            self.execute(words, expected)
            return
        try:
            self.execute(words[3:], expected)
        except NanolithError as problem:
            self.problem = problem
            assert (problem.status_name, words[2] in str(problem)) == (words[1], True), f"{problem.status_name}: {problem}"
            return
        raise AssertionError(f"succeeded: {line}")


def main() -> int:
    failed = 0
    for scenario in pathlib.Path(sys.argv[1]).read_text().split("\nscenario ")[1:]:
        name, *lines = scenario.split("\n")
        state = State(*sys.argv[2:5])
        line = ""
        try:
            for line in lines:
                if line and not line.startswith("#"):
                    state.run(line)
            print(f"scenario {name} ok")
        except Impossible as reason:
            print(f"scenario {name} ok up to the line {line!r}: {reason}")
        except Exception as problem:
            failed += 1
            print(f"scenario {name} FAILED: {type(problem).__name__}: {problem}\n{line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
