"""What all values that own a handle of the library share."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from ctypes import byref, c_int64, c_void_p
from typing import Any, Callable, NoReturn, Sequence, TypeVar

from ._call import fail, int32
from .errors import ClosedError, NanolithError

#: `inside.callback` exists while this thread runs a callback of the library, in which the library must not be called.
inside = threading.local()

# Handles that became unreachable during a callback, to be freed at the next opportunity: the function that frees one,
# the handle, and what must outlive it. append() and pop() of lists are atomic.
_waiting: list[tuple[Callable[[int], None], int, object]] = []


def _free_waiting() -> None:
    while _waiting:
        try:
            free, raw, _ = _waiting.pop()
        except IndexError:  # another thread took it
            return
        free(raw)


class Owned:
    """One handle, freed when nobody refers to this any more.

    A value refers to it until the value is closed, and each call until it returns; so a value may be closed while other
    threads are calling it. `keep` is an object that must outlive the handle.
    """

    __slots__ = ("__weakref__", "_free", "keep", "raw")

    def __init__(self, raw: int, free: Callable[[int], None], keep: Any = None) -> None:
        self.raw = raw
        self._free = free
        self.keep = keep

    def __del__(self, inside: threading.local = inside, waiting: list[Any] = _waiting) -> None:
        if hasattr(inside, "callback"):
            waiting.append((self._free, self.raw, self.keep))
        else:
            self._free(self.raw)


def query(owned: Owned, function: Callable[..., int], fact: int) -> int:
    """A fact that the library's function tells about a handle."""
    value = c_int64()
    status = function(owned.raw, int32(fact), byref(value))
    if status:
        fail(status)
    return value.value


Self = TypeVar("Self", bound="Handle")


class Handle:
    """Can be closed, also by `with`, and is closed when nobody refers to it any more, in any order."""

    __slots__ = ("__weakref__", "_owned")

    def __init__(self, raw: int, free: Callable[[int], None], keep: object = None) -> None:
        self._owned: Owned | None = Owned(raw, free, keep)
        _living.add(self)
        if _waiting:
            _free_waiting()

    def _use(self) -> Owned:
        """For a call: the caller keeps it in a variable until the call has returned."""
        owned = self._owned
        if owned is None:
            raise ClosedError(f"this {type(self).__name__} has been closed")
        return owned

    def _query(self, function: Callable[..., int], fact: int) -> int:
        return query(self._use(), function, fact)

    def close(self) -> None:
        """Drops the handle. May be called again, and while other threads are calling methods."""
        self._owned = None

    @property
    def closed(self) -> bool:
        """Whether it has been closed. Methods raise ClosedError then."""
        return self._owned is None

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} owns a handle of the library: it can't be copied or pickled")

    def __enter__(self: Self) -> Self:
        self._use()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class Several:
    """The handles of several values for one call; None is NULL, which the library names in its error."""

    __slots__ = ("_owned", "count", "raw")

    def __init__(self, handles: Sequence[Handle | None]) -> None:
        self._owned = [None if handle is None else handle._use() for handle in handles]
        self.count = len(self._owned)
        self.raw = (c_void_p * self.count)(*(None if owned is None else owned.raw for owned in self._owned))


_living: weakref.WeakSet[Handle] = weakref.WeakSet()


def close_all() -> None:
    """Cancels what is under way and closes all values."""
    handles = list(_living)
    for handle in handles:
        cancel = getattr(handle, "cancel", None)
        if cancel is not None:
            with suppress(ClosedError, NanolithError):  # after a fork, the child's handles can't be used
                cancel()
    for handle in handles:
        handle.close()
    _free_waiting()
