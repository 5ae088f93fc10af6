"""Exact match per kind of question, with the model as Transformers loads it.

    python3 evaluate.py [--model .] [--mode full|independent] [--seed 7] [--count 2000] [--items eval.jsonl]

In full mode every chunk sees all chunks before it. In independent mode a document sees itself only, which equals computing
each document alone and putting the results side by side; only the question sees everything.

Greedy decoding gives the right answer exactly if each of its tokens, </s> included, is the likeliest one after the tokens
before it. So one pass over prompt and answer tells, without decoding.
"""

import argparse
import collections
import json
import pathlib

import torch
from transformers import LlamaForCausalLM

import batches
import generate
from tokenizer import load_tokenizer

VIEWS = {"full": batches.FULL, "independent": batches.ALONE}


def sequence_of(tokenizer, item, view):
    sequence = batches.Sequence(tokenizer, item["documents"], view, system=item["system"])
    sequence.ask(item["question"], item["answer"])
    return sequence


@torch.no_grad()
def right(model, tokenizer, items, view):
    """For each item, whether greedy decoding gives its answer."""
    batch = batches.collate([sequence_of(tokenizer, item, view) for item in items], multiple=1).to(model.device)
    mask = torch.zeros(batch.mask.shape, dtype=model.dtype, device=model.device)
    mask.masked_fill_(~batch.mask, torch.finfo(model.dtype).min)
    states = model.model(batch.tokens, attention_mask=mask, position_ids=batch.positions, use_cache=False)
    wrong = torch.zeros_like(batch.answers)
    wrong[batch.answers] = model.lm_head(states.last_hidden_state[batch.answers]).argmax(-1) != batch.targets[batch.answers]
    return (~wrong.any(dim=1)).tolist()


def score(model, tokenizer, items, view, size=32):
    """(right, asked) per kind."""
    correct, asked = collections.Counter(), collections.Counter()
    items = sorted(items, key=lambda item: len(item["documents"]))  # little padding
    for start in range(0, len(items), size):
        part = items[start : start + size]
        for item, good in zip(part, right(model, tokenizer, part, view)):
            asked[item["kind"]] += 1
            correct[item["kind"]] += good
    return {kind: (correct[kind], asked[kind]) for kind in generate.KINDS if asked[kind]}


def load_items(arguments):
    if arguments.items:
        return [json.loads(line) for line in pathlib.Path(arguments.items).read_text().splitlines()]
    return list(generate.items(arguments.seed, arguments.count))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(pathlib.Path(__file__).parent))
    parser.add_argument("--mode", choices=sorted(VIEWS), default="full")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--items", help="a file written by generate.py, in place of --seed and --count")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="float32")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = LlamaForCausalLM.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype)).to(device)
    tokenizer = load_tokenizer(arguments.model)
    result = score(model, tokenizer, load_items(arguments), VIEWS[arguments.mode])
    result["all"] = tuple(map(sum, zip(*result.values())))
    for kind, (correct, asked) in result.items():
        print(f"{arguments.mode:12} {kind:10} {correct:5} of {asked:5}  {correct / asked:.4f}")


if __name__ == "__main__":
    main()
