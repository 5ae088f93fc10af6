"""The functions of an engine that the library calls."""

from __future__ import annotations

import atexit
import itertools
import time
from contextlib import contextmanager
from ctypes import string_at
from typing import Callable, Iterator

from ._call import check
from ._handle import close_all, inside
from ._native import nl_log_callback, nl_options_set_log, nl_options_set_progress, nl_progress_callback
from .enums import Severity

Log = Callable[[Severity, str], object]
Progress = Callable[[float], object]


@contextmanager
def _in_callback() -> Iterator[None]:
    """While this thread runs a callback, handles that become unreachable are not freed: that is done later."""
    inside.callback = True
    try:
        yield
    finally:
        del inside.callback


class Functions:
    """An engine's functions. The library gets their number in _all, and never a pointer to an object of Python."""

    def __init__(self, log: Log | None, progress: Progress | None) -> None:
        self.log = log
        self.progress = progress
        #: What the progress function raised.
        self.problem: BaseException | None = None


_all: dict[int, Functions] = {}
_numbers = itertools.count(1)


class Callbacks:
    """The functions of one engine, until nobody refers to this any more."""

    def __init__(self, log: Log | None, progress: Progress | None) -> None:
        for name, given in (("log", log), ("progress", progress)):
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be a function, not {type(given).__name__}")
        self.functions = Functions(log, progress)
        self._number = next(_numbers)
        _all[self._number] = self.functions

    def __del__(self, everything: dict[int, Functions] = _all) -> None:
        if hasattr(self, "_number"):
            everything.pop(self._number, None)

    def set(self, options: int) -> None:
        """Hands them to an engine's options. Progress is always heard: that is where Ctrl-C ends the loading."""
        if self.functions.log is not None:
            check(nl_options_set_log(options, _log, self._number))
        check(nl_options_set_progress(options, _progress, self._number))


def _forward_log(number: int, severity: int, message: int, length: int) -> None:
    """What a log function raises goes to sys.unraisablehook, by way of ctypes."""
    functions = _all.get(number)
    if functions is not None and functions.log is not None:
        with _in_callback():
            functions.log(Severity(severity), string_at(message, length).decode("utf-8", "replace"))


def _forward_progress(number: int, done: float) -> int:
    functions = _all.get(number)
    if functions is None:
        return 0
    try:
        with _in_callback():
            if functions.progress is not None:
                functions.progress(done)
        return 0
    except BaseException as problem:
        functions.problem = problem
        return 1


@atexit.register
def _end() -> None:
    """The library's threads must not call Python functions any more when the interpreter ends.

    Where there are log functions, threads that do not keep the interpreter (daemons) get a second to leave their calls.
    """
    close_all()
    end = time.monotonic() + 1
    while any(functions.log is not None for functions in list(_all.values())) and time.monotonic() < end:
        time.sleep(0.001)


# Never collected, as the library may call them at any time.
_log = nl_log_callback(_forward_log)
_progress = nl_progress_callback(_forward_progress)
