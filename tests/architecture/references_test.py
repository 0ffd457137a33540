"""What the documents name is there: files of the tree, and classes with their members.

And files of some folders stand in a table of docs/architecture.md, each once.
"""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (
    "engine",
    "scheduler",
    "kernels",
    "cache",
    "bindings",
    "tests",
    "perf",
    "scripts",
)
CODE = {".h", ".cc", ".cu", ".py", ".sh"}
# Files and names of libraries.
OTHERS_FILES = {"cuda.h", "cuda_fp16.h", "elf.h", "nvToolsExt.h", "xxhash.h"}
OTHERS_NAMES = ("aten::", "at::", "c10::", "std::", "torch::", "prim::")


def read_code() -> tuple[str, set[str]]:
    """All text of the sources, and the names of all files of the tree."""
    paths = [
        path
        for top in SOURCES
        for path in sorted((ROOT / top).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    names = {path.name for path in paths}
    names |= {path.name for path in ROOT.iterdir()}
    for top in ("docs", "cmake", "examples", "requirements", "include"):
        names |= {path.name for path in (ROOT / top).rglob("*")}
    text = "\n".join(path.read_text() for path in paths if path.suffix in CODE)
    return text, names


def find_files(page: str) -> set[str]:
    found = re.findall(r"`([\w/]+\.(?:h|cc|cu|py|sh|md|jsonl?|txt|log))`", page)
    return {each.rpartition("/")[2] for each in found} - OTHERS_FILES


def find_names(page: str) -> set[str]:
    found = re.findall(r"`([A-Za-z_]\w*(?:::\w+)+)", page)
    return {each for each in found if not each.startswith(OTHERS_NAMES)}


# Folders whose files have a row in docs/architecture.md.
TABLED = {"bindings/python/reprise": ".py", "bindings/torch/region": ".h"}


def find_rows(page: str) -> list[str]:
    """The files that are named in the first column of tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", page, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([\w.]+\.\w+)`", cell)]


def find_faults(rows: list[str], names: list[str]) -> list[str]:
    return [
        f"{name} stands in {rows.count(name)} rows"
        for name in names
        if rows.count(name) != 1
    ]


class TablesTest(unittest.TestCase):
    def test_each_file_has_one_row(self) -> None:
        rows = find_rows((ROOT / "docs" / "architecture.md").read_text())
        names = [
            path.name
            for top, suffix in TABLED.items()
            for path in sorted((ROOT / top).rglob(f"*{suffix}"))
            if path.name != "__init__.py"
        ]
        self.assertGreater(len(names), 100)
        faults = find_faults(rows, names)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_faults_are_found(self) -> None:
        rows = find_rows("| file | holds |\n| `a.h`, `b.h` | `c.h` |\n| `a.h` | |\n")
        self.assertEqual(rows, ["a.h", "b.h", "a.h"])
        faults = ["a.h stands in 2 rows", "c.h stands in 0 rows"]
        self.assertEqual(find_faults(rows, ["a.h", "b.h", "c.h"]), faults)


class ReferencesTest(unittest.TestCase):
    code, files = read_code()

    def is_there(self, name: str) -> bool:
        """A member is found by its class and its own name."""
        return all(
            re.search(rf"\b{part}\b", self.code) for part in name.split("::")[-2:]
        )

    def test_documents(self) -> None:
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for page in pages:
            text = page.read_text()
            for name in sorted(find_files(text)):
                with self.subTest(page.name, file=name):
                    self.assertIn(name, self.files)
            for name in sorted(find_names(text)):
                with self.subTest(page.name, name=name):
                    self.assertTrue(self.is_there(name), "nobody has that name")

    def test_what_is_not_there_is_found(self) -> None:
        absent = "".join(("Ab", "sent"))  # which this file does not hold
        page = f"`{absent}.h`, `Lifecycle::{absent}()`, `Lifecycle::Join`, `aten::{absent}`"
        self.assertEqual(find_files(page) - self.files, {f"{absent}.h"})
        gone = [name for name in find_names(page) if not self.is_there(name)]
        self.assertEqual(gone, [f"Lifecycle::{absent}"])


if __name__ == "__main__":
    unittest.main()
