#!/usr/bin/env python3
"""Whether the documents name only what is there.

    check_names.py [--root FOLDER]

In each document every path in a code span, a link, a code block or a diagram must be a file or folder of the tree, and
every identifier in a code span must stand in the sources as code, comments aside. Each folder directly inside src, cuda
and tests must be named in one of the documents, and each number of README.md's figures must stand in the results.

A path is a word with a slash or a known ending. It counts from the tree's root or from the document's folder; a lone
file name may be anywhere in the tree, and "*" stands for anything. An identifier is a word in a code span that has an
underscore, "::" or "()", or is written LikeThis or kLikeThis. `Type::member` must have a source that declares the type
and names the member; "nl_*" is any name that begins so.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/conventions.md",
    "docs/RELIABILITY.md",
    "docs/reference.md",
    "docs/abi/README.md",
    "cuda/attention/README.md",
    "tests/README.md",
    "tests/bench/peers/README.md",
]
# What README.md's figures are taken from.
RESULTS = "tests/bench/RESULTS.md"
NUMBER = re.compile(r"(?<![\w.,])(?:\d+\.\d+|\d{1,3}(?:,\d{3})+|\d{3,})(?![\w])")
# Folders whose own folders must be named in a document.
HOUSES = ["src", "cuda", "tests"]
SOURCE_ENDINGS = {".h", ".cpp", ".c", ".cu", ".cuh", ".py", ".sh", ".rs", ".go", ".cs", ".txt", ".cmake", ".json"}
PATH_ENDINGS = SOURCE_ENDINGS | {".md", ".map", ".svg", ".yml"}
# What a build makes, and what a reader's own machine has.
NOT_IN_THE_TREE = re.compile(r"^(build\b|/|~|\$|https?:|.*\.so(\.\d+)*$|.*\.a$|.*\.pc$|.*\.model$|.*\.safetensors$)")
# Files of a model's folder, which are the user's.
OF_A_MODEL = {"config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "model.safetensors"}
WORD = re.compile(r"[A-Za-z_]\w*")
OWNER = re.compile(r"\b(?:class|struct|enum|namespace|union)\s+(?:\[\[\w+\]\]\s+)?(?:\w+::)*(\w+)")


def tracked_files(root):
    """The files of the tree, with slashes: those that git knows of or would add, or all where there is no git."""
    found = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if found.returncode == 0:
        return [name for name in found.stdout.splitlines() if (root / name).is_file()]
    return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]


def without_comments(text, name):
    """The text of a source without its comments, whose words are no proof that something is there."""
    if pathlib.Path(name).suffix in {".h", ".cpp", ".c", ".cu", ".cuh", ".rs", ".go", ".cs"}:
        return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"(?m)(^|\s)#\s[^\n]*", " ", text)


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = tracked_files(root)
        self.folders = {parent.as_posix() for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.words = {}  # of each source
        self.owners = {}  # the types and namespaces that it declares
        for name in self.files:
            path = pathlib.Path(name)
            if path.suffix in SOURCE_ENDINGS and "/fixtures/" not in name and (root / name).stat().st_size < 1 << 20:
                text = without_comments((root / name).read_text(errors="replace"), name)
                self.words[name] = set(WORD.findall(text))
                self.owners[name] = set(OWNER.findall(text))
        self.all_words = set().union(*self.words.values()) if self.words else set()

    def has_path(self, path, folder):
        """Whether `path` is there, from the root or from `folder`, or, where it is a file's name alone, anywhere."""
        path = path.rstrip("/")
        places = [path, (pathlib.PurePosixPath(folder) / path).as_posix()]
        places = [str(pathlib.PurePosixPath(*normal(place))) for place in places]
        if "*" in path:
            return any(fnmatch.fnmatch(name, place) for place in places for name in [*self.files, *self.folders])
        if any(place in self.folders or place in self.files or place == "." for place in places):
            return True
        return "/" not in path and any(name.rsplit("/", 1)[-1] == path for name in self.files)

    def has_name(self, name):
        """Whether an identifier, with its types and namespaces in front, stands in the sources."""
        if name.endswith("*"):
            return any(word.startswith(name[:-1]) for word in self.all_words)
        parts = name.split("::")
        if len(parts) == 1:
            return name in self.all_words
        owner, member = parts[-2:]
        return any(member in words and owner in self.owners[source] for source, words in self.words.items())


def normal(place):
    """The parts of a path without '.' and '..'."""
    parts = []
    for part in pathlib.PurePosixPath(place).parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in {".", ".."}:
            parts.append(part)
    return parts


def code_parts(text):
    """(line number, text, whether it is a code span) of each piece of code in a document."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, line.split("#", 1)[0], False
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span, True


def links(text):
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", line):
            target = "".join(target)
            if not target.startswith(("http:", "https:", "#", "@")):
                yield number, target


def expanded(word):
    """{a,b} of the shell."""
    match = re.fullmatch(r"(.*?)\{([^{}]*,[^{}]*)\}(.*)", word)
    if not match:
        return [word]
    return [part for choice in match[2].split(",") for part in expanded(match[1] + choice + match[3])]


def paths_in(code, is_span, tree):
    """Words of a piece of code that look like paths. In blocks, which have commands and C, only those that begin with a
    folder of the tree."""
    for word in re.split(r"[\s,;:=\"'()\[\]<>|]+", code):
        word = word.strip(".`")
        for path in expanded(word):
            path = path.rstrip("…")
            if not path or not re.fullmatch(r"[\w.*/+-]+", path) or NOT_IN_THE_TREE.match(path) or path in OF_A_MODEL:
                continue
            first = path.split("/", 1)[0]
            known = first in tree.folders
            ending = re.fullmatch(r"\.[a-z]+", pathlib.PurePosixPath(path).suffix) and (
                pathlib.PurePosixPath(path).suffix in PATH_ENDINGS
            )
            if "/" in path and (known or (is_span and ending)) or (is_span and "/" not in path and ending):
                yield path


def looks_like_a_name(word):
    return bool(
        re.fullmatch(r"(\w+::)*\w+(\(\)|\*)?", word)
        and not re.fullmatch(r"[\d_]+", word)
        and (
            "::" in word
            or word.endswith(("()", "_*"))
            or re.fullmatch(r"[a-z]\w*_\w*|[A-Z]+_[A-Z_0-9]+", word)
            or re.fullmatch(r"k?([A-Z][a-z0-9]+){2,}[A-Z]?", word)
        )
    )


def names_in(span):
    """Identifiers of a code span: the whole of it, or words that stand alone in it."""
    for word in re.split(r"[\s,;=<>&]+", span):
        if looks_like_a_name(word.strip(".")) and not word.startswith("std::"):
            yield word.strip(".").removesuffix("()")


def problems_of(document, tree):
    text = (tree.root / document).read_text()
    folder = pathlib.PurePosixPath(document).parent.as_posix()
    for number, target in links(text):
        path, _, anchor = target.partition("#")
        if path and not tree.has_path(path, folder):
            yield f"{document}:{number}: links to {path}, which is not there"
        elif anchor and path.endswith(".md") and anchor not in anchors((tree.root / folder / path).read_text()):
            yield f"{document}:{number}: {path} has no heading for #{anchor}"
    for number, code, is_span in code_parts(text):
        base = "src" if "#include" in code else folder
        for path in paths_in(code, is_span, tree):
            if not tree.has_path(path, base):
                yield f"{document}:{number}: names {path}, which is not there"
        if not is_span or "/" in code:
            continue
        for name in names_in(code):
            if not tree.has_name(name):
                yield f"{document}:{number}: names {name}, which no source has"


def anchors(text):
    """What links to a document's headings end with."""
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def unnamed_folders(documents, tree):
    text = "\n".join((tree.root / document).read_text() for document in documents)
    for house in HOUSES:
        rooms = {name.split("/")[1] for name in tree.files if name.startswith(house + "/") and name.count("/") > 1}
        for room in sorted(rooms):
            if not re.search(rf"\b{re.escape(house)}/{re.escape(room)}\b", text):
                yield f"{house}/{room} is named in none of {', '.join(documents)}"


def figures_without_results(tree):
    """Numbers with a decimal point or of four digits and more in README.md's section of figures."""
    readme = (tree.root / "README.md").read_text()
    section = re.search(r"(?ms)^## Figures$(.*?)(^## |\Z)", readme)
    results = tree.root / RESULTS
    known = set(NUMBER.findall(results.read_text())) if results.is_file() else set()
    for number in NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", section[1])) if section else []:
        if number not in known:
            yield f"README.md: the figure {number} does not stand in {RESULTS}"


def problems(root):
    tree = Tree(root)
    documents = [name for name in DOCUMENTS if (root / name).is_file()]
    for name in DOCUMENTS:
        if name not in documents:
            yield f"{name} is not there"
    for document in documents:
        yield from problems_of(document, tree)
    yield from unnamed_folders(documents, tree)
    if "README.md" in documents:
        yield from figures_without_results(tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    found = list(problems(parser.parse_args().root.resolve()))
    for problem in found:
        print(problem)
    print(f"{len(found)} problems" if found else "every name is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
