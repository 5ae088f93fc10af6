"""Invents records, and questions whose answers are copied from them.

Every document is one record: what one person did, in four short sentences. Three kinds of question are asked:

fact       one fact of one document
choice     one fact, where a second document tempts with another value: it tells of the same person's other record, or
           of a person who shares one name
reference  a fact that the document does not state itself: "in the same place as the previous record". Its meaning
           depends on the document that stands just before it, and so on the order of the documents.

    python3 generate.py --seed 7 --count 2000 > eval.jsonl

writes one JSON object per line: {"kind", "system", "documents", "question", "answer"}.
"""

import argparse
import itertools
import json
import random

SYSTEM = "Each document is one record. Answer each question from the records, in as few words as possible."

KINDS = ("fact", "choice", "reference")
FIELDS = ("place", "date", "code", "price")

MONTHS = "January February March April May June July August September October November December".split()


def _pool(seed, count, starts, middles, ends):
    """A fixed list of invented words. The seed is constant, so the lists never differ between training and later use."""
    words = [start + middle + end for start in starts for middle in middles for end in ends]
    return sorted(random.Random(seed).sample(words, count))


_ONSETS = "B D F G H J K L M N P R S T V Z Br Dr Gr Kr Tr".split()
GIVEN = _pool(1, 200, _ONSETS, "a e i o u".split(), "ba da ko la mi na ri so ta vo".split())
SURNAMES = _pool(2, 200, _ONSETS, "a e i o u".split(), "ck ld lm nd nt rg rk rn sk st x".split())
PLACES = _pool(3, 200, _ONSETS, "a e i o u".split(), "bridge dale ford gate ham mouth port stead ton wick".split())
_LETTERS = "B C D F G H J K L M N P Q R S T V W X Z".split()
STEMS = _pool(4, 200, _LETTERS, [""], _LETTERS)

VERBS = {
    "visit": {"place": "stayed", "date": "arrived", "code": "got", "price": "paid"},
    "job": {"place": "worked", "date": "left", "code": "used", "price": "earned"},
    "trade": {"place": "traded", "date": "called", "code": "signed", "price": "offered"},
}
THINGS = {"visit": "key", "job": "badge", "trade": "note"}
STATEMENTS = {
    "place": "{who} {verb} in {value}.",
    "date": "{who} {verb} on {value}.",
    "code": "{who} {verb} {thing} {value}.",
    "price": "{who} {verb} exactly {value}.",
}
REFERENCES = {
    "place": "{who} {verb} in the same place as the previous record.",
    "date": "{who} {verb} on the same day as the previous record.",
    "price": "{who} {verb} exactly the same price as the previous record.",
}
QUESTIONS = {
    "place": "Name the place where {who} {verb}.",
    "date": "Name the day when {who} {verb}.",
    "code": "Name the {thing} that {who} {verb}.",
    "price": "Name the price that {who} {verb}.",
}


def _records(rng, count):
    """Records in which no two share a value, before anything similar or referring is planted."""
    given, surnames = rng.sample(GIVEN, count), rng.sample(SURNAMES, count)
    places, stems = rng.sample(PLACES, count), rng.sample(STEMS, count)
    days, prices = rng.sample(range(1, 29), count), rng.sample(range(30, 100), count)
    digits = rng.sample(range(10, 100), count)
    return [
        {
            "given": given[i],
            "surname": surnames[i],
            "place": places[i],
            "date": f"{days[i]} {rng.choice(MONTHS)}",
            "code": f"{stems[i]}{digits[i]}",
            "price": f"{prices[i]} crowns",
            "type": rng.choice(sorted(VERBS)),
            "similar": False,
            "refers": None,
        }
        for i in range(count)
    ]


def _plant_similar(rng, records):
    """Makes one or two pairs of records that a careless reader would mix up."""
    order = rng.sample(range(len(records)), len(records))
    pairs = 1 if len(records) < 6 else rng.choice((1, 2))
    for first, second in zip(order[: 2 * pairs : 2], order[1 : 2 * pairs : 2]):
        shared = rng.choice(("person", "given", "surname"))
        for part in ("given", "surname"):
            if shared in (part, "person"):
                records[second][part] = records[first][part]
        if shared == "person":
            records[first]["type"], records[second]["type"] = rng.sample(sorted(VERBS), 2)
        records[first]["similar"] = records[second]["similar"] = True


def _plant_references(rng, records):
    """Lets some records take one field from the record before them, which always states that field itself."""
    for before, record in itertools.pairwise(records):
        field = rng.choice(sorted(REFERENCES))
        if before["refers"] != field and rng.random() < 0.5:
            record["refers"] = field


def resolved(records):
    """Copies of the records with the references filled in from the record before each, in this order. None if one of them
    refers to a record that is missing or that does not state the field itself."""
    result = []
    for before, record in zip([None, *records], records):
        field = record["refers"]
        if field and (before is None or before["refers"] == field):
            return None
        result.append({**record, field: before[field]} if field else record)
    return result


def _fill(pattern, record, field):
    who, kind = f"{record['given']} {record['surname']}", record["type"]
    return pattern.format(who=who, verb=VERBS[kind][field], thing=THINGS[kind], value=record[field])


def document(rng, record):
    """The record's sentences, in any order."""
    sentences = [_fill((REFERENCES if record["refers"] == field else STATEMENTS)[field], record, field) for field in FIELDS]
    rng.shuffle(sentences)
    return " ".join(sentences)


def questions(records):
    """Every question that can be asked about these resolved records, as (kind, question, answer)."""
    for record in records:
        for field in FIELDS:
            kind = "reference" if record["refers"] == field else "choice" if record["similar"] else "fact"
            yield kind, _fill(QUESTIONS[field], record, field), record[field]


def invent(rng, count):
    """`count` records with similar ones and references among them, in an order in which the references can be resolved."""
    records = _records(rng, count)
    _plant_similar(rng, records)
    _plant_references(rng, records)
    return records


def scene(rng, count):
    """`count` documents, and every question that can be asked about them, as (kind, question, answer)."""
    records = invent(rng, count)
    return [document(rng, record) for record in records], list(questions(resolved(records)))


def items(seed, count, documents=(3, 8)):
    """`count` evaluation items, the kinds in turn, with `documents` (least, most) records each."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        kind = KINDS[made % len(KINDS)]
        texts, asked = scene(rng, rng.randint(*documents))
        fitting = [one for one in asked if one[0] == kind]
        if not fitting:
            continue
        _, question, answer = rng.choice(fitting)
        yield {"kind": kind, "system": SYSTEM, "documents": texts, "question": question, "answer": answer}
        made += 1


# How a text becomes a chunk of the prompt. Each chunk is tokenized by itself, and the tokens are concatenated.
# Only the system chunk begins with the <s> token; the answer is followed by </s>.


def system_chunk(text=SYSTEM):
    return f"<|system|> {text}"


def document_chunk(text):
    return f"<|doc|> {text}"


def question_chunk(text):
    return f"<|user|> {text}<|assistant|>"


def answer_chunk(text):
    return f" {text}"


def main():
    parser = argparse.ArgumentParser(description="Writes evaluation items as JSON lines.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--documents", type=int, nargs=2, default=(3, 8), metavar=("LEAST", "MOST"))
    arguments = parser.parse_args()
    for item in items(arguments.seed, arguments.count, arguments.documents):
        print(json.dumps(item))


if __name__ == "__main__":
    main()
