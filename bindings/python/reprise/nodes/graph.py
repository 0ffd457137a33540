"""Autograd's graph of one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import GradientEdge

from reprise._functions_of_c import history_of, output_nr_of
from reprise.nodes.conditions import check_apart, check_end, check_node, check_within
from reprise.nodes.saved import Saved


class Contribution(NamedTuple):
    """What a node gives as its gradient of that number, and to which tensor's."""

    node: Any
    number: int
    target: torch.Tensor


class Graph:
    """Autograd's graph of one call: from an output to what gets its gradients.

    Other outputs count as arguments: the graph does not go on beyond them.
    """

    def __init__(
        self,
        output: torch.Tensor,
        contributions: list[Contribution],
        nodes: list[Any],
        saved: Saved,
    ) -> None:
        """`nodes`: all, in an order that follows from what they are."""
        self._saved = saved
        self.output = output
        self.contributions = contributions
        self.nodes = nodes
        # A view that is written has another history then.
        self._edge = _edge_of(output)
        targets = {id(each.target): each.target for each in contributions}
        self._targets = list(targets.values())
        self._edges = [_edge_of(each) for each in self._targets]

    def leaves(self) -> list[torch.Tensor]:
        """Return the leaves that it leads to."""
        return [each for each in self._targets if each.is_leaf]

    def description(self) -> tuple[Any, ...]:
        """A key that is equal for graphs that compute the same from saved tensors."""
        return tuple([_description(each, self._saved) for each in self.nodes])

    def reads(self) -> list[int]:
        """Which of the saved tensors its nodes hold, as far as can be seen."""
        asked: set[int] = set()
        for node in self.nodes:
            for name in _names_of_saved(node):
                asked.update(self._saved.ask(node, name)[1])
        return sorted(asked)

    def gradients(self, given: torch.Tensor) -> dict[int, torch.Tensor]:
        """Return the engine's result for this gradient of the output, by contribution."""
        found: dict[int, torch.Tensor] = {}
        of_nodes: dict[Any, list[tuple[int, int]]] = {}
        for index, each in enumerate(self.contributions):
            of_nodes.setdefault(each.node, []).append((each.number, index))
        hooks = [
            node.register_hook(_taking(numbers, found))
            for node, numbers in of_nodes.items()
        ]
        try:
            with _without_hooks(self._targets):
                torch.autograd.grad(
                    self._edge,
                    self._edges,
                    given,
                    retain_graph=True,  # it goes with its node
                    create_graph=torch.is_grad_enabled(),
                    allow_unused=True,
                )
        finally:
            for hook in hooks:
                hook.remove()
        return found


def graphs_of(
    saved: Saved, outputs: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
) -> list[Graph]:
    """Return a graph for each output: from its history to arguments, leaves and other outputs.

    `saved`: what the call that made the outputs has saved. Raises Unknown, except if a graph
    of that kind was known before.
    """
    graphs = [
        _graph_of(
            saved,
            output,
            [*arguments, *(each for each in outputs if each is not output)],
        )
        for output in outputs
    ]
    if len(outputs) > 1 and not saved.are_known:
        check_apart(graphs)
    return graphs


def _graph_of(
    saved: Saved, output: torch.Tensor, arguments: Sequence[torch.Tensor]
) -> Graph:
    edges = {
        (history_of(each), output_nr_of(each)): each
        for each in reversed(arguments)
        if history_of(each) is not None
    }
    found: list[tuple[int, Contribution]] = []
    seen: dict[Any, None] = {}  # in order
    known = saved.are_known
    left: list[Any] = [history_of(output)]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen[node] = None
        if not known:
            check_node(node)
        for number, (behind, of) in enumerate(node.next_functions):
            if behind is None:
                continue
            target = edges.get((behind, of))
            if target is None and behind.name() == "torch::autograd::AccumulateGrad":
                target = behind.variable
            if target is not None:
                contribution = Contribution(node, number, target)
                found.append((node._sequence_nr(), contribution))
            else:
                if not known:
                    check_end(behind, saved.first_node)
                left.append(behind)
    if not known:
        check_within(output, saved.first_node)
    # Of the nodes that are ready, the engine takes the youngest.
    found.sort(key=lambda each: -each[0])
    contributions = [contribution for _, contribution in found]
    return Graph(output, contributions, list(seen), saved)


def age_of(output: torch.Tensor) -> int:
    """Return the age of its node, the older the less."""
    node: Any = history_of(output)
    return node._sequence_nr() if node is not None else 0


def _edge_of(tensor: torch.Tensor) -> torch.Tensor | GradientEdge:
    """To its history, as it is now. Of a leaf torch gives it by an operator's call."""
    node: Any = history_of(tensor)
    return tensor if node is None else GradientEdge(node, output_nr_of(tensor))


def _names_of_saved(node: Any) -> list[str]:
    return [name for name in dir(node) if name.startswith("_saved_")]


def _description(node: Any, saved: Saved) -> tuple[Any, ...]:
    """A node's operator, and what it has kept itself: numbers, and no tensors."""
    kept = []
    for name in _names_of_saved(node):
        value, asked = saved.ask(node, name)
        if asked:
            continue
        if isinstance(value, torch.Tensor):  # a number in the place of one
            value = value.item() if value.dim() == 0 else None
        kept.append((name, repr(value)))
    return node.name(), tuple(kept)


@contextlib.contextmanager
def _without_hooks(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Theirs run where the engine adds contributions up."""
    taken = []
    for each in tensors:
        if each._backward_hooks:
            taken.append((each._backward_hooks, dict(each._backward_hooks)))
    for hooks, _ in taken:
        hooks.clear()  # the engine looks into this very dictionary
    try:
        yield
    finally:
        for hooks, were in taken:
            hooks.update({**were, **hooks})


def _taking(
    numbers: list[tuple[int, int]], found: dict[int, torch.Tensor]
) -> Callable[[Any, Any], Any]:
    """Takes what a node contributes away from the engine, which would add it up."""

    def take(gradients: Any, _: Any) -> Any:
        left = list(gradients)
        for number, index in numbers:
            if left[number] is not None:
                found[index], left[number] = left[number], None
        return tuple(left)

    return take
