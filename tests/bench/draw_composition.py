#!/usr/bin/env python3
"""The chart of compositions: right answers against the time to the first token, from composition.json.

    tests/bench/draw_composition.py            writes docs/composition-light.svg and docs/composition-dark.svg
    tests/bench/draw_composition.py --check    fails where one of them is not what this script writes

The figures are those of RESULTS.md, "The shipped model: what each composition costs in accuracy".
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/bench/composition.json"
WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 700, 24, 250
MOST_MS = 40
LEAST_RIGHT = 60
THEMES = {
    "light": {"text": "#24292f", "line": "#d0d7de", "ours": "#0969da", "other": "#57606a"},
    "dark": {"text": "#e6edf3", "line": "#30363d", "ours": "#58a6ff", "other": "#8b949e"},
}
ABOVE = {"blended 20 %", "independent", "full prefill"}


def place(ms, right):
    x = LEFT + (RIGHT - LEFT) * ms / MOST_MS
    y = BOTTOM - (BOTTOM - TOP) * (right - LEAST_RIGHT) / (100 - LEAST_RIGHT)
    return round(x, 1), round(y, 1)


def text(x, y, words, color, anchor="middle"):
    return f'<text x="{x}" y="{y}" fill="{color}" font-size="12" text-anchor="{anchor}">{words}</text>'


def axes(theme):
    parts = []
    for right in range(LEAST_RIGHT, 101, 10):
        _, y = place(0, right)
        parts.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="{theme["line"]}"/>')
        parts.append(text(LEFT - 8, y + 4, f"{right} %", theme["text"], "end"))
    for ms in range(0, MOST_MS + 1, 10):
        x, _ = place(ms, LEAST_RIGHT)
        parts.append(text(x, BOTTOM + 18, f"{ms} ms", theme["text"]))
    parts.append(text((LEFT + RIGHT) / 2, BOTTOM + 38, "from the question to the first token", theme["text"]))
    return parts


def draw(ways, theme):
    parts = axes(theme)
    blended = [way for way in ways if way["name"].startswith("blended")]
    points = " ".join("{},{}".format(*place(way["ms"], way["right"])) for way in blended)
    parts.append(f'<polyline points="{points}" fill="none" stroke="{theme["ours"]}" stroke-width="2"/>')
    for way in ways:
        x, y = place(way["ms"], way["right"])
        color = theme["ours" if way in blended else "other"]
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"/>')
        if way["name"] in ABOVE:
            parts.append(text(x, y - 10, way["name"], color))
        else:
            parts.append(text(x + 8, y + 16, way["name"], color, "start"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="Right answers against the time to the first token: '
        f'full prefill, independent chunks, and blends of several shares.">\n{body}\n</svg>\n'
    )


def main():
    ways = json.loads(DATA.read_text())["ways"]
    wrong = []
    for name, theme in THEMES.items():
        path = ROOT / f"docs/composition-{name}.svg"
        drawn = draw(ways, theme)
        if "--check" not in sys.argv:
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            wrong.append(path.name)
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what tests/bench/draw_composition.py writes")


if __name__ == "__main__":
    main()
