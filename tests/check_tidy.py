#!/usr/bin/env python3
"""Runs clang-tidy over the C and C++ sources that the build compiles: check_tidy.py CLANG_TIDY BUILD_DIR

Sources that CMake compiles together are looked at together, written one after the other into one file, since much of the
time goes into headers. What is told of that file's lines is told of the sources' lines. Files that passed are checked
again only when a source in them, a header or the settings have changed.
"""

import bisect
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ("cuda", "examples", "include", "redis", "src", "tests")


class Unit:
    """A file of several sources."""

    def __init__(self, path, sources):
        self.path = path
        self.sources = sources
        self.begins = []  # the line in the file that each source's first line has
        lines = []
        for source in sources:
            self.begins.append(len(lines) + 1)
            lines += pathlib.Path(source).read_text().split("\n")
        self.text = "\n".join(lines)

    def place(self, match):
        line = int(match.group(1))
        at = bisect.bisect(self.begins, line) - 1
        return f"{self.sources[at]}:{line - self.begins[at] + 1}:"

    def run(self, tidy, database):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.text)
        command = [tidy, "-p", str(database), "--quiet", str(self.path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        told = re.sub(re.escape(str(self.path)) + r":(\d+):", self.place, done.stdout)
        return done.returncode == 0, told


def sources_of(file):
    """A source, or those that CMake compiles together in a file of its own."""
    if "/Unity/unity_" not in file:
        return [file]
    return re.findall(r'#include "(.*)"', pathlib.Path(file).read_text())


def units_of(database, folder):
    """The units, and for each the command that compiles it. CUDA's host code is compiled a second time for its
    emulation, which is left out."""
    units, commands, seen = [], [], set()
    for entry in json.loads(database.read_text()):
        sources = [
            source
            for source in map(os.path.relpath, sources_of(entry["file"]))
            if source not in seen and re.fullmatch(r"(src|cuda|redis|tests|examples)/.*\.(c|cpp)", source)
        ]
        if not sources:
            continue
        seen.update(sources)
        unit = Unit(folder / sources[0].split("/")[0] / f"{len(units)}{os.path.splitext(sources[0])[1]}", sources)
        flags = re.sub(r" (-O\d|-o \S+|-c \S+)", "", entry["command"])
        beside = {f"-I{os.path.abspath(os.path.dirname(source))}" for source in unit.sources}
        command = f"{flags} {' '.join(sorted(beside))} -c {unit.path}"
        units.append(unit)
        commands.append({"directory": entry["directory"], "file": str(unit.path), "command": command})
    return units, commands


def main():
    tidy, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    folder = build / "tidy"
    shutil.rmtree(folder / "units", ignore_errors=True)
    units, commands = units_of(build / "compile_commands.json", folder / "units")
    (folder / "units").mkdir(parents=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands))

    common = hashlib.sha256()
    for path in [pathlib.Path(".clang-tidy"), *sorted(p for top in FOLDERS for p in pathlib.Path(top).rglob("*"))]:
        if path.suffix in (".h", ".cuh") or path.name == ".clang-tidy":
            common.update(path.read_bytes())
        if path.name == ".clang-tidy":  # which holds for the units of its folder
            (folder / "units" / path.parent).mkdir(exist_ok=True)
            shutil.copy(path, folder / "units" / path)

    def check(unit):
        stamp = folder / hashlib.sha256(common.digest() + unit.text.encode()).hexdigest()
        if stamp.exists():
            return True
        passed, told = unit.run(tidy, folder)
        print(told, end="")
        if passed:
            stamp.touch()
        return passed

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sys.exit(0 if all(list(pool.map(check, units))) else 1)


if __name__ == "__main__":
    main()
