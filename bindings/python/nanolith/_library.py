"""Finds libnanolith and opens it, and tells it where the CUDA backend of the package nanolith-cu13 is."""

from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any, Callable

_NAME = "libnanolith.so.0"


try:
    import nanolith_cu13 as _cuda
except ImportError:
    _cuda = None  # type: ignore[assignment]


def _offer_cuda() -> None:
    """The backend's folder goes first in NANOLITH_BACKEND_PATH, where the package that has it is installed."""
    if _cuda is None or _cuda.FOLDER is None:
        return
    listed = os.environ.get("NANOLITH_BACKEND_PATH", "")
    if str(_cuda.FOLDER) not in listed.split(":"):
        os.environ["NANOLITH_BACKEND_PATH"] = f"{_cuda.FOLDER}:{listed}" if listed else str(_cuda.FOLDER)


def prepare_cuda() -> None:
    """Before an engine may open the backend: what that links is large, so it is not opened sooner."""
    if _cuda is not None:
        _cuda.prepare()


def _open() -> ctypes.CDLL:
    """The library in this package, or else where the dynamic loader looks for libraries."""
    _offer_cuda()
    beside = pathlib.Path(__file__).resolve().parent / _NAME
    try:
        return ctypes.CDLL(str(beside) if beside.exists() else _NAME)
    except OSError as problem:
        raise ImportError(
            f"{_NAME} can't be opened: {problem}. Install a wheel that has it inside, or install the library "
            "(scripts/install.sh) where the dynamic loader finds it (LD_LIBRARY_PATH)"
        ) from problem


_library = _open()


def function(name: str, returns: Any, *arguments: Any) -> Callable[..., Any]:
    """The library's function `name` with its prototype. Calls let go of Python's global lock."""
    try:
        found = getattr(_library, name)
    except AttributeError:
        raise ImportError(f"{_library._name} has no function {name}: it is older than this package") from None
    found.restype = returns
    found.argtypes = arguments
    return found  # type: ignore[no-any-return]
