"""What the library tells about itself and about models."""

from __future__ import annotations

import json
from ctypes import byref, c_double, c_int64
from typing import Any, Callable, NamedTuple

from ._call import Path, check, filled_text, int32, path_bytes
from ._native import (
    nl_fact_describe,
    nl_model_describe,
    nl_option_bounds_float,
    nl_option_bounds_int,
    nl_option_describe,
    nl_version,
    nl_version_number,
)
from .enums import DescribeFormat


class IntBounds(NamedTuple):
    """What an option that takes integers may be, and its default (for lists 0, which has no meaning)."""

    least: int
    most: int
    default: int


class FloatBounds(NamedTuple):
    """What an option that takes floats may be, and its default."""

    least: float
    most: float
    default: float


def version() -> str:
    """The version of the library at run time, as "0.2.0"."""
    text: bytes = nl_version()
    return text.decode()


def version_number() -> int:
    """The same as one number, to compare: 200 is 0.2.0, 10203 is 1.2.3."""
    number: int = nl_version_number()
    return number


def describe_model(path: Path, format: int = DescribeFormat.TEXT) -> str:
    """What the model folder or GGUF file at `path` is and what of it can be used, without loading weights.

    Lines "name: value", or a JSON object with the same names (DescribeFormat.JSON). A part that can't be used is no
    error: its line says why.
    """
    folder = path_bytes(path)
    return filled_text(
        1024,
        lambda buffer, capacity, length: nl_model_describe(
            folder, len(folder), int32(format), buffer, capacity, length
        ),
    )


def describe_options(kind: int) -> list[dict[str, Any]]:
    """The options of an OptionsKind: "name", "key", "type", "least", "most", "default" and "doc" of each."""
    return _described(nl_option_describe, kind)


def describe_facts(kind: int) -> list[dict[str, Any]]:
    """The facts of a FactsKind: "name", "key", "unit" and "doc" of each."""
    return _described(nl_fact_describe, kind)


def _described(function: Callable[..., int], kind: int) -> list[dict[str, Any]]:
    text = filled_text(4096, lambda buffer, capacity, length: function(int32(kind), buffer, capacity, length))
    described: list[dict[str, Any]] = json.loads(text)
    return described


def int_bounds(option: int) -> IntBounds:
    """The bounds of an option that takes integers, for example of EngineOption.PAGE_SIZE."""
    bounds = c_int64(), c_int64(), c_int64()
    check(nl_option_bounds_int(int32(option), *map(byref, bounds)))
    return IntBounds(*(bound.value for bound in bounds))


def float_bounds(option: int) -> FloatBounds:
    """The bounds of an option that takes floats, for example of SamplingOption.TOP_P."""
    bounds = c_double(), c_double(), c_double()
    check(nl_option_bounds_float(int32(option), *map(byref, bounds)))
    return FloatBounds(*(bound.value for bound in bounds))
