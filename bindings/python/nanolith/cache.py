"""Conversations."""

from __future__ import annotations

import json
from array import array
from ctypes import c_float, c_int32
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from ._call import Path, check, created, filled, filled_text, filled_tokens, int32s, path_bytes, unsigned
from ._callbacks import Logits, LogitsFunction
from ._handle import Handle, Owned, Several, query
from ._native import (
    nl_cache_cancel,
    nl_cache_describe,
    nl_cache_embed,
    nl_cache_extend,
    nl_cache_fork,
    nl_cache_free,
    nl_cache_logits,
    nl_cache_query,
    nl_cache_save,
    nl_cache_score,
    nl_cache_score_next,
    nl_cache_set_sampling,
    nl_cache_tokens,
    nl_cache_truncate,
    nl_decode_step,
    nl_engine_query,
    nl_generation_start,
)
from ._options import native_options
from .enums import EmbedFlags, EngineFact, OptionsKind, Pooling
from .generation import Generation
from .options import GENERATION_KEYS, SAMPLING_KEYS, GenerationOptions, SamplingOptions

if TYPE_CHECKING:
    import numpy
    from typing_extensions import Buffer, Unpack


class Cache(Handle):
    """A conversation's context. All methods may be called from any thread; calls on one cache take turns."""

    __slots__ = ()

    def __init__(self, raw: int, engine: Owned) -> None:
        """Made by Engine.cache and Engine.load_cache."""
        super().__init__(raw, nl_cache_free, engine)

    def extend(self, tokens: Iterable[int]) -> None:
        """Appends tokens and computes them."""
        owned = self._use()
        text = int32s(tokens)
        check(nl_cache_extend(owned.raw, text, len(text)))

    def score(self, tokens: Iterable[int]) -> list[float]:
        """Appends tokens, computes them, and gives the log-probability of each after all that stands before it.

        The log-probabilities are those of the model's own distribution. The first token of an empty cache gets NaN.
        """
        owned = self._use()
        text = int32s(tokens)
        logprobs, count = filled(
            len(text),
            lambda capacity: (c_float * capacity)(),
            lambda buffer, capacity, count: nl_cache_score(owned.raw, text, len(text), buffer, capacity, count),
        )
        return list(logprobs[:count])

    def score_next(self, tokens: Iterable[int], candidates: Iterable[int]) -> list[float]:
        """Appends tokens, computes them, and gives the log-probability of each candidate as the token after them.

        They are of the model's own distribution. A reranker that answers yes or no has both in one call.
        """
        owned = self._use()
        text = int32s(tokens)
        following = int32s(candidates)
        logprobs, count = filled(
            len(following),
            lambda capacity: (c_float * capacity)(),
            lambda buffer, capacity, count: nl_cache_score_next(
                owned.raw, text, len(text), following, len(following), buffer, capacity, count
            ),
        )
        return list(logprobs[:count])

    def embed(
        self, tokens: Iterable[int], pooling: int = Pooling.LAST, *, normalized: bool = False
    ) -> array[float]:
        """Appends tokens, computes them, and gives hidden states after the model's final norm, as an array("f").

        With Pooling.LAST it is the last token's (of the cache, where `tokens` is empty), with MEAN the mean of those of
        `tokens`, and with NONE one vector after the other. numpy.asarray and memoryview read it without a copy.
        """
        owned = self._use()
        text = int32s(tokens)
        size = query(owned.keep, nl_engine_query, EngineFact.HIDDEN_SIZE) * (len(text) if pooling == Pooling.NONE else 1)
        vectors = array("f", bytes(4 * size))
        room = (c_float * size).from_buffer(vectors)
        flags = EmbedFlags.NORMALIZED if normalized else 0
        filled(
            size,
            lambda _: room,
            lambda to, _, count: nl_cache_embed(owned.raw, text, len(text), pooling, flags, to, size, count),
        )
        return vectors

    def fork(self) -> Cache:
        """A second cache with the same context and sampling options, whose pages are shared."""
        owned = self._use()
        return Cache(created(nl_cache_fork, owned.raw), owned.keep)

    def truncate(self, num_tokens: int) -> None:
        """Keeps the first `num_tokens` tokens."""
        owned = self._use()
        check(nl_cache_truncate(owned.raw, unsigned(num_tokens)))

    def tokens(self) -> list[int]:
        """All tokens of the context, chunks first. While it is generating: those that are final now."""
        owned = self._use()
        return filled_tokens(
            1024, lambda buffer, capacity, count: nl_cache_tokens(owned.raw, buffer, capacity, count)
        )

    def set_sampling(self, **options: Unpack[SamplingOptions]) -> None:
        """Sets how this cache draws from now on; what is left out gets its default."""
        owned = self._use()
        native = native_options(OptionsKind.SAMPLING, SAMPLING_KEYS, options)
        check(nl_cache_set_sampling(owned.raw, native.raw))

    def generate(
        self, tokens: Iterable[int] = (), *, logits: Logits | None = None, **options: Unpack[GenerationOptions]
    ) -> Generation:
        """Appends tokens and starts to generate those that follow, in batches with all others. Returns at once.

        `logits(tokens, logits)` sees the logits from which each token is about to be drawn, and may change them in
        place: minus infinity for a token that must not be drawn. They are a NumPy array of float32, one for each token
        of the vocabulary, valid during the call only, and `tokens` one of int32: all tokens of the cache. NumPy must be
        installed. Sampling options, constraints and log-probabilities come after it, on what it leaves.

        Where it returns False, the generation ends with EndReason.CANCELLED; other results mean nothing. What it raises
        ends the generation too, and is raised where the next piece is asked for, after the pieces that came before.
        Logits that it leaves NaN or plus infinity, or all of them minus infinity, end it with Status.INVALID_ARGUMENT.

        It is called on the engine's own thread, while all conversations of the engine wait, and must not use the
        library. Closing the generation waits for a call that is under way.
        """
        owned = self._use()
        text = int32s(tokens)
        native = native_options(OptionsKind.GENERATION, GENERATION_KEYS, options)
        function = None if logits is None else LogitsFunction(logits)
        if function is not None:
            function.set(native.raw)
        return Generation(created(nl_generation_start, owned.raw, text, len(text), native.raw), owned.keep, function)

    def logits(self) -> numpy.ndarray[Any, numpy.dtype[numpy.float32]]:
        """The float32 logits for the token after the last one, as a NumPy array. NumPy must be installed."""
        import numpy

        vocab_size = query(self._use().keep, nl_engine_query, EngineFact.VOCAB_SIZE)
        logits = numpy.empty(vocab_size, numpy.float32)
        self.logits_into(logits)
        return logits

    def logits_into(self, buffer: Buffer | numpy.ndarray[Any, Any]) -> int:
        """Writes the logits into a buffer of float32, as array("f") and NumPy arrays are, and gives their number."""
        owned = self._use()
        view = memoryview(buffer)  # type: ignore[arg-type]
        if view.format != "f" or not view.c_contiguous:
            raise TypeError(f"expected a contiguous buffer of float32, not one of format {view.format!r}")
        room = (c_float * (view.nbytes // 4)).from_buffer(view.cast("B"))
        count: int = filled(
            len(room), lambda _: room, lambda logits, _, count: nl_cache_logits(owned.raw, logits, len(room), count)
        )[1]
        return count

    def cancel(self) -> None:
        """Cancels what is under way on this cache, from any thread. Returns at once."""
        owned = self._use()
        check(nl_cache_cancel(owned.raw))

    def query(self, fact: int) -> int:
        """A fact about the cache, a CacheFact."""
        return self._query(nl_cache_query, fact)

    def describe(self) -> dict[str, int]:
        """All facts about the cache, under their names in lower case."""
        owned = self._use()
        text = filled_text(
            1024, lambda buffer, capacity, length: nl_cache_describe(owned.raw, buffer, capacity, length)
        )
        facts: dict[str, int] = json.loads(text)
        return facts

    def save(self, path: Path) -> None:
        """Saves the conversation to a file, for Engine.load_cache."""
        owned = self._use()
        file = path_bytes(path)
        check(nl_cache_save(owned.raw, file, len(file)))


def decode_step(caches: Sequence[Cache | None]) -> list[int]:
    """Draws one token for each cache in one batch, and appends it. On an error none of them advances.

    For programs that choose tokens themselves or bring their own loop; all others start generations.
    """
    several = Several(caches)
    tokens = (c_int32 * several.count)()
    check(nl_decode_step(several.raw, several.count, tokens))
    return list(tokens)
