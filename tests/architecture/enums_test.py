"""Whether values that Python and C++ share by number are the same on both sides.

Python needs some of them before the library is loaded, so it has them by name as well. The
C++ side is where they come from.
"""

from __future__ import annotations

import ast
import pathlib
import re
import unittest
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python" / "reprise"
SOURCES = ROOT / "bindings" / "torch"


class Mirror(NamedTuple):
    """Some values, by where each side has them."""

    module: str
    # A class; empty: names of the module itself.
    name: str
    # By C++ class, or "": an enum in it, or the names of constants.
    sources: tuple[tuple[str, str], ...]


MIRRORS = (
    Mirror("_observed.py", "Use", (("", "Use"),)),
    Mirror("_variants.py", "TapePass", (("", "TapePass"),)),
    Mirror("_variants.py", "Verdict", (("RegionVariants", "Verdict"),)),
    Mirror("_variants.py", "Step", (("RegionVariants", "Step"), ("RegionCall", ""))),
    Mirror("nodes/history.py", "", (("RegionHistory", "kLeaf kOutputs"),)),
)

_CONSTANT = re.compile(r"static constexpr \w+ (k\w+) = (-?\d+);")


def snake(name: str) -> str:
    """`kNoHooks`: "NO_HOOKS"."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name.removeprefix("k")).upper()


def values_of_enum(text: str) -> dict[str, int]:
    """Of the first enum in the text, which begins there."""
    body = re.sub(r"//[^\n]*", "", text[text.index("{") + 1 : text.index("};")])
    found: dict[str, int] = {}
    following = 0
    for entry in filter(None, map(str.strip, body.split(","))):
        name, _, value = map(str.strip, entry.partition("="))
        following = int(value) if value else following
        found[snake(name)] = following
        following += 1
    return found


def values_in_cpp(text: str, of: str, which: str) -> dict[str, int] | None:
    """None: the text has no such class, or no such enum."""
    begin = re.search(rf"\b(class|struct) {of}\b[^;{{]*{{", text) if of else None
    if of and begin is None:
        return None
    text = text[begin.start() :] if begin is not None else text
    text = re.split(r"\n};", text)[0] + "\n};" if of else text
    if which and not which.startswith("k"):
        enum = re.search(rf"\benum class {which}\b[^;{{]*{{", text)
        return None if enum is None else values_of_enum(text[enum.start() :])
    names = which.split()
    return {
        snake(name): int(value)
        for name, value in _CONSTANT.findall(text)
        if not names or name in names
    }


def source_values(mirror: Mirror, texts: list[str]) -> dict[str, int]:
    """Those of the C++ side."""
    found: dict[str, int] = {}
    for of, which in mirror.sources:
        values = [
            each
            for text in texts
            if (each := values_in_cpp(text, of, which)) is not None
        ]
        if len(values) != 1:
            raise LookupError(f"{of}::{which} is in {len(values)} files, not in one")
        found |= values[0]
    return found


def values_in_python(text: str, name: str) -> dict[str, int]:
    """Those that a class, or a module itself, assigns in capital letters."""
    body = ast.parse(text).body
    if name:
        body = next(
            each.body
            for each in body
            if isinstance(each, ast.ClassDef) and each.name == name
        )
    found: dict[str, int] = {}
    for each in body:
        if not isinstance(each, ast.Assign):
            continue
        names = [
            part.id
            for target in each.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and re.fullmatch("[A-Z][A-Z_]*", part.id)
        ]
        if names:
            value = ast.unparse(each.value)
            numbers = re.fullmatch(r"range\((\d+)\)", value)
            values = range(int(numbers[1])) if numbers else ast.literal_eval(value)
            values = values if len(names) > 1 else [values]
            found |= dict(zip(names, values, strict=True))
    return found


class EnumsTest(unittest.TestCase):
    def test_both_sides_have_the_same_values(self) -> None:
        texts = [
            path.read_text()
            for path in sorted(SOURCES.rglob("*"))
            if path.suffix in (".h", ".cc")
        ]
        for mirror in MIRRORS:
            with self.subTest(mirror=mirror):
                text = (PACKAGE / mirror.module).read_text()
                python = values_in_python(text, mirror.name)
                self.assertEqual(python, source_values(mirror, texts))
                self.assertGreater(len(python), 1)

    def test_differences_are_found(self) -> None:
        """An enum that grows, one whose order changes, and constants."""
        python = "class Use:\n    ONE, NO_HOOKS, LAST = range(3)\nLEAF = -1\n"
        known = values_in_python(python, "Use")
        self.assertEqual(known, {"ONE": 0, "NO_HOOKS": 1, "LAST": 2})
        for body, same in (
            ("kOne,  // kTwo\n  kNoHooks, kLast", True),
            ("kOne, kNoHooks = 1, kLast = 2", True),
            ("kOne, kLast, kNoHooks", False),
            ("kOne, kNoHooks, kLast, kNew", False),
        ):
            text = f"class A {{\n enum class Use : int {{\n  {body},\n }};\n}};\n"
            self.assertEqual(values_in_cpp(text, "A", "Use") == known, same)
            self.assertIsNone(values_in_cpp(text, "B", "Use"))
        text = "class A {\n  static constexpr int64_t kLeaf = -1;\n};\n"
        self.assertEqual(values_in_cpp(text, "A", "kLeaf"), {"LEAF": -1})


if __name__ == "__main__":
    unittest.main()
