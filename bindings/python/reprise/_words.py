"""Words and lines of reports and messages."""

from __future__ import annotations

import collections
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping

WIDTH = 110  # of a line, where what it says can be broken
MODES = {"cuda": "CUDA", "host": "the host executor (correctness, not speed)"}
_OPERATORS_SHOWN = 6
_SIGNATURE_SHOWN = 8
_SHORTEST = 40  # of what is left of a break
# Where a sentence is best broken: behind a clause, before a place or a remedy.
_BREAKS = re.compile(r"(?<=[;:,]) | (?=\(|at /|at <)")


def source_line(place: str) -> str:
    """Return the source at "train.py:42"; empty if it cannot be read."""
    file, _, line = place.rpartition(":")
    try:
        return linecache.getline(file, int(line)).strip()
    except ValueError:  # no number, or a path that cannot be
        return ""


def plural(number: int, noun: str) -> str:
    """Return the number with its noun: 1 plan, 2 plans."""
    return f"{number} {of_number(number, noun)}"


def of_number(number: int, noun: str) -> str:
    """Return the noun for that number."""
    if number == 1:
        return noun
    return noun + ("es" if noun.endswith(("sh", "ss")) else "s")


def shown(value: object) -> str:
    """Return a string or a number as it is, and else the type: 'gpu', 3, a Tensor."""
    if value is None or isinstance(value, (str, int, float)):
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def check_callable(what: str, given: object) -> None:
    """Raise TypeError if `given`, which `what` was called with, cannot be called."""
    if not callable(given):
        raise TypeError(
            f"reprise: {what} does not accept {shown(given)}: give a callable, as in "
            f"{what}(model), not what it returns"
        )


def fold(line: str) -> Iterator[str]:
    """Break the line into several ones if it is long. Words are never broken."""
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


# --- Numbers and names -------------------------------------------------------------


def operators_line(names: Iterable[str]) -> str:
    """Return the commonest operators, commonest first, each with its count."""
    counts = collections.Counter(names).most_common()
    shown = [
        f"{name} x{count}" if count > 1 else name
        for name, count in counts[:_OPERATORS_SHOWN]
    ]
    if more := len(counts) - len(shown):
        shown.append(f"{more} more")
    return ", ".join(shown)


def short_signature(signature: str) -> str:
    return signature[:_SIGNATURE_SHOWN]


def duration(microseconds: float) -> str:
    if microseconds < 1e3:
        return f"{microseconds:.0f} us"
    return (
        f"{microseconds / 1e3:.1f} ms"
        if microseconds < 1e6
        else f"{microseconds / 1e6:.1f} s"
    )


def saved_and_paid(stats: Mapping[str, int]) -> str:
    """Return what replays saved and learning cost, if it was measured: ', which ...'."""
    saved = stats.get("saved_us", 0)
    if saved == 0:
        return ""
    paid = stats.get("recording_us", 0) + stats.get("validating_us", 0)
    took = f" and took {duration(paid)} to learn" if paid > 0 else ""
    return f", which saved {duration(saved)}{took}"


def size(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
