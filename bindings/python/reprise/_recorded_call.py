"""One call of a region's callable that is recorded, and whether replays could do the same."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from reprise import _results
from reprise._arithmetic import Arithmetic, are_torchs, may_follow
from reprise._call_watch import CallWatch
from reprise._numbers import Notes, noted
from reprise._open_recording import Learned, OpenRecording
from reprise._plain_numbers import make_plain, plain
from reprise._recording import are_same, modes, recording
from reprise._region_learning import NODES
from reprise._region_structures import Structure
from reprise._variants import Variants
from reprise.guards import tree
from reprise.guards.arguments import Given
from reprise.guards.contents import ArgumentSettings, Contents
from reprise.guards.guard import State
from reprise.guards.places import Held, may_be_held, tensors_in
from reprise.guards.settings import Behind, Settings, Unlike
from reprise.guards.walk import Walk
from reprise.nodes.conditions import Unknown, share_memory
from reprise.nodes.differentiable import Differentiable
from reprise.nodes.node import ForwardPass

_LEAVES_MODE = (
    "it leaves another mode of torch's on, or another default device: set it outside"
)
_SETS_HOOKS = "hooks are set on a tensor from outside"
_HOLDS_ITSELF = (
    "a place that it sets has held a container that is too deep, or holds itself (let it "
    "hold plain tensors, or None)"
)

_clock = time.perf_counter


class Refusal(Exception):
    """Why replays cannot do what a recorded call has done."""


class ChangedArgument(Refusal):
    """Replays cannot change an argument as the call has."""


class Call(NamedTuple):
    """A call of a region, and what it was found to be."""

    structure: Structure
    of: Variants  # the structure, or its forward passes
    state: State
    form: Any  # of the arguments, with what optimizers hold
    numbers: list[float]  # the same
    parts: tree.Parts  # of the arguments
    tensors: list[torch.Tensor]  # that a tape is given
    before: Held  # what places that calls set have held
    given: Given | None  # objects among the arguments
    loose: frozenset[str]  # see `Loose`


class NoWatch(contextlib.nullcontext[None]):
    """Looks at nothing, in the place of a `CallWatch`."""

    asks_for_class = False
    sets_within = False
    arithmetic: Arithmetic | None = None
    taken: Callable[[], None] | None = None

    @staticmethod
    def sees_calls() -> bool:
        """It sees none."""
        return False

    def pause(self) -> None:
        """It never looks."""

    go_on = pause


class RecordedCall:
    """From `begin` to `end`, or until its owner abandons it.

        recorded = RecordedCall(call, of, own, watch)
        if recorded.begin():
            try:
                result = recorded.run(...)
                recorded.check_modes()
                form = recorded.form_of(result)
                learned = recorded.end()
            finally:
                recorded.abandon()

    Single-thread. The checks, `form_of` and `end` raise Refusal.
    """

    def __init__(
        self,
        call: Call,
        of: Variants,
        own: list[torch.Tensor],
        watch: CallWatch | NoWatch,
        contents: Contents | None,
    ) -> None:
        """`of`: what records it. `own`: tensors that the callable reads from outside.

        `contents`: of lists and the like among the arguments, where calls change these.
        """
        self.of = of
        self.watch = watch
        self.passes = (
            ForwardPass(of, call.tensors) if isinstance(of, Differentiable) else None
        )
        self.outputs: list[torch.Tensor] = []  # the callable's
        self._call = call
        self._own = own
        self._opened = OpenRecording(of.handle)
        self._attributes = _results.attributes_of(call.tensors)
        self._hooks = _results.hooks_of([*call.tensors, *own])
        self._settings = Settings(call.before)
        self._contents = contents
        self.sets_arguments = False
        self._modes: tuple[Any, ...] = ()
        self._notes: Notes | None = None
        self._held: str | None = None  # why its result is not made anew

    def begin(self, walk: Walk) -> bool:
        """Begin. Returns False if another recording is open."""
        call = self._call
        hidden = _hides_numbers(walk, call.parts)
        seen = len(call.parts.numbers if hidden else call.numbers)
        with torch._C.DisableTorchFunctionSubclass():  # of tensors that it leads to
            return self._opened.begin(call.tensors, call.numbers, self._own, seen)

    def abandon(self) -> None:
        """Abandon the recording. Does nothing if it has ended."""
        self._opened.abandon()

    def run(self, fn: Callable[..., Any], walk: Walk, objects: bool) -> Any:
        """Return the callable's result. `objects`: are among the arguments."""
        passes, structure = self.passes, self._call.structure
        args, kwargs = self._call.parts.args, self._call.parts.kwargs
        numbers = self._call.numbers
        notes = structure.begin_recording() and bool(numbers)
        self._notes = Notes(numbers) if notes else None
        self._modes = modes()
        notes &= not structure.asks_for_class  # else Python may do anything with them
        with (
            recording(objects, self.watch),
            passes.watched() if passes is not None else contextlib.nullcontext(),
            self._noted(args, kwargs, walk)
            if notes
            else contextlib.nullcontext((args, kwargs)) as given_to,
            self.watch,
        ):
            # Nobody but this list holds the result.
            began = _clock()
            box = [fn(*given_to[0], **given_to[1])]
            structure.seconds = min(structure.seconds, _clock() - began)
        parts = self._call.parts
        self._held = _results.held_elsewhere(box, parts, self._contents)
        if notes and parts.containers is not None:
            make_plain(parts.containers.values)
        return plain(box[0]) if notes else box[0]

    def _noted(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], walk: Walk
    ) -> contextlib.AbstractContextManager[tuple[list[Any], dict[str, Any]]]:
        """The arguments, whose floats note what is done with them."""
        notes, watch = self._notes, self.watch
        assert notes is not None
        # Who sees no calls does not see where numbers go.
        hidden = _hides_numbers(walk, self._call.parts) and not any(
            issubclass(kind, torch.optim.lr_scheduler.LRScheduler)
            for kind in walk.kinds
        )  # which would compute with them
        reads = watch.sees_calls() and may_follow(walk.optimizers, hidden=hidden)
        if reads:
            watch.arithmetic = notes.arithmetic
        else:
            notes.arithmetic.escape = "code that nobody sees"
        # What packages have code in C do with them is seen by calls.
        is_blind = isinstance(watch, CallWatch) and not watch.sees_calls()
        seen = len(self._call.parts.numbers if hidden else self._call.numbers)
        watch.taken = lambda: notes.look_at_given(seen)
        computes = walk.computes(self._call.form) or is_blind
        return noted(
            *(args, kwargs, walk.optimizers, notes, self._call.parts.containers),
            computes=computes,
            computes_rates=computes and not (hidden and reads),
            reads=reads,
            hidden=hidden,
            loose=self._call.loose,
        )

    def check_modes(self) -> None:
        """Check that torch's modes are as they were."""
        if not are_same(self._modes, modes()):
            raise Refusal(_LEAVES_MODE)

    def form_of(self, result: Any) -> tree.Form:
        """Return the form of what a replay is to return: the result, and what it sets."""
        call, parts = self._call, self._call.parts
        if self._held is not None:
            raise Refusal(self._held)
        hooks = _results.hooks_of([*call.tensors, *self._own])
        if list(map(id, hooks)) != list(map(id, self._hooks)):
            raise Refusal(_SETS_HOOKS)
        given_back = tree.Made(known=parts)
        whole: Any = result
        if call.before.written:
            _check_kept(call.before)
            try:
                behind = self._settings.behind()
            except Unlike as unlike:
                raise Refusal(str(unlike)) from None
            _check_set(call, behind, self._own)
            try:
                values = _results.with_shared(result, call.before.values, behind[0])
            except RecursionError:
                raise Refusal(_HOLDS_ITSELF) from None
            if values is None:
                raise Refusal("it sets places to tuples that share one (make two)")
            whole = result, (values, behind[1])
        if self._contents is not None:
            whole = whole, self._set_in_arguments(self._contents)
        try:
            whole = _results.with_arguments(whole, parts, self._contents)
            form = tree.flatten(whole, given_back)
        except tree.Foreign as unknown:
            does = _results.RETURNS_OR_PUTS if self.sets_arguments else "returns"
            raise Refusal(f"it {does} {unknown}") from None
        except RecursionError:
            deep = f"more than {tree.MOST_DEEP} deep"
            raise Refusal(f"it returns, or keeps, what is {deep}") from None
        self.outputs = given_back.tensors
        why = _results.why_not_made(self.outputs, self._own, self._attributes)
        if why is not None:
            raise Refusal(why)
        return form

    def _set_in_arguments(self, contents: Contents) -> ArgumentSettings:
        try:
            found = contents.behind()
        except Unlike as unlike:
            raise ChangedArgument(str(unlike)) from None
        except RecursionError:
            raise ChangedArgument("an argument to what is too deep") from None
        self.sets_arguments = bool(found)
        if found and self.passes is not None:
            raise Refusal(f"{NODES}: it sets what its arguments hold")
        return found

    def end(self) -> Learned:
        """Return what the recording has shown."""
        outputs = self.outputs
        if self.passes is not None:
            try:
                outputs = self.passes.end(outputs)
            except Unknown as unknown:
                raise Refusal(f"{NODES}: {unknown}") from None
        if (notes := self._notes) is None:
            return self._opened.end(outputs, [], len(self.outputs))
        arithmetic = notes.arithmetic
        if arithmetic.shows_groups:
            notes.look_at_given(len(self._call.numbers))
        if arithmetic.escape:
            notes.look_at_operands()
        else:
            self._opened.note_arithmetic(arithmetic.nodes, arithmetic.values)
        return self._opened.end(outputs, notes.computed, len(self.outputs))


def _hides_numbers(walk: Walk, given: tree.Parts) -> bool:
    """Only torch's optimizers look at the numbers of their groups.

    `given`: the arguments, of which a group may be one.
    """
    return (
        walk.hides_groups()
        and are_torchs(walk.optimizers)
        and not _hold_groups(given, walk.optimizers)
    )


def _hold_groups(given: tree.Parts, optimizers: list[torch.optim.Optimizer]) -> bool:
    """Return whether arguments may hold a group: they have a number that is one of its."""
    if given.containers is not None:  # whose numbers are part of their form
        return bool(optimizers)
    numbers = set(map(id, given.numbers))
    return any(
        id(value) in numbers
        for optimizer in optimizers
        for group in optimizer.param_groups
        for value in group.values()
    )


def _check_kept(before: Held) -> None:
    """Check that nobody else holds lists that the call has put in places. Raises Refusal.

    What a place held before is put as that very object, whoever holds it.
    """
    known = set(map(id, before.values))
    for place in before.written:
        is_new = id(place.read()) not in known and may_be_held(place.read())
        if is_new and _results.is_kept_elsewhere(place.read):
            raise Refusal(
                f"it sets {place.name} to a list or dictionary that something else holds, "
                "too (let it be a copy)"
            )


def _check_set(call: Call, behind: Behind, own: list[torch.Tensor]) -> None:
    """Check that replays put the same tensors in places. Raises Refusal."""
    # As outputs, tensors are told by their memory and their form.
    known = set(map(id, call.tensors))  # what was held before is among these
    made = [each for each in tensors_in(behind[0]) if id(each) not in known]
    held = list({id(each): each for each in call.before.tensors}.values())
    outside = set(map(id, own))
    if any(id(each) in outside for each in made):
        raise Refusal(
            "it sets a place to a tensor that it reads from outside, too (keep a clone)"
        )
    if share_memory(itertools.product(made, [*own, *held])):
        raise Refusal(
            "what it sets is a view of another tensor from outside (keep a clone)"
        )
    if share_memory(itertools.combinations(held, 2)):
        raise Refusal("places that it sets hold views of one tensor (keep clones)")
