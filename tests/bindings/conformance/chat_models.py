#!/usr/bin/env python3
"""Tokenizers with chat templates for the scenarios, from tests/text/fixtures/chats.json; needs nothing but Python.

    chat_models.py FOLDER      writes FOLDER/NAME for each chat format: tokenizer.json and tokenizer_config.json
"""

import json
import pathlib
import shutil
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "text" / "fixtures"


def chat_models():
    """The first of the fixture's entries for each format: its name, template, tokenizer, and what Transformers gives."""
    models = {}
    for entry in json.loads((FIXTURES / "chats.json").read_text())["formats"]:
        models.setdefault(entry["name"], entry)
    return models


def main():
    for name, entry in chat_models().items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        shutil.copy(FIXTURES / entry["folder"] / "tokenizer.json", folder)
        (folder / "tokenizer_config.json").write_text(json.dumps(entry["config"]))


if __name__ == "__main__":
    main()
