#!/usr/bin/env python3
"""Small tokenizers of every kind and what the reference packages make of texts with them.

    make_fixtures.py                           trains them and writes tests/text/fixtures
    make_fixtures.py --compare LIBNANOLITH.SO  compares the library with the packages on 10,000 random texts for each
                                               (--count, --seed)
    make_fixtures.py --speed LIBNANOLITH.SO    how fast both are, on one core

KIND... after the first two: those kinds alone.

Needs PyPI's tokenizers, sentencepiece, mistral-common and, for all fixtures, transformers. The fixtures are made with
tokenizers 0.23.3, sentencepiece 0.2.3 and mistral-common 1.13.1; other versions may train other vocabularies.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

import chats
import corpus
import nanolith_text
from kinds import JSON_CONFIGS, JSON_KINDS, SP_KINDS, TEKKEN_KINDS, gpt2, llama2, llama3, qwen2, train_sentencepiece
from references import reference

FIXTURES = pathlib.Path(__file__).parent / "fixtures"


def write_expected(folder):
    """What the reference makes of the corpus: ids with special tokens read, added, and as text; and decoded."""
    expected = []
    package = reference(folder)
    for text in corpus.CORPUS + [data.decode("utf-8", "replace") for data in corpus.INVALID]:
        ids = package.encode(text, "plain")
        expected.append([ids, package.encode(text, "special"), package.encode(text, "text"), package.decode(ids)])
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in expected)
    (folder / "expected.json").write_text('{"rows": [\n' + lines + "\n]}\n")


def make(name):
    folder = FIXTURES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if name in TEKKEN_KINDS:
        (folder / "tekken.json").write_text(json.dumps(TEKKEN_KINDS[name](), separators=(",", ":")))
    elif name in SP_KINDS:
        train_sentencepiece(folder, *SP_KINDS[name])
    else:
        state = json.loads(JSON_KINDS[name]().to_str())
        (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")))
        if name in JSON_CONFIGS:
            (folder / "tokenizer_config.json").write_text(json.dumps(JSON_CONFIGS[name]) + "\n")
    write_expected(folder)


def make_all():
    FIXTURES.mkdir(exist_ok=True)
    texts = [["utf-8", text] for text in corpus.CORPUS] + [
        ["latin-1", data.decode("latin-1")] for data in corpus.INVALID
    ]
    (FIXTURES / "corpus.json").write_text('{"texts": [\n' + ",\n".join(json.dumps(text) for text in texts) + "\n]}\n")
    for name in [*JSON_KINDS, *SP_KINDS, *TEKKEN_KINDS]:
        make(name)
        print(f"{name:18} {sum(f.stat().st_size for f in (FIXTURES / name).iterdir()):8} bytes")
    import jinja_cases  # needs transformers, as chats does

    chats.write(FIXTURES)
    jinja_cases.write(FIXTURES)


def compare(library, count, seed, names):
    """Returns how many texts differ."""
    texts = corpus.random_texts(count, seed)
    total = 0
    for name in names:
        package = reference(FIXTURES / name)
        tokenizer = nanolith_text.Tokenizer(library, FIXTURES / name)
        wrong = undecoded = ties = 0
        for text in texts:
            for mode in ("plain", "special", "text"):
                expected = package.encode(text, mode)
                got = tokenizer.encode(text.encode(), mode)
                if got != expected and name in SP_KINDS and package.same_score(expected, got):
                    ties += 1
                elif got != expected:
                    wrong += 1
                    if wrong <= 3:
                        print(f"{name} ({mode}): {ascii(text)}\n  expected {expected}\n  got      {got}")
            ids = package.encode(text, "plain")
            decoded = package.decode(ids)
            # Ill-formed bytes are U+FFFD each or one for a part, which is not the same everywhere.
            if decoded is not None and "\ufffd" not in decoded and tokenizer.decode(ids) != decoded:
                undecoded += 1
                if undecoded <= 3:
                    print(
                        f"{name} (decode): {ids}\n  expected {ascii(decoded)}\n  got      {ascii(tokenizer.decode(ids))}"
                    )
        print(
            f"{name:18} {count} texts, 3 ways each: {wrong} differ; decoded: {undecoded} differ"
            + f"; ties {ties}" * (ties > 0),
            flush=True,
        )
        total += wrong + undecoded
    print(f"seed {seed}: {total} differ")
    return total


def seconds(call):
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def speed(library):
    """A megabyte of each kind of text through tokenizers of a usual size."""
    sources = [path.read_text(errors="ignore") for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py"))]
    texts = sources + corpus.PARAGRAPHS * 50
    code = "".join(sources)[:1_000_000]
    mixed = "\n".join(corpus.random_texts(20000, 1))[:600_000]
    prose = " ".join(line.strip() for source in sources for line in source.split("\n") if line.count(" ") > 8)[
        :1_000_000
    ]
    samples = {
        "prose": prose,
        "code": code,
        "mixed": mixed,
        "one letter": "a" * 1_000_000,
        "spaces": " " * 1_000_000,
        "spaces, letter": " " * 1_000_000 + "a",
        "newlines": "\n" * 1_000_000,
        "emoji": "👩‍🚀" * 90_000,
        "marks": "e" + "\u0301\u0323" * 250_000,
        "ten": "".join(random.Random(1).choices("abcdefghij", k=1_000_000)),
        "specials": "<|im_start|>" * 80_000,
    }
    for name, function in {"gpt2": gpt2, "llama3": llama3, "qwen2": qwen2, "llama2": llama2}.items():
        with tempfile.TemporaryDirectory() as folder:
            package = function(30000, texts)
            package.save(folder + "/tokenizer.json")
            start = time.perf_counter()
            tokenizer = nanolith_text.Tokenizer(library, pathlib.Path(folder))
            print(
                f"{name}: {package.get_vocab_size()} pieces, loaded in {time.perf_counter() - start:.3f} s", flush=True
            )
            for kind, text in samples.items():
                package = Tokenizer.from_file(folder + "/tokenizer.json")  # with nothing remembered
                data = text.encode()
                same = tokenizer.encode(data, "plain") == package.encode(text, add_special_tokens=False).ids
                ours = seconds(lambda: tokenizer.encode(data, "plain"))
                theirs = seconds(lambda: package.encode(text, add_special_tokens=False))
                fast = seconds(lambda: package.encode_batch_fast([text], add_special_tokens=False))
                half = seconds(lambda: tokenizer.encode(text[: len(text) // 2].encode(), "plain"))
                print(
                    f"  {kind:15} {len(data) / 1e6:5.2f} MB  nanolith {1e3 * ours:8.1f} ms (half of it {1e3 * half:7.1f})  "
                    f"tokenizers {1e3 * theirs:8.1f} ms, without offsets {1e3 * fast:8.1f} ms  "
                    f"ratio {ours / fast:5.2f}  {'same' if same else 'DIFFERENT'}",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="LIBRARY")
    parser.add_argument("--speed", metavar="LIBRARY")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    options = parser.parse_args()
    if options.speed:
        speed(options.speed)
    elif options.compare:
        names = options.kinds or [*JSON_KINDS, *SP_KINDS, *TEKKEN_KINDS]
        sys.exit(compare(options.compare, options.count, options.seed, names) > 0)
    elif options.kinds:
        for name in options.kinds:
            make(name)
    else:
        make_all()


if __name__ == "__main__":
    main()
