"""The report as a page of HTML and CSS, without scripts or other files.

Each function gives one section, or one row of it. A section without content is empty.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any

from reprise._advice import advice
from reprise._html_style import STYLE
from reprise._markup import (
    Html,
    capped_table,
    code,
    collapsed,
    counted,
    cut_short,
    left_out,
    long_cell,
    muted,
    number,
    number_cell,
    place_cell,
    place_line,
    section,
    sentence,
    share,
    short_cell,
    table,
    tag,
)
from reprise._stats import Stats
from reprise._words import (
    MODES,
    duration,
    operators_line,
    saved_and_paid,
    short_signature,
    size,
)

if TYPE_CHECKING:
    from reprise._region_report import RegionReport
    from reprise._report import Report

Row = dict[str, Any]

_NO_OP = "(no op)"  # a cut between two ops
_NONE = "\N{EN DASH}"  # where there is no number
_REASONS_SHOWN = 5  # of a region
_NOTES_SHOWN = 3  # of a plan
_NOTE_SHOWN = 400  # characters
_PLAN_HEADS = (
    *("plan", "state", "#ops", "#replays", "#a replay saves", "memory"),
    *("mechanism", "begins at"),
)
_REGION_HEADS = (
    *("region", "#calls", "#replayed", "#a call", "#operators", "#variants"),
    "why its Python ran",
)
_KINDS = {"ready": "good", "given up": "bad"}  # of states


def document(report: Report) -> str:
    """Return a whole file, for browsers."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>Reprise report</title>\n"
        "<style>:root { color-scheme: light dark; } body { margin: 0; }</style>\n"
        f"</head>\n<body>\n{fragment(report)}\n</body>\n</html>\n"
    )


def fragment(report: Report) -> str:
    """Return an element for notebooks, with its style."""
    fields = report._fields
    cuts = _commonest(fields, "cuts")
    unbuilt = [each for each in fields.get("plans", []) if not each.get("mechanism")]
    page = tag(
        "div",
        _head(report, cuts),
        _in_the_way(report, cuts),
        _plans(report._plans()),
        _regions(report._regions),
        _squashes(_commonest(fields, "squashes")),
        _rejections(_commonest(fields, "rejections")),
        _notes(fields.get("notes", [])),
        _traces(unbuilt),
        _counters(fields.get("stats", {})),
        class_="reprise",
    )
    return f"<style>{STYLE}</style>\n{page}"


def _commonest(fields: Row, name: str) -> list[Row]:
    return sorted(fields.get(name, []), key=lambda row: -row["count"])


# --- How much was replayed ---------------------------------------------------------


def _head(report: Report, cuts: list[Row]) -> Html:
    """Shares and numbers; one sentence where nothing ran."""
    fields = report._fields
    stats = fields.get("stats", {})
    if not fields:
        return tag("header", tag("h2", sentence(report._why_empty())))
    if not stats.get("ops"):
        return tag("header", tag("h2", sentence(report._summary())))
    title = f" of {number(stats['ops'])} ops were replayed"
    title += saved_and_paid(stats)
    replayed = tag("span", f"{stats['followed'] / stats['ops']:.0%}", class_="replayed")
    plans = report._plans()
    replays = sum(plan["replays"] for plan in plans)
    mode = fields.get("mode", "no device")
    where = (
        f"on {MODES.get(mode, mode)}: {counted(len(plans), 'plan')}, "
        f"{counted(replays, 'replay')}"
    )
    return tag("header", tag("h2", replayed, title), muted(where), _bar(stats, cuts))


def _bar(stats: Row, cuts: list[Row]) -> Html:
    """Ops followed, cut and new, which add up to all of them."""
    ops, followed = stats["ops"], stats["followed"]
    cut = sum(row["count"] for row in cuts if row["op"] != _NO_OP)
    cut = min(cut, ops - followed)
    parts = {
        "followed": (followed, "answered from a replay"),
        "cut": (cut, "run by eager: no trace may cross them"),
        "new": (
            ops - followed - cut,
            "run by eager: still new, or not faster as a replay",
        ),
    }
    bar = [
        tag("div", class_=name, style=f"flex-grow: {count}")
        for name, (count, _) in parts.items()
        if count
    ]
    legend = [
        tag(
            "div",
            tag("span", class_=f"swatch {name}"),
            tag("b", f"{number(count)} {name}"),
            f" ({share(count, ops)})",
            muted(meaning),
        )
        for name, (count, meaning) in parts.items()
    ]
    told = ", ".join(f"{number(count)} {name}" for name, (count, _) in parts.items())
    return tag(
        "div",
        tag("div", *bar, class_="bar", role="img", aria_label=told),
        tag("div", *legend, class_="legend"),
    )


# --- What is most in the way -------------------------------------------------------


def _in_the_way(report: Report, cuts: list[Row]) -> Html:
    """The commonest cuts, and what else the report's first line says of it."""
    stats = report._fields.get("stats", {})
    ops = stats.get("ops", 0)
    parts: list[Html] = []
    title = "Cuts"
    if report._falls_short(stats):
        title = "What is most in the way"
        obstacle = report._obstacle(stats)
        if obstacle and not (cuts and cuts[0]["op"] in obstacle):
            parts.append(tag("p", sentence(obstacle), class_="obstacle"))
    if cuts:
        heads = ("#times", "cut", "lines of the program")
        parts += capped_table(heads, cuts, lambda row: _cut(row, ops))
    return section(title, *parts) if parts else Html()


def _cut(row: Row, ops: int) -> list[Html]:
    of_ops = share(row["count"], ops) if row["op"] != _NO_OP else ""
    helps = advice(row["reason"], row.get("places") or ())
    return [
        number_cell(row["count"], muted(f"{of_ops} of ops" if of_ops else "")),
        long_cell(
            code(row["op"]),
            tag("div", cut_short(row["reason"])),
            tag("div", sentence(helps), class_="remedy") if helps else "",
        ),
        place_cell(row.get("places", [])),
    ]


# --- Plans and traces --------------------------------------------------------------


def _plans(plans: list[Row]) -> Html:
    rows = capped_table(_PLAN_HEADS, plans, _plan)
    return section("Plans", *rows) if plans else Html()


def _plan(plan: Row) -> list[Html]:
    squashes = counted(plan["squashes"], "squash") if plan["squashes"] else ""
    told = (squashes, plan.get("finding", ""), plan.get("reason", ""))
    operators = cut_short(operators_line(plan.get("operators", [])))
    return [
        _signature(plan),
        _state(plan, *told),
        number_cell(plan["ops"]),
        number_cell(plan["replays"]),
        _saving(plan),
        short_cell(size(plan["arena_bytes"])),
        short_cell(cut_short(plan["mechanism"])),
        place_cell(plan.get("places", []), muted(operators), _plan_notes(plan)),
    ]


def _plan_notes(plan: Row) -> Html:
    notes = plan.get("notes", [])
    shown = [muted(cut_short(note)) for note in notes[:_NOTES_SHOWN]]
    if (more := len(notes) - _NOTES_SHOWN) > 0:
        shown.append(left_out(more))
    return collapsed(counted(len(notes), "note"), *shown) if notes else Html()


def _saving(plan: Row) -> Html:
    """Of a replay; none where it was not measured."""
    eager, replay = plan.get("eager_us") or 0, plan.get("replay_us") or 0
    saving = plan.get("saving_us") or 0
    known = eager > 0 and replay > 0
    return number_cell(
        duration(saving) if saving > 0 else _NONE,
        muted(f"eager {eager:,.1f} us" if known else ""),
        muted(f"replay {replay:,.1f} us" if known else ""),
    )


def _signature(row: Row) -> Html:
    """A plan's or a trace's, as `Report.dot` takes it."""
    return short_cell(code(short_signature(row["signature"])))


def _state(trace: Row, *told: str) -> Html:
    kind = _KINDS.get(trace["state"], "under-way")
    state = tag("span", trace["state"], class_=f"state {kind}")
    return tag("td", state, *(muted(cut_short(each)) for each in told), class_="told")


def _traces(traces: list[Row]) -> Html:
    heads = ("trace", "state", "#ops", "#seen", "begins at")
    rows = capped_table(heads, traces, _trace)
    title = f"{counted(len(traces), 'trace')} without a plan"
    return collapsed(title, *rows) if traces else Html()


def _trace(trace: Row) -> list[Html]:
    return [
        _signature(trace),
        _state(trace, trace.get("reason", "")),
        number_cell(trace["ops"]),
        number_cell(trace["seen"]),
        place_cell(trace.get("places", [])),
    ]


# --- Regions -----------------------------------------------------------------------


def _regions(regions: list[RegionReport]) -> Html:
    """Those with the most calls that ran their Python come first."""
    most_first = sorted(regions, key=lambda region: region.replayed - region.calls)
    rows = capped_table(_REGION_HEADS, most_first, _region)
    return section("Regions", *rows) if regions else Html()


def _region(region: RegionReport) -> list[Html]:
    replayed, backward = region.replayed, region.backward
    return [
        long_cell(code(region.name)),
        number_cell(region.calls),
        number_cell(
            replayed,
            muted(share(replayed, region.calls)),
            muted(f"and {number(backward)} backward" if backward else ""),
        ),
        number_cell(duration(1e6 * region.seconds / replayed) if replayed else _NONE),
        number_cell(region.operators),
        number_cell(region.variants),
        long_cell(*_reasons(region)),
    ]


def _reasons(region: RegionReport) -> list[Html]:
    """Why calls ran their Python, and what changed between calls; the commonest first."""
    told = [
        (times, reason, place_line(place) if place else Html())
        for reason, (times, place) in region.reasons.items()
    ]
    told += [
        (times, f"changed since the call before: {guard}", Html())
        for guard, times in region.guards.items()
    ]
    told.sort(key=lambda row: -row[0])
    lines = [
        tag(
            "div",
            tag("b", f"{number(times)} x "),
            cut_short(reason),
            place,
            class_="reason",
        )
        for times, reason, place in told[:_REASONS_SHOWN]
    ]
    if (more := len(told) - _REASONS_SHOWN) > 0:
        lines.append(left_out(more))
    return lines


# --- What went wrong ---------------------------------------------------------------


def _squashes(squashes: list[Row]) -> Html:
    heads = ("#times", "plan", "#at op", "found instead", "lines of the program")
    what = "Replays that were rolled back, because the program went another way."
    rows = capped_table(heads, squashes, _squash)
    return section("Squashes", muted(what), *rows) if squashes else Html()


def _squash(row: Row) -> list[Html]:
    expected = row.get("expected", "")
    return [
        number_cell(row["count"]),
        _signature(row),
        number_cell(row["op"]),
        long_cell(
            code(row["found"]), muted(cut_short(f"for {expected}") if expected else "")
        ),
        place_cell(row.get("places", [])),
    ]


def _rejections(rejections: list[Row]) -> Html:
    what = "Builds, validations and plans that were given up. Eager goes on."
    rows = capped_table(("#times", "plan", "reason"), rejections, _rejection)
    return section("Rejections", muted(what), *rows) if rejections else Html()


def _rejection(row: Row) -> list[Html]:
    reason = long_cell(cut_short(row["reason"]))
    return [number_cell(row["count"]), _signature(row), reason]


# --- The rest ----------------------------------------------------------------------


def _notes(notes: list[str]) -> Html:
    """Each once."""
    counts = collections.Counter(notes).most_common()
    rows = capped_table(("#times", "note"), counts, _note)
    return collapsed(counted(len(counts), "note"), *rows) if notes else Html()


def _note(counted: tuple[str, int]) -> list[Html]:
    note, times = counted
    return [number_cell(times), long_cell(cut_short(note, _NOTE_SHOWN))]


def _counters(stats: Row) -> Html:
    meanings = {
        field.name: field.metadata.get("meaning", "")
        for field in dataclasses.fields(Stats)
    }
    rows = [
        [short_cell(code(name)), number_cell(value), long_cell(meanings.get(name, ""))]
        for name, value in stats.items()
    ]
    heads = ("counter", "#value", "meaning")
    return collapsed("Counters", table(heads, rows)) if stats.get("ops") else Html()
