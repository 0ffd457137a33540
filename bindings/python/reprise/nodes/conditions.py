"""When one autograd node can stand for the nodes of a call's operators.

A replay of such a call has no autograd graph but this node. The node knows what the
recorded call's graph computed from its saved tensors, and nothing else. So nothing of the
program's may depend on that graph: no hook, no Python function that computes gradients,
no tensor that autograd gets from another place than where it was saved.

All conditions are here, in the order in which they become known. Conditions that only a
dispatcher sees are noted while the call is recorded, in bindings/torch: for any call in
`tape_surroundings.h` and `TapeWriter::CheckHooks`, which reports why a forward pass
cannot be recorded at all; for a forward pass where `TapePass::kForward` is asked for. If a
condition does not hold, operators keep nodes of their own, or the callable runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import BackwardCFunction

from reprise import _native
from reprise._functions_of_c import history_of, is_view

if TYPE_CHECKING:
    from reprise.nodes.graph import Graph

_MOST_NODES = 20_000  # of a history that are looked at


class Unknown(Exception):
    """Why one node cannot stand for a call's history."""


# --- Before a call ---


def stands_here() -> bool:
    """Return whether autograd's work now concerns nobody else.

    It concerns somebody else under autocast (which casts), under hooks of saved tensors or
    if these are disabled, in checkpointing, and in a backward pass.
    """
    return (
        torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and torch._C._autograd._saved_tensors_hooks_is_enabled()
        and not torch.is_autocast_enabled("cuda")
        and not torch.is_autocast_enabled("cpu")
    )


def check_arguments(arguments: Sequence[torch.Tensor]) -> None:
    """Raise Unknown if the history of one argument leads to another.

    Asking the engine for the gradients of both makes it run what is between them. Also
    raised if that history is too long to tell.
    """
    tracked = [each for each in arguments if each.requires_grad]
    if len(tracked) > 1 and _lead_to(tracked, tracked):
        raise Unknown("an argument was computed from another")


def _lead_to(arguments: Sequence[torch.Tensor], others: Iterable[torch.Tensor]) -> bool:
    """Return whether histories of arguments lead to each other, or to leaves of others."""
    roots = {history_of(each) for each in arguments} - {None}
    leaves = {id(each) for each in others if each.is_leaf}
    left: list[Any] = list(roots)
    seen: set[Any] = set()
    while left and len(seen) < _MOST_NODES:
        for behind, _ in left.pop().next_functions:
            if behind is None or behind in seen:
                continue
            seen.add(behind)
            if behind in roots or id(getattr(behind, "variable", None)) in leaves:
                return True
            left.append(behind)
    return bool(left)


# --- Behind a recorded call ---


def share_memory(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Return whether two of these are of one storage."""
    return any(itertools.starmap(torch._C._is_alias_of, pairs))


def check_outputs(tracked: Sequence[torch.Tensor]) -> None:
    """Check the outputs that require gradients. Raises Unknown."""
    if not tracked:
        raise Unknown("none has")
    if any(history_of(each) is None for each in tracked):
        raise Unknown("an output is a leaf")
    if len(tracked) > 1 and any(map(is_view, tracked)):
        raise Unknown("of several outputs with gradients one is a view")
    if share_memory(itertools.combinations(tracked, 2)):
        raise Unknown("outputs with gradients share memory")


def check_leaves(
    arguments: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]
) -> None:
    """Raise Unknown if an argument was computed from a leaf that the callable reads itself.

    The engine, asked for the gradients of both, runs what the argument was computed by,
    and its hooks. Also raised if that history is too long to tell.
    """
    if leaves and _lead_to(arguments, leaves):
        raise Unknown("an argument was computed from a parameter that is read, too")


def check_node(node: Any) -> None:
    """Check a node of a recorded call's graph. Raises Unknown."""
    if isinstance(node, BackwardCFunction):
        raise Unknown("a torch.autograd.Function is called")


def check_within(output: torch.Tensor, first_node: int) -> None:
    """Check the nodes behind an output, from that number on. Raises Unknown."""
    if _native._ops().history_has_hooks([output], first_node):
        raise Unknown("hooks are set on tensors inside")


def check_end(node: Any, first_node: int) -> None:
    """Check a node that is no argument's, leaf's or other output's. Raises Unknown."""
    if node._sequence_nr() < first_node:
        raise Unknown("a tensor from outside has a history")


def saved_for(graphs: Sequence[Graph]) -> list[list[int]]:
    """Return which of the saved tensors each history holds. Raises Unknown."""
    try:
        return [each.reads() for each in graphs]
    except RuntimeError:  # autograd's own, where it has let go of them
        raise Unknown("a backward pass inside has used a history up") from None


def check_saved(written: bool) -> None:
    """Raise Unknown if a tensor that autograd saved was written since."""
    if written:
        raise Unknown("what autograd has saved is written")


def check_apart(graphs: Sequence[Graph]) -> None:
    """Check that each is a node by itself: no other one is within it, or comes between.

    They run in the order of their outputs' nodes, the youngest first. Raises Unknown.
    """
    nodes = [node for graph in graphs for node in graph.nodes]
    if len(set(nodes)) < len(nodes):
        raise Unknown("outputs with gradients are computed from one inner value")
    last: dict[int, int] = {}  # by tensor, the node of its last contribution
    for graph in sorted(graphs, key=lambda graph: -graph.nodes[0]._sequence_nr()):
        for each in graph.contributions:
            number = each.node._sequence_nr()
            if last.get(id(each.target), number) < number:
                raise Unknown("gradients of several outputs come by turns")
            last[id(each.target)] = number
