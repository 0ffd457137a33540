"""Calls that are replayed without their Python."""

from __future__ import annotations

import copy
import dataclasses
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch._C import _len_torch_function_stack as _count_modes

from reprise import _dynamo
from reprise._call_form import Loose, taken_apart, with_optimizers
from reprise._eager import Changed
from reprise._enums import Step
from reprise._recorded_call import Call
from reprise._recording import thread
from reprise._region_functions import (
    functions,
    name_of,
    under_modes,
    why_unusable,
)
from reprise._region_learning import CHANGES
from reprise._region_looks import Looks
from reprise._region_method import Method
from reprise._region_objects import Objects
from reprise._region_recorder import Recorder
from reprise._region_report import RegionReport
from reprise._region_session import OwnSession
from reprise._region_setting import set_behind
from reprise._region_standing import Standing
from reprise._region_structures import (
    DOES_NOT_COME,
    MOST_CHANGES,
    Structure,
    Structures,
)
from reprise._swapping import refers
from reprise._words import check_callable
from reprise.guards import tree
from reprise.guards.arguments import Given, why_led_to
from reprise.guards.follow_code import Bound
from reprise.guards.places import NOTHING, held_by
from reprise.guards.reading import At, Reading
from reprise.nodes.conditions import stands_here

Check = Literal["sample", "always", "never"]
CHECKS = ("sample", "always", "never")

# Looked up in each call.
_DONE, _INACTIVE = Step.DONE, Step.INACTIVE
_LOOKS = (Step.LOOK, Step.LOOK_GIVEN)
_MOST_LOOKS = 3  # in a call
_WHY_PLAIN = {
    Step.LOOK: "what it leads to changes all the time",
    Step.LOOK_GIVEN: "what its arguments hold changes all the time",
    Step.PLAIN: "a mode of torch's, or a tensor that is no ordinary one",
    Step.RAISED: "an operator has raised an error before anything was written",
    Step.FORKED: "the process was forked: start it by spawn",
    Step.PASSED: DOES_NOT_COME,
}
_RESTS = "none was replayed for long: few calls are looked at, as one may be again"

_clock = time.perf_counter
ALL: weakref.WeakSet[Region] = weakref.WeakSet()


class Region:
    """A callable whose calls are replayed without their Python; see `region`.

    Its parts: `Reading` and `Looks` (what it reads besides its arguments), `Structures` (its
    tapes), `Recorder` (what runs where no tape answers) and `Standing` (whether it is on).
    """

    _reprise_is_region = True

    def __init__(
        self,
        fn: Callable[..., Any],
        check: Check = "sample",
        *,
        guarded: bool = False,
        given: Sequence[Any] = (),
        leading: Sequence[Any] = (),
        name: str = "",
        beside: Standing | None = None,
    ) -> None:
        """`guarded`: somebody else sees to what it reads besides its arguments.

        `given`, `leading`: all of its calls are with these objects; they are not kept.
        `name`: in reports, in place of the callable's own. `beside`: another region's, which
        reports this one's calls too.
        """
        check_callable("region", fn)
        if check not in CHECKS:
            raise ValueError(
                f"reprise: check does not accept {check!r}: give {', '.join(CHECKS)}"
            )
        self._reprise_fn = fn
        self._check: Check = check
        functools.update_wrapper(self, fn, updated=())
        self._guarded = guarded
        self._is_ready = False
        self._bound: dict[int, tuple[weakref.ref[Any], Region]] = {}
        self._lock = threading.RLock()
        report = beside.report if beside else RegionReport(name or name_of(fn))
        self._standing = Standing(report, beside)
        self._structures = Structures(check, self._standing)
        self._reads = Reading(None if guarded else fn, given, leading, self._lock)
        self._looks = Looks(self._reads, self._structures, self._standing, self._lock)
        self._objects: Objects[Region] = Objects(
            self._reads, self._looks, self._standing, self._lock
        )
        self._session = OwnSession(self._standing)
        self._loose = Loose()
        self._recorder = Recorder(
            self,
            fn,
            check,
            guarded=guarded,
            has_given=bool(given),
            reads=self._reads,
            looks=self._looks,
            objects=self._objects,
            structures=self._structures,
            standing=self._standing,
            session=self._session,
            loose=self._loose,
        )
        if beside is None:
            ALL.add(self)
        refers(self)

    @_dynamo.head
    def __get__(self, owner: Any, _: type | None = None) -> Any:
        if owner is None:
            return self
        if torch.compiler.is_compiling():
            return functools.partial(self._reprise_fn, owner)
        name = id(owner)
        known = self._bound.get(name)
        if known is not None and known[0]() is owner:
            return Method(known[1], owner)
        try:
            gone = weakref.ref(owner, lambda _: self._bound.pop(name, None))
        except TypeError:  # a class with __slots__: nothing could be kept of it
            return self._reprise_fn.__get__(owner)
        bound = Region(
            Bound(self._reprise_fn, owner),
            self._check,
            name=self._standing.report.name,
        )
        self._bound[name] = gone, bound
        return Method(bound, owner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A function's is itself, as a function is; else that of the copy."""
        fn = copy.deepcopy(self._reprise_fn, memo)
        if fn is self._reprise_fn:
            return self
        return type(self)(fn, self._check, name=self._standing.report.name)

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])  # as functions are

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._reprise_fn(*args, **kwargs)
        standing = self._standing
        standing.report.calls += 1
        if (
            standing.off
            or thread.recording
            or not (self._is_ready or self._get_ready())
        ):
            return self._reprise_fn(*args, **kwargs)
        if standing.rest.left and standing.rest.takes():
            return self._reprise_fn(*args, **kwargs)
        form, parts, why = taken_apart(args, kwargs, standing.following)
        if why:
            return self._run(parts, why)
        if not (parts.objects or parts.leading):
            return self._call(form, parts)
        of, objects = self, parts.objects
        if leading := parts.leading:
            found = self._objects.get(leading) or self._meet((), leading)
            if not isinstance(found, Region) or found._standing.off:
                return self._run(parts)
            if not objects:
                return found._call(form, parts)
            of = found
        found = of._objects.get(objects) or of._meet(objects, leading)
        if isinstance(found, Given):
            return of._call(form, parts, found)
        if found is None or found._standing.off:
            return self._run(parts)
        return found._call(form, parts)

    def _get_ready(self) -> bool:
        """Before the first call. False: it runs the callable, now and always."""
        self._is_ready = True
        if why := why_unusable():
            self._standing.cannot_replay(why)
        return not self._standing.off

    def _meet(
        self, objects: Sequence[Any], leading: Sequence[Any]
    ) -> Region | Given | None:
        """What its calls with these objects among the arguments are.

        A region: they lead to more than data. None: they run the callable.
        """
        of = objects or leading
        if not self._objects.are_worth_it(of):
            return None
        if self._guarded and leading:  # without a walk no code names what they hold
            self._standing.note("an argument is code, or a module: let it lead to that")
            return None
        made: Region | Given | None = self._objects.data_of(objects)
        if made is None:
            made = Region(
                self._reprise_fn,
                self._check,
                guarded=self._guarded,
                given=objects,
                leading=leading,
                beside=self._standing,
            )
        self._objects.keep(of, made)
        return made

    def _call(self, form: Any, parts: tree.Parts, given: Given | None = None) -> Any:
        reads, standing, structures = self._reads, self._standing, self._structures
        if parts.kinds and not reads.know_kinds(parts.kinds):
            return self._run(parts, "its arguments are of too many classes")
        at = reads.now() or self._looks.look()
        whole, walk, numbers, why = form, reads.walk, parts.numbers, ""
        loose = self._loose.keys
        if walk is not None and (optimizers := walk.optimizers):
            whole, numbers, why = with_optimizers(form, numbers, optimizers, loose)
        run, device = under_modes() if _count_modes() else (functions()[0], None)
        for _ in range(_MOST_LOOKS):
            before, tensors, held, kind = NOTHING, parts.tensors, 0, 0
            if given is not None:
                if (found := self._objects.now(given)) is None:
                    return self._run(parts)
                held, kind, of_objects = found
                tensors = [*tensors, *of_objects]
                at = reads.at or self._looks.look()
            state, watch = at
            why = why or why_led_to(parts.containers, state, given)
            if standing.off or why:
                return self._run(parts, why)
            key: tuple[Any, ...] = state.number, whole, kind, device
            if structures.variables:
                key = *key, tuple([each.read() for each in structures.variables])
            if written := state.written:
                before = held_by(written, parts, given)
                if before.reason:
                    return self._run(parts, before.reason)
                tensors = [*tensors, *before.tensors]
                key = *key, before.kinds
            of = (structure := structures[key]).passes or structure
            if of is not structure and (of.off or written or not stands_here()):
                of = structure
            handle, known, begin = of.handle, of.builders, _clock()
            if structure.off:  # only the watches are asked: it may be another one now
                handle, watch = 0, watch if structure.asks() else 0
            try:
                step, tape, outputs = run(handle, watch, tensors, numbers, held)
            except Changed as changed:
                self._has_changed(structure, changed)
                raise
            if step == _DONE:
                standing.report.seconds += _clock() - begin
                standing.report.replayed += 1
                structures.fruitless = 0
                if not structure.weighed:
                    self._looks.weigh(structure, state, given)
                made = (known.get(tape) or of.builders[tape])[1](iter(outputs), parts)
                if written or parts.containers is not None:
                    made = set_behind(reads, at, before, parts, made, run)
                return made
            if step not in _LOOKS:
                break
            at = self._look_again(step, at, structure, given)
        if step == _INACTIVE and not structure.off:
            with self._session.block():  # its calls are Reprise's business all the same
                return self._call(form, parts, given)
        call = structure, of, state, whole, numbers, parts, tensors, before, given
        return self._not_replayed(step, Call(*call, loose))

    def _not_replayed(self, step: int, call: Call) -> Any:
        """Where no tape has answered. `step`: why."""
        structure = call.structure
        if structure.off:
            reason = structure.why_off
            if structure.changes >= MOST_CHANGES:
                reason = CHANGES.format(structure.changed)
            return self._run(call.parts, reason)
        if step != Step.RECORD:
            return self._run(call.parts, _WHY_PLAIN[step])
        return self._recorder.record(call)

    def _look_again(
        self, step: int, at: At, structure: Structure, given: Given | None
    ) -> At:
        """What it leads to, or what its arguments hold, may be something else now."""
        if step == Step.LOOK:
            before, at = at, self._looks.look()
            if at[0] is before[0] and structure.off:
                structure.no_difference()
        elif given is not None:
            self._objects.look_at(given)
        return at

    def _has_changed(self, structure: Structure, changed: Changed) -> None:
        structure.off = True
        self._standing.note(str(changed))

    def _run(self, parts: tree.Parts, reason: str = "") -> Any:
        if reason:
            self._standing.note(reason)
        return self._standing.rest.run(self._reprise_fn, parts.args, parts.kwargs)

    def let_go(self) -> None:
        """Forget everything: all tensors, and all recorded calls."""
        with self._lock:
            ended = self._structures.take()
            self._reads.let_go()
            self._objects.clear()
        for structure in ended:
            structure.end()

    def explain(self) -> RegionReport:
        """Return what became of its calls so far."""
        structures = [
            structure for of in self._regions() for structure in of._structures.all()
        ]
        report, rested = self._standing.report, self._standing.rest.rested
        reasons = dict(report.reasons)
        if rested > 0:
            reasons[_RESTS] = rested, ""
        return dataclasses.replace(
            report,
            variants=sum(
                len(each.builders) + len(each.passes.builders if each.passes else ())
                for each in structures
            ),
            backward=sum(
                each.passes.replayed for each in structures if each.passes is not None
            ),
            reasons=reasons,
            guards=dict(report.guards),
        )

    def _regions(self) -> Iterator[Region]:
        """Itself, and those of its calls with other objects among the arguments."""
        yield self
        for each in self._objects.regions():
            yield from each._regions()
