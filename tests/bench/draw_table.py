#!/usr/bin/env python3
"""The table of whole models: puts figures into whole_models.json and draws from it what the documents show.

    tests/bench/draw_table.py                              writes the charts and the tables of RESULTS.md and README.md
    tests/bench/draw_table.py --add FILE... [--commit C]   first takes figures in, which bench_whole_model or a peer's
                                                           script wrote (--json); C is Nanolith's commit
    tests/bench/draw_table.py --check                      fails where one of them is not what this script writes

The charts are docs/speed-light.svg and docs/speed-dark.svg. Tables stand between two marks that are comments.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/bench/whole_models.json"
RESULTS = ROOT / "tests/bench/RESULTS.md"
README = ROOT / "README.md"
OURS = "nanolith"
PEERS = ["vLLM", "llama.cpp"]
NAMES = {
    "qwen3-0.6b": "Qwen3-0.6B",
    "llama-3.2-1b": "Llama-3.2-1B",
    "llama-3.1-8b": "Llama-3.1-8B",
    "qwen3-30b-a3b": "Qwen3-30B-A3B",
    "qwen3-0.6b on a CPU": "Qwen3-0.6B on a CPU",
}
CASES = ["batch1", "shared", "random", "prefill", "load", "sampling"]
CHART_CASES = CASES[:4]
WORDS = {
    "load/first": "loading, a process' first engine",
    "load/later": "loading, later engines",
    "sampling/greedy": "256 conversations, greedy",
    "sampling/filtered": "256 conversations, top-k and top-p",
    "sampling/share": "what top-k and top-p add to a step",
    "sampling/all": "256 conversations, all filters but top-k, and penalties",
    "sampling/all-share": "what all of these add to a step",
}
README_ROWS = 8
README_ROWS_OF_A_CASE = 2  # of one case of one model


# ---- Figures ----


def more_is_better(row):
    return row["unit"].endswith("/s")


def ratio(row, value, other):
    """How many times as fast `value` is as `other`."""
    return value / other if more_is_better(row) else other / value


def count(number):
    return f"{number:,}"


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 10 else f"{value:.3f}"


def words(key):
    case, size = key.split("/")
    if case == "batch1":
        return f"one conversation, context {count(int(size))}"
    if case == "shared":
        return f"{size} conversations behind one chunk"
    if case == "random":
        return f"{size} requests of random lengths"
    if case == "prefill":
        return f"prefill of {count(int(size))}"
    return WORDS[key]


def place(key):
    """Where a row stands in its model's table."""
    case, size = key.split("/")
    return CASES.index(case), int(size) if size.isdigit() else list(WORDS).index(key)


def rows_of(data):
    """(model, key, row) of each row, in the order of the tables."""
    for model in NAMES:
        for key in sorted(data["models"].get(model, {}), key=place):
            yield model, key, data["models"][model][key]


def add_report(data, report, commit):
    on_gpu = any(word in report["device"] for word in ("NVIDIA", "GPU"))
    model = report["model"] + ("" if on_gpu else " on a CPU")
    if model not in NAMES:
        raise SystemExit(f"a report is of {model}: expected one of {', '.join(NAMES)}")
    rows = data["models"].setdefault(model, {})
    program = report["program"]
    version = f"{report['version']}, commit {commit}" if program == OURS and commit else report["version"]
    for entry in report["rows"]:
        row = rows.setdefault(entry["key"], {})
        row["unit"] = entry["unit"]
        if "floor" in entry:
            row["floor"] = round(entry["floor"], 4)
        row[program] = {
            "value": round(entry["value"], 4),
            "version": version,
            "device": re.sub(r"^cuda:\d+ ", "", report["device"]),
            "date": report["date"],
        }


# ---- Tables ----


def figure(row, program):
    """A program's figure as the tables show it; empty where there is none."""
    if program not in row:
        return ""
    note = row[program].get("note")
    return number(row[program]["value"]) + (f" ({note})" if note else "")


def best_peer(row):
    """The fastest peer that did the same, or None."""
    peers = [name for name in PEERS if name in row and "note" not in row[name]]
    return max(peers, key=lambda name: ratio(row, row[name]["value"], 1), default=None)


def share_of_floor(row):
    if OURS not in row or "floor" not in row:
        return ""
    return f"{100 * ratio(row, row[OURS]['value'], row['floor']):.0f}%"


def bar_text(row):
    if "bar" not in row:
        return ""
    return ("≥ " if more_is_better(row) else "≤ ") + number(row["bar"])


def met_text(row):
    if OURS not in row or "bar" not in row:
        return ""
    return "yes" if ratio(row, row[OURS]["value"], row["bar"]) >= 1 else "**no**"


def ahead_text(row):
    """How many times as fast as the best peer."""
    peer = best_peer(row)
    if peer is None or OURS not in row:
        return ""
    times = ratio(row, row[OURS]["value"], row[peer]["value"])
    return f"{times:.2f}x" if times >= 1 else f"**{times:.2f}x**"


def sources(data):
    """A line for each program: which version ran where and when."""
    found = {}
    for _, _, row in rows_of(data):
        for program in [OURS, *PEERS]:
            if program in row:
                figures = row[program]
                found.setdefault(program, {})[(figures["version"], figures["device"], figures["date"])] = None
    for program, runs in found.items():
        ran = "; ".join(f"{version} on {device}, {date}" for version, device, date in runs)
        yield f"- {'Nanolith' if program == OURS else program}: {ran}."


def summary(data):
    rows = [row for _, _, row in rows_of(data) if OURS in row]
    bars = [row for row in rows if "bar" in row]
    met = sum(met_text(row) == "yes" for row in bars)
    peers = [row for row in rows if best_peer(row)]
    behind = sum(ratio(row, row[OURS]["value"], row[best_peer(row)]["value"]) < 1 for row in peers)
    return (
        f"Bars met: {met} of {len(bars)}. Rows with a peer that did the same: {len(peers)}; "
        f"a peer is ahead in {behind} of them."
    )


def table_line(cells):
    return re.sub(" +", " ", "| " + " | ".join(cells) + " |")


def results_table(data):
    lines = [summary(data), "", *sources(data)]
    head = ["", "unit", "Nanolith", *PEERS, "beside the best peer", "floor", "share of it", "bar", "met"]
    last = None
    for model, key, row in rows_of(data):
        if model != last:
            lines += ["", f"**{NAMES[model]}**", "", table_line(head), "| --- " * len(head) + "|"]
            last = model
        cells = [words(key), row["unit"], *(figure(row, name) for name in [OURS, *PEERS])]
        floor = number(row["floor"]) if "floor" in row else ""
        cells += [ahead_text(row), floor, share_of_floor(row), bar_text(row), met_text(row)]
        lines.append(table_line(cells))
    return lines


def readme_rows(data):
    """The rows in which ours is furthest ahead of the best peer, few of each kind, in the order of the tables."""
    compared = [each for each in rows_of(data) if OURS in each[2] and best_peer(each[2])]
    compared.sort(key=lambda each: -ratio(each[2], each[2][OURS]["value"], each[2][best_peer(each[2])]["value"]))
    chosen = []
    for model, key, row in compared:
        kind = (model, key.split("/")[0])
        if len(chosen) < README_ROWS and sum(kind == each[0] for each in chosen) < README_ROWS_OF_A_CASE:
            chosen.append((kind, (model, key, row)))
    chosen = [each for _, each in chosen]
    return [each for each in rows_of(data) if each in chosen]


def readme_table(data):
    lines = ["| | Nanolith | the best peer | |", "| --- | --- | --- | --- |"]
    for model, key, row in readme_rows(data):
        peer = best_peer(row)
        ours, other = figure(row, OURS), figure(row, peer)
        lines.append(f"| {NAMES[model]}, {words(key)} | {ours} {row['unit']} | {other} {peer} | {ahead_text(row)} |")
    return lines


def with_table(text, lines):
    """The document with these lines between its two marks."""
    begin, end = "<!-- whole models: made by tests/bench/draw_table.py -->", "<!-- end of whole models -->"
    if begin not in text or end not in text:
        raise SystemExit(f"no {begin} or {end} in a document")
    inside = "\n".join(["\n", *lines, "\n"])
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + inside + end, text, flags=re.S)


# ---- Charts ----

THEMES = {
    "light": {
        "text": "#1f2328",
        "faint": "#59636e",
        "line": "#d1d9e0",
        "page": "#ffffff",
        OURS: "#0969da",
        "vLLM": "#bc4c00",
        "llama.cpp": "#1a7f37",
    },
    "dark": {
        "text": "#f0f6fc",
        "faint": "#9198a1",
        "line": "#3d444d",
        "page": "#0d1117",
        OURS: "#58a6ff",
        "vLLM": "#f0883e",
        "llama.cpp": "#3fb950",
    },
}
WIDTH, LEFT, RIGHT = 760, 252, 118
LANE, HEADING, TOP = 17, 27, 66


class Chart:
    """Ours as a bar and peers as marks, each as a share of what the device could do; rows under their model's name."""

    def __init__(self, theme):
        self.theme = theme
        self.parts = []

    def text(self, x, y, words, colour="text", size=12, anchor="start", weight="normal"):
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{self.theme[colour]}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{words}</text>'
        )

    def at(self, share):
        return LEFT + (WIDTH - LEFT - RIGHT) * min(share, 1)

    def bar(self, x, y, width):
        style = f'height="12" rx="2" fill="{self.theme[OURS]}"'
        self.parts.append(f'<rect x="{x}" y="{y - 10}" width="{width:.1f}" {style}/>')

    def mark(self, program, x, y):
        style = f'fill="{self.theme[program]}" stroke="{self.theme["page"]}"'
        if program == "vLLM":
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y - 4}" r="5" {style}/>')
        else:
            self.parts.append(f'<path d="M{x:.1f} {y - 11} l6 7 l-6 7 l-6 -7 z" {style}/>')

    def line(self, x, top, bottom):
        self.parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{self.theme["line"]}"/>')

    def key(self):
        self.text(16, 28, "Speed, as a share of what the device's memory and products allow", weight="bold", size=14)
        x = LEFT
        for program in [OURS, *PEERS]:
            if program == OURS:
                self.bar(x, 53, 22)
            else:
                self.mark(program, x + 16, 53)
            self.text(x + 28, 53, "Nanolith" if program == OURS else program, "faint")
            x += 125

    def row(self, y, key, row):
        self.text(LEFT - 10, y, words(key), "faint", anchor="end")
        self.bar(LEFT, y, self.at(ratio(row, row[OURS]["value"], row["floor"])) - LEFT)
        for program in PEERS:
            if program in row and "note" not in row[program]:
                self.mark(program, self.at(ratio(row, row[program]["value"], row["floor"])), y)
        self.text(WIDTH - RIGHT + 8, y, f"{number(row[OURS]['value'])} {row['unit']}")


def draw(data, theme):
    rows = [(model, key, row) for model, key, row in rows_of(data) if OURS in row and "floor" in row]
    rows = [each for each in rows if each[1].split("/")[0] in CHART_CASES]
    models = list(dict.fromkeys(model for model, _, _ in rows))
    bottom = TOP + len(rows) * LANE + len(models) * HEADING
    chart = Chart(theme)
    chart.key()
    for share in (0, 0.25, 0.5, 0.75, 1):
        chart.line(chart.at(share), TOP, bottom)
        chart.text(chart.at(share), bottom + 18, f"{share:.0%}", "faint", anchor="middle")
    y = TOP
    last = None
    for model, key, row in rows:
        if model != last:
            y += HEADING
            chart.text(16, y - 8, NAMES[model], weight="bold")
            last = model
        chart.row(y + 10, key, row)
        y += LANE
    body = "\n".join(chart.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 32}" width="{WIDTH}" '
        f'height="{bottom + 32}" font-family="system-ui, sans-serif" role="img" aria-label="For each model and '
        f'workload, the share of what the device allows that Nanolith, vLLM and llama.cpp reach.">\n{body}\n</svg>\n'
    )


# ---- Files ----


def outputs(data):
    """(path, text) of each file that this script writes."""
    for name, theme in THEMES.items():
        yield ROOT / f"docs/speed-{name}.svg", draw(data, theme)
    yield RESULTS, with_table(RESULTS.read_text(), results_table(data))
    yield README, with_table(README.read_text(), readme_table(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--add", nargs="+", type=pathlib.Path, default=[], metavar="FILE")
    parser.add_argument("--commit", default="")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    data = json.loads(DATA.read_text())
    for path in options.add:
        add_report(data, json.loads(path.read_text()), options.commit)
    if options.add:
        DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    stale = 0
    for path, text in outputs(data):
        if not options.check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path.name} is not what draw_table.py writes: run it")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
