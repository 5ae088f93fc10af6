"""Text to tokens and back."""

from __future__ import annotations

import threading
from ctypes import byref, c_int32
from typing import Iterable

from ._call import Path, Text, check, created, filled_text, filled_tokens, int32, int32s, path_bytes, unsigned, utf8
from ._handle import Handle, Owned
from ._native import (
    nl_chat_format_create,
    nl_text_stream_create,
    nl_text_stream_finish,
    nl_text_stream_free,
    nl_text_stream_push,
    nl_tokenizer_decode,
    nl_tokenizer_encode,
    nl_tokenizer_find,
    nl_tokenizer_free,
    nl_tokenizer_load,
    nl_tokenizer_piece,
    nl_tokenizer_query,
)
from .chat import ChatFormat


class Tokenizer(Handle):
    """A model's tokenizer. All methods may be called from any thread."""

    __slots__ = ()

    def __init__(self, path: Path) -> None:
        """The tokenizer of a model folder or GGUF file, without loading weights. Engine.tokenizer gives an engine's."""
        folder = path_bytes(path)
        super().__init__(created(nl_tokenizer_load, folder, len(folder)), nl_tokenizer_free)

    @classmethod
    def _of(cls, raw: int, keep: object) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        Handle.__init__(tokenizer, raw, nl_tokenizer_free, keep)
        return tokenizer

    def encode(self, text: Text, flags: int = 0) -> list[int]:
        """The text's tokens; flags are EncodeFlags."""
        owned = self._use()
        encoded = utf8(text)
        return filled_tokens(
            len(encoded) // 2 + 16,
            lambda tokens, capacity, count: nl_tokenizer_encode(
                owned.raw, encoded, len(encoded), unsigned(flags), tokens, capacity, count
            ),
        )

    def decode(self, tokens: Iterable[int]) -> str:
        """The tokens' text; control tokens give none."""
        owned = self._use()
        array = int32s(tokens)
        return filled_text(
            8 * len(array) + 16,
            lambda buffer, capacity, length: nl_tokenizer_decode(owned.raw, array, len(array), buffer, capacity, length),
        )

    def query(self, fact: int) -> int:
        """A fact about the tokenizer, a TokenizerFact; -1 for a special token that it does not have."""
        return self._query(nl_tokenizer_query, fact)

    def find(self, piece: Text) -> int:
        """The token whose spelling in the vocabulary is exactly `piece`; an error with Status.NOT_FOUND where none is."""
        owned = self._use()
        encoded = utf8(piece)
        token = c_int32()
        check(nl_tokenizer_find(owned.raw, encoded, len(encoded), byref(token)))
        return token.value

    def piece(self, token: int) -> str:
        """The vocabulary's spelling of a token."""
        owned = self._use()
        return filled_text(
            64, lambda buffer, capacity, length: nl_tokenizer_piece(owned.raw, int32(token), buffer, capacity, length)
        )

    def text_stream(self) -> TextStream:
        """A stream that has seen no token."""
        owned = self._use()
        return TextStream(created(nl_text_stream_create, owned.raw), owned)

    def chat_format(self, name: Text = "") -> ChatFormat:
        """The chat format of that name ("chatml", "llama-3" and so on), or the one of the tokenizer's model."""
        owned = self._use()
        encoded = utf8(name)
        return ChatFormat(created(nl_chat_format_create, owned.raw, encoded, len(encoded)), owned)


class TextStream(Handle):
    """Turns tokens into text one by one and never splits a character: bytes of an unfinished one wait for the next token.

    Threads that share a stream take turns.
    """

    __slots__ = ("_turn",)

    def __init__(self, raw: int, tokenizer: Owned) -> None:
        """Made by Tokenizer.text_stream."""
        super().__init__(raw, nl_text_stream_free, tokenizer)
        self._turn = threading.Lock()

    def push(self, token: int) -> str:
        """The text that the token completes, perhaps none."""
        owned = self._use()
        with self._turn:
            return filled_text(
                64,
                lambda buffer, capacity, length: nl_text_stream_push(owned.raw, int32(token), buffer, capacity, length),
            )

    def finish(self) -> str:
        """What still waits, as U+FFFD where it is ill-formed; the stream is then as new."""
        owned = self._use()
        with self._turn:
            return filled_text(
                64, lambda buffer, capacity, length: nl_text_stream_finish(owned.raw, buffer, capacity, length)
            )
