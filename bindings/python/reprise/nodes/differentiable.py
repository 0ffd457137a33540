"""Forward passes of a region, and what is done for their gradients."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Sequence

import torch
from torch.library import Library

from reprise import _native
from reprise._enums import TapePass, Target, Verdict
from reprise._open_recording import OpenRecording
from reprise._variants import Variants
from reprise.nodes.again import Again, apart, graph_again
from reprise.nodes.graph import Graph
from reprise.nodes.history import KEPT, History, Outside, forget_ended

_MOST_REFUSALS = 3


class _BackwardPass(Variants):
    """What is done for the gradients of certain outputs."""

    def __init__(self) -> None:
        super().__init__("never", TapePass.BACKWARD)  # sampled with forward passes
        self.found: dict[int, tuple[int, ...]] = {}  # contributions, by tape

    def recorded(
        self,
        given: list[torch.Tensor],
        gradients: Callable[[], dict[int, torch.Tensor]],
        learn: Callable[[int, str, str], None],
    ) -> dict[int, torch.Tensor]:
        """What `gradients` gives, and written down if nobody else records."""
        with OpenRecording(self.handle) as opened:
            if not opened.begin(given, [], [], 0):
                return gradients()
            found = gradients()
            which = tuple(sorted(found))
            if not which:
                return found  # nothing that another pass could go by
            learned = opened.end([found[index] for index in which], [], len(which))
        verdict, reason = learned.verdict, learned.reason
        if self.found.setdefault(learned.tape, which) != which:
            verdict, reason = Verdict.DIFFERS, "other gradients are found"
        learn(verdict, reason, learned.place)
        return found


class Kept:
    """A forward tape's history, and what is done for its gradients."""

    names = itertools.count(1)

    def __init__(self, of: Differentiable, tape: int, history: History) -> None:
        self._of = weakref.ref(of)  # nodes may outlive it
        self._again = of.again
        self.history = history
        self.name = next(self.names)
        self._backward = _BackwardPass()
        leaves = [each.get() for each in history.targets if isinstance(each, Outside)]
        _native._ops().keep_history(
            of.handle,
            tape,
            self.name,
            history.outputs,
            history.tracked,
            history.reads,
            history.of_others,
            [
                each if isinstance(each, int) else Target.LEAF
                for each in history.targets
            ],
            leaves,
        )

    def gradients(
        self, graph: Graph, saved: Sequence[torch.Tensor], given: torch.Tensor
    ) -> dict[int, torch.Tensor]:
        """What autograd finds by that graph, by contribution."""
        of = self._of()
        if of is None or of.off:
            return graph.gradients(given)
        own = saved[: len(self.history.reads)]
        inputs = [*(each.detach() for each in own), given]
        if not _native.are_ordinary(inputs):
            return graph.gradients(given)
        return self._backward.recorded(
            inputs,
            lambda: graph.gradients(given),
            functools.partial(self._learn, of),
        )

    def _learn(self, of: Differentiable, verdict: int, reason: str, place: str) -> None:
        for tape, which in self._backward.found.items():
            _native._ops().keep_backward(self.name, self._backward.handle, tape, which)
        of.learn(verdict, reason, place)

    def replayed(
        self, saved: list[torch.Tensor], given: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[int]] | None:
        """In the region's own session, where nobody else has one. None: it is not."""
        of = self._of()
        active = _native.active() is not None
        if (
            of is None
            or active
            or torch.is_grad_enabled()
            or not _native.are_ordinary([given])
        ):
            return None
        own = saved[: len(self.history.reads)]
        with of.own_session():
            found = _native._ops().replay_backward(self.name, own, given)
        return found if found[1] else None

    def differentiated_again(
        self,
        arguments: Sequence[torch.Tensor],
        saved: Sequence[torch.Tensor],
        given: torch.Tensor,
    ) -> dict[int, torch.Tensor]:
        """Gradients with histories of their own."""
        of = self._of()
        if of is not None:
            of.refuse("its gradients are differentiated again")
        return self.graph_again(arguments, saved).gradients(given)

    def graph_again(
        self, arguments: Sequence[torch.Tensor], saved: Sequence[torch.Tensor]
    ) -> Graph:
        """The graph of a call with these arguments, made anew from what it saved."""
        return graph_again(self._again, self.history, arguments, saved)


def _differentiate(
    name: int,
    arguments: list[torch.Tensor],
    saved: list[torch.Tensor],
    given: torch.Tensor,
) -> tuple[list[torch.Tensor], list[int]]:
    """What a node has no tape for; see bindings/torch/region/region_node.h."""
    kept: Kept = KEPT[name]
    replayed = kept.replayed(saved, given)
    if replayed is not None:
        return replayed
    if torch.is_grad_enabled():
        found = kept.differentiated_again(arguments, saved, given)
    else:
        graph = kept.graph_again(apart(arguments), saved)
        found = kept.gradients(graph, saved, given)
    return list(found.values()), list(found)


@functools.cache
def _library() -> Library:
    library = Library("reprise", "IMPL")
    # By batches of gradients (`is_grads_batched`) it is called as it is.
    for key in ("CompositeImplicitAutograd", "FuncTorchBatched", "Batched"):
        library.impl("differentiate", _differentiate, key)
    return library


class Differentiable(Variants):
    """Forward passes of arguments of one structure, and their backward passes."""

    def __init__(
        self,
        check: str,
        again: Again,
        own_session: Callable[[], contextlib.AbstractContextManager[None]],
        learn: Callable[[int, str, str], None],
        region: object,
    ) -> None:
        """`own_session`: for backward passes; `learn` is told verdicts on these.

        `region` is kept alive: a result may be differentiated when nobody holds its region.
        """
        super().__init__(check, TapePass.FORWARD)
        _library()
        self.again = again
        self.own_session = own_session
        self._learn = learn
        self._region = region
        self._kept: dict[int, list[Kept]] = {}  # by tape

    @property
    def replayed(self) -> int:
        """The number of replayed backward passes."""
        replayed: int = _native._ops().replayed_backward(self.handle)
        return replayed

    def keep(self, tape: int, histories: list[History]) -> list[Kept] | None:
        """Return what is known of that tape. None: it had other histories."""
        kept = self._kept.get(tape)
        if kept is None:
            self._forget_gone()
            kept = self._kept[tape] = [Kept(self, tape, each) for each in histories]
            KEPT.update({each.name: each for each in kept})
        return kept if [each.history for each in kept] == histories else None

    def _forget_gone(self) -> None:
        """Tapes that have given way to others, when no node is of one either."""
        for tape, kept in list(self._kept.items()):
            if not _native._ops().has_history(kept[0].name):
                self._kept.pop(tape, None)
                self.forget([tape])
        forget_ended()

    def learn(self, verdict: int, reason: str, place: str) -> None:
        """Learn a backward pass."""
        if verdict in (Verdict.REFUSED, Verdict.DIFFERS):
            self.refusals += 1
            self.off |= self.refusals >= _MOST_REFUSALS
        self._learn(verdict, reason, place)

    def refuse(self, reason: str) -> None:
        """Give operators nodes of their own from now on."""
        if not self.off:
            self.off = True
            self._learn(Verdict.REFUSED, reason, "")
