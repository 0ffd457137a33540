"""The node of a recorded call, and the forward pass that it is of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.autograd.function import Function

from reprise._enums import Target
from reprise._functions_of_c import history_of
from reprise.nodes.conditions import (
    check_leaves,
    check_outputs,
    check_saved,
    saved_for,
)
from reprise.nodes.differentiable import Differentiable, Kept
from reprise.nodes.graph import Graph, age_of, graphs_of
from reprise.nodes.history import Recorded, histories_of
from reprise.nodes.saved import Saved


class ForwardPass:
    """A forward pass that is being recorded, with the graph that autograd makes."""

    def __init__(self, of: Differentiable, arguments: Sequence[torch.Tensor]) -> None:
        self._of = of
        self._arguments = arguments
        self._saved = Saved()
        self._tracked: list[int] = []
        self._outputs: list[torch.Tensor] = []
        self._graphs: list[Graph] = []
        self._reads: list[list[int]] = []  # by graph, of what is saved

    def watched(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context to set around the callable."""
        return self._saved.hooks()

    def end(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the tape's outputs, and the saved tensors. Raises Unknown."""
        tracked = [index for index, each in enumerate(outputs) if each.requires_grad]
        check_outputs([outputs[index] for index in tracked])
        check_saved(self._saved.written())
        # A node goes on to older ones, which are made first.
        tracked.sort(key=lambda index: age_of(outputs[index]))
        self._tracked = tracked
        self._graphs = graphs_of(
            self._saved, [outputs[index] for index in tracked], self._arguments
        )
        check_leaves(
            self._arguments, [leaf for each in self._graphs for leaf in each.leaves()]
        )
        self._reads = saved_for(self._graphs)
        if len(tracked) == 1:
            self._reads = [list(range(len(self._saved.tensors)))]
        self._outputs = list(outputs)
        for index in tracked:
            self._outputs[index] = outputs[index].detach()
        return [*self._outputs, *self._saved.tensors]

    def results(
        self,
        tape: int,
        draws: bool,
        saved: Sequence[int],
        written: Sequence[torch.Tensor],
    ) -> list[torch.Tensor] | None:
        """Return the callable's results, with nodes of the region's own.

        `saved`: for each tensor that autograd has saved, which output it is. `written`: for each
        written tensor from outside. None: the tape has had other histories.
        """
        histories = histories_of(
            Recorded(
                arguments=self._arguments,
                outputs=len(self._outputs),
                tracked=self._tracked,
                graphs=self._graphs,
                reads=self._reads,
                saved=saved,
                written=written,
                draws=draws,
            )
        )
        kept = self._of.keep(tape, histories)
        if kept is None:
            return None
        made: dict[int, torch.Tensor] = {}
        for index, tensor in zip(saved, self._saved.tensors, strict=True):
            made.setdefault(index, tensor)
        results = list(self._outputs)
        for each, graph in zip(kept, self._graphs, strict=True):
            tracked = each.history.tracked
            results[tracked] = Region.apply(
                each,
                graph,
                self._arguments,
                (results[tracked],),
                [made[index] for index in each.history.reads],
                [made[index] for index in each.history.of_others],
                *[
                    results[Target.OUTPUTS - to]
                    if isinstance(to, int) and to <= Target.OUTPUTS
                    else of.target
                    for of, to in zip(
                        graph.contributions, each.history.targets, strict=True
                    )
                ],
            )
        return results


class Region(Function):  # type: ignore[misc]
    """The node of a recorded call, by the name that users see."""

    @staticmethod
    def forward(
        ctx: Any,
        kept: Kept,
        graph: Graph,
        arguments: Sequence[torch.Tensor],
        output: tuple[torch.Tensor],
        saved: Sequence[torch.Tensor],
        of_others: Sequence[torch.Tensor],
        *_: torch.Tensor,
    ) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.of_others = of_others
        ctx.kept = kept
        ctx.graph = graph
        ctx.arguments = arguments
        ctx.saves = bool(saved)
        ctx.save_for_backward(*saved)
        return output[0]

    @staticmethod
    def backward(ctx: Any, given: torch.Tensor | None) -> Any:
        kept, graph, arguments = ctx.kept, ctx.graph, ctx.arguments
        saved = ctx.saved_tensors if ctx.saves else ()
        of_others = ctx.of_others
        if ctx.saves and not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.graph = ctx.arguments = ctx.of_others = None
        found: dict[int, torch.Tensor] = {}
        if given is not None and torch.is_grad_enabled():
            found = kept.differentiated_again(arguments, (*saved, *of_others), given)
        elif given is not None:
            found = kept.gradients(graph, saved, given)
        targets = range(len(kept.history.targets))
        return (
            None,
            None,
            None,
            None,
            None,
            None,
            *[found.get(index) for index in targets],
        )


def watch(outputs: Iterable[torch.Tensor], tell: Callable[[bool], None]) -> None:
    """Report, for each backward pass of these, whether it will be differentiated again."""

    def before(_: Any) -> None:
        tell(torch.is_grad_enabled())

    for each in outputs:
        if (history := history_of(each)) is not None:
            history.register_prehook(before)
