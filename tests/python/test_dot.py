"""A plan as a graph: each op once, what flows between them, what waits for the program."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import models
import pytest
import reprise
import torch
from watching import rest, watched

PASSES = 20
TEXT = r'"((?:[^"\\]|\\.)*)"'
NODE = re.compile(rf"^([a-z]+\d*) \[label={TEXT}(, .*)?\]$")
EDGE = re.compile(rf"^([a-z]+\d*) -> ([a-z]+\d*)( \[(?:label={TEXT})?.*\])?$")
BOX = re.compile(r"^subgraph cluster_\d+ \{$")
PROPERTY = re.compile(rf"^(label|style)={TEXT}$")


class Graph(NamedTuple):
    nodes: dict[str, str]  # labels
    looks: dict[str, str]
    edges: list[tuple[str, str, str]]
    boxes: list[list[str]]  # nodes, by segment
    box_looks: list[str]


def read(text: str) -> Graph:
    """Of the few forms that we write; whatever else it has is an error."""
    first, *lines, last, end = text.split("\n")
    assert re.fullmatch(r'digraph "[0-9a-f]{32}" \{', first)
    assert (last, end) == ("}", "")
    graph = Graph({}, {}, [], [], [])
    within: list[str] | None = None
    for line in (line.strip() for line in lines):
        if line.startswith(("graph [", "node [", "edge [")):
            continue
        if BOX.match(line):
            assert within is None
            within = []
        elif line == "}":
            assert within is not None
            graph.boxes.append(within)
            within = None
        elif match := PROPERTY.match(line):
            assert within is not None
            if match[1] == "style":
                graph.box_looks.append(match[2])
        elif match := EDGE.match(line):
            graph.edges.append((match[1], match[2], match[4] or ""))
        else:
            match = NODE.match(line)
            assert match, line
            assert match[1] not in graph.nodes
            graph.nodes[match[1]] = match[2]
            graph.looks[match[1]] = match[3] or ""
            if within is not None:
                within.append(match[1])
    assert within is None
    assert {end for edge in graph.edges for end in edge[:2]} <= set(graph.nodes)
    return graph


def reported(
    device: str, step: Callable[[], object]
) -> tuple[reprise.Report, dict[str, Any]]:
    """The report of a program's passes, and its most replayed plan."""
    with watched(device) as session:
        for _ in range(PASSES):
            step()
            rest(session)
        report = session.explain()
    plans = report.to_dict()["plans"]
    return report, max(plans, key=lambda plan: plan["replays"] * plan["ops"])


def node(graph: Graph, operator: str) -> str:
    """The only op of that operator."""
    (found,) = (name for name, label in graph.nodes.items() if f" {operator}" in label)
    return found


def test_each_op_is_a_node_in_the_box_of_its_segment(device: str) -> None:
    model = models.mlp().to(device)

    @torch.no_grad()
    def step() -> None:
        model(torch.randn(4, 32, device=device)).sum().item()

    report, plan = reported(device, step)
    graph = read(report.dot(plan["signature"]))
    assert graph == read(report.dot(plan["signature"][:8]))
    assert len(graph.boxes) == plan["segments"]
    assert graph.box_looks.count("dashed") == plan["gates"]
    ops = [name for box in graph.boxes for name in box]
    assert ops == [f"op{number}" for number in range(plan["ops"])]
    for number, name in enumerate(plan["operators"]):
        assert graph.nodes[f"op{number}"].startswith(f"{number} {name}\\n")
    assert "float32 [4, 32]" in graph.nodes[node(graph, "aten::randn")]
    # Weights and biases, which nobody writes.
    held = [name for name in graph.nodes if name.startswith("v")]
    assert len(held) == len(list(model.parameters()))
    assert all("constant" in graph.nodes[name] for name in held)
    assert not {target for _, target, _ in graph.edges} & set(held)


def test_edges_lead_from_who_writes_to_who_uses(device: str) -> None:
    weight = torch.randn(32, 32, device=device)

    @torch.no_grad()
    def step() -> None:
        h = torch.randn(4, 32, device=device)
        a = torch.tanh(h)
        h.mul_(2)
        torch.sigmoid(h @ weight + a).sum().item()

    report, plan = reported(device, step)
    graph = read(report.dot(plan["signature"]))
    edges = {(source, target) for source, target, _ in graph.edges}
    of = {
        name: node(graph, f"aten::{name}")
        for name in ("randn", "tanh", "mul_", "mm", "add", "sigmoid", "sum")
    }
    expected = {
        ("randn", "tanh"),
        ("randn", "mul_"),
        ("mul_", "mm"),
        ("mm", "add"),
        ("tanh", "add"),
        ("add", "sigmoid"),
        ("sigmoid", "sum"),
    }
    within = {edge for edge in edges if edge[0].startswith("op")}
    assert within == {(of[a], of[b]) for a, b in expected}


def test_writes_outside_and_gates_are_marked(device: str) -> None:
    seen = torch.zeros(1 << 16, device=device)  # too large for a copy
    inputs = [torch.randn(1 << 16, device=device) for _ in range(3)]
    count = iter(range(1000))

    @torch.no_grad()
    def step() -> None:
        x = inputs[next(count) % 3]
        h = torch.tanh(x * 2) + 1
        seen.add_(h)
        (h * 3).sum().item()

    report, plan = reported(device, step)
    assert plan["gates"] > 0
    graph = read(report.dot(plan["signature"]))
    writer = node(graph, "aten::add_")
    ((_, target, label),) = (
        edge for edge in graph.edges if edge[0] == writer and edge[1].startswith("v")
    )
    assert label == "writes"
    assert f"{4 << 16} bytes" in graph.nodes[target]
    assert "gated: writes the program's memory" in graph.nodes[writer]
    assert "color=red" in graph.looks[writer]
    (box,) = (
        look
        for box, look in zip(graph.boxes, graph.box_looks, strict=True)
        if writer in box
    )
    assert box == "dashed"
    inputs_shown = [label for label in graph.nodes.values() if "\\ninput" in label]
    assert len(inputs_shown) == 1
    small = read(report.dot(plan["signature"], by="segment"))
    assert "1 written outside" in small.nodes["outside"]
    assert "1 inputs" in small.nodes["inputs"]


def test_a_large_plan_is_drawn_by_segment(device: str) -> None:
    weights = [torch.randn(8, 8, device=device) for _ in range(4)]
    products = [functools.partial(torch.matmul, other=weight) for weight in weights]
    order = random.Random(3).choices(
        [torch.relu, torch.tanh, torch.abs, *products], k=400
    )

    @torch.no_grad()
    def step() -> None:
        h = torch.randn(4, 8, device=device)
        for do in order:  # no loop's body, which would be a plan by itself
            h = do(h)
        h.sum().item()

    report, plan = reported(device, step)
    assert plan["ops"] > 300
    graph = read(report.dot(plan["signature"], by="segment"))
    segments = [name for name in graph.nodes if re.fullmatch(r"s\d+", name)]
    assert len(segments) == plan["segments"] > 1
    assert set(graph.nodes) - set(segments) == {"constants"}
    assert "4 constants" in graph.nodes["constants"]
    # From each to the next one, and what all of them use.
    between = [edge for edge in graph.edges if edge[0] in segments]
    assert [edge[:2] for edge in between] == [
        (f"s{number}", f"s{number + 1}") for number in range(len(segments) - 1)
    ]
    launches = sum(
        int(re.search(r"(\d+) launches", graph.nodes[name])[1])  # type: ignore[index]
        for name in segments
    )
    assert launches == plan["launches"]


def test_a_plan_that_is_not_there_is_named() -> None:
    def step() -> None:
        (torch.ones(3, 3) * 2).relu().sum().item()

    report, plan = reported("cpu", step)
    shown = plan["signature"][:8]
    for wrong in ("", "zz", plan["signature"] + "0"):
        with pytest.raises(
            ValueError, match=f"there is no plan '{wrong}': the plans are .*{shown}"
        ):
            report.dot(wrong)
    with pytest.raises(ValueError, match="by does not accept 'ops': give 'op' or"):
        report.dot(shown, by="ops")  # type: ignore[arg-type]
    with reprise.session("cpu", policy="always") as session:
        session.reset()
    with pytest.raises(ValueError, match=f"plan '{shown}' no longer exists: call"):
        report.dot(shown)
    with pytest.raises(ValueError, match="there are no plans yet"):
        reprise.Report({}).dot(shown)


def test_a_beginning_of_several_is_named() -> None:
    fields = {
        "plans": [
            {"signature": f"ab{number}" + "0" * 29, "mechanism": "calls", "replays": 1}
            for number in range(2)
        ]
    }
    with pytest.raises(
        ValueError, match="several plans begin with 'ab': the plans are"
    ):
        reprise.Report(fields).dot("ab")
