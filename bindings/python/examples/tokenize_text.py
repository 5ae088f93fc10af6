#!/usr/bin/env python3
"""Shows the tokens of a text.

    tokenize_text.py [MODEL_FOLDER [TEXT]]
"""

import sys

from nanolith import EncodeFlags, Tokenizer


def main() -> None:
    text = sys.argv[2] if sys.argv[2:] else "<|user|> Name the place where Boso Polm worked: Zürich?"
    with Tokenizer(sys.argv[1] if sys.argv[1:] else "examples/model") as tokenizer:
        tokens = tokenizer.encode(text, EncodeFlags.ADD_BOS)
        for token in tokens:
            print(token, tokenizer.piece(token))
        print(tokenizer.decode(tokens))


if __name__ == "__main__":
    main()
