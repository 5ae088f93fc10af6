"""How long the library takes to encode a text, beside the packages `tokenizers` and `sentencepiece`, on one core; and a
text of 16 MiB with a tokenizer.model on one core and on all that the process may run on.

    pip install tokenizers sentencepiece
    python3 tests/bench/encode_speed.py LIBRARY TEXT FOLDER...

LIBRARY is libnanolith.so, TEXT a UTF-8 file (its first megabyte is read), each FOLDER has a tokenizer.json or a
tokenizer.model. A tokenizer.model is made into the equal tokenizer of `tokenizers`. Prints the best of five runs.
"""

import os
import pathlib
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "text"))

import nanolith_text  # noqa: E402
import sentencepiece  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import models, normalizers  # noqa: E402


def from_sentencepiece(processor, is_unigram):
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]
    if is_unigram:
        model = models.Unigram(pieces, unk_id=processor.unk_id(), byte_fallback=True)
    else:
        # Pieces stand in the order in which they were merged.
        vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
        merges = [
            (piece[:cut], piece[cut:])
            for piece, _ in pieces
            for cut in range(1, len(piece))
            if piece[:cut] in vocab and piece[cut:] in vocab
        ]
        model = models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    made = tokenizers.Tokenizer(model)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return made


def best(encode, runs=5):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        encode()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def peers(folder):
    """Functions that encode a text, by the package's name."""
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        return {"tokenizers": lambda text: tokenizer.encode(text, add_special_tokens=False)}
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    # A unigram model's scores are logarithms, BPE's are negative ranks.
    scores = {processor.get_score(i) for i in range(processor.get_piece_size())}
    tokenizer = from_sentencepiece(processor, any(score != int(score) for score in scores))
    return {"tokenizers": tokenizer.encode, "sentencepiece": processor.encode}


def compare_cores(ours, name, text):
    data = (text * (1 + (16 << 20) // len(text))).encode()[: 16 << 20]
    data = data.decode(errors="ignore").encode()
    assert ours.encode(data, "parallel") == ours.encode(data, "plain")
    one, all_cores = (best(lambda: ours.encode(data, mode), 3) for mode in ("plain", "parallel"))
    cores = len(os.sched_getaffinity(0))
    print(f"{name}, long text, {len(data)}: {one:.0f}, on {cores} cores {all_cores:.0f} ({one / all_cores:.2f} times as fast)")


def main():
    library, text_file, *folders = sys.argv[1:]
    text = pathlib.Path(text_file).read_text(encoding="utf-8", errors="ignore")[: 1 << 20]
    texts = {"text": text, "one letter": "a" * 200000, "spaces": " " * 200000, "emoji": "👩‍🚀" * 50000}
    print("folder, text, bytes: ours in ms, peers in ms (ours / peer)")
    for folder in map(pathlib.Path, folders):
        ours = nanolith_text.Tokenizer(library, folder)
        for name, content in texts.items():
            data = content.encode()
            own = best(lambda: ours.encode(data, "plain"))
            others = [f"{peer} {(t := best(lambda: encode(content))):.1f} ({own / t:.2f})" for peer, encode in peers(folder).items()]  # fmt: skip
            print(f"{folder.name}, {name}, {len(data)}: {own:.1f}, {', '.join(others)}", flush=True)
        if not (folder / "tokenizer.json").exists():
            compare_cores(ours, folder.name, text)


if __name__ == "__main__":
    main()
