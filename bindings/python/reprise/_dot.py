"""A plan as a graph, in the language of Graphviz."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any

Fields = dict[str, Any]

_OPERATORS_SHOWN = 4
_SIGNATURE_SHOWN = 8


def by_op(plan: Fields) -> str:
    """Draw each op as a node, in a box for its segment, and each value as an edge.

    Red: the op waits for the program. A double frame: its results outlive the pass.
    """
    return _graph(plan, _ops(plan))


def by_segment(plan: Fields) -> str:
    """Draw each segment as a node. Edges say how many values flow."""
    return _graph(plan, _segments(plan))


def _graph(plan: Fields, lines: Iterable[str]) -> str:
    title = (
        f"plan {plan['signature'][:_SIGNATURE_SHOWN]}: {len(plan['ops'])} ops in "
        f"{len(plan['segments'])} segments"
    )
    head = [
        f"digraph {_quoted(plan['signature'])} {{",
        f"  graph [label={_quoted(title)}, labelloc=t, fontname=sans]",
        "  node [shape=box, fontname=sans, fontsize=10]",
        "  edge [fontname=sans, fontsize=8]",
    ]
    return "\n".join([*head, *(f"  {line}" for line in lines), "}", ""])


def _ops(plan: Fields) -> Iterator[str]:
    for number, segment in enumerate(plan["segments"]):
        yield f"subgraph cluster_{number} {{"
        yield f"  label={_quoted(_segment_label(number, segment))}"
        yield f"  style={_quoted('dashed' if segment['gated'] else 'solid')}"
        for op in range(segment["first_op"], segment["end_op"]):
            yield f"  {_op(plan, op)}"
        yield "}"
    for value, fields in enumerate(plan["values"]):
        if fields["external"]:
            yield f"v{value} [{_external(value, fields)}]"
    flows: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    for source, op, value in _reads(plan):
        if source is None:
            yield f"v{value} -> op{op}"
        else:
            flows[source, op].append(value)
    for (source, op), values in flows.items():
        names = ", ".join(f"v{value}" for value in values)
        yield f"op{source} -> op{op} [label={_quoted(names)}]"
    for op, value in _outside_writes(plan):
        yield f'op{op} -> v{value} [label="writes", color=red, penwidth=2]'


def _segment_label(number: int, segment: Fields) -> str:
    text = f"segment {number}: ops {segment['first_op']} to {segment['end_op'] - 1}, "
    text += f"{segment['launches']} launches"
    if segment["gated"]:
        text += f"\nlaunched when op {segment['first_op']} has come"
    return text


def _op(plan: Fields, number: int) -> str:
    op = plan["ops"][number]
    lines = [f"{number} {op['name']}"]
    lines += [
        f"{result['dtype']} {result['sizes']}".strip() for result in op["results"]
    ]
    look = ""
    if gate := op["gate"]:
        lines.append(f"gated: {gate}")
        look = ", color=red"
    if op["by_eager"]:
        lines.append("by eager")
        look += ", style=dashed"
    if op["draws"]:
        lines.append("draws")
    if op["nondeterministic"]:
        lines.append("nondeterministic")
    if lane := op["lane"]:
        lines.append(f"lane {lane}")
    if op["alone"]:
        lines.append("beside no other")
    if any(plan["values"][result["value"]]["lives_on"] for result in op["results"]):
        look += ", peripheries=2"
    return f"op{number} [label={_quoted(_lines(lines))}{look}]"


def _external(value: int, fields: Fields) -> str:
    what = "input" if fields["input"] else "constant"
    if fields["late"]:
        what += ", told late"
    if fields["private"]:
        what += ", in a copy"
    text = _lines([f"v{value}", what, f"{fields['bytes']} bytes"])
    fill = ', style=filled, fillcolor="lightblue"' if fields["input"] else ""
    return f"label={_quoted(text)}, shape=ellipse{fill}"


def _reads(plan: Fields) -> Iterator[tuple[int | None, int, int]]:
    """Who wrote it last (None: nobody within the pass), who uses it, and what it is."""
    writers: dict[int, int] = {}
    for number, op in enumerate(plan["ops"]):
        for value in dict.fromkeys(operand["value"] for operand in op["operands"]):
            source = writers.get(value)
            if source is not None or plan["values"][value]["external"]:
                yield source, number, value
        if op["by_eager"]:  # a view of what it uses, or what comes from outside
            for result in op["results"]:
                writers.setdefault(result["value"], number)
            continue
        for operand in op["operands"]:
            if operand["written"]:
                writers[operand["value"]] = number
        for result in op["results"]:
            writers[result["value"]] = number


def _outside_writes(plan: Fields) -> Iterator[tuple[int, int]]:
    for number, op in enumerate(plan["ops"]):
        written = (o["value"] for o in op["operands"] if o["written"])
        for value in dict.fromkeys(written):
            if plan["values"][value]["external"]:
                yield number, value


def _segments(plan: Fields) -> Iterator[str]:
    segment_of = [
        number
        for number, segment in enumerate(plan["segments"])
        for _ in range(segment["first_op"], segment["end_op"])
    ]
    for number, segment in enumerate(plan["segments"]):
        ops = plan["ops"][segment["first_op"] : segment["end_op"]]
        common = collections.Counter(op["name"] for op in ops).most_common()
        lines = [_segment_label(number, segment)]
        lines += [f"{name} x{count}" for name, count in common[:_OPERATORS_SHOWN]]
        if len(common) > _OPERATORS_SHOWN:
            lines.append(f"{len(common) - _OPERATORS_SHOWN} more")
        look = ", style=dashed, color=red" if segment["gated"] else ""
        yield f"s{number} [label={_quoted(_lines(lines))}{look}]"
    flows: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    for source, op, value in _reads(plan):
        target = f"s{segment_of[op]}"
        if source is not None:
            if segment_of[source] != segment_of[op]:
                flows[f"s{segment_of[source]}", target].add(value)
        else:
            flows[_kind(plan["values"][value]), target].add(value)
    for op, value in _outside_writes(plan):
        flows[f"s{segment_of[op]}", "outside"].add(value)
    for kind in ("inputs", "constants", "outside"):
        held = {
            value for ends, values in flows.items() if kind in ends for value in values
        }
        if held:
            total = sum(plan["values"][value]["bytes"] for value in held)
            text = _lines([f"{len(held)} {_TITLES[kind]}", f"{total} bytes"])
            yield f"{kind} [label={_quoted(text)}, shape=ellipse]"
    for ends, values in flows.items():
        look = ", color=red, penwidth=2" if "outside" in ends else ""
        yield f'{ends[0]} -> {ends[1]} [label="{len(values)}"{look}]'


_TITLES = {
    "inputs": "inputs",
    "constants": "constants",
    "outside": "written outside",
}


def _kind(value: Fields) -> str:
    return "inputs" if value["input"] else "constants"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A string as DOT has it; a line break stays one."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
