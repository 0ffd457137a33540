"""Calls that are replayed without their Python."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import math
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch

from reprise import _dynamo, _enabled, _native, _results
from reprise._advice import for_optimizers, is_optimizers_step
from reprise._call_watch import CallWatch
from reprise._eager import Changed
from reprise._hidden_state import MOST_VALUES, Value, unguarded
from reprise._numbers import noted, plain
from reprise._open_recording import OpenRecording
from reprise._recording import are_same, modes, recording, thread
from reprise._region_functions import Run, functions, warn_once, why_unusable
from reprise._region_report import RegionReport
from reprise._swapping import refers
from reprise._variables import switched_off
from reprise._variants import Variants, Verdict
from reprise._words import check_callable
from reprise.guards import tree
from reprise.guards.arguments import Forms, Given
from reprise.guards.attributes import held_by, set_to
from reprise.guards.follow_code import Bound
from reprise.guards.guard import State
from reprise.guards.reading import At, Reading
from reprise.nodes.again import calling_again
from reprise.nodes.conditions import (
    Unknown,
    check_arguments,
    share_memory,
    stands_here,
)
from reprise.nodes.differentiable import Differentiable
from reprise.nodes.node import ForwardPass, watch

Check = Literal["sample", "always", "never"]
CHECKS = ("sample", "always", "never")

# RegionVariants::Step and RegionCall.
_DONE, _RECORD, _PLAIN, _LOOK, _PASSED, _INACTIVE, _LOOK_GIVEN, _RAISED, _FORKED = (
    range(9)
)

_MOST_REFUSALS = 3  # of one structure of arguments
_MOST_STRUCTURES = 64
_MOST_OBJECTS = 16  # sets of objects among the arguments
_MOST_LOOKS = 3  # in a call
_MOST_FRUITLESS = 128
_MOST_HIDDEN = 2  # recordings in a row that took what no guard looks at
_MOST_CHANGES = 4  # of Python's state by the callable itself
_CHANGES = "it changes {}, which no replay would"
_READ_WITHIN = (
    "it sets attributes, and calls functions that run each time, or operators of others"
)
_LONGEST_WAIT = 256  # calls
# Looking at what a callable reads may take so long in each call, or that share of it.
_LONGEST_LOOK = 50e-6
_LARGEST_SHARE = 0.02
# Of looks that the program's writes cause: with them, replays may still be worth it.
_LARGEST_SHARE_OF_LOOKS = 0.25
_LOOKS_WEIGHED = 64  # at a time

_clock = time.perf_counter
_log = logging.getLogger("reprise")
ALL: weakref.WeakSet[Region] = weakref.WeakSet()


class _Nothing(contextlib.nullcontext[None]):
    """Looks at nothing."""

    asks_for_class = False

    def pause(self) -> None:
        """It never looks."""

    go_on = pause


class _Structure(Variants):
    """The variants of arguments of one structure, in one state of the modules."""

    # Where results have a history: its passes, with one node for both.
    passes: Differentiable | None = None
    # Why it has none: known from a call that was recorded otherwise.
    no_node = ""
    # What its calls changed of objects among the arguments, and of how many.
    changed = ""
    changes = 0
    # Its callable may tell floats from those that note what is done with them.
    asks_for_class = False
    # Recordings; those at last that took what no guard looks at, and generators of
    # random numbers among that, by name.
    recordings = 0
    hidden = 0
    suspects: frozenset[str] = frozenset()
    # What a recorded call took at least.
    seconds = math.inf
    weighed = False  # what is looked at in each of its calls
    # While it is off: so many calls are not asked for what is another one, twice as
    # many each time that nothing was.
    waits = 0
    next_waits = 1

    def no_difference(self) -> None:
        """What is watched has changed, and nothing that counts."""
        self.waits = self.next_waits
        self.next_waits = min(2 * self.next_waits, _LONGEST_WAIT)

    def end(self) -> None:
        """Nothing of it is called again."""
        super().end()
        if self.passes is not None:
            self.passes.end()
            self.passes = None

    def note_backward(self, again: bool, make: Callable[[], Differentiable]) -> None:
        """`again`: it is differentiated again, for which one node is not enough."""
        if self.passes is None:
            self.passes = make()
        self.passes.off |= again


class Region:
    """A callable whose calls are replayed without their Python; see `region`."""

    _reprise_is_region = True

    def __init__(
        self,
        fn: Callable[..., Any],
        check: Check = "sample",
        *,
        guarded: bool = False,
        given: Sequence[Any] = (),
        name: str = "",
    ) -> None:
        """`guarded`: somebody else sees to what it reads besides its arguments.

        `given`: all of its calls are with these objects; they are not kept.
        `name`: in reports, in place of the callable's own.
        """
        check_callable("region", fn)
        if check not in CHECKS:
            raise ValueError(
                f"reprise: check does not accept {check!r}: give {', '.join(CHECKS)}"
            )
        self._reprise_fn = fn
        self._check: Check = check
        functools.update_wrapper(self, fn, updated=())
        self._report = RegionReport(name or _name_of(fn))
        self._structures: dict[Any, _Structure] = {}
        self._off = switched_off()
        self._is_ready = False
        self._bound: dict[int, tuple[weakref.ref[Any], Region]] = {}
        # By the objects among the arguments, of which each tells when it goes.
        self._with: dict[
            tuple[int, ...], tuple[list[weakref.ref[Any]], Region | Given]
        ] = {}
        self._forms = Forms()  # of such objects
        self._strangers = 0  # sets of objects since a call was replayed
        self._replayed = 0  # calls, when the last of these came
        self._guarded = guarded
        self._lock = threading.RLock()
        # Environment and context variables that it reads.
        self._values: tuple[Value, ...] = ()
        self._fruitless = 0  # states and structures since a call was replayed
        self._changes = 0
        self._reads = Reading(None if guarded else fn, given, self._lock)
        self._has_given = bool(given)
        self._looks = 0  # what they have taken since that many calls
        self._look_seconds = 0.0
        self._looked_until = 0
        self._runtime: int | None = None
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
            return _Method(known[1], owner)
        try:
            gone = weakref.ref(owner, lambda _: self._bound.pop(name, None))
        except TypeError:  # a class with __slots__: nothing could be kept of it
            return self._reprise_fn.__get__(owner)
        bound = Region(Bound(self._reprise_fn, owner), self._check)
        bound._report.name = self._report.name
        self._bound[name] = gone, bound
        return _Method(bound, owner)

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])  # as functions are

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._reprise_fn(*args, **kwargs)
        report = self._report
        report.calls += 1
        if self._off or thread.recording or not (self._is_ready or self._get_ready()):
            return self._reprise_fn(*args, **kwargs)
        parts = tree.Parts()
        parts.args, parts.kwargs = args, kwargs
        try:
            form = _form(args, kwargs, parts)
        except TypeError as unknown:
            self._note(f"an argument holds a {unknown}")
            return self._reprise_fn(*args, **kwargs)
        except RecursionError:
            self._note("an argument is too deep, or holds itself")
            return self._reprise_fn(*args, **kwargs)
        if not parts.objects:
            return self._call(form, parts, args, kwargs)
        found = self._of(parts.objects)
        if isinstance(found, Given):
            return self._call(form, parts, args, kwargs, found)
        if found is None or found._off:
            return self._reprise_fn(*args, **kwargs)
        return found._call(form, parts, args, kwargs)

    def _get_ready(self) -> bool:
        """Before the first call. False: it runs the callable, now and always."""
        self._is_ready = True
        if why := why_unusable():
            self._cannot_replay(why)
        return not self._off

    def _cannot_replay(self, why: str) -> None:
        self._off = True
        self._note(f"nothing can be replayed: {why}")
        warn_once(why)

    def _of(self, objects: list[Any]) -> Region | Given | None:
        """What its calls with these objects among the arguments are.

        A region: they lead to more than data. None: they run the callable.
        """
        key = tuple(map(id, objects))
        known = self._with.get(key)
        if known is not None:
            return known[1]
        replayed, self._replayed = self._replayed, self._report.replayed
        self._strangers = self._strangers + 1 if replayed == self._replayed else 0
        if self._strangers > _MOST_OBJECTS and self._strangers % _MOST_OBJECTS:
            names = ", ".join(sorted({type(each).__name__ for each in objects}))
            self._note(f"among the arguments is another {names} in each call")
            return None
        # The oldest go. Other threads add and drop meanwhile, hence copies.
        for oldest in list(self._with)[: 1 - _MOST_OBJECTS]:
            self._with.pop(oldest, None)
        gone = [
            weakref.ref(each, lambda _: self._with.pop(key, None)) for each in objects
        ]
        made: Given | Region | None = self._data_of(objects)
        if made is None:
            made = Region(
                self._reprise_fn, self._check, guarded=self._guarded, given=objects
            )
            made._report = self._report
            ALL.discard(made)
        self._with[key] = gone, made
        return made

    def _data_of(self, objects: list[Any]) -> Given | None:
        """None: more than what they hold counts."""
        try:
            given = Given(objects, self._forms)
        except Exception:  # the program's own, too: the region that is made says it
            return None
        return given if self._knows(given) else None

    def _knows(self, given: Given) -> bool:
        """Code that is found leads through its classes, too. False: too many."""
        kinds, state = given.known
        at = self._reads.at
        if kinds is given.kinds and at is not None and state is at[0]:
            return True
        with self._lock:
            if not self._reads.know_kinds(given.kinds):
                return False
            # That is, for all that is known; what is another one is found before
            # a call is made.
            state = (self._reads.at or self._look())[0]
            kinds = given.kinds  # other threads look, too
            # It may ask which one it is.
            if state.meets(kinds, given.tensors()):
                return False
            given.known = kinds, state
        return True

    def _call(
        self,
        form: Any,
        parts: tree.Parts,
        args: Any,
        kwargs: Any,
        given: Given | None = None,
    ) -> Any:
        tensors, numbers = parts.tensors, parts.numbers
        reads = self._reads
        if parts.kinds and not reads.know_kinds(parts.kinds):
            self._note("its arguments are of too many classes")
            return self._reprise_fn(*args, **kwargs)
        at = reads.now() or self._look()
        arguments, count = form, len(numbers)
        if reads.walk is not None and reads.walk.optimizers:
            form = self._numbers_of_optimizers(form, numbers)
        run, _ = functions()
        device = None
        if torch._C._len_torch_function_stack():
            device = _default_device()
            run = run if device is None else _without_modes
        step = _LOOK
        before: tuple[Any, ...] = ()
        for _ in range(_MOST_LOOKS):
            held, kind = 0, 0
            tensors = parts.tensors
            if given is not None:
                found = self._held_by(given)
                if found is None:
                    return self._reprise_fn(*args, **kwargs)
                held, kind, of_objects = found
                tensors = [*parts.tensors, *of_objects]
                at = reads.at or self._look()
            state, watch = at
            if self._off:
                return self._reprise_fn(*args, **kwargs)
            key: tuple[Any, ...] = state.number, form, kind, device
            if self._values:
                key = *key, tuple([each.read() for each in self._values])
            if state.written:
                now = held_by(state.written)
                if now is None:
                    self._note("an attribute that it sets is something else now")
                    return self._reprise_fn(*args, **kwargs)
                before = now
                tensors = [*tensors, *filter(torch.is_tensor, before)]
                key = *key, tuple(map(type, before))
            structure = self._structures.get(key) or self._new_structure(key)
            passes = structure.passes
            if passes is not None and (
                passes.off or state.written or not stands_here()
            ):
                passes = None
            of = passes or structure
            handle = of.handle
            if structure.off:  # only the watches are asked: it may be another one now
                handle = 0
                if structure.waits > 0:
                    structure.waits -= 1
                    watch = 0
            begin = _clock()
            try:
                step, tape, outputs = run(handle, watch, tensors, numbers, held)
            except Changed as changed:
                structure.off = True
                self._note(str(changed))
                raise
            if step == _DONE:
                report = self._report
                report.seconds += _clock() - begin
                report.replayed += 1
                self._fruitless = 0
                if not structure.weighed:
                    self._weigh(structure, state, given)
                result = of.builders[tape][1](iter(outputs), parts)
                if not state.written:
                    return result
                result, behind = result
                self._set(before, behind, at, run)
                return result
            if step == _LOOK:
                at = self._look()
                if at[0] is state and structure.off:
                    structure.no_difference()
            elif step == _LOOK_GIVEN and given is not None:
                self._look_at(given)
            else:
                break
        if structure.off:
            if structure.changes >= _MOST_CHANGES:
                self._note(_CHANGES.format(structure.changed))
            return self._reprise_fn(*args, **kwargs)
        if step == _INACTIVE:  # its calls are Reprise's business all the same
            del numbers[count:]
            with self._own_session():
                return self._call(arguments, parts, args, kwargs, given)
        if step != _RECORD:
            self._note(_WHY_PLAIN[step])
            return self._reprise_fn(*args, **kwargs)
        return self._record(
            structure, of, state, form, parts, args, kwargs, tensors, before, given
        )

    def _set(
        self,
        before: tuple[Any, ...],
        behind: tuple[Any, ...],
        at: At,
        run: Run,
    ) -> None:
        """What a call sets. A watch that it finds quiet is not told of that."""
        state, watch = at
        alone = threading.active_count() == 1
        quiet = alone and run(0, watch, [], [], 0)[0] != _LOOK
        set_to(state.written, before, behind)
        if quiet:
            self._reads.is_quiet_again(at)

    def _held_by(self, given: Given) -> tuple[int, int, list[torch.Tensor]] | None:
        """See `Given.now`. None: the callable is run this time."""
        if given.changes >= _MOST_CHANGES:
            return None
        try:
            found = given.now()
        except Exception:  # they hold something else now, and are met anew
            self._forget(given)
            return None
        if self._knows(given):
            return found
        self._forget(given)  # from now on it is learned by itself
        return None

    def _look_at(self, given: Given) -> None:
        try:
            changed = given.look()
        except Exception:
            self._forget(given)
            return
        if changed is not None:
            self._note_guard(changed)

    def _forget(self, given: Given) -> None:
        given.changes = _MOST_CHANGES
        for key, (_, each) in list(self._with.items()):
            if each is given:
                self._with.pop(key, None)

    def let_go(self) -> None:
        """Forget everything: all tensors, and all recorded calls."""
        with self._lock:
            structures, self._structures = self._structures, {}
            self._reads.let_go()
            self._with.clear()
        for structure in structures.values():
            structure.end()

    def explain(self) -> RegionReport:
        """Return what became of its calls so far."""
        others = [each for _, each in list(self._with.values())]
        of_all = (self, *(each for each in others if isinstance(each, Region)))
        return dataclasses.replace(
            self._report,
            variants=sum(
                len(each.builders) + len(each.passes.builders if each.passes else ())
                for of in of_all
                for each in list(of._structures.values())
            ),
            backward=sum(
                each.passes.replayed
                for of in of_all
                for each in list(of._structures.values())
                if each.passes is not None
            ),
            reasons=dict(self._report.reasons),
            guards=dict(self._report.guards),
        )

    # --- What it reads ---

    def _weigh(self, structure: _Structure, state: State, given: Given | None) -> None:
        """What is looked at in each call may take but little of the callable."""
        structure.weighed = True
        looked_at = [state, *([] if given is None else [given.state()])]
        seconds = sum(each.seconds() for each in looked_at)
        if seconds > max(_LONGEST_LOOK, _LARGEST_SHARE * structure.seconds):
            name, count = max((each.largest() for each in looked_at), key=_place)
            self._off = True
            self._note(
                f"what is compared in each call takes {seconds * 1e6:.0f} us, most of it "
                f"{name} ({count} values): give the callable what it takes of that as an "
                "argument"
            )

    def _weigh_looks(self, seconds: float) -> None:
        """So long a look has taken: many of them may be dearer than the callable."""
        self._looks += 1
        self._look_seconds += seconds
        if self._looks % _LOOKS_WEIGHED:
            return
        calls = max(self._report.calls - self._looked_until, 1)
        a_call = self._look_seconds / calls
        self._look_seconds, self._looked_until = 0.0, self._report.calls
        callable_takes = max(
            (
                each.seconds
                for each in self._structures.values()
                if each.seconds < math.inf
            ),
            default=math.inf,
        )
        if a_call > max(_LONGEST_LOOK, _LARGEST_SHARE_OF_LOOKS * callable_takes):
            self._off = True
            self._note(
                "what it leads to is written between calls, and looking at all of it takes "
                f"{a_call * 1e6:.0f} us a call ({self._reads.left or 'it is the same'})"
            )

    def _look(self) -> At:
        """Finds the state that all of it is in."""
        _native.observe()
        reads = self._reads
        with self._lock:
            begin, made = _clock(), reads.made
            at = reads.look()
            if reads.left:
                self._note_guard(reads.left)
            if reads.made == made:
                self._weigh_looks(_clock() - begin)
            else:
                self._forget_states(reads.made - made)
            self._note_refusal()
        return at

    def _note_refusal(self) -> None:
        if self._reads.refused and not self._off:
            self._off = True
            self._note(self._reads.refused)

    def _forget_states(self, made: int) -> None:
        """So many are new, and in the place of others."""
        self._fruitless += made
        if self._fruitless > _MOST_FRUITLESS:
            self._off = True
            what = self._reads.left or "what it reads"
            self._note(f"{what} is another one again and again")
        known = self._reads.numbers()
        self._structures = {
            key: value for key, value in self._structures.items() if key[0] in known
        }

    def _numbers_of_optimizers(self, form: Any, numbers: list[float]) -> Any:
        """Their floats are numbers like arguments; what else they hold, form."""
        walk = self._reads.walk  # None: the call has let go of everything
        for optimizer in walk.optimizers if walk is not None else ():
            others: list[tuple[Any, ...]] = []
            for group in optimizer.param_groups:
                for key, value in group.items():
                    if type(value) is float:
                        numbers.append(value)
                    elif key != "params":
                        kind = type(value)
                        others.append((key, kind, _comparable(value)))
                params = group["params"]
                others.append(("params", id(params), *map(id, params)))
            form = form, tuple(others)
        return form

    # --- Recording ---

    def _new_structure(self, key: Any) -> _Structure:
        self._fruitless += 1
        if any(of[0] == key[0] for of in self._structures):
            self._note_guard("structure of the arguments")
        if self._fruitless > _MOST_FRUITLESS:
            self._off = True
            self._note(
                "its arguments are others in each call (give numbers as tensors)"
            )
        while len(self._structures) >= _MOST_STRUCTURES:  # the oldest goes
            del self._structures[next(iter(self._structures))]
        structure = _Structure(self._check)
        self._structures[key] = structure
        return structure

    def _record(
        self,
        structure: _Structure,
        of: Variants,
        state: State,
        form: Any,
        parts: tree.Parts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[torch.Tensor],
        before: tuple[Any, ...],
        given: Given | None,
    ) -> Any:
        """`before`: what attributes that it sets have held."""
        reached = self._reads.walk
        assert reached is not None
        numbers = parts.numbers
        own = state.tensors()
        if share_memory(itertools.product(tensors, own)):
            self._note("an argument is memory that it reads from outside, too")
            if given is not None:
                self._forget(given)
            return self._reprise_fn(*args, **kwargs)
        if isinstance(of, Differentiable):
            try:
                check_arguments(tensors)
            except Unknown as unknown:
                self._refuse(of, f"{_NODES}: {unknown}", "")
                of = structure
        if (looks := self._call_watch(structure, numbers)) is None:
            return self._reprise_fn(*args, **kwargs)
        passes = ForwardPass(of, tensors) if isinstance(of, Differentiable) else None
        opened = OpenRecording(of.handle)
        attributes = _results.attributes_of(tensors)
        with torch._C.DisableTorchFunctionSubclass():  # of tensors that it leads to
            begun = opened.begin(tensors, numbers, own)
        if not begun:
            self._note("another region is being recorded")
            return self._reprise_fn(*args, **kwargs)
        # Of the two first recordings the second one, and of later ones half, by a rule
        # that no other rhythm meets.
        notes = bool(numbers) and structure.recordings.bit_count() % 2 == 1
        structure.recordings += 1
        computed = [True] * len(numbers) if notes else []
        modes_before = modes()
        notes &= not structure.asks_for_class  # else Python may do anything with them
        try:
            with (
                recording(bool(parts.objects) or self._has_given, looks),
                passes.watched() if passes is not None else contextlib.nullcontext(),
                noted(args, kwargs, reached.optimizers, reached.computes, computed)
                if notes
                else contextlib.nullcontext((args, kwargs)) as given_to,
                looks,
            ):
                # Nobody but this list holds the result.
                began = _clock()
                box = [self._reprise_fn(*given_to[0], **given_to[1])]
                structure.seconds = min(structure.seconds, _clock() - began)
            held = _results.held_elsewhere(box, args, kwargs)
            result = plain(box[0]) if notes else box[0]
            self._reads.ran.left_out |= state.leave_out()
            changed = state.difference() or self._changed(form, parts, args, kwargs)
            if changed is not None and self._reads.learn_written(state):
                return result
            if changed is not None:
                self._note(_CHANGES.format(changed))
                self._changes += 1
                self._off |= self._changes >= _MOST_CHANGES
                return result
            if given is not None and (changed := given.changed()) is not None:
                self._note(_CHANGES.format(changed))
                given.changes += 1
                # As a cache is made in its first call: with each of them.
                structure.changed = changed
                structure.changes += given.changes == 1 and not structure.builders
                structure.off |= structure.changes >= _MOST_CHANGES
                return result
            structure.asks_for_class |= looks.asks_for_class
            if not are_same(modes_before, modes()):
                self._refuse(of, _LEAVES_MODE, "")
                return result
            if self._took_hidden(structure, looks):
                return result
            if isinstance(looks, CallWatch):
                self._reads.learn_code(state, looks.ran)
                self._note_refusal()
            if held is not None:
                self._refuse(of, held, "")
                return result
            given_back = tree.Parts(known=parts.objects)
            whole: Any = result
            if state.written:
                behind = held_by(state.written)
                why = _why_not_set(before, behind, tensors, own)
                if why is not None:
                    self._refuse(of, why, "")
                    return result
                whole = result, behind
            try:
                whole = _results.with_arguments(whole, args, kwargs)
                returned = tree.flatten(whole, given_back)
            except tree.Foreign as unknown:
                self._refuse(of, f"it returns a {unknown}", "")
                return result
            outputs = given_back.tensors
            why = _results.why_not_made(outputs, own, attributes)
            if why is not None:
                self._refuse(of, why, "")
                return result
            if passes is not None:
                try:
                    outputs = passes.end(outputs)
                except Unknown as unknown:
                    self._refuse(of, f"{_NODES}: {unknown}", "")
                    return result
            learned, (reason, place, no_node), *rest = opened.end(
                outputs, computed, len(given_back.tensors)
            )
            verdict, tape, calls, draws, calls_others = learned
        finally:
            opened.abandon()
        self._report.recorded += 1
        if state.written and calls_others:
            self._refuse(of, _READ_WITHIN, "")
            of.off = True
            return result
        if calls:
            self._report.operators = calls
        may_be_node = not (numbers or parts.objects or state.written)
        if no_node or verdict == Verdict.REFUSED:
            structure.no_node = structure.no_node or no_node or reason
        if no_node:
            self._note(f"{_NODES}: {no_node}")
        if structure.passes is None and may_be_node and not structure.no_node:
            make = functools.partial(self._passes, _form(args, kwargs, tree.Parts()))
            watch(outputs, functools.partial(structure.note_backward, make=make))
        if passes is not None and verdict == Verdict.REFUSED:
            reason = f"{_NODES}: {reason}"
        self._learn(of, verdict, tape, returned, reason, place)
        if passes is None or tape not in of.builders or of.off:
            return result
        results = passes.results(tape, bool(draws), *rest)
        if results is None:
            self._refuse(of, f"{_NODES}: another history", "")
            return result
        return of.builders[tape][1](iter(results), parts)

    def _call_watch(
        self, structure: _Structure, numbers: list[float]
    ) -> CallWatch | _Nothing | None:
        """What looks at a recorded call. None: the callable is not to be recorded."""
        reached = self._reads.walk
        # What it reads is somebody else's business.
        if self._guarded or reached is None:
            return _Nothing()
        why = unguarded(reached.led)
        if why is not None:
            structure.off = True
            self._note(why)
            return None
        begin = Region._record.__code__
        known = {*self._reads.ran.code, *reached.codes()}
        return CallWatch(
            begin, reached.led, structure.suspects, reached.names(), numbers, known
        )

    def _took_hidden(self, structure: _Structure, looks: CallWatch | _Nothing) -> bool:
        """A recorded call has taken what replays would not: it is not learned."""
        if not isinstance(looks, CallWatch):
            return False
        hidden, handlers = looks.hidden, looks.handlers
        structure.suspects |= hidden.end()
        if hidden.reason:
            self._note(hidden.reason, hidden.place)
            structure.hidden += 1
            structure.off |= structure.hidden >= _MOST_HIDDEN
            return True
        structure.hidden = 0
        known = {each.name for each in self._values}
        new = [each for name, each in hidden.values.items() if name not in known]
        if new:  # from now on each value of theirs is another variant
            self._values = (*self._values, *new)
            if len(self._values) > MOST_VALUES:
                self._off = True
                self._note("it reads too many environment and context variables")
            return True
        if handlers.reason:
            self._refuse(structure, handlers.reason, handlers.place)
        return bool(handlers.reason)

    def _changed(
        self,
        form: Any,
        parts: tree.Parts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> str | None:
        """What of arguments and optimizers is another one behind a call."""
        now = tree.Parts()
        form_now = _form(args, kwargs, now)
        for before, after in (
            (parts.tensors, now.tensors),
            (parts.objects, now.objects),
        ):
            if len(before) != len(after) or any(map(operator.is_not, before, after)):
                return "an argument"
        form_now = self._numbers_of_optimizers(form_now, now.numbers)
        if form_now != form or list(map(float.hex, now.numbers)) != list(
            map(float.hex, parts.numbers)
        ):
            return "an argument, or the numbers of an optimizer"
        return None

    def _passes(self, form: tree.Form) -> Differentiable:
        again = calling_again(self._reprise_fn, form, recording)
        return Differentiable(
            self._check, again, self._own_session, self._learn_backward
        )

    def _learn_backward(self, verdict: int, reason: str, place: str) -> None:
        if verdict == Verdict.WITHDRAWN:
            self._withdraw(reason, place)
        elif verdict in (Verdict.REFUSED, Verdict.DIFFERS):
            self._note(f"{_NODES}: {reason}", place)

    def _withdraw(self, reason: str, place: str) -> None:
        self._off = True
        self._note("withdrawn: " + reason, place)
        _log.error(
            "reprise: region %s does something else than what was replayed: %s%s. "
            "Results since the sample before may be wrong; from now on its Python "
            "runs",
            self._report.name,
            reason,
            f" at {place}" if place else "",
        )

    def _learn(
        self,
        structure: Variants,
        verdict: int,
        tape: int,
        form: tree.Form,
        reason: str,
        place: str,
    ) -> None:
        if verdict == Verdict.WITHDRAWN:
            self._withdraw(reason, place)
        elif verdict in (Verdict.REFUSED, Verdict.DIFFERS):
            self._refuse(structure, reason or "it cannot be written down", place)
            structure.off |= verdict == Verdict.DIFFERS
        elif verdict != Verdict.AGAIN:
            if reason:
                self._note("not as the call before: " + reason, place)
            known = structure.builders.get(tape)
            if known is None or known[0] != form:
                if known is not None and verdict != Verdict.SEEN:
                    self._refuse(structure, "it returns another structure", "")
                    structure.off = True
                    return
                structure.builders[tape] = form, tree.builder(form)
            self._report.samples += verdict == Verdict.SAME
            if verdict == Verdict.TRUSTED:
                self._changes = 0

    def _refuse(self, structure: Variants, reason: str, place: str) -> None:
        remedy = _REMEDIES.get(reason.partition(": ")[2] or reason, "")
        walk = self._reads.walk
        if remedy and walk is not None and walk.optimizers:
            if is_optimizers_step(place):
                remedy = for_optimizers(walk.optimizers)
            else:
                remedy += _OPTIMIZERS
        self._note(reason + (f" ({remedy})" if remedy else ""), place)
        structure.refusals += 1
        # Where one node cannot stand for all, operators have their own.
        structure.off |= structure.refusals >= _MOST_REFUSALS or isinstance(
            structure, Differentiable
        )

    def _note(self, reason: str, place: str = "") -> None:
        times, known = self._report.reasons.get(reason, (0, ""))
        if times or len(self._report.reasons) < 64:
            self._report.reasons[reason] = times + 1, place or known

    def _note_guard(self, what: str) -> None:
        guards = self._report.guards
        if what in guards or len(guards) < 64:
            guards[what] = guards.get(what, 0) + 1

    @contextlib.contextmanager
    def _own_session(self) -> Iterator[None]:
        with _enabled.block(self._begin_own_session, brief=True) as runtime:
            self._off |= runtime is None  # it cannot be had
            yield

    def _begin_own_session(self) -> None:
        if self._runtime is not None:
            _native.activate(self._runtime)
            return
        try:
            _native.enable(None, {})
        except (RuntimeError, ValueError) as error:
            self._cannot_replay(str(error))
        self._runtime = _native.active()


_place = operator.itemgetter(1)


def _why_not_set(
    before: tuple[Any, ...],
    behind: tuple[Any, ...] | None,
    given: list[torch.Tensor],
    own: list[torch.Tensor],
) -> str | None:
    """Why replays do not set attributes as a recorded call has. None: they do."""
    changed = [
        new
        for new, old in zip(behind or (), before, strict=behind is not None)
        if new is not old
    ]
    if behind is None or not all(map(torch.is_tensor, changed)):
        return "it sets an attribute to something else than a tensor without a history"
    # As outputs, tensors are told by their memory and their form.
    known = set(map(id, given))  # what was held before is among these
    made = [each for each in changed if id(each) not in known]
    held = list({id(each): each for each in filter(torch.is_tensor, before)}.values())
    if share_memory(itertools.product(made, [*own, *held])) or share_memory(
        itertools.combinations(held, 2)
    ):
        return "an attribute that it sets is a view of another tensor from outside"
    return None


def _name_of(fn: Any) -> str:
    """What a program calls it: of a part of a function, the function's name."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


_NODES = "operators have nodes of their own"
_LEAVES_MODE = (
    "it leaves another mode of torch's on, or another default device: set it outside"
)


def _default_device() -> str | None:
    """What `torch.set_default_device` has set. None: there are other modes."""
    stack = torch.overrides._get_current_function_mode_stack()
    if any(type(each) is not torch.utils._device.DeviceContext for each in stack):
        return None
    return str(stack[-1].device)


def _without_modes(*call: Any) -> tuple[int, int, tuple[torch.Tensor, ...]]:
    """`run_region`, by which no function of torch's is called."""
    with torch._C.DisableTorchFunction():
        return functions()[0](*call)


_WHY_PLAIN = {
    _LOOK: "what it leads to changes all the time",
    _LOOK_GIVEN: "what its arguments hold changes all the time",
    _PLAIN: "a mode of torch's, or a tensor that is no ordinary one",
    _RAISED: "an operator has raised an error before anything was written",
    _FORKED: "the process was forked: start it by spawn",
    _PASSED: "its arguments have forms, or numbers, that do not come again",
}
_REMEDIES = {
    "hands data to the host": "keep the number on the device, or have what reads it and "
    "returns tensors run in each call, by @reprise.eager",
    "copies to the host": "copy behind it",
    "the size of its result depends on data": "let what needs it return tensors of one "
    "size, and run in each call, by @reprise.eager",
}
_OPTIMIZERS = "; of an optimizer, take fused=True or capturable=True"


def _comparable(value: Any) -> Any:
    """By value where that tells all, else by identity."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return id(value) if isinstance(value, torch.Tensor) else value


def _form(
    args: tuple[Any, ...], kwargs: dict[str, Any], parts: tree.Parts
) -> tree.Form:
    """Of a call's arguments; see `tree.flatten`."""
    form = tree.flatten(args, parts)
    if kwargs:
        form = form, tree.flatten(kwargs, parts), "by name"
    return form


class _Method:
    """A region of a method, and its object for as long as that is at hand."""

    __slots__ = ("__self__", "_reprise_region")
    _reprise_is_region = True

    def __init__(self, of: Region, owner: Any) -> None:
        self._reprise_region = of
        self.__self__ = owner

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._reprise_region(*args, **kwargs)

    def explain(self) -> RegionReport:
        """See `Region.explain`."""
        return self._reprise_region.explain()
