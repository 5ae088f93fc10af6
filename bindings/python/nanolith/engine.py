"""Loaded models."""

from __future__ import annotations

import json
from ctypes import byref, c_int32
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from ._call import Path, Text, check, created, filled_text, int32, int32s, path_bytes, utf8
from ._callbacks import Callbacks, Log, Progress
from ._handle import Handle, Several
from ._library import prepare_cuda
from ._native import (
    nl_cache_create,
    nl_cache_load,
    nl_chunk_load,
    nl_chunk_prefill,
    nl_engine_cancel,
    nl_engine_create,
    nl_engine_describe,
    nl_engine_device,
    nl_engine_free,
    nl_engine_is_end_token,
    nl_engine_metrics,
    nl_engine_query,
    nl_engine_tenant,
    nl_engine_tokenizer,
)
from ._options import native_options
from .cache import Cache
from .chunk import Chunk
from .enums import Level, OptionsKind
from .errors import NanolithError
from .options import CACHE_KEYS, ENGINE_KEYS, CacheOptions, EngineOptions
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Engine(Handle):
    """A loaded model and its page pool.

    It lives until it is closed, and so is every chunk, cache, generation and tokenizer made from it. All methods may be
    called from any thread.
    """

    __slots__ = ()

    def __init__(
        self, path: Path, *, log: Log | None = None, progress: Progress | None = None, **options: Unpack[EngineOptions]
    ) -> None:
        """Loads the model at `path`, a Hugging Face folder or a GGUF file, and reserves the page pool.

        Blocks while the weights load.

        `log(severity, message)` receives log lines, on any thread; what it raises goes to sys.unraisablehook.
        `progress(done)` hears how far loading has come, from 0 to 1, on this thread; what it raises cancels that, and is
        raised here. Neither may use the library.
        """
        folder = path_bytes(path)
        native = native_options(OptionsKind.ENGINE, ENGINE_KEYS, options)
        if options.get("device") not in ("cpu", b"cpu"):
            prepare_cuda()
        callbacks = Callbacks(log, progress)
        callbacks.set(native.raw)
        try:
            raw = created(nl_engine_create, folder, len(folder), native.raw)
        except NanolithError:
            if callbacks.functions.problem is not None:
                raise callbacks.functions.problem from None
            raise
        super().__init__(raw, nl_engine_free, callbacks)

    def tenant(self, salt: Text) -> Engine:
        """The same engine for one of several parties that must learn nothing of each other, named by `salt`.

        Its chunks and caches are found again by engines of the same salt alone. Chunks of the engine itself may stand in
        every tenant's caches. Closed on its own.
        """
        owned = self._use()
        encoded = utf8(salt)
        raw = created(nl_engine_tenant, owned.raw, encoded, len(encoded))
        tenant = Engine.__new__(Engine)
        Handle.__init__(tenant, raw, nl_engine_free, owned)
        return tenant

    def query(self, fact: int) -> int:
        """A fact about the engine, an EngineFact."""
        return self._query(nl_engine_query, fact)

    def describe(self) -> dict[str, Any]:
        """All facts about the engine, under their names in lower case, and "tiers": where it keeps chunks."""
        owned = self._use()
        text = filled_text(
            8192, lambda buffer, capacity, length: nl_engine_describe(owned.raw, buffer, capacity, length)
        )
        facts: dict[str, Any] = json.loads(text)
        return facts

    def metrics(self) -> str:
        """What the engine has counted, in Prometheus' text format; not for a tenant's handle.

        Pages, chunks by tier, requests, and histograms of steps and of generations.
        """
        owned = self._use()
        return filled_text(
            16384, lambda buffer, capacity, length: nl_engine_metrics(owned.raw, buffer, capacity, length)
        )

    @property
    def device(self) -> str:
        """The device in words, for example "cpu (2 threads)"."""
        owned = self._use()
        return filled_text(128, lambda buffer, capacity, length: nl_engine_device(owned.raw, buffer, capacity, length))

    def is_end_token(self, token: int) -> bool:
        """Whether the token ends an answer by the model's files."""
        owned = self._use()
        is_end = c_int32()
        check(nl_engine_is_end_token(owned.raw, int32(token), byref(is_end)))
        return is_end.value != 0

    def cancel(self) -> None:
        """Cancels all calls and generations that are under way on the engine. Returns at once.

        Calls end with Status.CANCELLED, generations with EndReason.CANCELLED, when the step that runs now is over. What
        is asked for afterwards is not concerned.
        """
        owned = self._use()
        check(nl_engine_cancel(owned.raw))

    def tokenizer(self) -> Tokenizer:
        """A tokenizer for the model; an error with Status.NOT_FOUND where its files have none."""
        owned = self._use()
        return Tokenizer._of(created(nl_engine_tokenizer, owned.raw), owned)

    def prefill(
        self, tokens: Iterable[int], level: int = Level.CONTEXT, before: Sequence[Chunk | None] = ()
    ) -> Chunk:
        """Prefills tokens, at least one, into a chunk, with the chunks `before` in view. Blocks until it is computed.

        When pages run short, chunks that nobody holds are evicted from Level.QUERY first. A chunk that is still in the
        store is returned again at no cost.
        """
        owned = self._use()
        array = int32s(tokens)
        chunks = Several(before)
        raw = created(nl_chunk_prefill, owned.raw, array, len(array), int32(level), chunks.raw, chunks.count)
        return Chunk(raw, owned)

    def cache(self, chunks: Sequence[Chunk | None] = (), **options: Unpack[CacheOptions]) -> Cache:
        """A context that begins with these chunks, in this order; the same chunk may stand in it twice.

        Blocks only where exact composition must compute.
        """
        owned = self._use()
        several = Several(chunks)
        native = native_options(OptionsKind.CACHE, CACHE_KEYS, options)
        return Cache(created(nl_cache_create, owned.raw, native.raw, several.raw, several.count), owned)

    def load_chunk(self, path: Path) -> Chunk:
        """The chunk of a file that Chunk.save wrote. Nothing is computed; Status.BAD_FILE where it does not fit."""
        owned = self._use()
        file = path_bytes(path)
        return Chunk(created(nl_chunk_load, owned.raw, file, len(file)), owned)

    def load_cache(self, path: Path) -> Cache:
        """The conversation of a file that Cache.save wrote: it goes on as if it had never been away."""
        owned = self._use()
        file = path_bytes(path)
        return Cache(created(nl_cache_load, owned.raw, file, len(file)), owned)
