"""A region's forward pass and its backward pass as two tapes, and one node of autograd.

A recorded call runs with autograd's own graph, whose nodes save tensors. These the tape
of the forward pass hands out, and the tape of the backward pass is given them: it is
what autograd's engine does for that graph. It gives each contribution to a gradient by
itself, in the order in which the engine would have added them, and the engine adds them.
What no tape knows (gradients of another form, `create_graph`) is asked of that graph
again, which is made anew from what was saved.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.function import BackwardCFunction, Function

from reprise import _native, _tree

_WHOLE, _FORWARD, _BACKWARD = range(3)  # TapePass
_CHECKS = {"sample": 0, "always": 1, "never": -1}
_REFUSED, _DIFFERS = 4, 5  # RegionVariants::Verdict
_MOST_REFUSALS = 3


class Unknown(Exception):
    """What a call's history is that one node cannot stand for."""


class Variants:
    """The tapes of something; see bindings/torch/region_variants.h."""

    def __init__(self, check: str, part: int = _WHOLE) -> None:
        ops = _native._ops()
        self.handle: int = ops.make_region(_CHECKS[check], part)
        weakref.finalize(self, ops.drop_region, self.handle).atexit = False
        # By tape, the form of what it returns, and what makes it.
        self.builders: dict[int, tuple[_tree.Form, _tree.Builder]] = {}
        self.refusals = 0
        self.off = False


def one_node_can_stand() -> bool:
    """Whether autograd's work now is nobody else's, too.

    Else (autocast's casts, hooks of saved tensors, checkpointing, which calls in a
    backward pass) each operator keeps a node of its own.
    """
    return (
        torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and not torch.is_autocast_enabled("cuda")
        and not torch.is_autocast_enabled("cpu")
    )


class _Contribution(NamedTuple):
    """What a node gives as its gradient of that number, and to which tensor's."""

    node: Any
    number: int
    target: torch.Tensor


class Graph:
    """Autograd's graph of one call: from its outputs to what has their gradients."""

    def __init__(
        self, outputs: Sequence[torch.Tensor], contributions: list[_Contribution]
    ) -> None:
        self._outputs = outputs
        self.contributions = contributions

    def gradients(
        self, given: Sequence[torch.Tensor | None]
    ) -> dict[int, torch.Tensor]:
        """What the engine finds, by contribution, for these gradients of outputs."""
        found: dict[int, torch.Tensor] = {}
        of_nodes: dict[Any, list[tuple[int, int]]] = {}
        targets = {}
        for index, each in enumerate(self.contributions):
            of_nodes.setdefault(each.node, []).append((each.number, index))
            targets[id(each.target)] = each.target
        asked = [
            pair
            for pair in zip(self._outputs, given, strict=True)
            if pair[1] is not None
        ]
        hooks = [
            node.register_hook(_taking(numbers, found))
            for node, numbers in of_nodes.items()
        ]
        try:
            with _without_hooks(targets.values()):
                torch.autograd.grad(
                    [output for output, _ in asked],
                    list(targets.values()),
                    [gradient for _, gradient in asked],
                    retain_graph=True,  # it goes with its node
                    create_graph=torch.is_grad_enabled(),
                    allow_unused=True,
                )
        finally:
            for hook in hooks:
                hook.remove()
        return found


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


def watch(outputs: Iterable[torch.Tensor], tell: Callable[[bool], None]) -> None:
    """Tells of each backward pass of these whether it is to be differentiated, too."""

    def before(_: Any) -> None:
        tell(torch.is_grad_enabled())

    for each in outputs:
        if each.grad_fn is not None:
            each.grad_fn.register_prehook(before)


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


class Saved:
    """What autograd saves of a call, in order; its nodes get it back from here."""

    def __init__(self, instead: Sequence[torch.Tensor] | None = None) -> None:
        """`instead`: nodes get these, of an earlier call that saved the like."""
        self.tensors: list[torch.Tensor] = []
        self._versions: list[int] = []
        self._instead = instead
        self._first_node = torch._C._autograd._get_sequence_nr()

    def hooks(self) -> contextlib.AbstractContextManager[Any]:
        """To be set round the call."""
        hooks: contextlib.AbstractContextManager[Any]
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        return hooks

    def _pack(self, tensor: torch.Tensor) -> int:
        self.tensors.append(tensor)
        self._versions.append(tensor._version)
        return len(self.tensors) - 1

    def _unpack(self, index: int) -> torch.Tensor:
        if self._instead is not None:
            return self._instead[index]
        tensor, version = self.tensors[index], self._versions[index]
        if tensor._version != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been "
                f"modified by an inplace operation: [{tensor.type()} "
                f"{list(tensor.shape)}] is at version {tensor._version}; expected "
                f"version {version} instead."
            )
        return tensor

    def graph(
        self, outputs: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> Graph:
        """The graph behind the call's outputs, each with a history. Raises Unknown."""
        edges: dict[Any, torch.Tensor] = {}
        for argument in arguments:
            if argument.requires_grad:
                edge = torch.autograd.graph.get_gradient_edge(argument)
                edges.setdefault((edge.node, edge.output_nr), argument)
        found: list[tuple[int, _Contribution]] = []
        seen = set()
        left: list[Any] = [each.grad_fn for each in outputs]
        while left:
            node = left.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, BackwardCFunction):
                raise Unknown("a torch.autograd.Function is called")
            for number, (behind, of) in enumerate(node.next_functions):
                if behind is None:
                    continue
                target = edges.get((behind, of))
                if (
                    target is None
                    and behind.name() == "torch::autograd::AccumulateGrad"
                ):
                    target = behind.variable
                if target is not None:
                    contribution = _Contribution(node, number, target)
                    found.append((node._sequence_nr(), contribution))
                elif behind._sequence_nr() < self._first_node:
                    raise Unknown("a tensor from outside has a history")
                else:
                    left.append(behind)
        if _native._ops().history_has_hooks(list(outputs), self._first_node):
            raise Unknown("hooks are set on tensors inside")
        # Of the nodes that are ready, the engine takes the youngest.
        found.sort(key=lambda each: -each[0])
        return Graph(outputs, [contribution for _, contribution in found])


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


class _BackwardPass(Variants):
    """What is done for the gradients of certain outputs."""

    def __init__(self) -> None:
        super().__init__("never", _BACKWARD)  # sampled with forward passes
        self.found: dict[int, tuple[int, ...]] = {}  # contributions, by tape

    def recorded(
        self,
        given: list[torch.Tensor],
        gradients: Callable[[], dict[int, torch.Tensor]],
        learn: Callable[[int, str, str], None],
    ) -> dict[int, torch.Tensor]:
        """What `gradients` gives, and written down if nobody else records."""
        ops = _native._ops()
        if not ops.begin_region(self.handle, given, [], []):
            return gradients()
        ended = False
        try:
            found = gradients()
            which = tuple(sorted(found))
            (verdict, tape, _), (reason, place), *_ = ops.end_region(
                self.handle, [found[index] for index in which], [], len(which)
            )
            ended = True
        finally:
            if not ended:
                ops.abandon_region(self.handle)
        if self.found.setdefault(tape, which) != which:
            verdict, reason = _DIFFERS, "other gradients are found"
        learn(verdict, reason, place)
        return found


class _Outside:
    """A tensor that is no argument. Does not keep it."""

    __slots__ = ("get",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.get = weakref.ref(tensor)

    def __eq__(self, other: object) -> bool:
        tensor = self.get()
        return (
            tensor is not None and isinstance(other, _Outside) and other.get() is tensor
        )

    __hash__ = None  # type: ignore[assignment]


class _History(NamedTuple):
    """What one node stands for, of a forward tape."""

    outputs: int  # of the callable
    tracked: tuple[int, ...]  # of these, those that have one
    targets: tuple[int | _Outside, ...]  # by contribution; a number: which argument's
    saved: tuple[int, ...]  # by tensor that autograd saves: which one it is
    written: tuple[_Outside, ...]  # from outside


# Of such arguments, what autograd saves of it being told: the graph of a call.
Again = Callable[[Sequence[torch.Tensor], Saved], Graph]


class _Kept:
    """A forward tape's history, and what is done for its gradients."""

    names = itertools.count(1)

    def __init__(
        self, of: Differentiable, tape: int, history: _History, leaves: list[Any]
    ) -> None:
        self._of = weakref.ref(of)  # nodes may outlive it
        self._again = of.again
        self.history = history
        self.name = next(self.names)
        self._passes: dict[tuple[bool, ...], _BackwardPass] = {}
        _native._ops().keep_history(
            of.handle,
            tape,
            self.name,
            history.outputs,
            history.tracked,
            [each if isinstance(each, int) else -1 for each in history.targets],
            leaves,
        )

    def gradients(
        self,
        graph: Graph,
        saved: Sequence[torch.Tensor],
        given: Sequence[torch.Tensor | None],
    ) -> dict[int, torch.Tensor]:
        """What autograd finds by that graph, by contribution."""
        of = self._of()
        if torch.is_grad_enabled() and of is not None:
            of.refuse("its gradients are differentiated again")
        if torch.is_grad_enabled() or of is None or of.off:
            return graph.gradients(given)
        without = tuple([each is None for each in given])
        backward = self._passes.get(without)
        if backward is None:
            backward = self._passes.setdefault(without, _BackwardPass())
        inputs = [each.detach() if each.requires_grad else each for each in saved]
        inputs += [each for each in given if each is not None]
        learn = functools.partial(self._learn, of, without, backward)
        return backward.recorded(inputs, lambda: graph.gradients(given), learn)

    def _learn(
        self,
        of: Differentiable,
        without: tuple[bool, ...],
        backward: _BackwardPass,
        verdict: int,
        reason: str,
        place: str,
    ) -> None:
        for tape, which in backward.found.items():
            _native._ops().keep_backward(
                self.name, list(map(int, without)), backward.handle, tape, which
            )
        of.learn(verdict, reason, place)

    def replayed(
        self, saved: list[torch.Tensor], given: list[torch.Tensor | None]
    ) -> tuple[list[torch.Tensor], list[int]] | None:
        """In the region's own session, where nobody else has one. None: it is not."""
        of = self._of()
        if of is None or torch.is_grad_enabled() or _native.active() is not None:
            return None
        with of.own_session():
            found = _native._ops().replay_backward(self.name, saved, given)
        return found if found[1] else None

    def graph_again(
        self, arguments: Sequence[torch.Tensor], saved: Sequence[torch.Tensor]
    ) -> Graph:
        """A call's graph, made anew from what was saved."""
        values = [saved[index] for index in self.history.saved]
        instead = Saved(values)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with (
            torch.enable_grad(),
            torch.autocast("cuda", enabled=False),
            torch.autocast("cpu", enabled=False),
            torch.random.fork_rng(devices),
            _as_before([each.get() for each in self.history.written]),
        ):
            graph = self._again(arguments, instead)
        if len(instead.tensors) != len(values) or len(graph.contributions) != len(
            self.history.targets
        ):
            raise RuntimeError(
                "reprise: a region cannot be differentiated in this way, which was not "
                "recorded: its callable does something else now than in its call"
            )
        return graph


# By name. They end with their nodes, of which Python is not told.
_KEPT: dict[int, _Kept] = {}


def _forget_ended() -> None:
    for name in list(_KEPT):
        if not _native._ops().has_history(name):
            _KEPT.pop(name, None)


def _differentiate(
    name: int,
    arguments: list[torch.Tensor],
    saved: list[torch.Tensor],
    given: list[torch.Tensor | None],
) -> tuple[list[torch.Tensor], list[int]]:
    """What a node has no tape for; see bindings/torch/region_node.h."""
    kept = _KEPT[name]
    found = kept.replayed(saved, given)
    if found is not None:
        return found
    graph = kept.graph_again(arguments, saved)
    gradients = kept.gradients(graph, saved, given)
    return list(gradients.values()), list(gradients)


@functools.cache
def _library() -> torch.library.Library:
    library = torch.library.Library("reprise", "IMPL")
    library.impl("differentiate", _differentiate, "CompositeImplicitAutograd")
    return library


class Differentiable(Variants):
    """Forward passes of arguments of one structure, and their backward passes."""

    def __init__(
        self,
        check: str,
        again: Again,
        own_session: Callable[[], contextlib.AbstractContextManager[None]],
        learn: Callable[[int, str, str], None],
    ) -> None:
        """`own_session`: for backward passes; `learn` is told verdicts on these."""
        super().__init__(check, _FORWARD)
        _library()
        _forget_ended()
        self.again = again
        self.own_session = own_session
        self._learn = learn
        self._kept: dict[int, _Kept] = {}  # by tape

    @property
    def replayed(self) -> int:
        """Backward passes."""
        ops = _native._ops()
        return sum(ops.replayed_of_history(each.name) for each in self._kept.values())

    def keep(self, tape: int, history: _History, leaves: list[Any]) -> _Kept | None:
        """What is known of that tape. None: it had another history."""
        kept = self._kept.get(tape)
        if kept is None:
            kept = self._kept[tape] = _Kept(self, tape, history, leaves)
            _KEPT[kept.name] = kept
        return kept if kept.history == history else None

    def learn(self, verdict: int, reason: str, place: str) -> None:
        """Of a backward pass."""
        if verdict in (_REFUSED, _DIFFERS):
            self.refusals += 1
            self.off |= self.refusals >= _MOST_REFUSALS
        self._learn(verdict, reason, place)

    def refuse(self, reason: str) -> None:
        """Operators are to have nodes of their own from now on."""
        if not self.off:
            self.off = True
            self._learn(_REFUSED, reason, "")


class Recording:
    """A forward pass that is being recorded, with the graph that autograd makes."""

    def __init__(self, of: Differentiable, arguments: Sequence[torch.Tensor]) -> None:
        self._of = of
        self._arguments = arguments
        self._saved = Saved()
        self._tracked: tuple[int, ...] = ()
        self._outputs: list[torch.Tensor] = []
        self._graph: Graph | None = None

    def watched(self) -> contextlib.AbstractContextManager[Any]:
        """To be set round the callable."""
        return self._saved.hooks()

    def end(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the tape gives: outputs, and what is saved. Raises Unknown."""
        self._tracked = tuple(
            [index for index, each in enumerate(outputs) if each.requires_grad]
        )
        tracked = [outputs[index] for index in self._tracked]
        for index, each in enumerate(tracked):
            if each.grad_fn is None:
                raise Unknown("an output is a leaf")
            if any(torch._C._is_alias_of(each, other) for other in tracked[:index]):
                raise Unknown("two outputs share memory")
        self._graph = self._saved.graph(tracked, self._arguments)
        self._outputs = [
            each.detach() if each.requires_grad else each for each in outputs
        ]
        return [*self._outputs, *self._saved.tensors]

    def results(
        self, tape: int, saved: Sequence[int], written: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """What the callable returns, with a node of the region's own.

        `saved`: of each tensor that autograd has saved, which one it is; `written`: what
        is, from outside. None: the tape has had another history.
        """
        assert self._graph is not None
        places = {id(each): index for index, each in enumerate(self._arguments)}
        targets = [each.target for each in self._graph.contributions]
        history = _History(
            len(self._outputs),
            self._tracked,
            tuple([places.get(id(each), _Outside(each)) for each in targets]),
            tuple(saved),
            tuple(map(_Outside, written)),
        )
        leaves = [each for each in targets if id(each) not in places]
        kept = self._of.keep(tape, history, leaves)
        if kept is None:
            return None
        made: dict[int, torch.Tensor] = {}
        for index, tensor in zip(saved, self._saved.tensors, strict=True):
            made.setdefault(index, tensor)
        results = list(self._outputs)
        with_history = Region.apply(
            kept,
            self._graph,
            tuple([results[index] for index in self._tracked]),
            [made[index] for index in range(len(made))],
            *targets,
        )
        for index, tensor in zip(self._tracked, with_history, strict=True):
            results[index] = tensor
        return results


class Region(Function):  # type: ignore[misc]
    """The node of a recorded call, by the name that users see."""

    @staticmethod
    def forward(
        ctx: Any,
        kept: _Kept,
        graph: Graph,
        outputs: tuple[torch.Tensor, ...],
        saved: Sequence[torch.Tensor],
        *_: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kept = kept
        ctx.graph = graph
        ctx.save_for_backward(*saved)
        return outputs

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> Any:
        saved = ctx.saved_tensors
        found: dict[int, torch.Tensor] = {}
        if any(each is not None for each in given):
            found = ctx.kept.gradients(ctx.graph, saved, given)
        targets = range(len(ctx.kept.history.targets))
        return None, None, None, None, *[found.get(index) for index in targets]
