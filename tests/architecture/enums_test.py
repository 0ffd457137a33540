"""Values that Python and C++ share by number have one source, which is C++."""

from __future__ import annotations

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import write_enums  # noqa: E402

TEXT = """\
class A {
 enum class Use : int {
  BODY,
 };
 static constexpr int64_t kLeaf = -1;
 static constexpr int64_t kOutputs = -2;
};
"""


class EnumsTest(unittest.TestCase):
    def test_the_module_is_what_cpp_has(self) -> None:
        written = write_enums.write_module(
            write_enums.read_sources(write_enums.SOURCES)
        )
        self.assertEqual(
            write_enums.MODULE.read_text(), written, "run scripts/write_enums.py"
        )

    def test_no_other_module_has_such_a_class(self) -> None:
        names = {shared.python for shared in write_enums.SHARED}
        for path in write_enums.MODULE.parent.rglob("*.py"):
            if path == write_enums.MODULE:
                continue
            text = path.read_text()
            for name in names:
                self.assertNotRegex(text, rf"(?m)^class {name}\b", path.name)

    def test_an_enum_is_read(self) -> None:
        """With and without numbers and comments; in its own class only."""
        for body, values in (
            ("kOne,  // kTwo\n  kNoHooks", {"ONE": 0, "NO_HOOKS": 1}),
            ("kOne = 3, kNoHooks", {"ONE": 3, "NO_HOOKS": 4}),
            ("kNoHooks, kOne", {"NO_HOOKS": 0, "ONE": 1}),
        ):
            texts = {"a.h": TEXT.replace("BODY", body), "b.h": "class B {\n};\n"}
            found = write_enums.look_up(write_enums.Source("A", "Use"), texts)
            self.assertEqual(found, ("a.h", values))

    def test_constants_are_read(self) -> None:
        texts = {"a.h": TEXT}
        for names, values in (
            ("kLeaf", {"LEAF": -1}),
            ("*", {"LEAF": -1, "OUTPUTS": -2}),
        ):
            found = write_enums.look_up(write_enums.Source("A", names), texts)
            self.assertEqual(found, ("a.h", values))

    def test_what_has_no_source_or_two_is_refused(self) -> None:
        source = write_enums.Source("A", "Use")
        texts = {"a.h": TEXT.replace("BODY", "kOne")}
        for wrong in ({}, texts | {"b.h": texts["a.h"]}):
            with self.assertRaises(SystemExit):
                write_enums.look_up(source, wrong)

    def test_a_number_twice_is_refused(self) -> None:
        shared = write_enums.Shared("Use", "", "", (write_enums.Source("A", "Use"),))
        texts = {"a.h": TEXT.replace("BODY", "kOne, kTwo = 0")}
        with self.assertRaises(SystemExit):
            list(write_enums.write_values(shared, texts))


if __name__ == "__main__":
    unittest.main()
