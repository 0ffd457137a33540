"""A call's graph, made anew from what was saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from reprise._functions_of_c import history_of
from reprise.guards import making, tree
from reprise.nodes.graph import Graph, age_of, graphs_of
from reprise.nodes.history import History
from reprise.nodes.saved import Saved

# Of the tensors among a call's arguments, what is saved being told: its graphs, those of
# older outputs first.
Again = Callable[[Sequence[torch.Tensor], Saved], list[Graph]]


def calling_again(
    fn: Callable[..., Any],
    form: tree.Form,
    recording: Callable[[], contextlib.AbstractContextManager[None]],
) -> Again:
    """Return a function that calls `fn` again and returns the graphs of that call.

    `form`: of the arguments; it holds neither numbers nor objects. `recording`: set around
    the call, so that it does not become a region's call.
    """
    by_name = len(form) == 3 and form[2] == "by name"
    parts = [making.builder(each) for each in (form[:2] if by_name else (form,))]

    def again(tensors: Sequence[torch.Tensor], saved: Saved) -> list[Graph]:
        left = iter(tensors)
        nothing = tree.Parts()
        args, *kwargs = [part(left, nothing) for part in parts]
        with recording(), saved.hooks():
            result = fn(*args, **(kwargs[0] if kwargs else {}))
        given_back = tree.Made(known=tree.Parts())
        tree.flatten(result, given_back)
        tracked = [each for each in given_back.tensors if each.requires_grad]
        return graphs_of(saved, sorted(tracked, key=age_of), tensors)

    return again


def graph_again(
    again: Again,
    history: History,
    arguments: Sequence[torch.Tensor],
    saved: Sequence[torch.Tensor],
) -> Graph:
    """Return the graph of that history, of another call with these arguments.

    `saved`: what the call has saved; the graph's nodes get that. Raises RuntimeError if the
    callable does something else than when it was recorded.
    """
    # Nodes that it does not go on to are given no gradients.
    nothing = torch.empty(0)
    instead = Saved(
        [
            nothing if index is None or index >= len(saved) else saved[index]
            for index in history.saved
        ]
    )
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    # Those that are drawn now are of no use, and drawn again.
    with (
        torch.enable_grad(),
        torch.autocast("cuda", enabled=False),
        torch.autocast("cpu", enabled=False),
        torch.random.fork_rng(devices, enabled=history.draws),
        _as_before([each.get() for each in history.written]),
    ):
        graphs = again(arguments, instead)
    graph = graphs[history.number] if history.number < len(graphs) else None
    if (
        graph is None
        or len(instead.tensors) != len(history.saved)
        or graph.description() != history.nodes
    ):
        raise RuntimeError(
            "reprise: a region cannot be differentiated in this way, which was not "
            "recorded: what its callable reads has changed since its call"
        )
    return graph


def apart(arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the arguments without what they were computed by.

    The engine would go on to it, and run its hooks, if it leads to a leaf that the
    callable reads, too. Gradients that get no histories need none of it.
    """
    instead: dict[int, torch.Tensor] = {}
    for each in arguments:
        if history_of(each) is not None and id(each) not in instead:
            instead[id(each)] = each.detach().requires_grad_()
    return [instead.get(id(each), each) for each in arguments]


@contextlib.contextmanager
def _as_before(tensors: Iterable[torch.Tensor | None]) -> Iterator[None]:
    """They hold behind it what they held before, and nobody counts a write."""
    there = [each for each in tensors if each is not None]
    with torch.no_grad():
        were = [each.clone() for each in there]
    with torch.autograd._unsafe_preserve_version_counter(tuple(there)):
        try:
            yield
        finally:
            with torch.no_grad():
                for each, was in zip(there, were, strict=True):
                    each.copy_(was)
