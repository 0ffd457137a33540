"""What Reprise did, and why, for people and for programs."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_OPERATORS_SHOWN = 6
_SIGNATURE_SHOWN = 8


class Report:
    """A snapshot of every plan, cut, rejection and squash.

    `str()` gives a few lines a plan; `to_dict()` all of it: `device`, `mode`
    ("cuda" or "host"), `plans`, `cuts`, `rejections`, `squashes` and `notes`. Times
    are in microseconds, sizes in bytes.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        """A copy, in types that JSON knows; empty before the first `enable`."""
        return copy.deepcopy(self._fields)

    def __repr__(self) -> str:
        return f"<reprise.Report of {_count(self._list('plans'), 'plan')}>"

    def __str__(self) -> str:
        if not self._fields:
            return "reprise has not been enabled"
        return "\n".join(self._lines())

    def _list(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._fields.get(name, [])
        return rows

    def _lines(self) -> Iterator[str]:
        head = (
            f"reprise on {self._fields.get('device', 'no device')}: "
            f"{_count(self._list('plans'), 'plan')}, "
            f"{_total(self._list('plans'), 'replays')} replays"
        )
        if self._fields.get("mode") == "host":
            head += " (host executor: correctness, not speed)"
        yield head
        for plan in self._list("plans"):
            yield from _plan_lines(plan)
        yield from _section("cuts", self._list("cuts"), _cut)
        yield from _section("rejections", self._list("rejections"), _rejection)
        yield from _section("squashes", self._list("squashes"), _squash)
        for note in self._fields.get("notes", []):
            yield f"note: {note}"


def _plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    yield (
        f"plan {_short(plan['signature'])} {plan['state']}: "
        f"{plan['ops']} ops, {plan['launches']} launches in "
        f"{_plural(plan['segments'], 'segment')}, {_bytes(plan['arena_bytes'])}, "
        f"by {plan['mechanism']}"
    )
    times = f"  {plan['replays']} replays, {plan['squashes']} squashes"
    eager, replay = plan.get("eager_us") or 0, plan.get("replay_us") or 0
    if eager > 0 and replay > 0:
        times += f"; eager {eager:.1f} us, replay {replay:.1f} us"
        times += f" ({eager / replay:.2f}x)"
    yield times
    if operators := plan.get("operators"):
        yield f"  {_operators(operators)}"
    for note in plan.get("notes", []):
        yield f"  note: {note}"


def _operators(names: Iterable[str]) -> str:
    """The commonest operators first, each with how often it occurs."""
    counts = collections.Counter(names).most_common()
    shown = [
        f"{name} x{count}" if count > 1 else name
        for name, count in counts[:_OPERATORS_SHOWN]
    ]
    if more := len(counts) - len(shown):
        shown.append(f"{more} more")
    return ", ".join(shown)


def _cut(row: dict[str, Any]) -> str:
    return f"{row['op']}: {row['reason']}"


def _rejection(row: dict[str, Any]) -> str:
    return f"{_short(row['signature'])}: {row['reason']}"


def _squash(row: dict[str, Any]) -> str:
    return (
        f"{_short(row['signature'])} at op {row['op']}: expected {row['expected']}, "
        f"found {row['found']}"
    )


def _section(
    title: str, rows: list[dict[str, Any]], describe: Callable[[dict[str, Any]], str]
) -> Iterator[str]:
    """A titled list, most frequent first; nothing where there are no rows."""
    if rows:
        yield f"{title}:"
    for row in sorted(rows, key=lambda row: -row["count"]):
        yield f"  {row['count']:>6} x {describe(row)}"


def _short(signature: str) -> str:
    return signature[:_SIGNATURE_SHOWN]


def _total(rows: Iterable[dict[str, Any]], name: str) -> int:
    return sum(row.get(name, 0) for row in rows)


def _count(rows: list[Any], noun: str) -> str:
    return _plural(len(rows), noun)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
