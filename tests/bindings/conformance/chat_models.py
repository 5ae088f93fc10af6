#!/usr/bin/env python3
"""Tokenizers with chat templates for the scenarios, from tests/text/fixtures/chats.json; needs nothing but Python.

    chat_models.py FOLDER      writes FOLDER/NAME for each chat format: tokenizer.json and tokenizer_config.json
"""

import json
import pathlib
import shutil
import sys

# A template that takes tools, a variable and the date, for chats that are JSON.
TOOLS_TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>system\n' ~ (tools | tojson) ~ '<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{{ '<|im_start|>' ~ message.role ~ '\n' ~ (message.content or '') }}"
    "{%- for call in message.tool_calls or [] %}{{ '<tool_call>' ~ (call.function | tojson) ~ '</tool_call>' }}"
    "{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}{{ mood | default('calm') }} {{ strftime_now('%d %b %Y') }}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "text" / "fixtures"


def chat_models():
    """The first of the fixture's entries for each format: its name, template, tokenizer, and what Transformers gives."""
    models = {}
    for entry in json.loads((FIXTURES / "chats.json").read_text())["formats"]:
        models.setdefault(entry["name"], entry)
    return models


def tools_model():
    """One whose template takes more than messages."""
    return {"folder": "qwen2", "config": {"eos_token": "<|im_end|>", "chat_template": TOOLS_TEMPLATE}}


def main():
    for name, entry in {**chat_models(), "tools": tools_model()}.items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        shutil.copy(FIXTURES / entry["folder"] / "tokenizer.json", folder)
        (folder / "tokenizer_config.json").write_text(json.dumps(entry["config"]))


if __name__ == "__main__":
    main()
