"""How large files and functions may be, and which are larger.

A file that outgrows its limit holds more than one idea, as a rule. Those that do are listed
with the lines that they have: the list gets shorter, and no file on it gets longer.
"""

from __future__ import annotations

import ast
import pathlib
import tempfile
import unittest
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("engine", "scheduler", "kernels", "cache", "bindings")
LINES = {".h": 250, ".cc": 400, ".cu": 400, ".py": 400}
LINES_OF_A_FUNCTION = 60  # of Python's

LARGER = {
    "bindings/torch/hook/op_call.cc": 442,
    "bindings/torch/runtime/op_policy.cc": 516,
    "cache/lru_cache.h": 369,
    "scheduler/batch_stream.cc": 401,
    "scheduler/lifecycle.cc": 629,
    "scheduler/repetition.h": 365,
    "scheduler/runtime.cc": 436,
    "scheduler/stream_session.cc": 780,
    "scheduler/stream_session.h": 345,
}
LONGER: dict[str, int] = {}


def read_files(root: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """The product's sources, by their paths in the tree."""
    for top in PRODUCT:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in LINES:
                yield path.relative_to(root), path.read_text()


def larger_files(root: pathlib.Path) -> dict[str, int]:
    found = {}
    for path, text in read_files(root):
        lines = len(text.splitlines())
        if lines > LINES[path.suffix]:
            found[str(path)] = lines
    return found


def longer_functions(root: pathlib.Path) -> dict[str, int]:
    found = {}
    for path, text in read_files(root):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                found[f"{path}:{node.name}"] = lines
    return found


def find_faults(found: dict[str, int], listed: dict[str, int]) -> list[str]:
    faults = []
    for name, lines in found.items():
        if name not in listed:
            faults.append(f"{name} has {lines} lines: split it by idea")
        elif lines > listed[name]:
            faults.append(f"{name} has {lines} lines, and had {listed[name]}")
    for name in listed.keys() - found.keys():
        faults.append(f"{name} is within the limit: take it from the list")
    return faults


class SizesTest(unittest.TestCase):
    def test_files(self) -> None:
        faults = find_faults(larger_files(ROOT), LARGER)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_functions(self) -> None:
        faults = find_faults(longer_functions(ROOT), LONGER)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_faults_are_found(self) -> None:
        """Each kind, planted in a tree of its own."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, lines in (("new", 251), ("grown", 300), ("listed", 260)):
                path = root / "engine" / f"{name}.h"
                path.parent.mkdir(exist_ok=True)
                path.write_text("//\n" * lines)
            (root / "engine" / "long.py").write_text(
                "def f():\n" + "    pass\n" * LINES_OF_A_FUNCTION
            )
            listed = {"grown": 299, "listed": 260, "gone": 500}
            faults = find_faults(
                larger_files(root),
                {f"engine/{name}.h": lines for name, lines in listed.items()},
            )
            faults += find_faults(longer_functions(root), {})
        self.assertEqual(
            {fault.split()[0] for fault in faults},
            {
                *(f"engine/{name}.h" for name in ("new", "grown", "gone")),
                "engine/long.py:f",
            },
        )


if __name__ == "__main__":
    unittest.main()
