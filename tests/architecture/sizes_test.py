"""How large files, functions and classes may be, and which are larger.

What outgrows its limit holds more than one idea, as a rule. Those that do are listed
with the lines or data members that they have: the list gets shorter, and nothing on it grows.
A comment in each says why ("Larger than its limit: ...").
"""

from __future__ import annotations

import ast
import pathlib
import sys
import tempfile
import unittest
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "architecture"))

from cpp_shape import read_shape  # noqa: E402

PRODUCT = ("engine", "scheduler", "kernels", "cache", "bindings")
LINES = {".h": 250, ".cc": 400, ".cu": 400, ".py": 400}
LINES_OF_A_FUNCTION = 60
MEMBERS_OF_A_CLASS = 20  # data, in C++

LARGER = {
    "bindings/torch/runtime/op_policy.cc": 518,
    "scheduler/lifecycle.cc": 633,
    "scheduler/stream_session.cc": 638,
    "scheduler/stream_session.h": 324,
}
LONGER: dict[str, int] = {}
# Classes, by their data members.
WIDER = {
    "scheduler/stream_session.h:StreamSession": 28,
    "scheduler/trace_entry.h:TraceEntry": 47,
}


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
            for function in read_shape(text)[0]:
                if function.lines > LINES_OF_A_FUNCTION:
                    name = f"{path}:{function.name}"
                    found[name] = max(function.lines, found.get(name, 0))
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                found[f"{path}:{node.name}"] = lines
    return found


def wider_classes(root: pathlib.Path) -> dict[str, int]:
    found = {}
    for path, text in read_files(root):
        if path.suffix == ".py":
            continue
        for each in read_shape(text)[1]:
            if each.members > MEMBERS_OF_A_CLASS:
                name = f"{path}:{each.name}"
                found[name] = max(each.members, found.get(name, 0))
    return found


def find_faults(
    found: dict[str, int], listed: dict[str, int], what: str = "lines"
) -> list[str]:
    faults = []
    for name, size in found.items():
        if name not in listed:
            faults.append(f"{name} has {size} {what}: split it by idea")
        elif size > listed[name]:
            faults.append(f"{name} has {size} {what}, and had {listed[name]}")
        elif size < listed[name]:
            faults.append(f"{name} has {size} {what} now: lower its number")
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

    def test_classes(self) -> None:
        faults = find_faults(wider_classes(ROOT), WIDER, "data members")
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_reasons(self) -> None:
        """Each that is listed says why, and there are no more than twelve."""
        listed = [*LARGER, *LONGER, *WIDER]
        for name in listed:
            text = (ROOT / name.partition(":")[0]).read_text()
            self.assertRegex(text, r"(?m)^(//|#) Larger than its limit: ", name)
        self.assertLessEqual(len(listed), 12)

    def test_faults_are_found(self) -> None:
        """Each kind, planted in a tree of its own."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, lines in (
                ("new", 251),
                ("grown", 300),
                ("shrunk", 280),
                ("listed", 260),
            ):
                path = root / "engine" / f"{name}.h"
                path.parent.mkdir(exist_ok=True)
                path.write_text("//\n" * lines)
            (root / "engine" / "long.py").write_text(
                "def f():\n" + "    pass\n" * LINES_OF_A_FUNCTION
            )
            (root / "engine" / "long.cc").write_text(PLANTED)
            listed = {"grown": 299, "shrunk": 281, "listed": 260, "gone": 500}
            faults = find_faults(
                larger_files(root),
                {f"engine/{name}.h": lines for name, lines in listed.items()},
            )
            faults += find_faults(longer_functions(root), {})
            faults += find_faults(wider_classes(root), {}, "data members")
        self.assertEqual(
            {fault.split()[0] for fault in faults},
            {
                *(f"engine/{name}.h" for name in ("new", "grown", "shrunk", "gone")),
                "engine/long.py:f",
                "engine/long.cc:Wide::Long",
                "engine/long.cc:Wide",
            },
        )

    def test_what_is_long_in_cpp(self) -> None:
        """Bodies count from the first line of their heads, and nothing else counts."""
        functions, classes = read_shape(PLANTED)
        self.assertEqual(
            [(each.name, each.lines) for each in functions],
            [
                ("first", 1),
                ("Narrow", 1),
                ("Short", 4),
                ("Made::Made", 3),
                ("Wide::Long", LINES_OF_A_FUNCTION + 3),
            ],
        )
        self.assertEqual(
            [(each.name, each.members) for each in classes],
            [("Wide", MEMBERS_OF_A_CLASS + 1), ("Narrow", 5)],
        )


PLANTED = (
    """\
// A comment with a brace {
namespace a {
#define OPENS {
constexpr int kTable[] = {
    1,
    2,
};
class alignas(64) Wide : public Base<Other> {
 public:
  using Type = std::map<int, std::function<void(int)>>;
  int first() const { return values_0_; }
  static constexpr int kNone = 0;
  Wide& operator=(const Wide&) = delete;
  bool operator==(const Wide&) const = default;
  void Long(const char* text = "}",
            const std::function<void()>& call = [] { return; });

 private:
  friend class Other;
"""
    + "".join(f"  std::vector<int> values_{k}_;\n" for k in range(MEMBERS_OF_A_CLASS))
    + """\
  mutable Mutex mutex_ REPRISE_GUARDED_BY(other(1)){1};
};
struct Narrow {
  int* a = nullptr;
  int b[2] = {1, 2};
  int (*call)(int, char) = nullptr;
  Task task{[this] {
    return a;
  }};

 private:
  int c = 0;
  Narrow() : a{nullptr} {}
};
template <typename T>
int Short(T value) {
  return value;
}
Made::Made(int value) : value_{value}, other_{1} {
  Call();
}
void Wide::Long(const char* text,
                const std::function<void()>& call) {
"""
    + "  call();\n" * LINES_OF_A_FUNCTION
    + "}\n}  // namespace a\n"
)


if __name__ == "__main__":
    unittest.main()
