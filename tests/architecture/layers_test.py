"""Every #include of the tree against the layers in docs/architecture.md.

An #include keeps to the table of layers, and units form no circle of includes.
"""

from __future__ import annotations

import fnmatch
import pathlib
import re
import sys
import tempfile
import unittest
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = "examples"  # programs of their own, which do not know the tree
FREE = ("tests", "perf", EXAMPLES)  # may include everything
NOT_IN_HEADERS = ("spdlog/*", "xxhash.h", "tbb/*")
POSIX = {
    "cxxabi.h",
    "dirent.h",
    "dlfcn.h",
    "fcntl.h",
    "link.h",
    "pthread.h",
    "sys/*",
    "linux/*",
    "malloc.h",
    "unistd.h",
}


class Layer(NamedTuple):
    rank: int
    folder: str
    libraries: tuple[str, ...]


class Include(NamedTuple):
    file: pathlib.PurePosixPath
    line: int
    name: str
    quoted: bool


def read_layers(text: str) -> list[Layer]:
    rows = re.findall(
        r"^\| (\d+) \| `([^`]+)/` \|[^|]*\|([^|]*)\|$", text, flags=re.MULTILINE
    )
    return [
        Layer(int(rank), folder, tuple(re.findall(r"`([^`]+)`", libraries)))
        for rank, folder, libraries in rows
    ]


def layer_of(path: pathlib.PurePosixPath, layers: list[Layer]) -> Layer | None:
    within = [layer for layer in layers if path.is_relative_to(layer.folder)]
    return max(within, key=lambda layer: len(layer.folder), default=None)


def read_includes(root: pathlib.Path, layers: list[Layer]) -> Iterator[Include]:
    pattern = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
    tops = {layer.folder.split("/")[0] for layer in layers}
    paths = (
        path for top in sorted(tops.union(FREE)) for path in (root / top).rglob("*")
    )
    for path in sorted(paths):
        if path.suffix not in {".h", ".cc", ".cu"}:
            continue
        file = pathlib.PurePosixPath(path.relative_to(root))
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if match := pattern.match(line):
                name = match[1] or match[2]
                yield Include(file, number, name, quoted=match[2] is not None)


# What the build writes, as its folder in the tree would have it.
GENERATED = {"bindings/torch/hook/hooked_ops/shards.h"}


def find_fault(include: Include, layers: list[Layer], root: pathlib.Path) -> str | None:
    """What is wrong with an include; None if nothing is."""
    if include.quoted and include.file.parts[0] == EXAMPLES:
        if (root / include.file.parent / include.name).is_file():
            return None
        return "is no file beside it (examples include <reprise.h>, as users do)"
    is_there = include.name in GENERATED or (root / include.name).is_file()
    if include.quoted and not is_there:
        return "is no file of the tree (libraries are written with <>)"
    if include.file.parts[0] in FREE:
        return None
    layer = layer_of(include.file, layers)
    if layer is None:
        return "stands in a folder without a row in docs/architecture.md"
    if include.quoted:
        other = layer_of(pathlib.PurePosixPath(include.name), layers)
        if other is None:
            return "lies in a folder without a row in docs/architecture.md"
        if other != layer and other.rank >= layer.rank:
            return f"has rank {other.rank}, not below {layer.folder}'s {layer.rank}"
        return None

    def matches(patterns: tuple[str, ...]) -> bool:
        return any(fnmatch.fnmatch(include.name, pattern) for pattern in patterns)

    if re.fullmatch(r"[a-z_0-9]+", include.name) or matches(tuple(POSIX)):
        return None
    if not matches(layer.libraries):
        return f"is not among the libraries of {layer.folder}"
    if include.file.suffix == ".h" and matches(NOT_IN_HEADERS):
        return "must not be included by a header"
    return None


def find_faults(root: pathlib.Path, layers: list[Layer]) -> list[str]:
    return [
        f"{include.file}:{include.line}: {include.name} {fault}"
        for include in read_includes(root, layers)
        if (fault := find_fault(include, layers, root))
    ]


def unit_of(file: pathlib.PurePosixPath | str) -> pathlib.PurePosixPath:
    """The unit of a file: the header and the sources of its stem in its folder."""
    return pathlib.PurePosixPath(file).with_suffix("")


class Circle(NamedTuple):
    includes: tuple[Include, ...]  # each includes the unit of the next one

    def units(self) -> list[pathlib.PurePosixPath]:
        return [unit_of(include.file) for include in self.includes]

    def __str__(self) -> str:
        units = self.units()
        way = " -> ".join(map(str, [*units, units[0]]))
        lines = [f"{len(units)} units form a circle of includes: {way}"]
        for include in self.includes:
            lines.append(f"  {include.file}:{include.line} includes {include.name}")
        return "\n".join(lines)


# One include of each unit that a unit includes.
IncludesOfUnits = dict[pathlib.PurePosixPath, dict[pathlib.PurePosixPath, Include]]


def join_units(includes: Iterable[Include]) -> IncludesOfUnits:
    units: IncludesOfUnits = defaultdict(dict)
    for include in includes:
        user, used = unit_of(include.file), unit_of(include.name)
        if include.quoted and used != user:
            units[user].setdefault(used, include)
    return units


def find_circle(
    through: pathlib.PurePosixPath, units: IncludesOfUnits
) -> Circle | None:
    """The shortest circle through a unit; None if it is on none."""
    ways: dict[pathlib.PurePosixPath, tuple[Include, ...]] = {through: ()}
    waiting = deque([through])
    while waiting:
        unit = waiting.popleft()
        for used, include in units.get(unit, {}).items():
            way = (*ways[unit], include)
            if used == through:
                return Circle(way)
            if used not in ways:
                ways[used] = way
                waiting.append(used)
    return None


def find_circles(units: IncludesOfUnits) -> list[Circle]:
    """Circles of units, such that each unit that is on any is on one of these."""
    circles: list[Circle] = []
    seen: set[pathlib.PurePosixPath] = set()
    for unit in sorted(units):
        if unit not in seen and (circle := find_circle(unit, units)):
            circles.append(circle)
            seen.update(circle.units())
    return circles


def plant(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class LayersTest(unittest.TestCase):
    layers = read_layers((ROOT / "docs/architecture.md").read_text())

    def test_tree_keeps_to_its_layers(self) -> None:
        faults = find_faults(ROOT, self.layers)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_every_row_is_read(self) -> None:
        folders = {layer.folder for layer in self.layers}
        built = {
            str(path.parent.relative_to(ROOT))
            for top in ("engine", "cache", "kernels", "scheduler", "bindings")
            for path in (ROOT / top).rglob("CMakeLists.txt")
        } - {"bindings", "engine"}
        self.assertLessEqual(built, folders)

    def test_faults_are_found(self) -> None:
        """Each kind of fault, planted in a tree of its own."""
        planted = {
            "cache/key.h": '#include "engine/replay/plan.h"',
            "engine/replay/plan.h": '#include "engine/replay/absent.h"',
            "engine/base/status.h": "#include <spdlog/logger.h>",
            "engine/base/status.cc": "#include <nvrtc.h>",
            "engine/device/driver.h": '#include "cache/key.h"',
            "engine/trace/op.cc": '#include "engine/replay/plan.h"',
            "kernels/compile.cc": "#include <torch/library.h>",
            "bindings/other/thing.h": "#include <vector>",
            "examples/cpp/inside.cc": '#include "engine/trace/trace.h"',
        }
        sound = {
            "examples/cpp/solver.cc": '#include <reprise.h>\n#include "solver.h"',
            "examples/cpp/solver.h": "#include <vector>",
            "engine/base/log.cc": '#include <spdlog/logger.h>\n#include "engine/base/status.h"',
            "engine/trace/trace.h": '#include <vector>\n#include "cache/key.h"',
            "tests/any_test.cc": '#include <torch/library.h>\n#include "engine/replay/plan.h"',
        }
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root, {**planted, **sound})
            faults = find_faults(root, self.layers)
        self.assertEqual({fault.split(":")[0] for fault in faults}, set(planted))


class CirclesTest(unittest.TestCase):
    layers = LayersTest.layers

    def find_planted(self, files: dict[str, str]) -> list[Circle]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root, files)
            return find_circles(join_units(read_includes(root, self.layers)))

    def test_units_of_the_tree_form_no_circle(self) -> None:
        circles = find_circles(join_units(read_includes(ROOT, self.layers)))
        self.assertEqual(circles, [], "\n" + "\n".join(map(str, circles)))

    def test_circles_of_headers_and_sources_are_found(self) -> None:
        """Two circles through sources, and units that only lead to one."""
        circles = self.find_planted(
            {
                "cache/key.h": "#include <string>",
                "cache/key.cc": '#include "cache/key.h"\n#include "cache/table.h"',
                "cache/table.h": '#include "cache/key.h"',
                "cache/user.h": '#include "cache/table.h"',
                "engine/trace/a.h": '#include "engine/trace/b.h"',
                "engine/trace/b.cc": '#include "engine/trace/c.h"',
                "engine/trace/c.h": '#include "engine/trace/a.h"',
            }
        )
        self.assertEqual(
            [str(circle).splitlines() for circle in circles],
            [
                [
                    "2 units form a circle of includes: "
                    "cache/key -> cache/table -> cache/key",
                    "  cache/key.cc:2 includes cache/table.h",
                    "  cache/table.h:1 includes cache/key.h",
                ],
                [
                    "3 units form a circle of includes: engine/trace/a -> "
                    "engine/trace/b -> engine/trace/c -> engine/trace/a",
                    "  engine/trace/a.h:1 includes engine/trace/b.h",
                    "  engine/trace/b.cc:1 includes engine/trace/c.h",
                    "  engine/trace/c.h:1 includes engine/trace/a.h",
                ],
            ],
        )

    def test_header_and_source_of_one_stem_are_one_unit(self) -> None:
        circles = self.find_planted(
            {
                "cache/key.h": "#include <string>",
                "cache/key.cc": '#include "cache/key.h"\n#include "engine/base/key.h"',
                "engine/base/key.h": "#include <string>",
            }
        )
        self.assertEqual(circles, [])


if __name__ == "__main__":
    sys.exit(unittest.main())
