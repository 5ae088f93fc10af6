#!/usr/bin/env python3
"""Whether every function of nanolith.h is called by the safe part of every binding, and the generated parts are current.

    check_coverage.py [--header FILE]

Reads nanolith.h alone: nanolith_ops.h works on raw device pointers and is for C and C++ programs.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINDINGS = ROOT / "bindings"
SOURCES = {
    "rust": sorted((BINDINGS / "rust/nanolith/src").glob("*.rs")),
    "go": [path for path in sorted((BINDINGS / "go").glob("*.go")) if not path.name.endswith("_test.go")],
    "python": [path for path in sorted((BINDINGS / "python/nanolith").glob("*.py")) if path.name != "_native.py"],
    "csharp": [path for path in sorted((BINDINGS / "csharp/Nanolith").glob("*.cs")) if not path.name.endswith(".g.cs")],
}


def declared(header):
    return re.findall(r"^NL_API [^(]*?(nl_\w+)\(", header.read_text(), re.M)


def called(paths):
    """Names in the code; those in comments and in Python's imports don't count."""
    code = "\n".join(re.sub(r"(?m)^\s*(//|#).*$|^from \._native import (\([^)]*\)|.*)", "", path.read_text()) for path in paths)
    return set(re.findall(r"\bnl_\w+", code))


def read_omissions():
    lines = (ROOT / "tests/bindings/omissions.txt").read_text().splitlines()
    return {tuple(line.split(None, 2)[:2]) for line in lines if line and not line.startswith("#")}


def problems(header):
    functions = declared(header)
    omitted = read_omissions()
    if len(functions) < 40:
        yield f"{header} declares {len(functions)} functions: that can't be all"
    for language, function in sorted(omitted):
        if language not in SOURCES:
            yield f"omissions.txt: there is no binding {language}"
        if function not in functions:
            yield f"omissions.txt: {function} is not declared"
    for language, paths in SOURCES.items():
        names = called(paths)
        for function in functions:
            if (language, function) in omitted:
                if function in names:
                    yield f"omissions.txt: {language} does call {function}"
            elif function not in names:
                yield f"{language} does not call {function}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=pathlib.Path, default=ROOT / "include/nanolith/nanolith.h")
    found = list(problems(parser.parse_args().header))
    for problem in found:
        print(problem)
    stale = subprocess.run([sys.executable, BINDINGS / "generate.py", "--check"]).returncode
    return 1 if found or stale else 0


if __name__ == "__main__":
    sys.exit(main())
