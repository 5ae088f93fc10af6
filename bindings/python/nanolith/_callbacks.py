"""The functions of engines and generations that the library calls."""

from __future__ import annotations

import atexit
import gc
import itertools
import threading
import time
import weakref
from contextlib import contextmanager
from ctypes import memmove, string_at
from typing import TYPE_CHECKING, Any, Callable, Iterator

from ._call import check
from ._handle import close_all, inside
from ._native import (
    nl_log_callback,
    nl_logits_callback,
    nl_options_set_log,
    nl_options_set_logits,
    nl_options_set_progress,
    nl_progress_callback,
)
from .enums import Severity

if TYPE_CHECKING:
    import numpy

Log = Callable[[Severity, str], object]
Progress = Callable[[float], object]
Logits = Callable[["numpy.ndarray[Any, numpy.dtype[numpy.int32]]", "numpy.ndarray[Any, numpy.dtype[numpy.float32]]"], object]


def _check_function(name: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{name} must be a function, not {type(given).__name__}")


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
            if given is not None:
                _check_function(name, given)
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


class LogitsFunction:
    """One generation's function, which the library knows by its number."""

    def __init__(self, function: Logits) -> None:
        _check_function("logits", function)
        import numpy

        self._numpy = numpy
        self._function = function
        self._room = numpy.empty(0, numpy.float32)
        self._closed = False
        # Held during calls. A thread that waits for it hears Ctrl-C, unlike one that waits in the library.
        self._lock = threading.RLock()
        self._problem: BaseException | None = None
        self._number = next(_numbers)
        _changing[self._number] = self

    def set(self, options: int) -> None:
        """Hands it to a generation's options."""
        check(nl_options_set_logits(options, _logits, self._number))

    def close(self) -> None:
        """Waits for a call that is under way. From here on the function is not called."""
        with self._lock:
            self._closed = True

    def raise_problem(self) -> None:
        """What the function raised, once."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def call(self, tokens: int, num_tokens: int, logits: int, num_logits: int) -> int:
        """Has the function change a copy of the logits, so that arrays that it keeps do no harm."""
        try:
            with self._lock, _in_callback():
                if self._closed:
                    return 1
                if self._room.size != num_logits:
                    self._room = self._numpy.empty(num_logits, self._numpy.float32)
                memmove(self._room.ctypes.data, logits, self._room.nbytes)
                context = self._numpy.frombuffer(string_at(tokens, 4 * num_tokens), self._numpy.int32)
                if self._function(context, self._room) is False:
                    return 1
                memmove(logits, self._room.ctypes.data, self._room.nbytes)
                return 0
        except BaseException as problem:
            self._problem = problem
            return 1


# Those that somebody refers to: a function that refers to its own generation is garbage together with that.
_changing: weakref.WeakValueDictionary[int, LogitsFunction] = weakref.WeakValueDictionary()


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


def _forward_logits(number: int, tokens: int, num_tokens: int, logits: int, num_logits: int) -> int:
    function = _changing.get(number)
    return 1 if function is None else function.call(tokens, num_tokens, logits, num_logits)


@atexit.register
def _end() -> None:
    """The library's threads must not call Python functions any more when the interpreter ends.

    Where there are log and logits functions, threads that do not keep the interpreter (daemons) get a second to leave
    their calls.
    """
    close_all()
    if _changing:
        gc.collect()  # what they raised refers to them
    end = time.monotonic() + 1
    while (_changing or any(functions.log is not None for functions in list(_all.values()))) and time.monotonic() < end:
        time.sleep(0.001)


# Never collected, as the library may call them at any time.
_log = nl_log_callback(_forward_log)
_progress = nl_progress_callback(_forward_progress)
_logits = nl_logits_callback(_forward_logits)
