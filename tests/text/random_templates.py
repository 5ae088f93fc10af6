#!/usr/bin/env python3
"""Random templates around dictionaries with keys of all types: compares the interpreter with jinja2 as Transformers sets
it up.

    random_templates.py RENDER_TEMPLATE [--count N] [--seed N]

RENDER_TEMPLATE is the program of that name (cmake --build build/dev --target render_template). Each template must give
the text of the reference, or be refused; what is refused here alone is counted, and some of it is shown. Needs what
compare_templates.py needs.
"""

import argparse
import collections
import random
import sys

from compare_templates import Interpreter, reference

KEYS = [
    *("0", "1", "-1", "2", "512", "true", "false", "none", "1.0", "0.0", "2.5", "'1'", "'a'", "'b'", "'items'", "'é\"'"),
    *("9007199254740993", "9007199254740992.0", "9223372036854775807", "-0.0", "1e300", "''", "'true'", "'None'"),
]
NO_KEYS = ["[1]", "{}", "(1, [2])"]
VARIABLES = {
    "messages": [{"role": "user", "content": "x"}],
    "tools": None,
    "documents": None,
    "add_generation_prompt": True,
    "counts": {"1": 1, "b": [2, {"c": 3.5}], "é": None},
}


class Writer:
    def __init__(self, rng):
        self.rng = rng

    def key(self):
        """A value that is looked for."""
        return self.rng.choice(NO_KEYS) if self.rng.random() < 0.03 else self.own_key()

    def own_key(self):
        """A key of a dictionary. What can't be one fails in Jinja's compiler even where it is never reached."""
        return self.rng.choice(["missing", "(1, 2)"]) if self.rng.random() < 0.02 else self.rng.choice(KEYS)

    def value(self, depth):
        kind = self.rng.random()
        if depth > 0 and kind < 0.2:
            return self.dict(depth - 1)
        if depth > 0 and kind < 0.35:
            return "[" + ", ".join(self.value(depth - 1) for _ in range(self.rng.randrange(3))) + "]"
        return self.rng.choice(KEYS + ["'text'", "0.1"])

    def key_of_one_type(self, kind):
        return self.rng.choice([k for k in KEYS if k[0] == "'"] if kind else [k for k in KEYS if k[0] in "-0123456789"])

    def dict(self, depth=2):
        if self.rng.random() < 0.1:
            pairs = ", ".join(f"({self.own_key()}, {self.value(0)})" for _ in range(self.rng.randrange(3)))
            return self.rng.choice([f"dict([{pairs}])", f"dict({self.dict(0)}, a={self.value(0)})", "counts"])
        kind = self.rng.choice([None, 0, 1])
        keys = [self.own_key() if kind is None else self.key_of_one_type(kind) for _ in range(self.rng.randrange(6))]
        return "{" + ", ".join(f"{key}: {self.value(depth)}" for key in keys) + "}"

    def expression(self):
        d, k, rng = self.rng.choice(["d", self.dict()]), self.key(), self.rng
        return rng.choice(
            [
                f"{d}[{k}]",
                f"{d}[{k}] is defined",
                f"{d}.get({k}, {self.value(0)})",
                f"{d}.get({k})",
                f"{k} in {d}",
                f"{k} not in {d}",
                f"{d} == {self.dict(1)}",
                f"{d} == {d}",
                f"{k} == {self.key()}",
                f"[{k}, {self.key()}] | unique | list",
                f"[{k}, {self.key()}, {self.key()}] | sort",
                f"{k} < {self.key()}",
                f"{d}",
                f"{d} | tojson",
                f"{d} | tojson(indent=2)",
                f"{d} | tojson(sort_keys=true)",
                f"{d} | length",
                f"{d} | list",
                f"{d} | first",
                f"{d}.keys() | list",
                f"{d}.keys()",
                f"{d}.values() | list",
                f"{d}.items() | list",
                f"{d}.items() | length",
                f"{d}.items()[0]",
                f"{d}.items() is sequence",
                f"{d}.keys() | tojson",
                f"{k} in {d}.keys()",
                f"{d} | items | list",
                f"{d} | dictsort",
                f"{d} | dictsort(true, 'value')",
                f"{d} | dictsort(reverse=true)",
                f"{d} | dictsort(by='other')",
                f"{d} | sort",
                f"{d} | max",
                f"{d} | join(',')",
                f"{d} | map('string') | list",
                f"[{d}, {self.dict(0)}] | map(attribute={rng.choice(['0', '1', repr('1'), repr('a')])}) | list",
                f"{d} | string",
                f"{d}.copy()",
                f"{d}.a",
                f"{d}.1",
                f"dict(**{d}) | tojson",
                f"namespace({d}).a",
                f"({d}.values() | list)[0]",
                f"{d} is mapping",
                f"'yes' if {d} else 'no'",
                f"'yes' if {d}.items() else 'no'",
            ]
        )

    def statement(self, depth=2):
        kind = self.rng.randrange(7)
        if depth == 0 or kind < 3:
            return "{{ " + self.expression() + " }};"
        if kind == 3:
            return "{% set d = " + self.dict() + " %}" + self.statement(depth - 1)
        if kind == 4:
            walked = self.rng.choice(["d.items()", "d | dictsort", "d | items", self.dict() + ".items()"])
            test = self.rng.choice(["", " if k", f" if k != {self.key()}", f" if k >= {self.key()}"])
            return "{% for k, v in " + walked + test + " %}{{ k }}={{ v }}{{ d[k] }}," + "{% endfor %}"
        if kind == 5:
            return "{% for k in d %}{{ loop.index }}{{ k }}{{ d[k] | string }}{% endfor %}"
        test = self.expression()
        return "{% if " + test + " %}" + self.statement(depth - 1) + "{% else %}" + self.statement(depth - 1) + "{% endif %}"

    def template(self):
        statements = [self.statement() for _ in range(self.rng.randrange(1, 3))]
        return "{% set d = " + self.dict() + " %}" + "".join(statements)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    writer = Writer(random.Random(options.seed))
    interpreter = Interpreter(options.program)
    counts = collections.Counter()
    for _ in range(options.count):
        template = writer.template()
        wanted, why = reference(template, VARIABLES)
        got, why_not = interpreter.render(template, VARIABLES)
        kind = "same" if wanted == got else "refused here" if got is None else "different"
        kind = "refused by both" if wanted is None and got is None else kind
        counts[kind] += 1
        if kind in ("refused here", "different") and counts[kind] <= 8:
            print(f"{kind}: {template}\n  expected {wanted!r} ({why})\n  got      {got!r} ({why_not})")
    print(f"seed {options.seed}: {dict(counts)}")
    sys.exit(counts["different"] > 0)


if __name__ == "__main__":
    main()
