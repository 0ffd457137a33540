"""What a sweep's findings mean: a summary an operator, and problems."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from registry import known
from registry.hooks import hooks

Line = dict[str, Any]


def worth_guessing(reached: Iterable[str]) -> list[str]:
    """Hooked operators for which random arguments may be tried."""
    return sorted(
        name
        for name in hooks().keys() - set(reached)
        if not name.startswith(tuple(known.NEVER_GUESSED))
    )


def summarize(lines: list[Line]) -> dict[str, Line]:
    """Every hooked operator: its state, and what was found, of all its calls."""
    by_name: dict[str, list[Line]] = collections.defaultdict(list)
    for line in lines:
        by_name[line["op"]].append(line)
    return {name: _summary(by_name[name]) for name in sorted(hooks())}


def _summary(calls: list[Line]) -> Line:
    verdicts = {call["verdict"] for call in calls}
    states = ("replayed", "cut", "not watched", "lost")
    summary: Line = {
        "state": next((s for s in states if s in verdicts), "not reached"),
        "calls": len(calls),
    }
    for field in ("hidden", "undeclared"):
        summary[field] = sorted({x for call in calls for x in call[field]}, key=str)
    for field in ("draws", "keeps"):
        summary[field] = any(call[field] for call in calls)
    summary["repeats"] = all(call["repeats"] for call in calls)
    summary["reasons"] = sorted({x for call in calls for x in call["reasons"]})
    return summary


def problems(lines: list[Line], crashes: list[Line]) -> list[str]:
    """What the tables do not cover, one an operator and kind."""
    whats: dict[str, list[str]] = collections.defaultdict(list)
    for line in lines:
        for what in _of_call(line):
            whats[f"{line['op']}: {what}"].append(line["form"])
    found = [f"{what} ({len(at)} calls, {at[0][:200]})" for what, at in whats.items()]
    # Random arguments break torch's own memory; what comes of that is no finding.
    found += [
        f"{crash.get('op', crash['unit'])}: the process ended: {crash['log'][-300:]}"
        for crash in crashes
        if not crash["unit"].startswith("schema:")
    ]
    for name in {line["op"] for line in lines if line["may_hide"]}:
        if not any(line["hidden"] for line in lines if line["op"] == name):
            found.append(f"{name}: the tables say hidden writes, no call has any")
    return sorted(found)


def _of_call(line: Line) -> Iterable[str]:
    hook = hooks()[line["op"]]
    repeats = line["repeats"] and not known.unrepeatable(line["op"])
    if line["undeclared"] and not hook.cut:
        yield f"writes {line['undeclared']}, which neither schema nor tables say"
    if line["draws"] and not hook.cut and not hook.generator:
        yield "draws from the default generator, which the tables do not say"
    if line["keeps"] and not hook.cut:
        yield "gives out memory that it keeps"
    if line["by_storages"] and not hook.cut and not hook.by_storages:
        yield "goes by the storages of its operands, which the tables do not say"
    one_op = line["one_op"] and not known.composite(line["op"])
    if line["seen"] != 1 and one_op:
        yield f"is {line['seen']} ops to the session, not one"
    if line["differs"] and repeats:
        yield f"not as eager: {line['differs']}"
    if not line["repeats"] and not known.unrepeatable(line["op"]):
        yield "equal arguments give other results"
    for other in line["others"]:
        if other.startswith("(no op)"):
            yield f"beside it there is work that no op made: {other}"
    if line["verdict"] == "not watched" and one_op:
        yield "no hook shows it"
    refused = known.refused(line["op"], line["reasons"])
    if line["verdict"] == "lost" and repeats and not refused:
        why = line["reasons"] or line["states"]
        yield f"neither replayed nor cut, of {line['source']}: {why}"
    if line["verdict"] == "cut" and repeats:
        for reason in line["reasons"]:
            if reason != hook.cut and not known.sometimes_cut(line["op"], reason):
                yield f"unknown reason: {reason}"


def unneeded(lines: list[Line], device: str) -> list[str]:
    """What known.py says of a device, and no line of a whole sweep of it shows."""
    found = {
        known.COMPOSITES: [
            line
            for line in lines
            if line["seen"] != 1 or line["verdict"] == "not watched"
        ],
        known.UNREPEATABLE: [line for line in lines if not line["repeats"]],
        known.REFUSED: [line for line in lines if line["verdict"] == "lost"],
        known.SOMETIMES_CUT: [line for line in lines if line["verdict"] == "cut"],
    }
    return [
        f"known.py, {row.operators or row.reason!r} ({row.why}): nothing is so any more"
        for rows, shown in found.items()
        for row in rows
        if device in row.found_on
        and not any(row.covers(line["op"], _unforeseen(line)) for line in shown)
    ] + [
        f"known.py, {name!r}: no operator is called so"
        for name in (*known.BREAK_TORCH, *known.ORDERED)
        if name not in hooks()
    ]


def _unforeseen(line: Line) -> list[str]:
    """Reasons that the hooks' tables do not give."""
    return [reason for reason in line["reasons"] if reason != hooks()[line["op"]].cut]


def counts(summary: dict[str, Line]) -> str:
    tally = collections.Counter(row["state"] for row in summary.values())
    parts = [f"{number} {state}" for state, number in tally.most_common()]
    return f"{len(summary)} operators: " + ", ".join(parts)


def notable(summary: dict[str, Line]) -> dict[str, Line]:
    """All operators but those that are replayed without more ado, and what is so."""
    found = {
        name: {
            field: value
            for field, value in row.items()
            if value is not False and value != [] and field not in ("calls", "repeats")
        }
        | ({} if row["repeats"] else {"repeats": False})
        for name, row in summary.items()
    }
    return {name: row for name, row in found.items() if row != {"state": "replayed"}}
