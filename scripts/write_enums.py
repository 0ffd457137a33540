#!/usr/bin/env python3
"""Writes the values that C++ and Python share by number into the Python package.

    scripts/write_enums.py            # writes bindings/python/reprise/_enums.py
    scripts/write_enums.py --check    # fails if that file is not what this would write

They come from C++ alone: an enum class, or constants of a class. Python needs some of them before
the library is loaded, so they are written when the C++ side changes, and not asked for.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "bindings" / "torch"
MODULE = ROOT / "bindings" / "python" / "reprise" / "_enums.py"


class Source(NamedTuple):
    """Where C++ has some values."""

    # A class, or "": the enum is in none.
    scope: str
    # An enum class in it; or names of constants of that class, "*" for all of them.
    names: str


class Shared(NamedTuple):
    """Values of one kind: their class in Python, its base, and what they are."""

    python: str
    base: str
    about: str
    sources: tuple[Source, ...]


SHARED = (
    Shared(
        "Use",
        "enum.IntEnum",
        "What a function of torch's uses.",
        (Source("", "Use"),),
    ),
    Shared(
        "TapePass",
        "",
        "Which passes of a callable's work a tape holds.",
        (Source("", "TapePass"),),
    ),
    Shared(
        "Step",
        "",
        "What a call of a region has come to.",
        (Source("RegionVariants", "Step"), Source("RegionCall", "*")),
    ),
    Shared(
        "Verdict",
        "",
        "What a recorded call has shown.",
        (Source("RegionVariants", "Verdict"),),
    ),
    Shared(
        "NumberOp",
        "",
        "What a number that Python computes is.",
        (Source("", "NumberOp"),),
    ),
    Shared(
        "Target",
        "",
        "Whom a gradient is added to: the next leaf, or `OUTPUTS - i`: output i.",
        (Source("RegionHistory", "kLeaf kOutputs"),),
    ),
)

_CONSTANT = re.compile(r"static constexpr \w+ (k\w+) = (-?\d+);")


def read_sources(folder: pathlib.Path) -> dict[str, str]:
    """All headers and sources there, by their paths in the repository."""
    return {
        path.relative_to(folder.parents[1]).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".h", ".cc")
    }


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


def values_in(text: str, source: Source) -> dict[str, int] | None:
    """None: the text has no such class, or no such enum."""
    if source.scope:
        begin = re.search(rf"\b(class|struct) {source.scope}\b[^;{{]*{{", text)
        if begin is None:
            return None
        text = re.split(r"\n};", text[begin.start() :])[0] + "\n};"
    if not re.match(r"[k*]", source.names):
        enum = re.search(rf"\benum class {source.names}\b[^;{{]*{{", text)
        return None if enum is None else values_of_enum(text[enum.start() :])
    wanted = source.names.split()
    return {
        snake(name): int(value)
        for name, value in _CONSTANT.findall(text)
        if wanted == ["*"] or name in wanted
    }


def look_up(source: Source, texts: dict[str, str]) -> tuple[str, dict[str, int]]:
    """The file that has these values, and the values."""
    found = [
        (path, values)
        for path, text in texts.items()
        if (values := values_in(text, source))
    ]
    if len(found) != 1:
        places = ", ".join(path for path, _ in found) or "no file"
        raise SystemExit(
            f"{source.scope}::{source.names} is to be in one file: {places}"
        )
    return found[0]


def write_values(shared: Shared, texts: dict[str, str]) -> Iterator[str]:
    """The lines of one class."""
    found = [look_up(source, texts) for source in shared.sources]
    values = {name: value for _, each in found for name, value in each.items()}
    if len(set(values.values())) < sum(len(each) for _, each in found):
        raise SystemExit(f"{shared.python}: two names or two numbers are the same")
    yield from (f"# From {path}" for path in dict.fromkeys(path for path, _ in found))
    yield f"class {shared.python}{shared.base and f'({shared.base})'}:"
    yield f'    """{shared.about}"""'
    yield ""
    for name, value in sorted(values.items(), key=lambda each: each[1]):
        yield f"    {name} = {value}"


def write_module(texts: dict[str, str]) -> str:
    lines = [
        '"""Values that C++ and Python share by number: scripts/write_enums.py writes them."""',
        "",
        "import enum",
    ]
    for shared in SHARED:
        lines += ["", "", *write_values(shared, texts)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    text = write_module(read_sources(SOURCES))
    if "--check" not in arguments:
        MODULE.write_text(text)
        return 0
    if MODULE.exists() and MODULE.read_text() == text:
        return 0
    print(f"{MODULE.name} is not what C++ has: run scripts/write_enums.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
