"""What programs.py prints of its records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

OURS = ("default", "always")
HEAD = (
    "program",
    "eager us",
    "first second",
    "",
    "a pass",
    "",
    "back to back",
    "",
    "bits",
    "",
    "followed",
    "",
    "first replay",
    "",
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


def row(program: str, ways: dict[str, dict[str, Any]]) -> list[str]:
    """The cells of a program that was measured."""
    cells = [program, f"{ways['eager']['pass_us']:.0f}"]
    found = [ways[way] for way in OURS]
    for key in RATIOS:
        cells += [number(record.get(key)) for record in found]
    if any("error" in record for record in found):
        return [*cells, *("error" if "error" in record else "" for record in found)]
    cells += [said_of_bits(record) for record in found]
    cells += [f"{100 * record['followed']:.0f} %" for record in found]
    firsts = [record["first_replay_pass"] for record in found]
    return cells + ["-" if first is None else str(first) for first in firsts]


def aligned(rows: list[list[str]]) -> str:
    """Columns, as wide as they must be."""
    full = [cells + [""] * (len(HEAD) - len(cells)) for cells in rows]
    wide = [max(len(cells[i]) for cells in full) for i in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, wide, strict=True))
        for cells in full
    ]
    return "\n".join(line.rstrip() for line in lines)


def table(records: list[dict[str, Any]]) -> str:
    """A line a program, geometric means, and what went wrong.

    Of two columns under one heading the first is of the way ``default``, the second of
    ``always``. A ratio is that of eager's time: above 1, Reprise is faster.
    """
    programs: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        programs.setdefault(record["program"], {})[record.get("mode", "")] = record
    rows = [list(HEAD), ["", "", *OURS * 6]]
    measured = []
    for program, ways in programs.items():
        if "pass_us" in ways.get("eager", {}):
            rows.append(row(program, ways))
            measured.append(ways)
    means = ["geometric mean", ""]
    for key in RATIOS:
        for way in OURS:
            means.append(number(mean(w[way][key] for w in measured if key in w[way])))
    lines = [aligned([*rows, means])]
    for record in records:
        if "error" in record:
            mode = record.get("mode", "")
            lines.append(f"{record['program']} {mode}: {record['error']}")
        elif record["bits"] is False:
            names = ", ".join(record["differing"])
            lines.append(f"{record['program']} {record['mode']}: differs in {names}")
    return "\n".join(lines)
