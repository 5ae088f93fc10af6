"""The CUDA backend of Nanolith (libnanolith_cuda.so), for CUDA 13. The package nanolith finds it by itself."""

from __future__ import annotations

import ctypes
import importlib.metadata
import pathlib

#: The folder that the backend is in; None where this package has none, as in the sources.
FOLDER = pathlib.Path(__file__).resolve().parent if (pathlib.Path(__file__).parent / "libnanolith_cuda.so").exists() else None

#: What the backend links that the NVIDIA driver does not bring: file and the package of PyPI that has it.
NEEDED = (("libcublasLt.so.13", "nvidia-cublas"),)

_opened: list[ctypes.CDLL] = []


def _place(file: str, package: str) -> str:
    """The file in that package, or else its name, for the dynamic loader to look for it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return file
    return next((str(found.locate()) for found in files if found.name == file), file)


def prepare() -> None:
    """Opens what the backend links, so that it finds it by name. Opening it again does nothing.

    A library that is not there is left for the backend to name: an engine on "cuda" then says what is missing.
    """
    if FOLDER is None or _opened:
        return
    for file, package in NEEDED:
        try:
            _opened.append(ctypes.CDLL(_place(file, package), mode=ctypes.RTLD_GLOBAL))
        except OSError:
            pass
