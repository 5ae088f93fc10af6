"""Messages to tokens."""

from __future__ import annotations

import json
from ctypes import c_char_p, c_int32, c_size_t
from typing import Any, Mapping, NamedTuple, Sequence, Union

from ._call import Text, filled_text, filled_tokens, int32, unsigned, utf8
from ._handle import Handle, Owned
from ._native import (
    nl_chat_format_free,
    nl_chat_format_name,
    nl_chat_format_render,
    nl_chat_format_render_json,
)
from .enums import Role


class Message(NamedTuple):
    """A message of a chat: whose it is, and what it says."""

    role: Role
    content: Text


#: A message; a pair of a role and a text will do, and the role may be "system", "user" or "assistant".
AnyMessage = Union[Message, "tuple[int | str, Text]"]


class RenderedChat(NamedTuple):
    """The tokens of a chat, and where each message's part of them ends.

    A part begins where the one before it ends, the first one at 0; the generation prompt follows the last one.
    """

    tokens: list[int]
    ends: list[int]

    def message(self, index: int) -> list[int]:
        """The tokens of message `index`, perhaps none: those to prefill a chunk of."""
        return self.tokens[self._begin(index) : self.ends[index]]

    def after(self, index: int) -> list[int]:
        """The tokens from message `index` to the end, generation prompt included; that alone after the last message."""
        return self.tokens[self._begin(index) :]

    def _begin(self, index: int) -> int:
        if not 0 <= index <= len(self.ends):
            raise IndexError(f"there is no message {index} of {len(self.ends)}")
        return self.ends[index - 1] if index else 0


class ChatFormat(Handle):
    """How a chat model wants its messages: with which tokens around them, and in which order.

    All methods may be called from any thread.
    """

    __slots__ = ()

    def __init__(self, raw: int, tokenizer: Owned) -> None:
        """Made by Tokenizer.chat_format."""
        super().__init__(raw, nl_chat_format_free, tokenizer)

    @property
    def name(self) -> str:
        """The format's name; "template" where the model's own template is run."""
        owned = self._use()
        return filled_text(
            32, lambda buffer, capacity, length: nl_chat_format_name(owned.raw, buffer, capacity, length)
        )

    def render(self, messages: Sequence[AnyMessage], flags: int = 0) -> RenderedChat:
        """The tokens that the model's own template gives for these messages, at least one; flags are ChatFlags."""
        owned = self._use()
        contents = [utf8(content) for _, content in messages]
        number = len(contents)
        roles = (c_int32 * number)(*(_role(role) for role, _ in messages))
        texts = (c_char_p * number)(*contents)
        lengths = (c_size_t * number)(*map(len, contents))
        ends = (c_size_t * number)()
        tokens = filled_tokens(
            sum(map(len, contents)) // 2 + 16 * number + 16,
            lambda buffer, capacity, count: nl_chat_format_render(
                owned.raw, roles, texts, lengths, number, unsigned(flags), ends, buffer, capacity, count
            ),
        )
        return RenderedChat(tokens, list(ends))

    def render_json(self, request: Text | Mapping[str, Any], num_messages: int = 0, flags: int = 0) -> RenderedChat:
        """The tokens of a chat that is a JSON object, or a dictionary, with "messages".

        "tools", "documents", "date" and "variables" may be in it too; the library's header says more. `num_messages` is
        how many messages it has, or 0: then the answer knows no ends.
        """
        owned = self._use()
        text = utf8(json.dumps(request, ensure_ascii=False) if isinstance(request, Mapping) else request)
        ends = (c_size_t * unsigned(num_messages))()
        tokens = filled_tokens(
            len(text) // 2 + 64,
            lambda buffer, capacity, count: nl_chat_format_render_json(
                owned.raw, text, len(text), unsigned(flags), ends, len(ends), buffer, capacity, count
            ),
        )
        return RenderedChat(tokens, list(ends))


def _role(role: int | str) -> int:
    if isinstance(role, str):
        try:
            return Role[role.upper()]
        except KeyError:
            raise ValueError(f"there is no role {role!r}: expected system, user or assistant") from None
    return int32(role)
