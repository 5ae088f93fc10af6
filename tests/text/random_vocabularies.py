#!/usr/bin/env python3
"""Tokenizers of random pieces, scores and options, and random texts: compares the library with the reference packages.

    random_vocabularies.py LIBNANOLITH.SO [--tokenizers N] [--texts N] [--seed N]

N tokenizers of each of the models Unigram, WordPiece, WordLevel, BPE with affixes, and tekken.json. Needs what make_fixtures.py needs.
"""

import argparse
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import corpus
import kinds
import nanolith_text
from references import reference

CHARMAP = kinds.charsmap()


def random_pieces(rng, texts, count):
    """Parts of texts, short ones more often, and runs of one character."""
    pieces = {c for c in "".join(texts[:20]) if rng.random() < 0.9}
    while len(pieces) < count:
        text = rng.choice(texts)
        begin = rng.randrange(len(text) + 1)
        piece = text[begin : begin + rng.choice([1, 2, 2, 3, 3, 4, 6, 9])]
        pieces |= {piece, piece[:1] * rng.randrange(1, 5)} if piece else set()
    pieces = sorted(pieces)
    rng.shuffle(pieces)
    return pieces


def random_score(rng, piece):
    """Scores of which sums tie now and then, but for their last digits."""
    return rng.choice([-rng.random() * 12, -3.3 * len(piece), -rng.randrange(20) / 7, -1.1 * rng.randrange(1, 9), 0.3])


def unigram(rng, texts):
    spaced = [text.replace(" ", "▁") for text in texts]
    pieces = ["<unk>"] + (kinds.BYTES if rng.random() < 0.6 else []) + random_pieces(rng, spaced, 250)
    vocab = [(piece, random_score(rng, piece)) for piece in dict.fromkeys(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=rng.random() < 0.5))
    tokenizer.normalizer = rng.choice(
        [
            normalizers.Replace(" ", "▁"),
            normalizers.Sequence([normalizers.Precompiled(CHARMAP), normalizers.Replace(Regex(" {2,}"), "▁")]),
        ]
    )
    if rng.random() < 0.5:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < 0.5
        )
    tokenizer.decoder = decoders.Metaspace()
    return "tokenizer.json", tokenizer.to_str()


def word_piece(rng, texts):
    prefix = rng.choice(["##", "@", ""])
    pieces = [prefix * (rng.random() < 0.5) + piece for piece in random_pieces(rng, texts, 400)]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(["[UNK]"] + pieces))}
    tokenizer = Tokenizer(
        models.WordPiece(
            vocab, unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=rng.choice([3, 8, 100])
        )
    )
    options = {name: rng.random() < 0.7 for name in ("clean_text", "handle_chinese_chars", "lowercase")}
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=rng.choice([None, True, False]), **options)
    tokenizer.pre_tokenizer = rng.choice([pre_tokenizers.BertPreTokenizer(), pre_tokenizers.WhitespaceSplit()])
    tokenizer.decoder = decoders.WordPiece(prefix, cleanup=rng.random() < 0.5)
    return "tokenizer.json", tokenizer.to_str()


def random_merges(rng, pieces, prefix):
    """Pairs of pieces that are a piece when they are put together."""
    known = set(pieces)
    pairs = []
    for piece in pieces:
        cuts = [cut for cut in range(1, len(piece)) if piece[:cut] in known and prefix + piece[cut:] in known]
        pairs += [(piece[:cut], prefix + piece[cut:]) for cut in cuts if rng.random() < 0.8]
    rng.shuffle(pairs)
    return pairs


def random_cutter(rng):
    cutters = [
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.CharDelimiterSplit(rng.choice(" ae.漢")),
        pre_tokenizers.FixedLength(rng.choice([1, 2, 5, 40])),
        pre_tokenizers.Digits(individual_digits=rng.random() < 0.5),
        pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < 0.5),
    ]
    return rng.choice(cutters + [pre_tokenizers.Sequence(rng.sample(cutters, 2))])


def random_normalizer(rng):
    some = [
        normalizers.Nmt(),
        normalizers.NFKC(),
        normalizers.NFD(),
        normalizers.Lowercase(),
        normalizers.StripAccents(),
        normalizers.Strip(),
    ]
    return normalizers.Sequence(rng.sample(some, rng.randrange(4)))


def bpe(rng, texts):
    """Affixes of all kinds; every other time the words are bytes."""
    prefix, suffix = rng.choice([("", "</w>"), ("##", ""), ("@", "e"), ("a", "</w>"), ("##", "漢"), ("", "")])
    by_bytes = rng.random() < 0.5
    if by_bytes:
        spell = {byte: c for c, byte in kinds.byte_spelling().items()}
        texts = ["".join(spell[byte] for byte in text.encode()) for text in texts]
    pieces = random_pieces(rng, texts, 300)
    single = sorted({c for c in "".join(pieces) if rng.random() < 0.95})
    forms = [prefix * (rng.random() < 0.5) + piece + suffix * (rng.random() < 0.4) for piece in pieces]
    singles = [form for c in single for form in (c, prefix + c, c + suffix, prefix + c + suffix) if rng.random() < 0.9]
    fallback = kinds.BYTES if rng.random() < 0.5 else []
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(["<unk>"] + singles + forms + fallback))}
    options = {name: rng.random() < 0.5 for name in ("fuse_unk", "ignore_merges")}
    options["byte_fallback"] = not prefix + suffix and rng.random() < 0.5
    tokenizer = Tokenizer(
        models.BPE(
            vocab,
            random_merges(rng, list(vocab), prefix),
            unk_token=rng.choice(["<unk>", None]),
            continuing_subword_prefix=prefix,
            end_of_word_suffix=suffix,
            **options,
        )
    )
    tokenizer.normalizer = random_normalizer(rng)
    tokenizer.pre_tokenizer = random_cutter(rng)
    if by_bytes and rng.random() < 0.5:
        tokenizer.normalizer = normalizers.Sequence([random_normalizer(rng), normalizers.ByteLevel()])
    elif by_bytes:
        end = pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.5, use_regex=rng.random() < 0.5)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([random_cutter(rng), end])
    decoder = rng.choice([decoders.BPEDecoder(suffix or "e"), decoders.ByteLevel(), None])
    if decoder is not None:
        tokenizer.decoder = decoder
    return "tokenizer.json", tokenizer.to_str()


def word_level(rng, texts):
    words = {word for text in texts for word in text.split(rng.choice([" ", None]))}
    words |= {c for text in texts[:50] for c in text} - {""}
    words = sorted(words - {""})
    rng.shuffle(words)
    vocab = {word: i for i, word in enumerate(dict.fromkeys(["[UNK]"] + words[: rng.choice([50, 1000])]))}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = random_normalizer(rng)
    tokenizer.pre_tokenizer = random_cutter(rng)
    return "tokenizer.json", tokenizer.to_str()


def tekken(rng, texts):
    pieces = [piece.encode() for piece in random_pieces(rng, texts, 300)]
    pieces += [piece[: rng.randrange(2, 5)] for piece in pieces]
    pieces = [piece for piece in dict.fromkeys(pieces) if len(piece) > 1]
    rng.shuffle(pieces)
    pattern = rng.choice([kinds.TEKKEN_PATTERN, r"\s+(?!\S)|\p{L}{1,5}+|[^\p{L}]+?", r".{1,9}|\n+"])
    return "tekken.json", json.dumps(kinds.tekken_file(pieces, pattern, None, 20 + rng.randrange(9), "v7"))


def differences(library, folder, texts):
    package = reference(folder)
    tokenizer = nanolith_text.Tokenizer(library, folder)
    for text in texts:
        expected = package.encode(text, "plain")
        got = tokenizer.encode(text.encode(), "plain")
        if got != expected:
            yield f"{ascii(text)}\n  expected {expected}\n  got      {got}"
        decoded = package.decode(expected)
        if "\ufffd" not in decoded and tokenizer.decode(expected) != decoded:
            yield f"{expected}\n  expected {ascii(decoded)}\n  got      {ascii(tokenizer.decode(expected))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--tokenizers", type=int, default=100)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    total = 0
    for make in (unigram, word_piece, word_level, bpe, tekken):
        wrong = 0
        for _ in range(options.tokenizers):
            texts = corpus.random_texts(options.texts, rng.randrange(2**31))
            with tempfile.TemporaryDirectory() as folder:
                name, content = make(rng, texts + corpus.PARAGRAPHS)
                (pathlib.Path(folder) / name).write_text(content)
                for difference in differences(options.library, pathlib.Path(folder), texts):
                    wrong += 1
                    if wrong <= 3:
                        print(f"{make.__name__}: {difference}")
        print(f"{make.__name__:12} {options.tokenizers} tokenizers, {options.texts} texts each: {wrong} differ", flush=True)
        total += wrong
    print(f"seed {options.seed}: {total} differ")
    sys.exit(total > 0)


if __name__ == "__main__":
    main()
