"""A region's forward pass and its backward pass as two tapes, and one autograd node.

A recorded call runs with autograd's own graph, whose nodes save tensors. The tape of the
forward pass returns these tensors, and the tape of the backward pass takes them. The
backward tape computes what autograd's engine computes for that graph. It gives each
contribution to a gradient separately, in the engine's order, and the engine adds them. If
no tape fits (gradients of another form, `create_graph`), the graph is made anew from the
saved tensors, and computes the gradients.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.function import Function
from torch.autograd.graph import GradientEdge
from torch.library import Library

from reprise import _native
from reprise._functions_of_c import history_of, output_nr_of, version_of
from reprise._one_node import (
    check_apart,
    check_end,
    check_node,
    check_outputs,
    check_saved,
    check_within,
)
from reprise._open_recording import OpenRecording
from reprise.guards import tree

_WHOLE, _FORWARD, _BACKWARD = range(3)  # TapePass
_CHECKS = {"sample": 0, "always": 1, "never": -1}
_REFUSED, _DIFFERS = 4, 5  # RegionVariants::Verdict
_MOST_REFUSALS = 3


class Variants:
    """The tapes of something; see bindings/torch/region/region_variants.h."""

    def __init__(self, check: str, part: int = _WHOLE) -> None:
        ops = _native._ops()
        self.handle: int = ops.make_region(_CHECKS[check], part)
        self._end = weakref.finalize(self, _drop, self.handle)
        self._end.atexit = False
        # By tape, the form of what it returns, and what makes it.
        self.builders: dict[int, tuple[tree.Form, tree.Builder]] = {}
        self.refusals = 0
        self.off = False

    def end(self) -> None:
        """Drop its tapes. Nothing of it is called again."""
        self.off = True
        self.builders = {}
        self._end()


def _drop(handle: int) -> None:
    _native._ops().drop_region(handle)
    _forget_ended()


class _Contribution(NamedTuple):
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
        contributions: list[_Contribution],
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

    def description(self) -> tuple[Any, ...]:
        """A key that is equal for graphs that compute the same from saved tensors."""
        return tuple([_description(each, self._saved) for each in self.nodes])

    def reads(self) -> list[int]:
        """Which of the saved tensors its nodes hold, as far as can be seen."""
        self._saved.asked = []
        for node in self.nodes:
            for name in _names_of_saved(node):
                getattr(node, name)
        return sorted(set(self._saved.asked))

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
        before = saved.given_back
        value = getattr(node, name)
        if saved.given_back != before:
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


def watch(outputs: Iterable[torch.Tensor], tell: Callable[[bool], None]) -> None:
    """Report, for each backward pass of these, whether it will be differentiated again."""

    def before(_: Any) -> None:
        tell(torch.is_grad_enabled())

    for each in outputs:
        if (history := history_of(each)) is not None:
            history.register_prehook(before)


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
    """What autograd saves in a call, in order. Its nodes get it back from here."""

    def __init__(self, instead: Sequence[torch.Tensor] | None = None) -> None:
        """`instead`: nodes get these, of an earlier call that saved the like."""
        self.tensors: list[torch.Tensor] = []
        self._versions: list[int] = []
        self._instead = instead
        self.given_back = 0  # so many times
        self.asked: list[int] = []  # for which, since somebody looked
        self._first_node = torch._C._autograd._get_sequence_nr()

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Set the hooks, around the call.

        Code inside that disables hooks requires that there are none, so it removes these
        (TapeRecorder::NoteHooksDisabled).
        """
        hooks = torch._C._autograd
        pack = self._pack
        hooks._push_saved_tensors_default_hooks(pack, self._unpack)
        try:
            yield
        finally:
            top = hooks._top_saved_tensors_default_hooks(True)
            if top is not None and top[0] is pack:
                hooks._pop_saved_tensors_default_hooks()

    def _pack(self, tensor: torch.Tensor) -> int:
        # With its history it would keep the node that keeps this.
        self.tensors.append(tensor.detach())
        self._versions.append(version_of(tensor))
        return len(self.tensors) - 1

    def _unpack(self, index: int) -> torch.Tensor:
        self.given_back += 1
        self.asked.append(index)
        if self._instead is not None:
            return self._instead[index]
        tensor, version = self.tensors[index], self._versions[index]
        if version_of(tensor) != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been "
                f"modified by an inplace operation: [{tensor.type()} "
                f"{list(tensor.shape)}] is at version {version_of(tensor)}; expected "
                f"version {version} instead."
            )
        return tensor

    def written(self) -> bool:
        """Whether one of them was written since."""
        pairs = zip(self.tensors, self._versions, strict=True)
        return any(version_of(each) != version for each, version in pairs)

    def graphs(
        self, outputs: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> list[Graph]:
        """Return a graph for each output: from its history to arguments, leaves and other outputs.

        Raises Unknown, except if a graph of that kind was known before.
        """
        graphs = [
            self._graph(
                output, [*arguments, *(each for each in outputs if each is not output)]
            )
            for output in outputs
        ]
        if len(outputs) > 1 and self._instead is None:
            check_apart(graphs)
        return graphs

    def _graph(self, output: torch.Tensor, arguments: Sequence[torch.Tensor]) -> Graph:
        edges = {
            (history_of(each), output_nr_of(each)): each
            for each in reversed(arguments)
            if history_of(each) is not None
        }
        found: list[tuple[int, _Contribution]] = []
        seen: dict[Any, None] = {}  # in order
        known = self._instead is not None
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
                if (
                    target is None
                    and behind.name() == "torch::autograd::AccumulateGrad"
                ):
                    target = behind.variable
                if target is not None:
                    contribution = _Contribution(node, number, target)
                    found.append((node._sequence_nr(), contribution))
                else:
                    if not known:
                        check_end(behind, self._first_node)
                    left.append(behind)
        if not known:
            check_within(output, self._first_node)
        # Of the nodes that are ready, the engine takes the youngest.
        found.sort(key=lambda each: -each[0])
        contributions = [contribution for _, contribution in found]
        return Graph(output, contributions, list(seen), self)


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
        with OpenRecording(self.handle) as opened:
            if not opened.begin(given, [], []):
                return gradients()
            found = gradients()
            which = tuple(sorted(found))
            if not which:
                return found  # nothing that another pass could go by
            (verdict, tape, *_), (reason, place, _), *_ = opened.end(
                [found[index] for index in which], [], len(which)
            )
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
    tracked: int  # which of these it is of
    number: int  # of those that have one
    # By contribution; a number: which argument's, or _OUTPUTS less which output's.
    targets: tuple[int | _Outside, ...]
    # Of what the tape hands out to be saved: what its pass reads; and those of the nodes
    # that it goes on to, for who differentiates its gradients.
    reads: tuple[int, ...]
    of_others: tuple[int, ...]
    # By tensor that autograd saves: which of these it is. None: none.
    saved: tuple[int | None, ...]
    written: tuple[_Outside, ...]  # from outside
    draws: bool  # random numbers
    nodes: tuple[Any, ...]  # see Graph.description


_LEAF, _OUTPUTS = -1, -2  # RegionHistory::Parts


def _age(output: torch.Tensor) -> int:
    """Of its node, the older the less."""
    node: Any = history_of(output)
    return node._sequence_nr() if node is not None else 0


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
    parts = [tree.builder(each) for each in (form[:2] if by_name else (form,))]

    def again(tensors: Sequence[torch.Tensor], saved: Saved) -> list[Graph]:
        left = iter(tensors)
        nothing = tree.Parts()
        args, *kwargs = [part(left, nothing) for part in parts]
        with recording(), saved.hooks():
            result = fn(*args, **(kwargs[0] if kwargs else {}))
        given_back = tree.Parts()
        tree.flatten(result, given_back)
        tracked = [each for each in given_back.tensors if each.requires_grad]
        return saved.graphs(sorted(tracked, key=_age), tensors)

    return again


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
        self._backward = _BackwardPass()
        _native._ops().keep_history(
            of.handle,
            tape,
            self.name,
            history.outputs,
            history.tracked,
            history.reads,
            history.of_others,
            [each if isinstance(each, int) else _LEAF for each in history.targets],
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
        """A call's graph, made anew from what was saved."""
        history = self.history
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
            graphs = self._again(arguments, instead)
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


# By name. They end with their tapes and nodes, of which Python is not told.
_KEPT: dict[int, _Kept] = {}


def _forget_ended() -> None:
    for name in list(_KEPT):
        if not _native._ops().has_history(name):
            _KEPT.pop(name, None)


def _differentiate(
    name: int,
    arguments: list[torch.Tensor],
    saved: list[torch.Tensor],
    given: torch.Tensor,
) -> tuple[list[torch.Tensor], list[int]]:
    """What a node has no tape for; see bindings/torch/region/region_node.h."""
    kept = _KEPT[name]
    replayed = kept.replayed(saved, given)
    if replayed is not None:
        return replayed
    if torch.is_grad_enabled():
        found = kept.differentiated_again(arguments, saved, given)
    else:
        found = kept.gradients(kept.graph_again(arguments, saved), saved, given)
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
    ) -> None:
        """`own_session`: for backward passes; `learn` is told verdicts on these."""
        super().__init__(check, _FORWARD)
        _library()
        self.again = again
        self.own_session = own_session
        self._learn = learn
        self._kept: dict[int, list[_Kept]] = {}  # by tape

    @property
    def replayed(self) -> int:
        """The number of replayed backward passes."""
        replayed: int = _native._ops().replayed_backward(self.handle)
        return replayed

    def keep(
        self, tape: int, histories: list[_History], leaves: list[list[Any]]
    ) -> list[_Kept] | None:
        """Return what is known of that tape. None: it had other histories."""
        kept = self._kept.get(tape)
        if kept is None:
            self._forget_gone()
            kept = self._kept[tape] = [
                _Kept(self, tape, history, of)
                for history, of in zip(histories, leaves, strict=True)
            ]
            _KEPT.update({each.name: each for each in kept})
        return kept if [each.history for each in kept] == histories else None

    def _forget_gone(self) -> None:
        """Tapes that have given way to others, when no node is of one either."""
        for tape, kept in list(self._kept.items()):
            if not _native._ops().has_history(kept[0].name):
                self._kept.pop(tape, None)
                self.builders.pop(tape, None)
        _forget_ended()

    def learn(self, verdict: int, reason: str, place: str) -> None:
        """Learn a backward pass."""
        if verdict in (_REFUSED, _DIFFERS):
            self.refusals += 1
            self.off |= self.refusals >= _MOST_REFUSALS
        self._learn(verdict, reason, place)

    def refuse(self, reason: str) -> None:
        """Give operators nodes of their own from now on."""
        if not self.off:
            self.off = True
            self._learn(_REFUSED, reason, "")


class Recording:
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
        tracked.sort(key=lambda index: _age(outputs[index]))
        self._tracked = tracked
        self._graphs = self._saved.graphs(
            [outputs[index] for index in tracked], self._arguments
        )
        self._reads = [list(range(len(self._saved.tensors)))]
        if len(tracked) > 1:
            self._reads = [each.reads() for each in self._graphs]
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
        places = {id(each): index for index, each in enumerate(self._arguments)}
        # Of an output there is no other tensor than its graph's.
        outputs = {
            id(graph.output): _OUTPUTS - index
            for index, graph in zip(self._tracked, self._graphs, strict=True)
        }
        known = {**outputs, **places}
        reads = [[saved[index] for index in each] for each in self._reads]
        # By output that has a history: which it goes on to, older ones first.
        behind: dict[int, set[int]] = {}
        histories, leaves = [], []
        for number, (graph, tracked) in enumerate(
            zip(self._graphs, self._tracked, strict=True)
        ):
            targets = [known.get(id(each.target)) for each in graph.contributions]
            to = {
                self._tracked.index(_OUTPUTS - each)
                for each in targets
                if each is not None and each <= _OUTPUTS
            }
            behind[number] = to.union(*(behind[each] for each in to))
            own = list(dict.fromkeys(reads[number]))
            others = dict.fromkeys(
                which for each in sorted(behind[number]) for which in reads[each]
            )
            has = [*own, *(each for each in others if each not in own)]
            histories.append(
                _History(
                    outputs=len(self._outputs),
                    tracked=tracked,
                    number=number,
                    targets=tuple(
                        [
                            _Outside(of.target) if each is None else each
                            for of, each in zip(
                                graph.contributions, targets, strict=True
                            )
                        ]
                    ),
                    reads=tuple(own),
                    of_others=tuple(has[len(own) :]),
                    saved=tuple(
                        [has.index(each) if each in has else None for each in saved]
                    ),
                    written=tuple(map(_Outside, written)),
                    draws=draws,
                    nodes=graph.description(),
                )
            )
            leaves.append(
                [
                    of.target
                    for of, each in zip(graph.contributions, targets, strict=True)
                    if each is None
                ]
            )
        kept = self._of.keep(tape, histories, leaves)
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
                    results[_OUTPUTS - known[id(of.target)]]
                    if known.get(id(of.target), 0) <= _OUTPUTS
                    else of.target
                    for of in graph.contributions
                ],
            )
        return results


class Region(Function):  # type: ignore[misc]
    """The node of a recorded call, by the name that users see."""

    @staticmethod
    def forward(
        ctx: Any,
        kept: _Kept,
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
