"""Calls replayed without their Python."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import logging
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch

from reprise import _native, _tree
from reprise._eager import Changed
from reprise._given import Forms, Given
from reprise._node import (
    Differentiable,
    Recording,
    Unknown,
    Variants,
    calling_again,
    lead_to_each_other,
    one_node_can_stand,
    share_memory,
    watch,
)
from reprise._numbers import noted, plain
from reprise._reach import Bound, Reached, State, Written, held_by, set_to
from reprise._recording import recording, thread
from reprise._region_report import RegionReport
from reprise._watch import LOOKS_ALWAYS, Watch

Check = Literal["sample", "always", "never"]
CHECKS = ("sample", "always", "never")

# RegionVariants::Step, RegionCall and RegionVariants::Verdict.
_DONE, _RECORD, _PLAIN, _LOOK, _PASSED, _INACTIVE, _LOOK_GIVEN = range(7)
_SEEN, _TRUSTED, _SAME, _AGAIN, _REFUSED, _DIFFERS, _WITHDRAWN = range(7)

_MOST_REFUSALS = 3  # of one structure of arguments
_MOST_STRUCTURES = 64
_MOST_STATES = 8
_MOST_OBJECTS = 16  # sets of objects among the arguments
_MOST_KINDS = 64  # their classes
_MOST_LOOKS = 3  # in a call
_MOST_FRUITLESS = 128
_MOST_CHANGES = 4  # of Python's state by the callable itself
_CHANGES = "it changes {}, which no replay would"
_READ_WITHIN = (
    "it sets attributes, and calls functions that run each time, or operators of others"
)
_LONGEST_WAIT = 256  # calls

_clock = time.perf_counter
_log = logging.getLogger("reprise")
ALL: weakref.WeakSet[Region] = weakref.WeakSet()


class _Structure(Variants):
    """The variants of arguments of one structure, in one state of the modules."""

    # Where results have a history: its passes, with one node for both.
    passes: Differentiable | None = None
    # What its calls changed of objects among the arguments, and of how many.
    changed = ""
    changes = 0
    # While it is off: so many calls are not asked for what is another one, twice as
    # many each time that nothing was.
    waits = 0
    next_waits = 1

    def no_difference(self) -> None:
        """What is watched has changed, and nothing that counts."""
        self.waits = self.next_waits
        self.next_waits = min(2 * self.next_waits, _LONGEST_WAIT)

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
    ) -> None:
        """`guarded`: somebody else sees to what it reads besides its arguments.

        `given`: all of its calls are with these objects; they are not kept.
        """
        if not callable(fn):
            raise TypeError(f"reprise: region does not accept {fn!r}: give a callable")
        if check not in CHECKS:
            raise ValueError(
                f"reprise: check does not accept {check!r}: give {', '.join(CHECKS)}"
            )
        self._reprise_fn = fn
        self._check: Check = check
        functools.update_wrapper(self, fn, updated=())
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        self._report = RegionReport(name)
        self._structures: dict[Any, _Structure] = {}
        self._off = _native.switched_off()
        self._bound: dict[int, tuple[weakref.ref[Any], Region]] = {}
        # By the objects among the arguments, of which each tells when it goes.
        self._with: dict[
            tuple[int, ...], tuple[list[weakref.ref[Any]], Region | Given]
        ] = {}
        self._forms = Forms()  # of such objects, ...
        self._kinds: list[type] = []  # ... and their classes
        self._given = [weakref.ref(each) for each in given]
        self._strangers = 0  # sets of objects since a call was replayed
        self._replayed = 0  # calls, when the last of these came
        self._guarded = guarded
        self._lock = threading.RLock()
        self._reached: Reached | None = None
        self._states: list[State] = []
        # The state that was found last, and what watches it.
        self._at: tuple[State, int] | None = None
        self._written: Written = ()
        self._made = 0  # states
        self._fruitless = 0  # states and structures since a call was replayed
        self._changes = 0
        self._watch = Watch()
        self._runtime: int | None = None
        ALL.add(self)

    def __get__(self, owner: Any, _: type | None = None) -> Any:
        if owner is None:
            return self
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        report = self._report
        report.calls += 1
        if self._off or thread.recording or torch.compiler.is_compiling():
            return self._reprise_fn(*args, **kwargs)
        parts = _tree.Parts()
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
        if kinds is given.kinds and self._at is not None and state is self._at[0]:
            return True
        with self._lock:
            new = [
                each
                for each in given.kinds
                if all(each is not known for known in self._kinds)
            ]
            if len(self._kinds) + len(new) > _MOST_KINDS:
                return False
            if new:  # looked at anew: what its code names may be more
                self._kinds += new
                self._states = []
                self._at = None
            # That is, for all that is known; what is another one is found before
            # a call is made.
            state = (self._at or self._look())[0]
            kinds = given.kinds  # other threads look, too
            # It may ask which one it is.
            if state.meets(kinds, given.tensors()):
                return False
            given.known = kinds, state
        return True

    def _call(
        self,
        form: Any,
        parts: _tree.Parts,
        args: Any,
        kwargs: Any,
        given: Given | None = None,
    ) -> Any:
        tensors, numbers = parts.tensors, parts.numbers
        at = self._at
        if at is None or LOOKS_ALWAYS or at[0].quick_difference() is not None:
            at = self._look()
        arguments, count = form, len(numbers)
        if self._reached is not None and self._reached.optimizers:
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
                at = self._at or self._look()
            state, watch = at
            if self._off:
                return self._reprise_fn(*args, **kwargs)
            key: tuple[Any, ...] = state.number, form, kind, device
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
                passes.off or state.written or not one_node_can_stand()
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
                result = of.builders[tape][1](iter(outputs), parts.objects)
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
        at: tuple[State, int],
        run: _Run,
    ) -> None:
        """What a call sets. A watch that it finds quiet is not told of that."""
        state, watch = at
        alone = threading.active_count() == 1
        quiet = alone and run(0, watch, [], [], 0)[0] != _LOOK
        set_to(state.written, before, behind)
        if quiet and self._at is at:
            self._watch.anew()
            self._at = state, self._watch.handle

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

    def explain(self) -> RegionReport:
        """What became of its calls so far."""
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

    def _look(self) -> tuple[State, int]:
        """Finds the state that all of it is in."""
        _native.observe()
        with self._lock:
            for _ in range(_MOST_LOOKS):
                last = None
                for state in reversed(self._states):
                    last = state.difference()
                    if last is None:
                        break
                else:
                    state = self._new_state(last)
                if last is not None and (self._at is None or self._at[0] is not state):
                    self._note_guard(last)
                self._watch.arm(state.watched())
                at = self._at = state, self._watch.handle
                # What another thread has changed meanwhile the watch does not tell.
                if threading.active_count() == 1 or state.difference() is None:
                    break
            return at

    def _new_state(self, difference: str | None) -> State:
        fn = None if self._guarded else self._reprise_fn
        try:
            given = [each() for each in self._given]
            self._reached = Reached(fn, given, self._kinds)
            self._reached.written = self._written
            state = State(self._reached, self._made + 1)
        except Exception as failed:  # the program's own, as it is looked at, too
            self._off = True
            foreign = isinstance(failed, _tree.Foreign)
            self._note(
                f"an argument holds {failed}"
                if foreign
                else f"what it reads cannot be looked at: {failed!r}"
            )
            self._reached = Reached(None)
            state = State(self._reached, self._made + 1)
        self._made += 1
        self._fruitless += 1
        if self._fruitless > _MOST_FRUITLESS:
            self._off = True
            self._note(f"{difference} is another one again and again")
        # What belongs to others than now is not kept for their sake.
        here = {id(each) for each in state.dicts()}
        self._states = [
            each
            for each in self._states[-(_MOST_STATES - 1) :]
            if here.issuperset(map(id, each.dicts()))
        ]
        self._states.append(state)
        known = {each.number for each in self._states}
        self._structures = {
            key: value for key, value in self._structures.items() if key[0] in known
        }
        return state

    def _numbers_of_optimizers(self, form: Any, numbers: list[float]) -> Any:
        """Their floats are numbers like arguments; what else they hold, form."""
        assert self._reached is not None
        for optimizer in self._reached.optimizers:
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
        parts: _tree.Parts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[torch.Tensor],
        before: tuple[Any, ...],
        given: Given | None,
    ) -> Any:
        """`before`: what attributes that it sets have held."""
        reached = self._reached
        assert reached is not None
        numbers = parts.numbers
        ops = _native._ops()
        own = state.tensors()
        if share_memory(itertools.product(tensors, own)):
            self._note("an argument is memory that it reads from outside, too")
            if given is not None:
                self._forget(given)
            return self._reprise_fn(*args, **kwargs)
        if isinstance(of, Differentiable) and lead_to_each_other(tensors):
            self._refuse(of, f"{_NODES}: an argument was computed from another", "")
            of = structure
        passes = Recording(of, tensors) if isinstance(of, Differentiable) else None
        with torch._C.DisableTorchFunctionSubclass():  # of tensors that it leads to
            begun = ops.begin_region(of.handle, tensors, numbers, own)
        if not begun:
            self._note("another region is being recorded")
            return self._reprise_fn(*args, **kwargs)
        ended = False
        computed = [True] * len(numbers)
        try:
            with (
                recording(objects=bool(parts.objects or self._given)),
                passes.watched() if passes is not None else contextlib.nullcontext(),
                noted(
                    args, kwargs, reached.optimizers, reached.computes, computed
                ) as watched,
            ):
                result = self._reprise_fn(*watched[0], **watched[1])
            result = plain(result)
            changed = state.difference() or self._changed(form, parts, args, kwargs)
            if changed is not None and self._learn_written(state):
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
            given_back = _tree.Parts(known=parts.objects)
            whole = result
            if state.written:
                behind = held_by(state.written)
                why = _why_not_set(before, behind, tensors, own)
                if why is not None:
                    self._refuse(of, why, "")
                    return result
                whole = result, behind
            try:
                returned = _tree.flatten(whole, given_back)
            except _tree.Foreign as unknown:
                self._refuse(of, f"it returns a {unknown}", "")
                return result
            outputs = given_back.tensors
            if passes is not None:
                try:
                    outputs = passes.end(outputs)
                except Unknown as unknown:
                    self._refuse(of, f"{_NODES}: {unknown}", "")
                    return result
            learned, (reason, place), *rest = ops.end_region(
                of.handle, outputs, computed, len(given_back.tensors)
            )
            verdict, tape, calls, draws, calls_others = learned
            ended = True
        finally:
            if not ended:
                ops.abandon_region(of.handle)
        self._report.recorded += 1
        if state.written and calls_others:
            self._refuse(of, _READ_WITHIN, "")
            of.off = True
            return result
        if calls:
            self._report.operators = calls
        may_be_node = not (numbers or parts.objects or state.written)
        if structure.passes is None and may_be_node:
            make = functools.partial(self._passes, _form(args, kwargs, _tree.Parts()))
            watch(outputs, functools.partial(structure.note_backward, make=make))
        if passes is not None and verdict == _REFUSED:
            reason = f"{_NODES}: {reason}"
        self._learn(of, verdict, tape, returned, reason, place)
        if passes is None or tape not in of.builders or of.off:
            return result
        results = passes.results(tape, bool(draws), *rest)
        if results is None:
            self._refuse(of, f"{_NODES}: another history", "")
            return result
        return of.builders[tape][1](iter(results), parts.objects)

    def _changed(
        self,
        form: Any,
        parts: _tree.Parts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> str | None:
        """What of arguments and optimizers is another one behind a call."""
        now = _tree.Parts()
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

    def _learn_written(self, state: State) -> bool:
        """A call has set attributes of modules to other tensors, and nothing else."""
        found = state.rewritten()
        with self._lock:
            # Another thread may have learned others.
            if not found or self._written != state.written:
                return False
            self._written = found
            self._at = None  # it is in another state: these are none of it
            self._states = []
        return True

    def _passes(self, form: _tree.Form) -> Differentiable:
        again = calling_again(self._reprise_fn, form, recording)
        return Differentiable(
            self._check, again, self._own_session, self._learn_backward
        )

    def _learn_backward(self, verdict: int, reason: str, place: str) -> None:
        if verdict == _WITHDRAWN:
            self._withdraw(reason, place)
        elif verdict in (_REFUSED, _DIFFERS):
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
        form: _tree.Form,
        reason: str,
        place: str,
    ) -> None:
        if verdict == _WITHDRAWN:
            self._withdraw(reason, place)
        elif verdict in (_REFUSED, _DIFFERS):
            self._refuse(structure, reason or "it cannot be written down", place)
            structure.off |= verdict == _DIFFERS
        elif verdict != _AGAIN:
            if reason:
                self._note("not as the call before: " + reason, place)
            known = structure.builders.get(tape)
            if known is None or known[0] != form:
                if known is not None and verdict != _SEEN:
                    self._refuse(structure, "it returns another structure", "")
                    structure.off = True
                    return
                structure.builders[tape] = form, _tree.builder(form)
            self._report.samples += verdict == _SAME
            if verdict == _TRUSTED:
                self._changes = 0

    def _refuse(self, structure: Variants, reason: str, place: str) -> None:
        remedy = _REMEDIES.get(reason.partition(": ")[2] or reason, "")
        if remedy and self._reached is not None and self._reached.optimizers:
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
        if self._runtime is None:
            _native.enable(None, {})
            self._runtime = _native.active()
        else:
            _native.activate(self._runtime)
        self._off |= _native.active() is None  # it cannot be had
        try:
            yield
        finally:
            _native.activate(None)


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


_Run = Callable[..., tuple[int, int, tuple[torch.Tensor, ...]]]


@functools.cache
def functions() -> tuple[_Run, Callable[[tuple[Any, ...], int, int, int], int]]:
    """`run_region` and `are_these`; see bindings/torch/region_library.h."""
    address = _native._ops().region_functions()
    if not address:
        raise RuntimeError("reprise: regions need functions that this torch lacks")
    made: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(address)()
    return made  # type: ignore[no-any-return]


_NODES = "operators have nodes of their own"


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
    args: tuple[Any, ...], kwargs: dict[str, Any], parts: _tree.Parts
) -> _tree.Form:
    """Of a call's arguments; see `_tree.flatten`."""
    form = _tree.flatten(args, parts)
    if kwargs:
        form = form, _tree.flatten(kwargs, parts), "by name"
    return form


class _Method:
    """A region of a method, and its object for as long as that is at hand."""

    __slots__ = ("__self__", "_reprise_region")
    _reprise_is_region = True

    def __init__(self, of: Region, owner: Any) -> None:
        self._reprise_region = of
        self.__self__ = owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._reprise_region(*args, **kwargs)

    def explain(self) -> RegionReport:
        """See `Region.explain`."""
        return self._reprise_region.explain()
