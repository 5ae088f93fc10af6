#!/usr/bin/env python3
"""Finds code that stands twice: runs of more than eight equal lines in the sources of src, cuda and tests.

    find_twins.py [--root FOLDER] [--longest LINES]

White space is folded; blank lines, comments and includes don't count and don't end a run. Two runs are twins when all
their other lines are equal, in one file or in two, and at least five of these say something of their own: lines of
punctuation, "else", "return {};" and the like do not.
"""

import argparse
import collections
import pathlib
import re
import sys

HOUSES = ["src", "cuda", "tests"]
ENDINGS = {".h", ".cpp", ".c", ".cu", ".cuh", ".py", ".sh"}
# Lines that don't count: blank ones, comments, includes and conditions, imports.
NOTHING = re.compile(r"|//.*|/?\*.*|#(?!\s*define).*|import .*|from \S+ import .*")
# Lines that count and say nothing of their own.
THIN = re.compile(
    r"[\W_]*|(public|private|protected):|else:?|\} else \{|break;|return;|return \{\};"
    r"|namespace\b.*|using namespace.*|extern \"C\" \{"
)
LEAST_MEANING = 5


def lines_of(path):
    """(line number, folded text) of each line that counts."""
    folded = ((number, " ".join(line.split())) for number, line in enumerate(path.read_text().splitlines(), 1))
    return [(number, line) for number, line in folded if not NOTHING.fullmatch(line)]


def twins(files, longest):
    """(count, first place, second place) of each longest pair of runs with more than `longest` equal lines."""
    length = longest + 1
    texts = {name: [text for _, text in lines] for name, lines in files.items()}
    starts = collections.defaultdict(list)
    for name, text in texts.items():
        for i in range(len(text) - length + 1):
            starts[tuple(text[i : i + length])].append((name, i))
    for places in starts.values():
        for index, (name, i) in enumerate(places):
            for other, j in places[index + 1 :]:
                a, b = texts[name], texts[other]
                if i > 0 and j > 0 and a[i - 1] == b[j - 1]:
                    continue  # inside of a longer one
                count = length
                while i + count < len(a) and j + count < len(b) and a[i + count] == b[j + count]:
                    count += 1
                if name == other and j < i + count:
                    continue  # a run that repeats itself line by line, as tables do
                if sum(not THIN.fullmatch(line) for line in a[i : i + count]) < LEAST_MEANING:
                    continue
                yield count, (name, files[name][i][0], files[name][i + count - 1][0]), (
                    other,
                    files[other][j][0],
                    files[other][j + count - 1][0],
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--longest", type=int, default=8, help="lines that may stand twice")
    options = parser.parse_args()
    files = {
        path.relative_to(options.root).as_posix(): lines_of(path)
        for house in HOUSES
        for path in sorted((options.root / house).rglob("*"))
        if path.suffix in ENDINGS and path.is_file()
    }
    found = sorted(twins(files, options.longest), reverse=True)
    for count, first, second in found:
        print(f"{count} lines: {first[0]}:{first[1]}-{first[2]} and {second[0]}:{second[1]}-{second[2]}")
    print(f"{len(found)} twins" if found else f"{len(files)} files, no twins")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
