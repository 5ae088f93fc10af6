#!/usr/bin/env python3
"""Whether draw_table.py judges rows as its tables say: what is faster, what meets its bar, what README.md shows."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import draw_table


def row(unit, **figures):
    """A row whose figures are values, or (value, note) of another workload."""
    made = {"unit": unit}
    for name, value in figures.items():
        name = {"ours": "nanolith", "llama": "llama.cpp"}.get(name, name)
        if name in {"bar", "floor"}:
            made[name] = value
        else:
            value, note = value if isinstance(value, tuple) else (value, None)
            made[name] = {"value": value, "version": "1", "device": "NVIDIA H200", "date": "2026-01-01"}
            made[name].update({"note": note} if note else {})
    return made


class Rows(unittest.TestCase):
    def test_less_time_is_better(self):
        time = row("ms a token", ours=2.0, vLLM=3.0, llama=4.0, bar=1.5, floor=1.0)
        self.assertEqual(draw_table.best_peer(time), "vLLM")
        self.assertEqual(draw_table.ahead_text(time), "1.50x")
        self.assertEqual(draw_table.share_of_floor(time), "50%")
        self.assertEqual((draw_table.bar_text(time), draw_table.met_text(time)), ("≤ 1.500", "**no**"))

    def test_more_tokens_a_second_are_better(self):
        rate = row("tokens/s", ours=2000, vLLM=4000, llama=5000, bar=2000, floor=8000)
        self.assertEqual(draw_table.best_peer(rate), "llama.cpp")
        self.assertEqual(draw_table.ahead_text(rate), "**0.40x**")
        self.assertEqual(draw_table.share_of_floor(rate), "25%")
        self.assertEqual((draw_table.bar_text(rate), draw_table.met_text(rate)), ("≥ 2,000", "yes"))

    def test_a_figure_of_another_workload_is_shown_and_not_compared(self):
        other = row("tokens/s", ours=2000, llama=(1000, "of 2,048"))
        self.assertIsNone(draw_table.best_peer(other))
        self.assertEqual(draw_table.ahead_text(other), "")
        self.assertEqual(draw_table.figure(other, "llama.cpp"), "1,000 (of 2,048)")

    def test_the_readme_shows_the_furthest_ahead_and_few_of_a_kind(self):
        rows = {f"shared/{n}": row("tokens/s", ours=100 * n, vLLM=10) for n in (8, 32, 64)}
        rows |= {f"batch1/{n}": row("ms a token", ours=1, vLLM=2) for n in (128, 4096, 32768)}
        rows["prefill/8192"] = row("tokens/s", ours=50, vLLM=100)
        chosen = [key for _, key, _ in draw_table.readme_rows({"models": {"qwen3-0.6b": rows}})]
        self.assertEqual(chosen, ["batch1/128", "batch1/4096", "shared/32", "shared/64", "prefill/8192"])

    def test_a_report_replaces_its_own_figures_alone(self):
        data = {"models": {"qwen3-0.6b": {"batch1/128": row("ms a token", ours=2, vLLM=3, bar=1)}}}
        entry = {"key": "batch1/128", "unit": "ms a token", "value": 1.23456, "floor": 0.5}
        report = {"program": "nanolith", "version": "0.2.0", "model": "qwen3-0.6b", "rows": [entry]}
        draw_table.add_report(data, {**report, "device": "cuda:0 NVIDIA H200", "date": "2026-02-02"}, "abc1234")
        changed = data["models"]["qwen3-0.6b"]["batch1/128"]
        self.assertEqual(changed["nanolith"]["value"], 1.2346)
        self.assertEqual(changed["nanolith"]["version"], "0.2.0, commit abc1234")
        self.assertEqual((changed["vLLM"]["value"], changed["bar"], changed["floor"]), (3, 1, 0.5))
        draw_table.add_report(data, {**report, "device": "cpu (2 threads)", "date": "2026-02-02"}, "")
        self.assertEqual(changed["nanolith"]["version"], "0.2.0, commit abc1234")
        self.assertIn("batch1/128", data["models"]["qwen3-0.6b on a CPU"])
        with self.assertRaises(SystemExit):
            draw_table.add_report(data, {**report, "model": "other", "device": "NVIDIA H200", "date": ""}, "")

    def test_a_table_stands_between_its_marks(self):
        marks = "<!-- whole models: made by tests/bench/draw_table.py -->", "<!-- end of whole models -->"
        text = f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n"
        self.assertEqual(
            draw_table.with_table(text, ["| new |"]), f"before\n{marks[0]}\n\n| new |\n\n{marks[1]}\nafter\n"
        )
        with self.assertRaises(SystemExit):
            draw_table.with_table("no marks", [])


if __name__ == "__main__":
    unittest.main()
