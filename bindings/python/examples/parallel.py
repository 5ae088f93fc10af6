#!/usr/bin/env python3
"""Several conversations at once, all of them after the same records: the engine answers them in batches.

    parallel.py [MODEL_FOLDER]
"""

import asyncio
import sys

from nanolith import Cache, EncodeFlags, Engine, Level, Tokenizer

SYSTEM = "<|system|> Each document is one record. Answer each question from the records, in as few words as possible."
RECORDS = (
    "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
    "Beso Bralm paid exactly 39 crowns.<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. "
    "Boso Polm used badge TQ81. Boso Polm worked in Jewick."
)
QUESTIONS = [
    "Name the place where Boso Polm worked.",
    "Name the place where Beso Bralm stayed.",
    "Name the day when Beso Bralm arrived.",
    "Name the day when Boso Polm left.",
]


async def answer(context: Cache, tokenizer: Tokenizer, question: str) -> str:
    """Asks in a fork, which shares the context's pages. `async for piece in generation` gives it as it comes."""
    with context.fork() as cache:
        tokens = tokenizer.encode(f"<|user|> {question}<|assistant|>")
        async with cache.generate(tokens, max_tokens=32) as generation:
            return (await generation.read_text_async()).strip()


async def main() -> None:
    with Engine(sys.argv[1] if sys.argv[1:] else "examples/model") as engine, engine.tokenizer() as tokenizer:
        system = engine.prefill(tokenizer.encode(SYSTEM, EncodeFlags.ADD_BOS), Level.SYSTEM)
        records = engine.prefill(tokenizer.encode(RECORDS), Level.CONTEXT, [system])
        with engine.cache([system, records]) as context:
            answers = await asyncio.gather(*(answer(context, tokenizer, question) for question in QUESTIONS))
        for question, text in zip(QUESTIONS, answers):
            print(question, text)


if __name__ == "__main__":
    asyncio.run(main())
