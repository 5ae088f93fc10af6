#!/usr/bin/env python3
"""Answers two questions from records that are computed once, each with the records in another order.

    chat.py [MODEL_FOLDER]
"""

import sys

from nanolith import CacheFact, Chunk, Composition, EncodeFlags, Engine, Level, Tokenizer

SYSTEM = "<|system|> Each document is one record. Answer each question from the records, in as few words as possible."
RECORDS = [
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
    "Beso Bralm paid exactly 39 crowns.",
    "<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. "
    "Jemi Nuld traded in Foham.",
    "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. "
    "Boso Polm worked in Jewick.",
]


def ask(engine: Engine, tokenizer: Tokenizer, question: str, chunks: list[Chunk]) -> None:
    print(f"> {question}")
    with engine.cache(chunks, composition=Composition.INDEPENDENT) as cache:
        for piece in cache.generate(tokenizer.encode(f"<|user|> {question}<|assistant|>"), max_tokens=32):
            print(piece.text, end="", flush=True)
        print(f"\n  reused {cache.query(CacheFact.TOKENS_REUSED)} tokens")


def main() -> None:
    with Engine(sys.argv[1] if sys.argv[1:] else "examples/model") as engine, engine.tokenizer() as tokenizer:
        system = engine.prefill(tokenizer.encode(SYSTEM, EncodeFlags.ADD_BOS), Level.SYSTEM)
        bralm, nuld, polm = (engine.prefill(tokenizer.encode(text)) for text in RECORDS)
        ask(engine, tokenizer, "Name the place where Boso Polm worked.", [system, bralm, nuld, polm])
        ask(engine, tokenizer, "Name the price that Jemi Nuld offered.", [system, polm, bralm, nuld])


if __name__ == "__main__":
    main()
