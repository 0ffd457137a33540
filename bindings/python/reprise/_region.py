"""Calls replayed without their Python."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeVar, overload

import torch

from reprise import _native, _tree
from reprise._reach import Reached, State, watchable
from reprise._region_report import RegionReport

P = ParamSpec("P")
R = TypeVar("R")
Check = Literal["sample", "always", "never"]
CHECKS = ("sample", "always", "never")

# torch.ops.reprise: RegionVariants::Step and Verdict.
_DONE, _RECORD, _PLAIN, _LOOK, _PASSED = range(5)
_SEEN, _TRUSTED, _SAME, _AGAIN, _REFUSED, _DIFFERS, _WITHDRAWN = range(7)

_MOST_REFUSALS = 3  # of one structure of arguments
_MOST_STRUCTURES = 64
_MOST_STATES = 8
_MOST_CHANGES = 4  # of Python's state by the callable itself

_log = logging.getLogger("reprise")


class _Thread(threading.local):
    recording = False


_thread = _Thread()


class _Structure:
    """The variants of arguments of one structure, in one state of the modules."""

    def __init__(self, check: Check) -> None:
        ops = _native._ops()
        kinds = {"sample": 0, "always": 1, "never": -1}
        self.handle: int = ops.make_region(kinds[check])
        self.builders: dict[int, tuple[_tree.Form, _tree.Builder]] = {}
        self.refusals = 0
        self.off = False
        weakref.finalize(self, ops.drop_region, self.handle).atexit = False


class Region:
    """A callable whose calls are replayed without their Python; see `region`."""

    def __init__(
        self, fn: Callable[..., Any], check: Check = "sample", *, guarded: bool = False
    ) -> None:
        """`guarded`: somebody else sees to what it reads besides its arguments."""
        if not callable(fn):
            raise TypeError(f"reprise: region does not accept {fn!r}: give a callable")
        if check not in CHECKS:
            raise ValueError(
                f"reprise: check does not accept {check!r}: give {', '.join(CHECKS)}"
            )
        self._fn = fn
        self._check: Check = check
        functools.update_wrapper(self, fn, updated=())
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        self._report = RegionReport(name)
        self._structures: dict[Any, _Structure] = {}
        self._off = _native.switched_off()
        self._bound: weakref.WeakKeyDictionary[Any, Region] = (
            weakref.WeakKeyDictionary()
        )
        self._guarded = guarded
        self._reached: Reached | None = None
        self._states: list[State] = []
        self._state = -1
        self._changes = 0
        self._watch = _Watch()
        self._runtime: int | None = None
        _all.add(self)

    def __get__(self, owner: Any, _: type | None = None) -> Any:
        if owner is None:
            return self
        bound = self._bound.get(owner)
        if bound is None:
            bound = Region(self._fn.__get__(owner), self._check)
            self._bound[owner] = bound
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        report = self._report
        report.calls += 1
        if self._off or _thread.recording or torch.compiler.is_compiling():
            return self._fn(*args, **kwargs)
        if _modes() or _transforms() is not None:
            self._note(_WHY_PLAIN[_PLAIN])
            return self._fn(*args, **kwargs)
        tensors: list[torch.Tensor] = []
        numbers: list[float] = []
        try:
            form = _tree.flatten(args, tensors, numbers)
            if kwargs:
                form = form, _tree.flatten(kwargs, tensors, numbers), "by name"
        except _tree.Foreign as unknown:
            self._note(f"an argument holds a {unknown}")
            return self._fn(*args, **kwargs)
        with self._enabled():
            return self._call(form, tensors, numbers, args, kwargs)

    def _call(
        self,
        form: Any,
        tensors: list[torch.Tensor],
        numbers: list[float],
        args: Any,
        kwargs: Any,
    ) -> Any:
        if self._reached is None or _LOOKS_ALWAYS:
            self._look()
        form = self._numbers_of_optimizers(form, numbers)
        run = _native._ops().run_region
        step = _LOOK
        while step == _LOOK:
            known = self._structures.get((self._state, form))
            structure = known or self._new_structure(form)
            if structure.off:
                return self._fn(*args, **kwargs)
            step, tape, outputs = run(
                structure.handle, self._watch.handle, tensors, numbers
            )
            if step == _DONE:
                self._report.replayed += 1
                return structure.builders[tape][1](iter(outputs))
            if step == _LOOK:
                self._look()
        if step != _RECORD:
            self._note(_WHY_PLAIN[step])
            return self._fn(*args, **kwargs)
        return self._record(structure, tensors, numbers, args, kwargs)

    def explain(self) -> RegionReport:
        """What became of its calls so far."""
        return dataclasses.replace(
            self._report,
            variants=sum(len(each.builders) for each in self._structures.values()),
            reasons=dict(self._report.reasons),
        )

    # --- What it reads ---

    def _look(self) -> None:
        """Finds the state that the modules are in."""
        _native.observe()
        for index, state in enumerate(self._states):
            if state.difference() is None:
                self._state = index
                break
        else:
            if len(self._states) == _MOST_STATES:
                self._states.clear()
                self._structures.clear()
            self._reached = Reached(None if self._guarded else self._fn)
            self._states.append(State(self._reached.dicts()))
            self._state = len(self._states) - 1
        self._watch.arm(self._states[self._state].dicts())

    def _numbers_of_optimizers(self, form: Any, numbers: list[float]) -> Any:
        """Their floats are numbers like arguments; what else they hold, form."""
        assert self._reached is not None
        for optimizer in self._reached.optimizers:
            others = []
            for group in optimizer.param_groups:
                for key, value in group.items():
                    if type(value) is float:
                        numbers.append(value)
                    elif key != "params":
                        kind = type(value)
                        others.append((key, kind, _comparable(value)))
                others.append(("params", list, len(group["params"])))
            form = form, tuple(others)
        return form

    # --- Recording ---

    def _new_structure(self, form: Any) -> _Structure:
        if len(self._structures) == _MOST_STRUCTURES:
            self._note("too many structures of arguments: those of old are forgotten")
            self._structures.clear()
        structure = _Structure(self._check)
        self._structures[self._state, form] = structure
        return structure

    def _record(
        self,
        structure: _Structure,
        tensors: list[torch.Tensor],
        numbers: list[float],
        args: Any,
        kwargs: Any,
    ) -> Any:
        assert self._reached is not None
        ops = _native._ops()
        holders = self._reached.tensors()
        own = {id(each) for each in holders}
        if any(id(each) in own for each in tensors):
            self._note("an argument is a parameter of it")
            return self._fn(*args, **kwargs)
        if not ops.begin_region(structure.handle, tensors, numbers, holders):
            self._note("another region is being recorded")
            return self._fn(*args, **kwargs)
        ended = False
        try:
            with _recording():
                result = self._fn(*args, **kwargs)
            outputs: list[torch.Tensor] = []
            try:
                form = _tree.flatten(result, outputs, None)
            except _tree.Foreign as unknown:
                self._refuse(structure, f"it returns a {unknown}", "")
                return result
            (verdict, tape, calls), (reason, place) = ops.end_region(
                structure.handle, outputs
            )
            ended = True
        finally:
            if not ended:
                ops.abandon_region(structure.handle)
        self._report.recorded += 1
        if calls:
            self._report.operators = calls
        changed = self._states[self._state].difference()
        if changed is not None:
            self._note(f"it changes {changed}, which no replay would")
            self._changes += 1
            self._off |= self._changes >= _MOST_CHANGES
            return result
        self._learn(structure, verdict, tape, form, reason, place)
        return result

    def _learn(
        self,
        structure: _Structure,
        verdict: int,
        tape: int,
        form: _tree.Form,
        reason: str,
        place: str,
    ) -> None:
        if verdict == _WITHDRAWN:
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

    def _refuse(self, structure: _Structure, reason: str, place: str) -> None:
        remedy = _REMEDIES.get(reason.partition(": ")[2] or reason, "")
        if remedy and self._reached is not None and self._reached.optimizers:
            remedy += _OPTIMIZERS
        self._note(reason + (f" ({remedy})" if remedy else ""), place)
        structure.refusals += 1
        structure.off = structure.refusals >= _MOST_REFUSALS

    def _note(self, reason: str, place: str = "") -> None:
        times, known = self._report.reasons.get(reason, (0, ""))
        if times or len(self._report.reasons) < 64:
            self._report.reasons[reason] = times + 1, place or known

    def _enabled(self) -> contextlib.AbstractContextManager[None]:
        """Its calls are Reprise's business where nothing is enabled, too."""
        if _native.active() is not None or not torch.cuda.is_available():
            return _NOTHING
        return self._own_session()

    @contextlib.contextmanager
    def _own_session(self) -> Iterator[None]:
        if self._runtime is None:
            _native.enable(None, {})
            self._runtime = _native.active()
        else:
            _native.activate(self._runtime)
        try:
            yield
        finally:
            _native.activate(None)


# Modes of Python's that see every operator; functorch's transforms, innermost.
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack

_LOOKS_ALWAYS = not watchable()
_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
_all: weakref.WeakSet[Region] = weakref.WeakSet()

_WHY_PLAIN = {
    _PLAIN: "a mode of torch's, or a tensor that is no ordinary one",
    _PASSED: "its arguments have forms, or numbers, that do not come again",
}
_REMEDIES = {
    "hands data to the host": "keep the number on the device, or split it there",
    "copies to the host": "copy behind it",
    "the size of its result depends on data": "split it there",
}
_OPTIMIZERS = "; of an optimizer, take fused=True or capturable=True"


def _comparable(value: Any) -> Any:
    """By value where that tells all, else by identity."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return id(value) if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    _thread.recording = True
    try:
        yield
    finally:
        _thread.recording = False


class _Watch:
    """Dictionaries whose changes the library tells of."""

    _watcher: int | None = None  # of the interpreter's, from 3.12 on

    def __init__(self) -> None:
        self.handle = 0
        self._end: Callable[[], Any] | None = None

    def arm(self, dicts: list[dict[Any, Any]]) -> None:
        """From now on, these."""
        ops = _native._ops()
        if self._end is not None:
            self._end()
        if _LOOKS_ALWAYS:
            return
        if sys.version_info < (3, 12):
            self.handle = ops.watch_dicts([id(each) for each in dicts])
        else:
            watch = self._interpreter()
            for each in dicts:
                watch(each)
            self.handle = ops.watch_dicts([])
        self._end = weakref.finalize(self, ops.unwatch_dicts, self.handle)

    @classmethod
    def _interpreter(cls) -> Callable[[dict[Any, Any]], None]:
        api = ctypes.pythonapi
        if cls._watcher is None:
            callback = ctypes.c_void_p(_native._ops().dict_watcher())
            cls._watcher = api.PyDict_AddWatcher(callback)
        watcher = ctypes.c_int(cls._watcher)
        return lambda each: api.PyDict_Watch(watcher, ctypes.py_object(each))


@overload
def region(fn: Callable[P, R], *, check: Check = "sample") -> Callable[P, R]: ...
@overload
def region(
    fn: None = None, *, check: Check = "sample"
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def region(fn: Any = None, *, check: Check = "sample") -> Any:
    """Replay calls of `fn` without running its Python.

        fast = reprise.region(model)

        @reprise.region
        def step(x, t): ...              # forward, loss, backward, optimizer

    The first calls run `fn`, and what it asks of torch is written down. Once two of
    them have asked for the same, the next ones make these calls without Python, under
    Reprise as any others: results, gradients, random numbers and errors are eager's.
    Outputs are ordinary tensors, valid as long as they are held.

    You promise that `fn` does nothing else than what it asks of torch, and that what
    it reads besides its arguments does not change what it asks for. Checked at each
    call: structure, forms and numbers of the arguments; modules and optimizers that
    `fn` leads to (mode, parameters, attributes, hooks); torch's modes and switches.
    What cannot be checked is sampled: one call in 256 runs `fn` and must ask for the
    same, later one in up to 4,096. A difference withdraws the region, with an error in
    the log of "reprise" that names the operator and the line.

    Where `fn` reads a value of a tensor (`.item()`), changes attributes, or takes
    arguments of types that are not known, it runs as without this;
    `region.explain()` says why.

    Args:
        fn: a function, method or module. Of a module the result is one, too, that
            shares all with it.
        check: "sample"; "always" records every call; "never" samples none.

    Raises:
        TypeError, ValueError: `fn` or `check` is something else.
    """
    if fn is None:
        return functools.partial(region, check=check)
    made = Region(fn, check)
    return _as_module(fn, made) if isinstance(fn, torch.nn.Module) else made


def regions() -> list[RegionReport]:
    """Of all regions that there are."""
    return [each.explain() for each in _all]


class _RegionModule:
    """What is added to a module's class."""

    __slots__ = ("_reprise_module", "_reprise_region")
    _reprise_module: torch.nn.Module
    _reprise_region: Region

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._reprise_region(*args, **kwargs)

    def explain(self) -> RegionReport:
        """See `Region.explain`."""
        report: RegionReport = self._reprise_region.explain()
        return report

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        return region(copy.deepcopy(self._reprise_module, memo))

    def __reduce_ex__(self, _: Any) -> Any:
        return region, (self._reprise_module,)


_classes: dict[Any, Any] = {}


def _class_of(kind: Any) -> Any:
    if kind not in _classes:
        _classes[kind] = type(
            f"Region[{kind.__name__}]", (_RegionModule, kind), {"__slots__": ()}
        )
    return _classes[kind]


def _as_module(module: torch.nn.Module, made: Region) -> torch.nn.Module:
    """A module that shares all with that one, but for its calls."""
    wrapped: Any = object.__new__(_class_of(type(module)))
    object.__setattr__(wrapped, "__dict__", module.__dict__)
    object.__setattr__(wrapped, "_reprise_module", module)
    object.__setattr__(wrapped, "_reprise_region", made)
    module = wrapped
    return module
