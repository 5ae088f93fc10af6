#!/usr/bin/env python3
"""Draws the README's picture of what a chunk is, for light and for dark pages.

    docs/draw_chunk.py           writes docs/chunk-light.svg and docs/chunk-dark.svg
    docs/draw_chunk.py --check   fails where one of them is not what this script draws
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Colours of text, faint text and lines, the private pages, and each chunk.
THEMES = {
    "light": {
        "text": "#1f2328",
        "faint": "#59636e",
        "line": "#d1d9e0",
        "own": "#818b98",
        "chunks": ["#0969da", "#bc4c00", "#1a7f37"],
    },
    "dark": {
        "text": "#f0f6fc",
        "faint": "#9198a1",
        "line": "#3d444d",
        "own": "#656c76",
        "chunks": ["#58a6ff", "#f0883e", "#3fb950"],
    },
}
# Each chunk's name and pages; each conversation's chunks, in its own order, and pages of its own.
CHUNKS = [("system", 2), ("document A", 6), ("document B", 4)]
CONVERSATIONS = [([0, 1, 2], 2), ([0, 2, 1], 1), ([0, 2], 3)]

PAGE, GAP = 34, 4
LEFT, TOP, LANE = 168, 66, 62
WIDTH, HEIGHT = 760, 348


class Drawing:
    def __init__(self, theme):
        self.theme = theme
        self.parts = []

    def text(self, x, y, words, colour="text", size=14, anchor="start", weight="normal"):
        fill = self.theme.get(colour, colour)
        self.parts.append(
            f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{words}</text>'
        )

    def pages(self, x, y, count, colour, filled):
        """A run of pages: filled where they lie, outlined where they are read."""
        for i in range(count):
            self.square(x + i * (PAGE + GAP), y, PAGE, colour, filled)
        return x + count * (PAGE + GAP)

    def square(self, x, y, size, colour, filled):
        style = f'fill="{colour}"'
        if not filled:
            style += f' fill-opacity="0.12" stroke="{colour}" stroke-width="1.5"'
        self.parts.append(f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="{size // 8}" {style}/>')

    def key(self, x, y, colour, filled, words):
        self.square(x, y - 11, 14, colour, filled)
        self.text(x + 22, y, words, "faint", size=12)

    def line(self, y):
        self.parts.append(f'<line x1="16" y1="{y}" x2="{WIDTH - 16}" y2="{y}" stroke="{self.theme["line"]}"/>')


def draw(theme):
    drawing = Drawing(theme)
    drawing.text(16, 32, "Computed once", weight="bold")
    drawing.text(LEFT, 32, "each chunk's keys and values lie in pages of their own", "faint")
    drawing.text(16, TOP + 22, "chunks", "faint")
    x = LEFT
    for (name, count), colour in zip(CHUNKS, theme["chunks"]):
        end = drawing.pages(x, TOP - 8, count, colour, filled=True)
        drawing.text(x, TOP + PAGE + 10, name, colour, size=13)
        x = end + 2 * GAP
    drawing.line(TOP + 64)
    drawing.text(16, TOP + 92, "Read by all", weight="bold")
    drawing.text(LEFT, TOP + 92, "in any order, at any position, without a copy; only what is new takes pages", "faint")
    for lane, (order, own) in enumerate(CONVERSATIONS):
        y = TOP + 108 + lane * (LANE - 8)
        drawing.text(16, y + 22, f"conversation {lane + 1}", "faint")
        x = LEFT
        for chunk in order:
            x = drawing.pages(x, y, CHUNKS[chunk][1], theme["chunks"][chunk], filled=False)
        drawing.pages(x, y, own, theme["own"], filled=True)
    y = TOP + 112 + len(CONVERSATIONS) * (LANE - 8)
    drawing.key(LEFT, y, theme["own"], True, "pages of its own: question and answer")
    drawing.key(LEFT + 270, y, theme["chunks"][0], False, "a page that lies above")
    body = "\n".join(drawing.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="Three chunks are computed once and lie in pages; '
        f'three conversations read them in different orders and add pages of their own.">\n{body}\n</svg>\n'
    )


def main():
    stale = 0
    for name, theme in THEMES.items():
        path, svg = HERE / f"chunk-{name}.svg", draw(theme)
        if sys.argv[1:] == ["--check"]:
            if not path.is_file() or path.read_text() != svg:
                print(f"{path.name} is not what draw_chunk.py draws: run it")
                stale = 1
        else:
            path.write_text(svg)
    return stale


if __name__ == "__main__":
    sys.exit(main())
