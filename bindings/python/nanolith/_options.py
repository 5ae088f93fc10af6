"""Handles of options, made from keyword arguments."""

from __future__ import annotations

from typing import Any, Mapping

from ._call import created, check, int64, utf8
from ._handle import Owned
from ._native import (
    nl_options_create,
    nl_options_free,
    nl_options_set_float,
    nl_options_set_int,
    nl_options_set_text,
)


def native_options(kind: int, keys: Mapping[str, tuple[int, str]], values: Mapping[str, Any]) -> Owned:
    """Options of a kind, an OptionsKind, with these values; those that are None keep their defaults."""
    options = Owned(created(nl_options_create, kind), nl_options_free)
    for name, value in values.items():
        if name not in keys:
            raise TypeError(f"{name!r} is no option here: expected one of {', '.join(keys)}")
        key, takes = keys[name]
        if value is None:
            continue
        if not takes.endswith("_list"):
            value = [value]
        elif isinstance(value, (str, bytes)):
            raise TypeError(f"{name} takes a list, not one {type(value).__name__}")
        for element in value:
            _set(options.raw, key, takes, element)
    return options


def _set(options: int, key: int, takes: str, value: Any) -> None:
    if takes.startswith("int"):
        check(nl_options_set_int(options, key, int64(value)))
    elif takes == "float":
        check(nl_options_set_float(options, key, float(value)))
    else:
        text = utf8(value)
        check(nl_options_set_text(options, key, text, len(text)))
