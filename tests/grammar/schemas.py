#!/usr/bin/env python3
"""Texts under JSON schemas, judged by the jsonschema package.

    schemas.py CONSTRAINED MODEL [--seed N] [--count 200] [--random-weights]

Writes `count` schemas, from trivial to nested with $ref, enum, pattern and oneOf, from a seed that it prints; has the
program CONSTRAINED (constrained.cpp) generate texts under each, and checks that every text is JSON that satisfies its
schema, also where the most tokens ended it, if there was room for the shortest one. A schema may be refused as too narrow to be sure of; more than one in twenty
may not. --random-weights: with a copy of the model whose weights are noise, so that whatever is allowed is drawn.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: the Python package jsonschema is not installed")
    sys.exit(77)

WORDS = ["name", "id", "kind", "tags", "items", "value", "unit", "note", "é", "a b", 'quo"te', "x_1", "next", "of"]
PATTERNS = ["^[a-z]+$", "^[A-Z]{2,3}-[0-9]{1,4}$", "^(red|green|blue)$", "[0-9]", "^\\w+@\\w+\\.(com|org)$", "^.{2,5}$",
            "^\\S+ \\S+$", "^[^\\d\"]{1,4}$"]  # fmt: skip
END_LENGTH = 3  # NL_END_LENGTH
MORE_TOKENS = 2000  # more than the shortest text of any schema here has bytes
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email"]


class Writer:
    """Random schemas. Every required part can be satisfied, so each schema can be."""

    def __init__(self, rng):
        self.rng = rng
        self.definitions = {}

    def schema(self, size):
        rng = self.rng
        self.definitions = {}
        for number in range(rng.randint(0, 2) if size > 1 else 0):
            self.definitions[f"part{number}"] = {}
        for name in self.definitions:
            # A part may hold itself where it need not: in a property that is not required, or in an array.
            self.definitions[name] = self.object(max(size - 1, 1), within=name)
        result = self.any(size)
        if self.definitions:
            result = {"$defs": self.definitions, **({"allOf": [result]} if "$ref" in result else result)}
        return result

    def any(self, size):
        rng = self.rng
        if size <= 0:
            return rng.choice([self.string, self.integer, self.number, self.values, self.plain])()
        makers = [self.object, self.object, self.array, self.array, self.one_of, self.any_of, self.all_of]
        if self.definitions and rng.random() < 0.3:
            return {"$ref": "#/$defs/" + rng.choice(sorted(self.definitions))}
        return rng.choice(makers)(size)

    def plain(self):
        return self.rng.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"const": "fixed"}])

    def string(self):
        rng = self.rng
        kind = rng.randint(0, 4)
        if kind == 0:
            return {"type": "string"}
        if kind == 1:
            least = rng.randint(0, 5)
            return {"type": "string", "minLength": least, "maxLength": least + rng.randint(0, 30)}
        if kind == 2:
            return {"type": "string", "format": rng.choice(FORMATS)}
        return {"type": "string", "pattern": rng.choice(PATTERNS)}

    def integer(self):
        rng = self.rng
        result = {"type": "integer"}
        if rng.random() < 0.6:
            result["minimum"] = rng.randint(-1000, 1000)
            if rng.random() < 0.6:
                result[rng.choice(["maximum", "exclusiveMaximum"])] = result["minimum"] + rng.randint(20, 5000)
        if rng.random() < 0.2:
            result["multipleOf"] = rng.choice([2, 5, 7, 10])
        return result

    def number(self):
        rng = self.rng
        result = {"type": "number"}
        if rng.random() < 0.6:
            least = round(rng.uniform(-50, 50), rng.randint(0, 3))
            result[rng.choice(["minimum", "exclusiveMinimum"])] = least
            if rng.random() < 0.6:
                result[rng.choice(["maximum", "exclusiveMaximum"])] = round(least + rng.uniform(0.5, 100), 2)
        return result

    def values(self):
        rng = self.rng
        pool = ["red", "green", 'quo"te', "é", 1, 2.5, -3, True, None, [1, "a"], {"k": [1]}]
        return {"enum": rng.sample(pool, rng.randint(1, 5))}

    def array(self, size):
        rng = self.rng
        result = {"type": "array"}
        if rng.random() < 0.3:
            result["prefixItems"] = [self.any(size - 2) for _ in range(rng.randint(1, 3))]
            result["items"] = rng.choice([False, self.any(size - 2)])
            if rng.random() < 0.5:
                result["minItems"] = rng.randint(0, len(result["prefixItems"]))
            return result
        result["items"] = self.any(size - 1)
        if rng.random() < 0.6:
            result["minItems"] = rng.randint(0, 3)
            result["maxItems"] = result["minItems"] + rng.randint(0, 4)
        return result

    def object(self, size, within=None):
        rng = self.rng
        names = rng.sample(WORDS, rng.randint(1, 5))
        result = {"type": "object", "properties": {name: self.any(size - 1 - rng.randint(0, 1)) for name in names}}
        required = [name for name in names if rng.random() < 0.5]
        if within:
            holder = rng.choice(names)
            itself = {"$ref": f"#/$defs/{within}"}
            result["properties"][holder] = rng.choice([itself, {"type": "array", "items": itself, "maxItems": 2}])
            required = [name for name in required if name != holder]
            # Other parts that hold this one must not be needed.
            required = [name for name in required if "$ref" not in json.dumps(result["properties"][name])]
        if required:
            result["required"] = required
        chance = rng.random()
        if chance < 0.4:
            result["additionalProperties"] = False
        elif chance < 0.55:
            result["additionalProperties"] = self.any(0)
        elif chance < 0.65:
            result["patternProperties"] = {"^p_": self.any(0)}
            result["additionalProperties"] = False
        if rng.random() < 0.15:
            result["maxProperties"] = max(len(required), 1) + rng.randint(0, 2)
        return result

    def one_of(self, size):
        rng = self.rng
        if rng.random() < 0.4:
            return {"oneOf": [self.integer(), {"type": "string", "maxLength": 8}, {"type": "null"}]}
        branches = []
        for kind in rng.sample(["circle", "square", "line"], rng.randint(2, 3)):
            properties = {"kind": {"const": kind}, rng.choice(["size", "from"]): self.any(size - 2)}
            branches.append({"type": "object", "properties": properties, "required": ["kind"]})
        return {"oneOf": branches}

    def any_of(self, size):
        return {"anyOf": [self.any(size - 1) for _ in range(self.rng.randint(2, 3))]}

    def all_of(self, size):
        first = {"type": "object", "properties": {"a": {"type": "integer"}, "b": self.any(size - 2)}, "required": ["a"]}
        second = {"properties": {"a": {"minimum": 10}, "c": self.any(0)}, "required": ["c"]}
        return {"allOf": [first, second]}


def with_random_weights(model, folder, rng):
    """A copy of the model whose weights are noise."""
    for name in os.listdir(model):
        if os.path.isfile(os.path.join(model, name)):
            shutil.copy(os.path.join(model, name), folder)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name, tensor in header.items():
            if name == "__metadata__" or "norm" in name:
                continue
            begin, end = tensor["data_offsets"]
            file.seek(8 + length + begin)
            if tensor["dtype"] == "F32":
                file.write(b"".join(struct.pack("<f", rng.gauss(0, 0.05)) for _ in range((end - begin) // 4)))
            elif tensor["dtype"] == "BF16":
                file.write(b"".join(struct.pack("<f", rng.gauss(0, 0.05))[2:] for _ in range((end - begin) // 2)))
            elif tensor["dtype"] == "F16":
                file.write(b"".join(struct.pack("<e", rng.gauss(0, 0.05)) for _ in range((end - begin) // 2)))
            else:
                sys.exit(f"{name} is of {tensor['dtype']}")


def answers_to(requests, constrained, model):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run([constrained, model], input=lines, capture_output=True, encoding="utf-8", check=False)
    if run.returncode != 0:
        sys.exit(f"{constrained} ended with {run.returncode}: {run.stderr}")
    answers = [json.loads(line) for line in run.stdout.split("\n") if line]
    if len(answers) != len(requests):
        sys.exit(f"{len(answers)} answers to {len(requests)} requests")
    return answers


def is_json(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constrained", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--texts", type=int, default=3, help="of each schema")
    parser.add_argument("--max-tokens", type=int, default=250)
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--print", action="store_true", help="print the schemas, a line each, and generate nothing")
    args = parser.parse_args()
    print("seed", args.seed, file=sys.stderr if args.print else sys.stdout)
    rng = random.Random(args.seed)
    writer = Writer(rng)
    schemas = [writer.schema(number * 4 // args.count) for number in range(args.count)]
    if args.print:
        print("\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas))
        return
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)
    requests = [{"option": "JSON_SCHEMA", "text": json.dumps(schema, ensure_ascii=False), "seed": number, "max_tokens": args.max_tokens,
                 "jump_ahead": number % 2}
                for schema in schemas for number in range(args.texts)]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        if args.random_weights:
            with_random_weights(args.model, folder, rng)
        model = folder if args.random_weights else args.model
        answers = answers_to(requests, args.constrained, model)
        # A text that its length ended is whole if there was room for the shortest one, a token a byte: of some schemas
        # that is more than max_tokens. These get more room.
        cut = [i for i, answer in enumerate(answers) if answer.get("end") == END_LENGTH and not is_json(answer["text"])]
        more = [{**requests[i], "max_tokens": MORE_TOKENS} for i in cut]
        for i, answer in zip(cut, answers_to(more, args.constrained, model)):
            answers[i] = answer
    satisfied = refused = bad = 0
    ends = {}
    for request, answer in zip(requests, answers):
        if "error" in answer:
            refused += 1
            if refused <= 5:
                print("refused:", answer["error"][:200])
            continue
        ends[answer["end"]] = ends.get(answer["end"], 0) + 1
        try:
            jsonschema.Draft202012Validator(json.loads(request["text"])).validate(json.loads(answer["text"]))
            satisfied += 1
        except (ValueError, jsonschema.ValidationError) as error:
            bad += 1
            if bad <= 5:
                print(f"BAD: {request['text']}\n  {answer['text']!r} (end {answer['end']}): {str(error)[:200]}")
    print(f"{len(schemas)} schemas: {satisfied} texts satisfy, {bad} do not, {refused} were refused; ends {ends}")
    if bad > 0 or satisfied == 0 or refused * 20 > len(requests):
        sys.exit(1)


if __name__ == "__main__":
    main()
