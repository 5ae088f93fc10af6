"""Training sequences: records, then many questions that all stand directly after the records.

A sequence holds several questions, but an attention mask hides them from each other and each one's positions start where
the records end. So one pass over the records teaches many questions, and each of them looks as it does at inference.
"""

import dataclasses

import torch

import generate
from tokenizer import BOS, EOS

QUESTION = 1000  # chunks are numbered: 0 is the system prompt, 1, 2, ... are documents, 1000, 1001, ... are questions
PADDING = -1

FULL, ALONE, BEHIND = 0, 1, 2
"""What a document sees: all that stands before it, itself only, or itself and the system prompt."""


@dataclasses.dataclass
class Batch:
    tokens: torch.Tensor
    positions: torch.Tensor
    chunks: torch.Tensor
    targets: torch.Tensor  # the next token of the same chunk, or -1
    answers: torch.Tensor  # true where the target belongs to an answer
    mask: torch.Tensor

    def to(self, device):
        return Batch(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))


class Sequence:
    """One prompt as a list of tokenized chunks."""

    def __init__(self, tokenizer, documents, view=FULL, chained=False, system=generate.SYSTEM):
        self.tokenizer, self.view, self.chained = tokenizer, view, chained
        self.tokens, self.positions, self.chunks, self.targets, self.answers = [], [], [], [], []
        self._append([BOS] + tokenizer.encode(generate.system_chunk(system)), 0, 0)
        for number, document in enumerate(documents, 1):
            self._append(tokenizer.encode(generate.document_chunk(document)), number, 0)
        self.context = len(self.tokens)
        self.questions = 0

    def ask(self, question, answer):
        """Adds a question; a chained one sees the questions before it, as in a conversation of several turns."""
        question = self.tokenizer.encode(generate.question_chunk(question))
        answer = self.tokenizer.encode(generate.answer_chunk(answer)) + [EOS]
        base = len(self.tokens) if self.chained else self.context
        self._append(question + answer, QUESTION + self.questions, len(answer), base)
        self.questions += 1

    def _append(self, tokens, chunk, answer, base=None):
        base = len(self.tokens) if base is None else base
        self.tokens += tokens
        self.positions += range(base, base + len(tokens))
        self.chunks += [chunk] * len(tokens)
        self.targets += tokens[1:] + [-1]
        known = len(tokens) - 1 - answer
        self.answers += [False] * known + [True] * answer + [False]


def collate(sequences, multiple=32):
    """Pads the sequences to one length and works out who sees whom."""
    length = -(-max(len(sequence.tokens) for sequence in sequences) // multiple) * multiple

    def padded(name, value):
        rows = [getattr(sequence, name) for sequence in sequences]
        return torch.tensor([row + [value] * (length - len(row)) for row in rows])

    chunks = padded("chunks", PADDING)
    view = torch.tensor([sequence.view for sequence in sequences])
    chained = torch.tensor([sequence.chained for sequence in sequences])
    return Batch(
        tokens=padded("tokens", 0),
        positions=padded("positions", 0),
        chunks=chunks,
        targets=padded("targets", -1),
        answers=padded("answers", False),
        mask=visible(chunks, view, chained)[:, None],
    )


def visible(chunks, view, chained):
    """[batch, length, length]: may the row's token look at the column's token?"""
    row, column = chunks[:, :, None], chunks[:, None, :]
    view, chained = view[:, None, None], chained[:, None, None]
    in_context = (column >= 0) & (column < QUESTION)
    for_questions = (row >= QUESTION) & (in_context | (chained & (column >= QUESTION)))
    for_documents = (row >= 0) & (row < QUESTION) & in_context & ((view == FULL) | ((view == BEHIND) & (column == 0)))
    causal = torch.ones(chunks.shape[1], chunks.shape[1], dtype=torch.bool).tril()
    return causal & ((row == column) | for_questions | for_documents)


def training_sequence(rng, tokenizer, documents, questions):
    """A random scene of so many documents with up to `questions` questions, the kinds as evenly as they come."""
    texts, asked = generate.scene(rng, documents)
    view = rng.choices((FULL, ALONE, BEHIND), (70, 20, 10))[0]
    sequence = Sequence(tokenizer, texts, view, chained=rng.random() < 0.1)
    by_kind = {kind: [one for one in asked if one[0] == kind] for kind in generate.KINDS}
    if view != FULL:
        by_kind["reference"] = []  # a document that is computed alone cannot know what it refers to
    chosen = []
    while len(chosen) < questions and any(by_kind.values()):
        kind = rng.choice([kind for kind in generate.KINDS if by_kind[kind]])
        chosen.append(by_kind[kind].pop(rng.randrange(len(by_kind[kind]))))
    for _, question, answer in chosen:
        sequence.ask(question, answer)
    return sequence
