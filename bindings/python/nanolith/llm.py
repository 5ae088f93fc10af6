"""Whole batches of prompts in one call, with the names that vLLM's batch interface has."""

from __future__ import annotations

import json
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence, Union

from ._call import Path
from ._callbacks import Log, Logits, Progress
from .chat import AnyMessage
from .engine import Engine
from .enums import ChatFlags, EncodeFlags, EndReason, Status
from .errors import NanolithError
from .generation import Generation
from .options import EngineOptions, GenerationOptions, SamplingOptions
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class StructuredOutputsParams:
    """What an answer's whole text must be: one of these. Names are vLLM's."""

    #: It satisfies a JSON schema, given as text or as a dictionary.
    json: str | Mapping[str, Any] | None = None
    #: It matches a regular expression, in ECMAScript's syntax.
    regex: str | None = None
    #: It is one of these texts.
    choice: Sequence[str] | None = None
    #: It is derived from the rule `root` of a grammar in llama.cpp's EBNF.
    grammar: str | None = None
    #: It is a JSON object.
    json_object: bool | None = None


@dataclass(frozen=True)
class SamplingParams:
    """How an answer is drawn, and when it ends. Names and defaults are vLLM's, and so are their meanings.

    `logits` is the library's own. Cache.set_sampling has more. Its frequency and presence penalties look at the latest
    tokens of prompt and answer alike; vLLM's do not look at the prompt.
    """

    #: The number of answers to a prompt.
    n: int = 1
    #: The logit of each token that prompt or answer already has is divided by this where it is positive, else multiplied
    #: by it. 1: off.
    repetition_penalty: float = 1.0
    #: 0: greedy.
    temperature: float = 1.0
    top_p: float = 1.0
    #: 0 and -1 keep all tokens.
    top_k: int = 0
    min_p: float = 0.0
    #: The same seed draws the same tokens from the same logits (to the bit, whatever else is computed, where the engine
    #: is batch_invariant); answer i of a prompt takes seed + i. None takes another one for every answer.
    seed: int | None = None
    #: None: until the context is full.
    max_tokens: int | None = 16
    min_tokens: int = 0
    #: Texts that end the answer, which ends before them.
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    #: True: the model's own end tokens do not end the answer.
    ignore_eos: bool = False
    #: What is added to the logits of tokens.
    logit_bias: Mapping[int, float] | None = None
    #: The only tokens that are drawn.
    allowed_token_ids: Sequence[int] | None = None
    #: False: no text is made.
    detokenize: bool = True
    #: How many most probable tokens, at most 20, are told with their log-probabilities for each token drawn, beside that
    #: token's own. None: no log-probabilities are told.
    logprobs: int | None = None
    #: What the answer's text must be. None: any text.
    structured_outputs: StructuredOutputsParams | None = None
    #: A function that is called with the tokens so far and the logits before each token is drawn, and may change the
    #: logits; Cache.generate says how. It needs NumPy.
    logits: Logits | None = None


class Logprob(NamedTuple):
    """A token's log-probability by the model's own distribution."""

    logprob: float
    #: Its place among the most probable tokens, from 1; None where it is not among those that were asked for.
    rank: int | None
    #: None where the model has no tokenizer.
    decoded_token: str | None


@dataclass(frozen=True)
class CompletionOutput:
    """An answer. `finish_reason` is "stop", "length" or, where it was cancelled, "abort"."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str
    #: For each token of the answer a dictionary: the most probable tokens in its place, the most probable first, and the
    #: token itself. None where SamplingParams.logprobs is None.
    logprobs: list[dict[int, Logprob]] | None = None
    #: The sum of the log-probabilities of the answer's tokens. None where SamplingParams.logprobs is None.
    cumulative_logprob: float | None = None


@dataclass(frozen=True)
class RequestOutput:
    """What became of a prompt. `prompt` is None where it was given as tokens."""

    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]


#: A text, tokens, or a dictionary with "prompt" or "prompt_token_ids".
Prompt = Union[str, Sequence[int], Mapping[str, Any]]

# All other reasons are "stop".
_REASONS = {
    EndReason.LENGTH: "length",
    EndReason.CONTEXT_FULL: "length",
    EndReason.CANCELLED: "abort",
}


class LLM:
    """A model that answers batches of prompts. `engine` and `tokenizer` (None where the model has none) are its own."""

    def __init__(
        self, model: Path, *, log: Log | None = None, progress: Progress | None = None, **options: Unpack[EngineOptions]
    ) -> None:
        """Loads `model`, a Hugging Face folder or a GGUF file, as Engine does."""
        self.engine = Engine(model, log=log, progress=progress, **options)
        self.tokenizer: Tokenizer | None = None
        try:
            self.tokenizer = self.engine.tokenizer()
        except NanolithError as problem:
            if problem.status not in (Status.NOT_FOUND, Status.UNSUPPORTED):
                raise

    def close(self) -> None:
        """Drops the engine."""
        if self.tokenizer is not None:
            self.tokenizer.close()
        self.engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[RequestOutput]:
        """The answers to all prompts, in their order. The engine draws them in batches.

        A text is encoded with the tokens that the model wants around it. `sampling_params` count for all prompts, or
        there is one for each. An error cancels what is left.
        """
        every = _listed(prompts)
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            params = [sampling_params or SamplingParams()] * len(every)
        else:
            params = list(sampling_params)
        if len(params) != len(every):
            raise ValueError(f"there are {len(every)} prompts and {len(params)} sampling_params: expected one for each")
        for how in params:
            if how.n < 1:
                raise ValueError(f"n is {how.n}: expected 1 or more")
        asked = [self._read(prompt) for prompt in every]
        answers = iter(self._answers([tokens for _, tokens in asked], params))
        return [
            RequestOutput(prompt, tokens, [next(answers) for _ in range(how.n)])
            for (prompt, tokens), how in zip(asked, params)
        ]

    def chat(
        self,
        messages: Sequence[AnyMessage | Mapping[str, Any]] | Sequence[Sequence[AnyMessage | Mapping[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[RequestOutput]:
        """The answers to one list of messages, or to several, in the model's own chat format.

        A message is a pair of a role and a text, or a dictionary with "role" and "content".
        """
        if self.tokenizer is None:
            raise ValueError("the model has no tokenizer: give generate() tokens")
        several: Any = messages if messages and isinstance(messages[0], list) else [messages]
        with self.tokenizer.chat_format() as format:
            tokens = [
                format.render(
                    [(m["role"], m["content"]) if isinstance(m, Mapping) else m for m in one],
                    ChatFlags.ADD_GENERATION_PROMPT,
                ).tokens
                for one in several
            ]
        return self.generate(tokens, sampling_params)

    def _read(self, prompt: Prompt) -> tuple[str | None, list[int]]:
        if isinstance(prompt, Mapping):
            if "prompt_token_ids" in prompt:
                return prompt.get("prompt"), list(prompt["prompt_token_ids"])
            prompt = prompt["prompt"]
        if not isinstance(prompt, str):
            return None, [int(token) for token in prompt]
        if self.tokenizer is None:
            raise ValueError("the model has no tokenizer: give the prompt as tokens")
        return prompt, self.tokenizer.encode(prompt, EncodeFlags.ADD_SPECIAL)

    def _answers(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[CompletionOutput]:
        """Starts as many generations as the engine's queue takes, and reads them in order while the engine draws."""
        answers: list[CompletionOutput] = []
        running: deque[_Running] = deque()
        wanted = [(prompt, how, index) for prompt, how in zip(prompts, params) for index in range(how.n)]
        try:
            for prompt, how, index in wanted:
                while True:
                    try:
                        running.append(_Running(self._start(prompt, how, index), how, index))
                        break
                    except NanolithError as problem:
                        if problem.status != Status.BUSY or not running:
                            raise
                    answers.append(self._answer(running.popleft()))
            while running:
                answers.append(self._answer(running.popleft()))
        finally:
            for left in running:
                left.generation.close()
        return answers

    def _start(self, prompt: list[int], how: SamplingParams, index: int) -> Generation:
        options: GenerationOptions = {
            "max_tokens": how.max_tokens,
            "min_tokens": how.min_tokens,
            "stop_texts": [how.stop] if isinstance(how.stop, str) else how.stop,
            "stop_tokens": how.stop_token_ids,
            "end_tokens": not how.ignore_eos,
            "text": how.detokenize,
            # No generation pauses because another one is read first. The option's upper bound is 1 << 20.
            "buffer_tokens": min(how.max_tokens or 1 << 20, 1 << 20),
            "logprobs": how.logprobs is not None,
            "top_logprobs": how.logprobs,
        }
        if how.structured_outputs is not None:
            options.update(_constraint(how.structured_outputs))
        sampling: SamplingOptions = {
            "temperature": how.temperature,
            "top_p": how.top_p,
            "top_k": max(0, how.top_k),
            "min_p": how.min_p,
            "seed": secrets.randbits(63) if how.seed is None else how.seed + index,
            "repetition_penalty": how.repetition_penalty,
            "biased_tokens": [f"{token}:{bias}" for token, bias in (how.logit_bias or {}).items()],
            "allowed_tokens": how.allowed_token_ids,
        }
        if how.repetition_penalty != 1:
            sampling["penalty_window"] = _WHOLE_CONTEXT
        with self.engine.cache() as cache:
            cache.set_sampling(**sampling)
            return cache.generate(prompt, logits=how.logits, **options)

    def _answer(self, running: _Running) -> CompletionOutput:
        with running.generation as generation:
            text: list[str] = []
            tokens: list[int] = []
            own: list[float] = []
            top: list[tuple[int, float]] = []
            for piece in generation:
                text.append(piece.text)
                tokens += piece.tokens
                if running.how.logprobs is not None and piece.tokens:
                    own += generation.logprobs()
                    top += generation.top_logprobs() if running.how.logprobs > 0 else []
            reason = _REASONS.get(generation.end, "stop")
        if running.how.logprobs is None:
            return CompletionOutput(running.index, "".join(text), tokens, reason)
        count = running.how.logprobs
        logprobs = [
            self._logprobs(token, logprob, top[i * count : (i + 1) * count])
            for i, (token, logprob) in enumerate(zip(tokens, own))
        ]
        return CompletionOutput(running.index, "".join(text), tokens, reason, logprobs, sum(own))

    def _logprobs(self, token: int, logprob: float, top: list[tuple[int, float]]) -> dict[int, Logprob]:
        """The log-probabilities of the most probable tokens in one place of an answer, and of the token drawn there."""
        found = {each: Logprob(value, rank, self._decode(each)) for rank, (each, value) in enumerate(top, 1)}
        found.setdefault(token, Logprob(logprob, None, self._decode(token)))
        return found

    def _decode(self, token: int) -> str | None:
        return None if self.tokenizer is None else self.tokenizer.decode([token])


@dataclass(frozen=True)
class _Running:
    """A generation that draws answer number `index` of a prompt."""

    generation: Generation
    how: SamplingParams
    index: int


# A window for penalties that is longer than any context: the upper bound of the option penalty_window.
_WHOLE_CONTEXT = (1 << 31) - 1


def _constraint(wanted: StructuredOutputsParams) -> GenerationOptions:
    schema = wanted.json
    return {
        "json_schema": json.dumps(schema) if isinstance(schema, Mapping) else schema,
        "regex": wanted.regex,
        "choices": wanted.choice,
        "grammar": wanted.grammar,
        "json_object": wanted.json_object,
    }


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt, which may be a list of tokens, or several."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    every: list[Any] = list(prompts)
    return [every] if every and isinstance(every[0], int) else every
