#!/usr/bin/env python3
"""Renders chat templates with the library's interpreter and with Transformers, and counts where they differ.

    compare_templates.py RENDER_TEMPLATE FILE...

RENDER_TEMPLATE is the program of that name (cmake --build build/dev --target render_template). Each FILE is a template,
or a tokenizer_config.json with one. Needs PyPI's transformers and jinja2.
"""

import collections
import json
import pathlib
import subprocess
import sys

from transformers.utils import chat_template_utils

import jinja_cases
import template_chats


chat_template_utils.datetime = jinja_cases.Today  # the moment that render_template has


class Interpreter:
    """The library's."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, template, variables):
        """The text, or None and why not."""
        source = template.encode()
        values = json.dumps(variables, ensure_ascii=False).encode()
        self.process.stdin.write(f"{len(source)} {len(values)}\n".encode() + source + values)
        self.process.stdin.flush()
        kind, length = self.process.stdout.readline().split()
        text = self.process.stdout.read(int(length)).decode()
        return (text, None) if kind == b"ok" else (None, text)


def reference(template, variables):
    variables = dict(variables)
    chat = variables.pop("messages")
    try:
        texts = chat_template_utils.render_jinja_template(
            conversations=[chat],
            tools=variables.pop("tools"),
            documents=variables.pop("documents"),
            chat_template=template,
            add_generation_prompt=variables.pop("add_generation_prompt"),
            **variables,
        )
        return texts[0][0], None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def templates_in(path):
    text = path.read_text()
    if path.suffix != ".json":
        yield path.name, text
        return
    found = json.loads(text).get("chat_template")
    for name, template in [("", found)] if isinstance(found, str) else [(t["name"], t["template"]) for t in found or []]:
        yield path.name + name, template


def main():
    interpreter = Interpreter(sys.argv[1])
    seen = set()
    totals = collections.Counter()
    for path in map(pathlib.Path, sys.argv[2:]):
        for name, template in templates_in(path):
            if template in seen:
                continue
            seen.add(template)
            counts = collections.Counter()
            shown = 0
            for variables in template_chats.requests():
                wanted, why = reference(template, variables)
                got, why_not = interpreter.render(template, variables)
                kind = "same" if wanted == got else "refused" if got is None else "different"
                kind = "both refuse" if wanted is None and got is None else kind
                counts[kind] += 1
                if kind in ("refused", "different") and shown < 2:
                    shown += 1
                    print(f"{name}: {kind} for {json.dumps(variables)[:300]}\n  expected {wanted!r} ({why})\n  got      {got!r} ({why_not})")
            totals["templates"] += 1
            totals.update(counts)
            totals["templates that differ"] += counts["refused"] + counts["different"] > 0
            totals["templates that render nothing"] += counts["same"] == 0
            print(f"{name:60} " + ", ".join(f"{count} {kind}" for kind, count in counts.items()), flush=True)
    print(dict(totals))
    sys.exit(totals["templates that differ"] > 0)


if __name__ == "__main__":
    main()
