"""What all calls into the library share: errors, texts, numbers and buffers."""

from __future__ import annotations

import operator
import os
from array import array
from ctypes import Array, byref, c_int32, c_int64, c_size_t, c_void_p, create_string_buffer
from typing import Any, Callable, Iterable, NoReturn, Union

from ._native import nl_last_error, nl_last_error_detail
from .enums import Detail, Status
from .errors import NanolithError

#: Text that goes to the library: bytes are UTF-8, of which ill-formed parts are read as U+FFFD.
Text = Union[str, bytes]
#: A folder or a file.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def check(status: int) -> None:
    """Raises unless the call that this thread just made succeeded."""
    if status != 0:
        fail(status)


def fail(status: int) -> NoReturn:
    """Raises this thread's latest error. The library keeps one for each thread, so no other call comes between."""
    message: bytes = nl_last_error()
    details = (_last_detail(Detail.INDEX), _last_detail(Detail.NEEDED), _last_detail(Detail.AVAILABLE))
    raise NanolithError(Status(status), message.decode("utf-8", "replace"), *details)


def _last_detail(detail: int) -> int | None:
    value = c_int64()
    return value.value if nl_last_error_detail(detail, byref(value)) == 0 else None


def _out_of_range(number: int, least: int, most: int) -> NoReturn:
    raise OverflowError(f"{number} is out of range: expected {least} to {most}")


# ctypes cuts integers to the bits that fit, without a word.
def int32(value: int, index: Callable[[Any], int] = operator.index) -> int:
    """`value`, which must fit 32 bits with a sign."""
    number = index(value)
    if -0x8000_0000 <= number <= 0x7FFF_FFFF:
        return number
    _out_of_range(number, -0x8000_0000, 0x7FFF_FFFF)


def int64(value: int) -> int:
    """`value`, which must fit 64 bits with a sign."""
    number = operator.index(value)
    if -0x8000_0000_0000_0000 <= number <= 0x7FFF_FFFF_FFFF_FFFF:
        return number
    _out_of_range(number, -0x8000_0000_0000_0000, 0x7FFF_FFFF_FFFF_FFFF)


def unsigned(value: int) -> int:
    """`value`, which must be a size, or flags: 32 bits without a sign."""
    number = operator.index(value)
    if 0 <= number <= 0xFFFF_FFFF:
        return number
    _out_of_range(number, 0, 0xFFFF_FFFF)


def utf8(text: Text) -> bytes:
    """UTF-8 of a text. Halves of surrogate pairs that stand alone become U+FFFD."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str or bytes), not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def path_bytes(path: Path) -> bytes:
    """A path as the system writes it."""
    return os.fsencode(path)


def int32s(numbers: Iterable[int]) -> Array[c_int32]:
    """An array for the library; of an array("i") it is the same memory."""
    if isinstance(numbers, (bytes, bytearray)):
        raise TypeError("expected integers, not bytes")
    if not isinstance(numbers, array) or numbers.typecode != "i":
        numbers = array("i", numbers)
    return (c_int32 * len(numbers)).from_buffer(numbers)


def created(function: Callable[..., int], *arguments: Any) -> int:
    """The handle that a function gives through its last pointer."""
    raw = c_void_p()
    check(function(*arguments, byref(raw)))
    assert raw.value is not None
    return raw.value


def filled(guess: int, make: Callable[[int], Any], call: Callable[[Any, int, Any], int]) -> tuple[Any, int]:
    """The buffer that `call` filled, and how much of it.

    There is room for `guess` elements first, and then for what was asked for. Another thread may make that more in
    between.
    """
    needed = c_size_t()
    capacity = guess
    while True:
        buffer = make(capacity)
        status = call(buffer, capacity, byref(needed))
        if status != Status.BUFFER_TOO_SMALL or needed.value <= capacity:
            check(status)
            return buffer, needed.value
        capacity = needed.value


def filled_text(guess: int, call: Callable[[Any, int, Any], int]) -> str:
    """The text that `call` writes."""
    buffer, length = filled(guess, create_string_buffer, call)
    text: bytes = buffer[:length]
    return text.decode("utf-8", "replace")


def filled_tokens(guess: int, call: Callable[[Any, int, Any], int]) -> list[int]:
    """The tokens that `call` writes."""
    buffer, count = filled(guess, lambda capacity: (c_int32 * capacity)(), call)
    tokens: list[int] = buffer[:count]
    return tokens
