"""The library knows the package's own files, which are no lines of the program's."""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python" / "reprise"
SOURCE = ROOT / "bindings" / "torch" / "runtime" / "program_place.cc"


def read_own() -> list[str]:
    """What a path holds that is the package's: `kOwn` of program_place.cc."""
    match = re.search(r"kOwn\[\] = \{([^}]*)\}", SOURCE.read_text())
    assert match is not None
    return re.findall(r'"([^"]+)"', match[1])


class OwnFilesTest(unittest.TestCase):
    def test_each_module_is_known(self) -> None:
        own = read_own()
        for path in sorted(PACKAGE.rglob("*.py")):
            name = f"/{path.relative_to(PACKAGE.parent)}"
            with self.subTest(name):
                self.assertTrue(any(part in name for part in own), SOURCE)

    def test_others_are_not(self) -> None:
        own = read_own()
        for name in ("/home/me/reprise/train.py", "/home/me/reprise/model/nodes.py"):
            with self.subTest(name):
                self.assertFalse(any(part in name for part in own))


if __name__ == "__main__":
    unittest.main()
