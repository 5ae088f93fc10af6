"""Spans of tokens that are computed once."""

from __future__ import annotations

from ._call import Path, check, created, int32, path_bytes
from ._handle import Handle, Owned
from ._native import nl_chunk_free, nl_chunk_query, nl_chunk_retain, nl_chunk_save, nl_chunk_set_priority


class Chunk(Handle):
    """A prefilled span of tokens, which any number of caches begin with. All methods may be called from any thread."""

    __slots__ = ()

    def __init__(self, raw: int, engine: Owned) -> None:
        """Made by Engine.prefill and Engine.load_chunk."""
        super().__init__(raw, nl_chunk_free, engine)

    def query(self, fact: int) -> int:
        """A fact about the chunk, a ChunkFact."""
        return self._query(nl_chunk_query, fact)

    def retain(self) -> Chunk:
        """A second handle for the same chunk, closed on its own."""
        owned = self._use()
        return Chunk(created(nl_chunk_retain, owned.raw), owned.keep)

    def set_priority(self, priority: int) -> None:
        """Within a level, chunks of lower priority are evicted first; those with Priority.PINNED never are."""
        owned = self._use()
        check(nl_chunk_set_priority(owned.raw, int32(priority)))

    def save(self, path: Path) -> None:
        """Saves the chunk to a file, with its keys and values, for Engine.load_chunk."""
        owned = self._use()
        file = path_bytes(path)
        check(nl_chunk_save(owned.raw, file, len(file)))
