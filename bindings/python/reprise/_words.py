"""Words and lines of reports."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator

WIDTH = 110  # of a line, where what it says can be broken
_SHORTEST = 40  # of what is left of a break
# Where a sentence is best broken: behind a clause, before a place or a remedy.
_BREAKS = re.compile(r"(?<=[;:,]) | (?=\(|at /|at <)")


def source_line(place: str) -> str:
    """What stands at "train.py:42"; empty where nobody can say."""
    file, _, line = place.rpartition(":")
    try:
        return linecache.getline(file, int(line)).strip()
    except ValueError:  # no number, or a path that cannot be
        return ""


def plural(number: int, noun: str) -> str:
    """1 plan, 2 plans."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('sh', 'ss')) else 's'}"


def fold(line: str) -> Iterator[str]:
    """The line, in several ones where it is long; a word is never broken."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > WIDTH:
        at = _break_of(line)
        if at is None:
            break
        yield line[:at]
        line = indent + line[at + 1 :]
    yield line


def _break_of(line: str) -> int | None:
    """The last good place within the width; else the first behind it. None: there is none."""
    good = [found.start() for found in _BREAKS.finditer(line, _SHORTEST)]
    spaces = [found.start() for found in re.finditer(" ", line[_SHORTEST:])]
    spaces = [_SHORTEST + each for each in spaces]
    for places in (good, spaces):
        if fitting := [each for each in places if each <= WIDTH]:
            return fitting[-1]
    return min(spaces, default=None)
