"""What Reprise did, and why: for people and for programs."""

from __future__ import annotations

import collections
import copy
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from reprise import _html
from reprise._advice import advice
from reprise._dot import by_op, by_segment
from reprise._region_report import RegionReport
from reprise._variables import switched_off
from reprise._words import (
    MODES,
    fold,
    operators_line,
    saved_and_paid,
    short_signature,
    size,
)
from reprise._words import plural as _plural

_TRACES_SHOWN = 5
_NOTES_SHOWN = 3
_BYTES_TOLD = 1 << 20  # in use at once, below which nothing is said of them
_NOTE_SHOWN = 160  # characters
_REPLAYED_ENOUGH = 0.95  # of the ops: nothing stands in the way then
_NEW_ENOUGH = 0.5  # of the traces: that they are new is what stands in the way
_TRACES_THAT_TELL = 20


class Report:
    """A snapshot of every plan, cut, rejection and squash.

    `str()` begins with how much was replayed, what that saved, and the biggest obstacle,
    with the program's line and a remedy. A few lines for each plan follow, with long
    notes cut short. `to_dict()` has everything: `mode` ("cuda" or "host"), `stats`,
    `plans` (with traces that are not plans yet), `cuts`, `rejections`, `squashes`,
    `notes` and `regions`. docs/report.md explains the fields. Times are in microseconds,
    sizes in bytes.
    """

    def __init__(
        self,
        fields: dict[str, Any],
        find_plan: Callable[[str], dict[str, Any] | None] = lambda _: None,
        regions: Iterable[RegionReport] = (),
    ) -> None:
        self._fields = fields
        self._find_plan = find_plan
        self._regions = list(regions)
        if fields:
            fields["regions"] = [each.to_dict() for each in self._regions]

    def to_dict(self) -> dict[str, Any]:
        """Return a copy, in types that JSON knows.

        Before the first `enable` it has only `regions`, or nothing if there are none.
        """
        if self._fields or not self._regions:
            return copy.deepcopy(self._fields)
        return {"regions": [each.to_dict() for each in self._regions]}

    def dot(self, signature: str, *, by: Literal["op", "segment"] = "op") -> str:
        """Draw a plan as a graph, in the language of Graphviz (`dot -Tsvg`).

        Args:
            signature: a plan's signature, or its beginning, as the report's lines show it.
            by: "op" draws each op, in a box for each segment; "segment" draws only segments,
                for plans of thousands of ops.

        Raises:
            ValueError: there is no such plan, or it was dropped since the report was made, or
                `by` is another word.
        """
        if by not in ("op", "segment"):
            raise ValueError(
                f"reprise: by does not accept {by!r}: give 'op' or 'segment'"
            )
        names = sorted({plan["signature"] for plan in self._plans()})
        found = [name for name in names if signature and name.startswith(signature)]
        if len(found) != 1:
            known = ", ".join(map(short_signature, names))
            raise ValueError(
                f"reprise: {'several plans begin with' if found else 'there is no plan'} "
                f"'{signature}': "
                + (f"the plans are {known}" if known else "there are no plans yet")
            )
        plan = self._find_plan(found[0])
        if plan is None:
            raise ValueError(
                f"reprise: plan '{short_signature(found[0])}' no longer exists: call explain() again"
            )
        return by_op(plan) if by == "op" else by_segment(plan)

    def __repr__(self) -> str:
        return f"<reprise.Report of {_plural(len(self._plans()), 'plan')}>"

    def __str__(self) -> str:
        lines = self._lines() if self._fields else [self._why_empty()]
        folded = (part for line in lines for part in fold(line))
        return "\n".join([*folded, *map(str, self._regions)])

    def _why_empty(self) -> str:
        """What is so where no runtime has a report."""
        if switched_off():
            return "reprise is switched off: REPRISE=0 is in the environment"
        called = [each for each in self._regions if each.calls]
        if not called:
            return "reprise has not been enabled"
        replayed = sum(each.replayed for each in called)
        calls = _plural(sum(each.calls for each in called), "call")
        return (
            f"{replayed} of {calls} of {_plural(len(called), 'region')} were replayed; "
            "outside of regions nothing is replayed, because reprise.enable() has not been called"
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        return _html.fragment(self)

    def to_html(self) -> str:
        """Return a page for browsers: one file, without scripts or other files.

        The page has the lines of `str()` and more: a bar of followed, cut and new ops, the
        commonest cuts with the program's source lines, and tables of plans, regions and
        squashes. A long table shows its first rows, and says how many are left out.
        """
        return _html.document(self)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Write `to_html()` to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_html())

    def _list(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._fields.get(name, [])
        return rows

    def _plans(self) -> list[dict[str, Any]]:
        """Those of the traces that were built, most replayed first."""
        built = [trace for trace in self._list("plans") if trace.get("mechanism")]
        return sorted(built, key=lambda plan: -plan["replays"])

    def _summary(self) -> str:
        """How much was replayed, what that saved, and what stands in the way most."""
        stats = self._fields.get("stats", {})
        ops, followed = stats.get("ops", 0), stats.get("followed", 0)
        if ops == 0:
            return "no op has come yet: the program ran none while Reprise was on"
        text = f"{followed / ops:.0%} of {_plural(ops, 'op')} were replayed"
        text += saved_and_paid(stats)
        if self._falls_short(stats) and (obstacle := self._obstacle(stats)):
            text += f"; most in the way: {obstacle}"
        return text

    @staticmethod
    def _falls_short(stats: dict[str, Any]) -> bool:
        """So few of the ops were replayed that something stands in the way."""
        return bool(stats.get("followed", 0) < _REPLAYED_ENOUGH * stats.get("ops", 0))

    def _obstacle(self, stats: dict[str, Any]) -> str:
        """One sentence; empty where nothing is known."""
        traces, signatures = stats.get("traces", 0), stats.get("signatures", 0)
        unlike = [trace for trace in self._list("plans") if trace["seen"] == 1]
        cuts = sorted(self._list("cuts"), key=lambda row: -row["count"])
        if traces >= _TRACES_THAT_TELL and signatures > _NEW_ENOUGH * traces:
            places = collections.Counter(
                place for trace in unlike for place in trace.get("places", [])
            ).most_common(1)
            return (
                f"{signatures} of {traces} traces were new{_at([place for place, _ in places])}: shapes or "
                "numbers change at each pass; pad to a few sizes"
            )
        kept = [plan for plan in self._plans() if _kept_by_eager(plan)]
        if kept and sum(p["seen"] * p["ops"] for p in kept) > stats["ops"] / 2:
            first = max(kept, key=lambda plan: plan["seen"] * plan["ops"])
            return (
                f"eager is as fast; a plan {first['finding']}{_at(first.get('places'))}"
            )
        if cuts:
            return f"{_cut(cuts[0])} ({_plural(cuts[0]['count'], 'time')})"
        if stats.get("replays", 0) == 0:
            return "no sequence of ops has repeated often enough yet"
        return "learning which ops repeat"

    def _lines(self) -> Iterator[str]:
        yield self._summary()
        plans = self._plans()
        where = self._fields.get("mode", "no device")
        replays = sum(plan["replays"] for plan in plans)
        yield (
            f"reprise on {MODES.get(where, where)}: {_plural(len(plans), 'plan')}, "
            f"{_plural(replays, 'replay')}"
        )
        for plan in plans:
            yield from _plan_lines(plan)
        unbuilt = [trace for trace in self._list("plans") if not trace.get("mechanism")]
        for trace in unbuilt[:_TRACES_SHOWN]:
            yield _trace_line(trace)
        if len(unbuilt) > _TRACES_SHOWN:
            yield _plural(len(unbuilt) - _TRACES_SHOWN, "more trace")
        yield from _section("cuts", self._list("cuts"), _cut)
        yield from _section("rejections", self._list("rejections"), _rejection)
        yield from _section("squashes", self._list("squashes"), _squash)
        for note in _counted(self._fields.get("notes", [])):
            yield f"note: {note}"


def _plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    yield (
        f"plan {short_signature(plan['signature'])} {plan['state']}: "
        f"{_plural(plan['ops'], 'op')}, {_launches(plan['launches'])} in "
        f"{_plural(plan['segments'], 'segment')}, {size(plan['arena_bytes'])}"
        f"{_shares(plan)}, "
        f"by {plan['mechanism']}"
    )
    times = f"  {_plural(plan['replays'], 'replay')}, "
    times += _plural(plan["squashes"], "squash")
    eager, replay = plan.get("eager_us") or 0, plan.get("replay_us") or 0
    if eager > 0 and replay > 0:
        times += f"; eager {eager:.1f} us, replay {replay:.1f} us"
        times += f" ({eager / replay:.2f}x)"
    if finding := plan.get("finding"):
        times += f", {finding}"
    yield times
    if places := plan.get("places"):
        yield f"  begins{_at(places)}"
    if len(instances := plan.get("instances", [])) > 1:
        each = ", ".join(str(instance["replays"]) for instance in instances)
        yield f"  {len(instances)} instances, replayed {each} times"
    if (at_once := plan.get("bytes_at_once", 0)) >= _BYTES_TOLD:
        part = plan["layout_bytes"] / at_once
        yield f"  memory of a pass: {size(at_once)} in use at once, {part:.2f}x laid out"
    if operators := plan.get("operators"):
        yield f"  {operators_line(operators)}"
    notes = _counted(filter(None, (plan.get("reason"), *plan.get("notes", []))))
    for note in notes[:_NOTES_SHOWN]:
        yield f"  note: {_head(note)}"
    if (more := len(notes) - _NOTES_SHOWN) > 0:
        yield f"  {_plural(more, 'more note')} in to_dict()"


def _launches(number: int) -> str:
    return f"{number} launch{'es' * (number != 1)}"


def _shares(plan: dict[str, Any]) -> str:
    if not any(instance["shares_arena"] for instance in plan.get("instances", [])):
        return ""
    return " beside an arena that it shares"


def _counted(notes: Iterable[str]) -> list[str]:
    """Each note once, with how often it is there."""
    return [
        f"{_head(note)} ({times} times)" if times > 1 else note
        for note, times in collections.Counter(notes).items()
    ]


def _head(note: str) -> str:
    return note if len(note) <= _NOTE_SHOWN else f"{note[: _NOTE_SHOWN - 3]}..."


def _trace_line(trace: dict[str, Any]) -> str:
    ops = _plural(trace["ops"], "op")
    line = f"trace {short_signature(trace['signature'])} {trace['state']}: {ops}"
    line += _at(trace.get("places"))
    if reason := trace.get("reason"):
        line += f", {_head(reason)}"
    return line


def _kept_by_eager(plan: dict[str, Any]) -> bool:
    """It was measured, and nothing is gained by it."""
    return plan.get("finding", "") not in ("", "saves time")


def _at(places: list[str] | None) -> str:
    """Where something was met, as the end of a sentence."""
    return f" at {', '.join(places)}" if places else ""


def _cut(row: dict[str, Any]) -> str:
    text = f"{row['op']}: {row['reason']}{_at(row.get('places'))}"
    helps = advice(row["reason"], row.get("places") or ())
    return f"{text} ({helps})" if helps else text


def _rejection(row: dict[str, Any]) -> str:
    return f"{short_signature(row['signature'])}: {_head(row['reason'])}"


def _squash(row: dict[str, Any]) -> str:
    expected = f"expected {row['expected']}, " if row.get("expected") else ""
    where = f"{short_signature(row['signature'])} at op {row['op']}"
    return f"{where}: {expected}found {row['found']}{_at(row.get('places'))}"


def _section(
    title: str, rows: list[dict[str, Any]], describe: Callable[[dict[str, Any]], str]
) -> Iterator[str]:
    """A titled list, most frequent first; nothing where there are no rows."""
    if rows:
        yield f"{title}:"
    for row in sorted(rows, key=lambda row: -row["count"]):
        yield f"  {row['count']:>6} x {describe(row)}"
