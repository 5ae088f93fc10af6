#!/usr/bin/env python3
"""Whether check_names.py and find_twins.py find what they are for: small trees with one fault each, and none."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_names
import find_twins

SOURCES = {
    "src/cache/pool.h": "namespace nanolith {\nclass PagePool {\n    int take_page();  // frees lost_page\n};\n}\n",
    "src/cache/pool.cpp": '#include "cache/pool.h"\n',
    "cuda/norm/norm.cu": "void norm_rows() {}\n",
    "tests/unit/pool_test.cpp": "TEST(Pool, Takes) {}\n",
    "include/nanolith/nanolith.h": "void nl_page_take(void);\n#define NL_PAGE_SIZE 1\n",
}
GOOD = """# Map

`src/cache` has the pool (`PagePool::take_page`, in `src/cache/pool.h` or `pool.cpp`), see [norms](../cuda/norm/norm.cu)
and [below](#the-end). `cuda/norm`, `cuda/attention`, `tests/unit` with `tests/*/*_test.cpp`, `nl_page_take()`,
`NL_PAGE_*`, `build/dev`, `tests/bench`.

```
cat src/cache/pool.cpp build/dev/bin/none.txt
```

## The end
"""


class Tree:
    """A tree with these files, in which every document but `docs/architecture.md` is empty."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, text in {**dict.fromkeys(check_names.DOCUMENTS, ""), **files}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)


def problems(document, **more):
    tree = Tree({**SOURCES, "docs/architecture.md": document, **more})
    with tree.folder:
        return list(check_names.problems(tree.root))


class Names(unittest.TestCase):
    def test_a_true_document_has_no_problem(self):
        self.assertEqual(problems(GOOD), [])

    def test_each_fault_is_one_problem(self):
        faults = {
            "`src/cache/gone.h`": "src/cache/gone.h",
            "`src/gone`": "src/gone",
            "`gone.cpp`": "gone.cpp",
            "`tests/unit/*_tset.cpp`": "tests/unit/*_tset.cpp",
            "[there](gone.md)": "gone.md",
            "[there](../README.md#nowhere)": "nowhere",
            '<img src="gone.svg">': "gone.svg",
            "```\ncat src/cache/gone.h\n```": "src/cache/gone.h",
            "```mermaid\ngraph TD\n  a[\"src/gone: a room\"]\n```": "src/gone",
            "`nl_page_gone`": "nl_page_gone",
            "`NL_GONE_*`": "NL_GONE_*",
            "`take_nothing()`": "take_nothing",
            "`PageHeap`": "PageHeap",
            "`PagePool::give_page`": "PagePool::give_page",
            "`norm_rows::take_page`": "norm_rows::take_page",
            "`lost_page`": "lost_page",  # in a comment alone
        }
        for fault, name in faults.items():
            with self.subTest(fault):
                found = problems(GOOD + "\n" + fault + "\n")
                self.assertEqual(len(found), 1, found)
                self.assertIn(name, found[0])
                self.assertTrue(found[0].startswith("docs/architecture.md:"), found[0])

    def test_a_folder_that_no_document_names(self):
        for room in ["src/cellar", "cuda/cellar", "tests/cellar"]:
            found = problems(GOOD, **{f"{room}/wine.cpp": ""})
            self.assertEqual([line.split(" ")[0] for line in found], [room])

    def test_a_document_that_is_gone(self):
        tree = Tree({**SOURCES, "docs/architecture.md": GOOD})
        with tree.folder:
            (tree.root / "CONTRIBUTING.md").unlink()
            self.assertEqual(list(check_names.problems(tree.root)), ["CONTRIBUTING.md is not there"])

    def test_a_figure_that_was_not_measured(self):
        results = {"tests/bench/RESULTS.md": "`tests/bench` gave 90.9 us and 25,044 tokens/s\n"}
        table = "## Figures\n| [what](tests/bench/RESULTS.md) | 90.9 us | 25,044 tokens/s |\n| 8 B | {} |\n## Next\n7.77\n"
        self.assertEqual(problems(GOOD, **results, **{"README.md": table.format("90.9")}), [])
        for number in ["90.8", "25,045", "5,044", "161"]:
            found = problems(GOOD, **results, **{"README.md": table.format(number)})
            self.assertEqual([number in line for line in found], [True])


def code(first, count):
    return [f"    int value_{i} = compute({i});" for i in range(first, first + count)]


def found_twins(*texts):
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for i, lines in enumerate(texts):
            path = pathlib.Path(folder) / f"{i}.cpp"
            path.write_text("\n".join(lines) + "\n")
            files[path.name] = find_twins.lines_of(path)
        return list(find_twins.twins(files, 8))


class Twins(unittest.TestCase):
    def test_nine_equal_lines_are_twins_and_eight_are_not(self):
        self.assertEqual(found_twins(code(0, 8), code(0, 8)), [])
        found = found_twins(["a();", *code(0, 9), "b();"], code(0, 9))
        self.assertEqual(found, [(9, ("0.cpp", 2, 10), ("1.cpp", 1, 9))])

    def test_in_one_file(self):
        self.assertEqual(found_twins([*code(0, 9), "a();", *code(0, 9)]), [(9, ("0.cpp", 1, 9), ("0.cpp", 11, 19))])

    def test_a_long_run_is_told_once(self):
        self.assertEqual([count for count, *_ in found_twins(code(0, 20), code(0, 20))], [20])

    def test_comments_blank_lines_and_indentation_hide_nothing(self):
        other = [part for line in code(0, 9) for part in ("// another comment", "", "        " + line)]
        self.assertEqual(len(found_twins(code(0, 9), other)), 1)

    def test_punctuation_alone_is_no_twin(self):
        self.assertEqual(found_twins(*[["}", "{"] * 6 + [f"end_{i}();"] for i in range(2)]), [])


if __name__ == "__main__":
    unittest.main()
