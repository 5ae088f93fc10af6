#!/usr/bin/env python3
"""Writes src/text/character_tables.h: sets of characters that the tokenizers package has from a Unicode version of its
own, older than this machine's, asked of the package itself.

Needs PyPI's tokenizers; the file was made with 0.23.3, and a Python of Unicode 14 or newer.
"""

import pathlib
import unicodedata

from tokenizers import normalizers

TARGET = pathlib.Path(__file__).parents[2] / "src" / "text" / "character_tables.h"
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NFD = normalizers.NFD()
NFKD = normalizers.NFKD()


def bert(**options):
    """BertNormalizer with one of its steps."""
    steps = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**steps, **options})


def removed_by(normalizer):
    return [c for c in CHARACTERS if normalizer.normalize_str(c) == ""]


def with_normal_forms():
    """Whatever a normal form changes, puts in another order or puts together."""
    decomposed = {c: NFD.normalize_str(c) for c in CHARACTERS}
    found = {c for c in CHARACTERS if NFKD.normalize_str(c) != c}
    found |= {part for c, parts in decomposed.items() if parts != c for part in parts}
    for c in CHARACTERS:  # marks of combining classes 1, 220, 230 and 240
        for mark in "\u0334\u0323\u0301\u0345":
            if NFD.normalize_str("a" + c + mark) != "a" + decomposed[c] + mark:
                found.add(c)
            if NFD.normalize_str("a" + mark + c) != "a" + mark + decomposed[c]:
                found.add(c)
    return found


def joined_ranges(characters):
    """Fewer ranges, which have others too: those that are assigned and have no normal forms in any version."""
    parts = {p for c in CHARACTERS for d in [unicodedata.normalize("NFD", c)] if d != c for p in d}
    joined = []
    is_open = False
    for c in CHARACTERS:
        if c in characters:
            if not is_open:
                joined.append([ord(c), ord(c)])
            joined[-1][1] = ord(c)
            is_open = True
        elif (
            unicodedata.category(c) == "Cn"
            or unicodedata.combining(c) != 0
            or unicodedata.normalize("NFKD", c) != c
            or c in parts
        ):
            is_open = False
    return joined


def ranges(characters):
    found = []
    for code in map(ord, characters):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, found):
    entries = [f"{{0x{first:04X}, 0x{last:04X}}}" for first, last in found]
    lines = [", ".join(entries[i : i + 5]) + "," for i in range(0, len(entries), 5)]
    head = f"constexpr std::array<CharacterRange, {len(entries)}> {name} = {{{{\n"
    return head + "".join(f"    {line}\n" for line in lines) + "}};\n"


def main():
    others = removed_by(bert(clean_text=True))
    # What a decomposition leaves of a character was decomposed before it was looked for.
    nonspacing = [c for c in removed_by(bert(strip_accents=True)) if NFD.normalize_str(c) == c]
    marks = removed_by(normalizers.StripAccents())
    tables = [("kOthers", ranges(others)), ("kNonspacingMarks", ranges(nonspacing)), ("kMarks", ranges(marks))]
    tables.append(("kWithNormalForms", joined_ranges(with_normal_forms())))
    TARGET.write_text(
        "// Made by tests/text/make_character_sets.py; not to be edited. For character_sets.cpp alone.\n#pragma once\n\n"
        "#include <array>\n\nnamespace nanolith {\n\n"
        "struct CharacterRange {\n    char32_t first;\n    char32_t last;\n};\n\n// clang-format off\n"
        + "\n".join(table(name, found) for name, found in tables)
        + "// clang-format on\n\n}  // namespace nanolith\n"
    )


if __name__ == "__main__":
    main()
