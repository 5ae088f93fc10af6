#!/usr/bin/env python3
"""The installed wheel, and that of the CUDA backend beside it; run by the Python that the first is installed for.

    wheels.py MODEL_FOLDER BUILD_DIR WHEELS

BUILD_DIR is where the library was built, WHEELS the folder of its wheels. Prints "test NAME ok" for each. No GPU is
needed, nor NVIDIA's packages: a stand-in for them is made of the toolkit's library.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import nanolith
from nanolith import Engine

MODEL = sys.argv[1]
BUILT = pathlib.Path(sys.argv[2], "lib").resolve()
WHEELS = pathlib.Path(sys.argv[3])
PACKAGE = pathlib.Path(nanolith.__file__).parent


def mapped() -> set[pathlib.Path]:
    """The libraries in this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {pathlib.Path(line.split()[-1]) for line in lines if ".so" in line}


def test_library_inside() -> None:
    """All that the library links is from the wheel, but for what every Linux has."""
    with Engine(MODEL, device="cpu") as engine:
        assert engine.device.startswith("cpu")
    used = {path for path in mapped() if re.search(r"nanolith|dnnl|sentencepiece|pcre2|utf8proc|nettle|gomp", path.name)}
    assert PACKAGE / "libnanolith.so.0" in used and len(used) >= 6, used
    outside = {path for path in used if path.parent not in (PACKAGE, PACKAGE.parent / "nanolith.libs")}
    assert not outside, outside


def test_metadata() -> None:
    assert importlib.metadata.version("nanolith") == nanolith.version() == nanolith.__version__
    assert (PACKAGE / "py.typed").exists() and not importlib.metadata.requires("nanolith")
    files = importlib.metadata.files("nanolith") or []
    notices = {path.name for path in files if "licenses" in path.parts}
    assert "LICENSE" in notices and len(notices) >= 6, notices


def test_shared_store() -> None:
    """The library for a Redis server is in the wheel where it was built: then a server that is not there is no error."""
    assert (PACKAGE / "libnanolith_redis.so").exists() == (BUILT / "libnanolith_redis.so").exists()
    if (PACKAGE / "libnanolith_redis.so").exists():
        Engine(MODEL, device="cpu", store_server="redis://127.0.0.1:1").close()


def test_batch_of_the_readme() -> None:
    readme = pathlib.Path(__file__).resolve().parent.parent / "README.md"
    blocks = [block for block in readme.read_text().split("```\n") if block.startswith("from nanolith import LLM")]
    assert len(blocks) == 1
    program = blocks[0].replace("/nanolith/examples/model", MODEL)
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.count("\n") >= 2, printed


CUDA = """
import sys, nanolith, nanolith_cu13
assert not nanolith_cu13._opened
nanolith.Engine(sys.argv[1], device="cpu").close()
assert not nanolith_cu13._opened, "an engine on the CPU needs none of it"
try:
    nanolith.Engine(sys.argv[1], device="cuda")
except nanolith.NanolithError as problem:
    print("error", problem)
print("opened", *[library._name for library in nanolith_cu13._opened])
"""


def run_cuda(folder: str) -> str:
    environment = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, "-c", CUDA, MODEL]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_cuda_wheel() -> None:
    """The backend is found in its package, and opened: cuBLASLt is found in NVIDIA's package."""
    if not (BUILT / "libnanolith_cuda.so").exists():
        return
    wheel = next(WHEELS.glob("nanolith_cu13-*.whl"))
    linked = subprocess.run(["ldd", BUILT / "libnanolith_cuda.so"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"libcublasLt\.so\.13 => (/\S+)", linked)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
        subprocess.run([*pip, "--target", folder, str(wheel)], check=True)
        backend = pathlib.Path(folder, "nanolith_cu13", "libnanolith_cuda.so")
        assert f"error {backend}: " in run_cuda(folder), run_cuda(folder)
        metadata = importlib.metadata.PathDistribution(next(pathlib.Path(folder).glob("nanolith_cu13-*.dist-info")))
        assert f"nanolith=={nanolith.version()}" in (metadata.requires or []), metadata.requires
        assert any(need.startswith("nvidia-cublas") for need in metadata.requires or []), metadata.requires
        if found is None:
            return
        library = pathlib.Path(folder, "nvidia", "cu13", "lib", "libcublasLt.so.13")
        library.parent.mkdir(parents=True)
        library.symlink_to(found.group(1))
        information = pathlib.Path(folder, "nvidia_cublas-13.0.dist-info")
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cublas\nVersion: 13.0\n")
        (information / "RECORD").write_text(f"{library.relative_to(folder)},,\n")
        printed = run_cuda(folder)
        assert f"\nopened {library}\n" in printed and "cublasLt" not in printed.split("\n")[0], printed


def main() -> int:
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                test()
                print(f"test {name[5:]} ok")
            except Exception as problem:
                failed += 1
                print(f"test {name[5:]} FAILED: {type(problem).__name__}: {problem}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
