#!/usr/bin/env python3
"""Makes the headers' comments those that doxygen reads: doxygen_filter.py FILE, to standard output.

A comment above a declaration becomes /** */, one after a constant becomes /**< */, and the one that begins a file is its
own. Headlines ("/* ---- Engine ---- */") stay as they are.
"""

import pathlib
import re
import sys


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    if path.suffix == ".h":
        text = re.sub(r"\A/\*", "/** @file\n *", text)
        text = re.sub(r"(?m)^(\s*)/\*(?![*] ?|\s*-{4})", r"\1/**", text)
        text = re.sub(r"(?m)(?<=\S)( +)/\*(?!\*)", r"\1/**<", text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
