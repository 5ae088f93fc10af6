"""Writes demo.txt: documents and questions for a program that tries the model, each with its own choice of documents.

    python3 make_demo.py [--model .] [--seed 25] > demo.txt

Only questions that the model answers right are taken: in full mode, and in independent mode too unless they are about a
reference, which independent documents cannot resolve.
"""

import argparse
import itertools
import pathlib
import random

import torch
from transformers import LlamaForCausalLM

import evaluate
import generate
from tokenizer import load_tokenizer

DOCUMENTS, QUESTIONS, REFERENCES, TRIES = 8, 10, 3, 1000

HEAD = """\
# Each line is "name: value". The texts are whole chunks: tokenize each by itself and join the tokens. The <s> token stands
# once, before the system chunk. Documents count from 1 in the order of their lines.
# question: the documents to put before it, in this order | text | right answer | "independent" where the answer is also
# right if each document is computed alone, else "full"."""


def candidates(rng, records, texts):
    """Endless items about a few of the documents in a random order."""
    while True:
        order = rng.sample(range(len(records)), rng.randint(3, 5))
        resolved = generate.resolved([records[number] for number in order])
        if resolved is None:
            continue
        kind, question, answer = rng.choice(list(generate.questions(resolved)))
        documents = [texts[number] for number in order]
        yield (
            order,
            {"kind": kind, "system": generate.SYSTEM, "documents": documents, "question": question, "answer": answer},
        )


def chosen(model, tokenizer, rng, records, texts):
    """(order, item, mode) of the questions to show, no question twice with the same answer."""
    taken, seen = [], set()
    for order, item in itertools.islice(candidates(rng, records, texts), TRIES):
        reference = item["kind"] == "reference"
        if len(taken) == QUESTIONS:
            break
        wanted = REFERENCES if reference else QUESTIONS - REFERENCES
        have = sum((other["kind"] == "reference") == reference for _, other, _ in taken)
        if have == wanted or (item["question"], item["answer"]) in seen:
            continue
        full, independent = (evaluate.right(model, tokenizer, [item], view)[0] for view in evaluate.VIEWS.values())
        if not full or not (reference or independent):
            continue
        seen.add((item["question"], item["answer"]))
        taken.append((order, item, "independent" if independent else "full"))
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(pathlib.Path(__file__).parent))
    parser.add_argument("--seed", type=int, default=25)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    model = LlamaForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    tokenizer = load_tokenizer(arguments.model)
    records = generate.invent(rng, DOCUMENTS)
    texts = [generate.document(rng, record) for record in records]
    print(HEAD)
    print(f"system: {generate.system_chunk()}")
    for text in texts:
        print(f"document: {generate.document_chunk(text)}")
    for order, item, mode in chosen(model, tokenizer, rng, records, texts):
        numbers = " ".join(str(number + 1) for number in order)
        print(f"question: {numbers} | {generate.question_chunk(item['question'])} | {item['answer']} | {mode}")


if __name__ == "__main__":
    main()
