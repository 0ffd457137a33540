"""What one node stands for, of a recorded forward pass."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from reprise import _native
from reprise._enums import Target
from reprise.nodes.graph import Graph


class Outside:
    """A tensor that is no argument. Does not keep it."""

    __slots__ = ("get",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.get = weakref.ref(tensor)

    def __eq__(self, other: object) -> bool:
        tensor = self.get()
        return (
            tensor is not None and isinstance(other, Outside) and other.get() is tensor
        )

    __hash__ = None  # type: ignore[assignment]


class History(NamedTuple):
    """What one node stands for, of a forward tape."""

    outputs: int  # of the callable
    tracked: int  # which of these it is of
    number: int  # of those that have one
    # By contribution; a number: which argument's, or a `Target`.
    targets: tuple[int | Outside, ...]
    # Of what the tape hands out to be saved: what its pass reads; and those of the nodes
    # that it goes on to, for who differentiates its gradients.
    reads: tuple[int, ...]
    of_others: tuple[int, ...]
    # By tensor that autograd saves: which of these it is. None: none.
    saved: tuple[int | None, ...]
    written: tuple[Outside, ...]  # from outside
    draws: bool  # random numbers
    nodes: tuple[Any, ...]  # see Graph.description


class Recorded(NamedTuple):
    """A forward pass that was recorded: what its histories are made of."""

    arguments: Sequence[torch.Tensor]
    outputs: int
    tracked: Sequence[int]  # outputs that have a history, older ones first
    graphs: Sequence[Graph]  # of these
    reads: Sequence[Sequence[int]]  # by graph, which of the tensors that autograd saved
    saved: Sequence[int]  # by tensor that autograd saved, which output of the tape's
    written: Sequence[torch.Tensor]  # from outside
    draws: bool


# What computes the gradients of a history, by the history's name. Histories end with their
# tapes and nodes, of which Python is not told.
KEPT: dict[int, Any] = {}


def forget_ended() -> None:
    """Forget the histories that have ended."""
    for name in list(KEPT):
        if not _native._ops().has_history(name):
            KEPT.pop(name, None)


def histories_of(call: Recorded) -> list[History]:
    """Return a history for each of the graphs."""
    places = {id(each): index for index, each in enumerate(call.arguments)}
    # Of an output there is no other tensor than its graph's.
    outputs = {
        id(graph.output): Target.OUTPUTS - index
        for index, graph in zip(call.tracked, call.graphs, strict=True)
    }
    known = {**outputs, **places}
    reads = [[call.saved[index] for index in each] for each in call.reads]
    behind: list[set[int]] = []  # by graph, which it goes on to
    histories = []
    for number, graph in enumerate(call.graphs):
        targets = [known.get(id(each.target)) for each in graph.contributions]
        to = {
            call.tracked.index(Target.OUTPUTS - each)
            for each in targets
            if each is not None and each <= Target.OUTPUTS
        }
        behind.append(to.union(*(behind[each] for each in to)))
        own = list(dict.fromkeys(reads[number]))
        others = dict.fromkeys(
            which for each in sorted(behind[number]) for which in reads[each]
        )
        has = [*own, *(each for each in others if each not in own)]
        histories.append(
            History(
                outputs=call.outputs,
                tracked=call.tracked[number],
                number=number,
                targets=tuple(
                    [
                        Outside(of.target) if each is None else each
                        for of, each in zip(graph.contributions, targets, strict=True)
                    ]
                ),
                reads=tuple(own),
                of_others=tuple(has[len(own) :]),
                saved=tuple(
                    [has.index(each) if each in has else None for each in call.saved]
                ),
                written=tuple(map(Outside, call.written)),
                draws=call.draws,
                nodes=graph.description(),
            )
        )
    return histories
