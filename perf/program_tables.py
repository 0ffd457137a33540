"""What programs.py prints of its records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

OURS = ("default", "always", "region")
COLUMNS = (
    *("first second", "a pass", "back to back"),
    *("bits", "followed", "first replay"),
)
RATIOS = ("first_second_ratio", "ratio", "back_to_back_ratio")


def mean(values: Iterable[float]) -> float | None:
    """The geometric mean."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def number(value: float | None) -> str:
    """A ratio."""
    return "" if value is None else f"{value:.2f}"


def said_of_bits(record: dict[str, Any]) -> str:
    """In a word."""
    if record["bits"] is None:
        return "eager varies"
    same = "yes" if record["bits"] else "NO"
    return same if record["bits_replays"] else f"{same}, no replay"


def row(program: str, ways: dict[str, dict[str, Any]], shown: list[str]) -> list[str]:
    """The cells of a program that was measured: of each column, one for each way."""
    found = [ways.get(way, {}) for way in shown]
    cells = [program, f"{ways['eager']['pass_us']:.0f}"]
    for key in RATIOS:
        cells += [number(record.get(key)) for record in found]
    whole = ["bits" in record for record in found]
    for say in (said_of_bits, followed, first_replay):
        cells += [
            say(record) if is_whole else "error" if "error" in record else ""
            for record, is_whole in zip(found, whole, strict=True)
        ]
    return cells


def followed(record: dict[str, Any]) -> str:
    """The share of operators whose results came from replays; of calls, by a region."""
    if calls := record.get("calls"):
        return f"{100 * record['calls_replayed'] / calls:.0f} %"
    return f"{100 * record['followed']:.0f} %"


def first_replay(record: dict[str, Any]) -> str:
    """The pass of the first replay."""
    first = record["first_replay_pass"]
    return "-" if first is None else str(first)


def aligned(rows: list[list[str]]) -> str:
    """Columns, as wide as they must be."""
    width = max(map(len, rows))
    full = [cells + [""] * (width - len(cells)) for cells in rows]
    wide = [max(len(cells[i]) for cells in full) for i in range(width)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, wide, strict=True))
        for cells in full
    ]
    return "\n".join(line.rstrip() for line in lines)


def table(records: list[dict[str, Any]]) -> str:
    """A line a program, geometric means, and what went wrong.

    Under a heading is a column for each way, in the order of OURS. A ratio is that of
    eager's time: above 1, Reprise is faster.
    """
    programs: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        programs.setdefault(record["program"], {})[record.get("mode", "")] = record
    shown = [way for way in OURS if any(way in ways for ways in programs.values())]
    heads = [each for head in COLUMNS for each in (head, *[""] * (len(shown) - 1))]
    rows = [["program", "eager us", *heads], ["", "", *shown * len(COLUMNS)]]
    measured = []
    for program, ways in programs.items():
        if "pass_us" in ways.get("eager", {}):
            rows.append(row(program, ways, shown))
            measured.append(ways)
    means = ["geometric mean", ""]
    for key in RATIOS:
        for way in shown:
            found = [ways.get(way, {}) for ways in measured]
            means.append(number(mean(each[key] for each in found if key in each)))
    lines = [aligned([*rows, means])]
    for record in records:
        if "error" in record:
            mode = record.get("mode", "")
            lines.append(f"{record['program']} {mode}: {record['error']}")
        elif record["bits"] is False:
            names = ", ".join(record["differing"])
            lines.append(f"{record['program']} {record['mode']}: differs in {names}")
    return "\n".join(lines)
