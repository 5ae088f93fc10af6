#!/usr/bin/env python3
"""A chat as a list of messages, split into chunks along them: the system prompt and each document are messages of their
own, computed for the first question and found in the store by the second.

    messages.py [MODEL_FOLDER [FORMAT]]
"""

from __future__ import annotations

import sys

from nanolith import ChatFlags, ChatFormat, ChunkFact, Composition, Engine, Level, NanolithError, Status, Tokenizer

CONTEXT = [
    ("system", "Each document is one record. Answer each question from the records, in as few words as possible."),
    (
        "user",
        "Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. "
        "Boso Polm paid exactly 50 crowns.",
    ),
    (
        "user",
        "Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
        "Beso Bralm paid exactly 39 crowns.",
    ),
]
QUESTIONS = ["Name the key that Beso Bralm got.", "Name the place where Boso Polm stayed."]


def open_format(tokenizer: Tokenizer, name: str) -> tuple[ChatFormat, bool]:
    """The named format, or the model's; "plain" where it has none that is known, and whether the caller writes marks."""
    try:
        return tokenizer.chat_format(name), False
    except NanolithError as problem:
        if name or problem.status not in (Status.NOT_FOUND, Status.UNSUPPORTED):
            raise
        print(problem, file=sys.stderr)
        return tokenizer.chat_format("plain"), True


def with_own_marks(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The model in examples/model has marks of its own, which no format here knows."""
    marks = [("<|system|> ", ""), ("<|doc|> ", ""), ("<|doc|> ", ""), ("<|user|> ", "<|assistant|>")]
    return [(role, before + text + after) for (role, text), (before, after) in zip(messages, marks)]


def ask(engine: Engine, format: ChatFormat, messages: list[tuple[str, str]]) -> None:
    chat = format.render(messages, ChatFlags.ADD_GENERATION_PROMPT)
    # All messages but the last become chunks. Those without tokens have none: their text is in a later part.
    chunks = []
    for index, (role, _) in enumerate(messages[:-1]):
        if tokens := chat.message(index):
            chunk = engine.prefill(tokens, Level.SYSTEM if role == "system" else Level.CONTEXT)
            found = chunk.query(ChunkFact.TOKENS_COMPUTED) == 0
            print(f"  message {index + 1}: {len(tokens)} tokens, {'found in the store' if found else 'computed'}")
            chunks.append(chunk)
    with engine.cache(chunks, composition=Composition.INDEPENDENT) as cache:
        for piece in cache.generate(chat.after(len(messages) - 1), max_tokens=48):
            print(piece.text, end="", flush=True)
        print()


def main() -> None:
    with Engine(sys.argv[1] if sys.argv[1:] else "examples/model") as engine, engine.tokenizer() as tokenizer:
        format, own_marks = open_format(tokenizer, sys.argv[2] if sys.argv[2:] else "")
        print(f"The chat format is {format.name}")
        for question in QUESTIONS:
            print(f"\n> {question}")
            messages = [*CONTEXT, ("user", question)]
            ask(engine, format, with_own_marks(messages) if own_marks else messages)


if __name__ == "__main__":
    main()
