"""Tokens that the engine draws."""

from __future__ import annotations

import asyncio
import math
from ctypes import byref, c_float, c_int32, c_size_t, create_string_buffer
from typing import AsyncIterator, Iterator, NamedTuple

from ._call import check, fail, filled
from ._callbacks import LogitsFunction
from ._handle import Handle, Owned
from ._native import (
    nl_generation_cancel,
    nl_generation_descriptor,
    nl_generation_free,
    nl_generation_logprobs,
    nl_generation_next,
    nl_generation_query,
    nl_generation_top_logprobs,
)
from .enums import EndReason, GenerationFact, Status

# The most that one call fetches; the rest waits for the next call.
_PIECE_TOKENS = 64
_PIECE_BYTES = 1024
# Milliseconds after which a waiting thread handles Python's signals.
_SLICE_MS = 100


class Piece(NamedTuple):
    """Tokens that were drawn, and text. The two do not match: a token may come before or after its text."""

    tokens: list[int]
    text: str


class Statistics(NamedTuple):
    """How a generation went so far; times are seconds from its start."""

    tokens: int
    tokens_reused: int
    tokens_computed: int
    queued: float
    first_token: float | None
    total: float
    tokens_per_second: int


class Generation(Handle):
    """Tokens that the engine draws for a cache, in the same steps as its other work. Made by Cache.generate.

    Its pieces come with `for`, where the thread waits for each, with `async for`, or one by one; each comes once.
    Closing it, by `with` or when nobody refers to it any more, cancels it. All methods may be called from any thread.
    """

    __slots__ = ("_end", "_logits", "_waiting")

    def __init__(self, raw: int, engine: Owned, logits: LogitsFunction | None) -> None:
        """Made by Cache.generate."""
        super().__init__(raw, nl_generation_free, (engine, logits))
        self._logits = logits
        self._end = EndReason.NONE
        # Of each event loop, who waits until the descriptor is readable. A list is touched by its loop's thread alone.
        self._waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}

    def close(self) -> None:
        """Cancels the generation where it still runs, and drops it: who waits for a piece is woken.

        Waits for a call of its logits function that is under way.
        """
        owned, logits = self._owned, self._logits
        super().close()
        if owned is not None:
            nl_generation_cancel(owned.raw)
        if logits is not None:
            logits.close()
            self._logits = None

    def cancel(self) -> None:
        """Ends it when the step that runs now is over. What it has drawn can still be fetched. Returns at once."""
        owned = self._use()
        check(nl_generation_cancel(owned.raw))

    @property
    def end(self) -> EndReason:
        """Why it ended; EndReason.NONE until all pieces are fetched. query(GenerationFact.END) tells it before."""
        return self._end

    def next(self, timeout: float | None = None) -> Piece | None:
        """The next piece, None at the end. What the logits function raised is raised here, after all pieces.

        An error with Status.TIMEOUT where there is none within `timeout` seconds; it may be asked again.
        """
        left = math.inf if timeout is None else max(0, int(1000 * timeout))
        while True:
            wait = int(min(left, _SLICE_MS))
            in_time, piece = self._fetch(wait)
            if in_time:
                return piece
            left -= wait
            if left <= 0:
                fail(Status.TIMEOUT)

    def _fetch(self, timeout_ms: int) -> tuple[bool, Piece | None]:
        """Whether the next piece came in time, and the piece: None is the end."""
        owned = self._use()
        if self._end != EndReason.NONE:
            self._over()
            return True, None
        tokens = (c_int32 * _PIECE_TOKENS)()
        text = create_string_buffer(_PIECE_BYTES)
        num_tokens, length, end = c_size_t(), c_size_t(), c_int32()
        status = nl_generation_next(
            owned.raw, timeout_ms, tokens, _PIECE_TOKENS, byref(num_tokens), text, _PIECE_BYTES, byref(length), byref(end)
        )
        if status == Status.TIMEOUT:
            return False, None
        is_empty = num_tokens.value + length.value == 0
        if status == 0:
            self._end = EndReason(end.value)
        elif is_empty:  # else the next call gives the error again
            self._end = EndReason.ERROR
            self._over()
            fail(status)
        if is_empty:  # it came with the end
            self._over()
            return True, None
        return True, Piece(tokens[: num_tokens.value], text.raw[: length.value].decode())

    def _over(self) -> None:
        """There are no more pieces: raises what the logits function raised."""
        if self._logits is not None:
            self._logits.raise_problem()

    async def next_async(self) -> Piece | None:
        """The next piece, None at the end. A task that is cancelled just waits no longer; the generation goes on."""
        while True:
            in_time, piece = self._fetch(0)
            if in_time:
                return piece
            await self._readable()

    async def _readable(self) -> None:
        owned = self._use()  # the descriptor is open as long as this is there
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append(ready)
        try:
            descriptor = _descriptor(owned)
            loop.add_reader(descriptor, _wake, waiting)
            try:
                await ready
            finally:
                if len(waiting) == 1:
                    loop.remove_reader(descriptor)
        finally:
            waiting.remove(ready)
            if not waiting:
                del self._waiting[loop]

    def read_text(self) -> str:
        """Waits for the end, and gives all the text that was still to come. The tokens are dropped."""
        return "".join(piece.text for piece in self)

    async def read_text_async(self) -> str:
        """As read_text, for tasks."""
        return "".join([piece.text async for piece in self])

    def logprobs(self) -> list[float]:
        """Log-probabilities of the latest piece's tokens by the model's own distribution.

        The generation must have been started with `logprobs=True`.
        """
        owned = self._use()
        logprobs, count = filled(
            _PIECE_TOKENS,
            lambda capacity: (c_float * capacity)(),
            lambda buffer, capacity, count: nl_generation_logprobs(owned.raw, buffer, capacity, count),
        )
        return list(logprobs[:count])

    def top_logprobs(self) -> list[tuple[int, float]]:
        """The most probable tokens in the place of each token of the latest piece, with their log-probabilities.

        For each of these tokens in order there are `top_logprobs` elements, the most probable first.
        """
        owned = self._use()
        (tokens, logprobs), count = filled(
            0,
            lambda capacity: ((c_int32 * capacity)(), (c_float * capacity)()),
            lambda both, capacity, count: nl_generation_top_logprobs(owned.raw, *both, capacity, count),
        )
        return list(zip(tokens[:count], logprobs[:count]))

    def query(self, fact: int) -> int:
        """A fact about the generation, a GenerationFact."""
        return self._query(nl_generation_query, fact)

    @property
    def statistics(self) -> Statistics:
        """How it went so far."""
        first = self.query(GenerationFact.FIRST_TOKEN_US)
        return Statistics(
            tokens=self.query(GenerationFact.TOKENS),
            tokens_reused=self.query(GenerationFact.TOKENS_REUSED),
            tokens_computed=self.query(GenerationFact.TOKENS_COMPUTED),
            queued=self.query(GenerationFact.QUEUED_US) / 1e6,
            first_token=None if first < 0 else first / 1e6,
            total=self.query(GenerationFact.TOTAL_US) / 1e6,
            tokens_per_second=self.query(GenerationFact.TOKENS_PER_SECOND),
        )

    @property
    def descriptor(self) -> int:
        """A file descriptor to poll, readable while next() would not wait.

        It belongs to the generation: do not read from it, write to it or close it. An error with Status.IO where the
        process has no descriptors left.
        """
        return _descriptor(self._use())

    def __iter__(self) -> Iterator[Piece]:
        while (piece := self.next()) is not None:
            yield piece

    async def __aiter__(self) -> AsyncIterator[Piece]:
        while (piece := await self.next_async()) is not None:
            yield piece

    async def __aenter__(self) -> Generation:
        return self.__enter__()

    async def __aexit__(self, *problem: object) -> None:
        self.close()


def _descriptor(owned: Owned) -> int:
    descriptor = c_int32()
    check(nl_generation_descriptor(owned.raw, byref(descriptor)))
    return descriptor.value


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for ready in waiting:
        if not ready.done():
            ready.set_result(None)
