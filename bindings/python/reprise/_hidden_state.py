"""State that a callable may read, and that no guard of attributes and tensors finds.

Random numbers of Python and NumPy, clocks, files, environment and context variables,
iterators. Some of it is found where it is stored (`unguarded`), the rest when a recorded
call asks for it (`HiddenState`).
"""

from __future__ import annotations

import builtins
import collections
import contextvars
import datetime
import gc
import io
import multiprocessing.context
import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from typing import Any

from reprise._compared_values import (
    Value,
    holds_objects,
    is_plain,
    of_context,
    of_environment,
    of_thread_local,
    the_environment,
    the_folder,
    the_thread,
)
from reprise._frames import Owner, caller_of, owner_of, place_of
from reprise._process_state import NAMES, ProcessState
from reprise.guards import classes

MOST_VALUES = 32  # environment and context variables, of a region
_GIVE = "give the callable what is read there, as an argument"
_EACH_TIME = "let what reads it run in each call, by @reprise.eager, or outside"


def _functions(module: Any, *names: str) -> frozenset[Any]:
    return frozenset(getattr(module, name) for name in names if hasattr(module, name))


_CLOCKS = _functions(
    time,
    *("time", "perf_counter", "monotonic", "process_time", "thread_time"),
    *("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns"),
    *("thread_time_ns", "clock_gettime", "clock_gettime_ns"),
    *("localtime", "gmtime", "ctime", "strftime"),
)
_DATES = frozenset({"now", "utcnow", "today"})
_FILES = _functions(
    os, "open", "stat", "lstat", "listdir", "scandir", "access"
) | frozenset({io.open, builtins.input})
_ENTROPY = _functions(os, "urandom", "getrandom")
_FOLDERS = _functions(os, "getcwd", "getcwdb")
# What they return is compared in each call.
_COMPARED = (
    _functions(threading, "get_ident", "get_native_id")
    | _functions(sys, "getrecursionlimit", "getswitchinterval")
    | _functions(gc, "isenabled", "get_threshold")
)


def _names_of(functions: Iterable[Any]) -> frozenset[str]:
    return frozenset([each.__name__ for each in functions])


def _codes_of(kind: type) -> dict[types.CodeType, str]:
    """Of its methods that are written in Python, the names."""
    methods = vars(kind).items()
    return {
        value.__code__: name
        for name, value in methods
        if isinstance(value, types.FunctionType)
    }


_ASKED = (
    _names_of(_CLOCKS | _FILES | _ENTROPY | _FOLDERS | _COMPARED) | _DATES | {"get"}
)
# What names in a callable's code may ask for such things, where nobody can look at what
# it calls.
ASKING_NAMES = (_ASKED - {"get"}) | {"environ", "getenv", "ContextVar", "id"}
_OF_ENVIRONMENT = _codes_of(type(os.environ))
_WHICH_THREAD = threading.current_thread.__code__
_ALL_THREADS = frozenset(
    {threading.enumerate.__code__, threading.active_count.__code__}
)
_SEEDS = random.Random.seed.__code__
_CHANGES_ENVIRONMENT = frozenset({"__setitem__", "__delitem__"})
_WHOLE_ENVIRONMENT = frozenset({"__iter__", "__len__", "copy", "__repr__", "__or__"})
_FILE: Any = io.IOBase.__mro__[1]  # which no class is registered with
_QUEUES = frozenset({"queue", "_queue", "multiprocessing"})


# --- Random generators ---


def _frozen(state: Any) -> Hashable:
    """Equal of equal states."""
    if isinstance(state, dict):
        return tuple([(key, _frozen(value)) for key, value in state.items()])
    if isinstance(state, (tuple, list)):
        return tuple(map(_frozen, state))
    to_bytes = getattr(state, "tobytes", None)
    frozen: Hashable = state if to_bytes is None else to_bytes()
    return frozen


def _state_of(value: Any) -> Callable[[], Hashable] | None:
    """What tells the state of a generator of random numbers. None: it is none."""
    kind = type(value)  # the object may answer as it likes
    if issubclass(kind, random.Random):
        if issubclass(kind, random.SystemRandom):
            return None  # it asks the system, which is noticed
        return lambda: random.Random.getstate(value)
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return None
    if issubclass(kind, numpy.Generator):
        return lambda: _frozen(value.bit_generator.state)
    if issubclass(kind, numpy.RandomState):
        return lambda: _frozen(value.get_state(legacy=False))
    if issubclass(kind, numpy.BitGenerator):
        return lambda: _frozen(value.state)
    return None


class _Generator:
    """One of random numbers, with its state before a call."""

    def __init__(self, name: str, of: Any, state: Callable[[], Hashable]) -> None:
        self.name = name
        self.of = of
        self.state = state
        self.before = state()
        self.place = ""  # where the program asked it for a number

    def moved(self) -> bool:
        """It has another state than before."""
        return self.state() != self.before


def _global_generators() -> Iterator[tuple[str, Any]]:
    # The functions of the module are methods of one that nobody names.
    yield "Python's random", getattr(random, "_inst", None)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        yield "numpy.random", getattr(numpy.mtrand, "_rand", None)


# --- What a callable leads to ---


def unguarded(values: Iterable[tuple[str, Any]]) -> str | None:
    """Return why one of these (an iterator) cannot be looked at. None: all of them can."""
    for name, value in values:
        if type(value) is threading.local and holds_objects(value):
            return (
                f"it leads to {name}, of which each thread has its own, and which holds "
                f"more than constants ({_GIVE})"
            )
        kind = _kind_of_unguarded(value)
        if kind is not None:
            return (
                f"it leads to {name}, {kind}, whose next state nobody can look at "
                f"({_GIVE})"
            )
    return None


def _kind_of_unguarded(value: Any) -> str | None:
    kind = type(value)
    name = classes.name_of(kind).removeprefix("builtins.")
    if issubclass(kind, _FILE):
        return f"a file ({name})"
    if issubclass(kind, collections.deque):
        return f"a deque ({name})"
    if issubclass(kind, (types.GeneratorType, types.CoroutineType)):
        return f"a {name}"
    if kind is contextvars.Context:
        return "a context"
    makes_queues = issubclass(kind, multiprocessing.context.BaseContext)
    if classes.root_of(kind) in _QUEUES and not makes_queues:
        return f"a {name}"
    # A class of the program's keeps where it is in attributes, which are looked at.
    step = classes.found_in(kind, "__next__")
    if type(step) is types.WrapperDescriptorType:
        return f"an iterator ({name})"
    return None


# --- What a recorded call asks for ---


class HiddenState:
    """What one call reads that no guard checks.

    `saw_call` and `saw_function` get each call that the program makes, in the thread that
    makes the recorded call.
    """

    def __init__(
        self, values: Iterable[tuple[str, Any]], suspects: Container[str]
    ) -> None:
        """`values`: what the callable leads to. `suspects`: generators, by name.

        Of a suspect it is found out in which function it moves, which is dear.
        """
        self.reason = ""  # what cannot be replayed
        self.place = ""
        self.values: dict[str, Value] = {}  # that were read, and can be guarded
        self._process = ProcessState()
        self._generators: dict[int, _Generator] = {}
        self._of_threads: list[tuple[str, Value, Hashable]] = []
        for name, each in (*_global_generators(), *values):
            if type(each) is threading.local:
                value = of_thread_local(name, each)
                self.values[value.name] = value
                self._of_threads.append((name, value, value.read()))
            state = None if each is None else _state_of(each)
            if state is not None and id(each) not in self._generators:
                self._generators[id(each)] = _Generator(name, each, state)
        self._suspects = [
            each for each in self._generators.values() if each.name in suspects
        ]
        self._paused: dict[int, bool] = {}

    def note(self, reason: str, frame: types.FrameType | None) -> None:
        """Note a reason. Only the first one counts."""
        if not self.reason:
            self.reason, self.place = reason, place_of(frame)

    def saw_call(self, frame: types.FrameType, function: Any) -> None:
        """See the call of a function that is written in C."""
        owner = getattr(function, "__self__", None)
        known = self._generators.get(id(owner))
        if known is not None and known.of is owner and not known.place:
            known.place = place_of(frame)
        if function.__name__ in _ASKED:
            self._saw_asking(frame, function, owner)
        if function.__name__ in NAMES:
            self._process.saw_call(frame, function)

    def _saw_asking(self, frame: types.FrameType, function: Any, owner: Any) -> None:
        name = function.__name__
        if isinstance(owner, contextvars.ContextVar):
            whose = owner_of(frame.f_code.co_filename)
            # Newer versions of torch keep the settings of its compilers there.
            torchs = frame.f_globals.get("__name__") == "torch.utils._config_module"
            asks = whose in (Owner.PROGRAM, Owner.PACKAGE) and not torchs
            if name == "get" and asks:
                self._read_context(frame, owner)
            return
        is_date = name in _DATES and isinstance(owner, type)
        if is_date and issubclass(owner, datetime.date):
            if owner_of(frame.f_code.co_filename) == Owner.PROGRAM:
                self.note(f"it reads the clock, by {name}() ({_GIVE})", frame)
            return
        if type(function) is not types.BuiltinFunctionType:
            return
        if function in _CLOCKS:
            if owner_of(frame.f_code.co_filename) == Owner.PROGRAM:
                self.note(f"it reads the clock, by {name}() ({_GIVE})", frame)
        elif function in _FILES:
            if (asking := caller_of(frame)) is not None:
                self.note(f"it reads files, by {name}() ({_EACH_TIME})", asking)
        elif function in _ENTROPY and (asking := caller_of(frame)) is not None:
            self.note(f"it asks the system for random numbers, by {name}()", asking)
        elif function in _FOLDERS and caller_of(frame) is not None:
            self.values[the_folder().name] = the_folder()
        elif function in _COMPARED and caller_of(frame) is not None:
            value = Value(f"what {name}() returns", function)
            self.values[value.name] = value

    def _read_context(
        self, frame: types.FrameType, variable: contextvars.ContextVar[Any]
    ) -> None:
        value = of_context(variable)
        try:
            held = variable.get()
        except LookupError:  # the program gives what it gets then
            held = None
        if is_plain(held):
            self.values[value.name] = value
        else:
            self.note(f"it reads {value.name}, which holds an object ({_GIVE})", frame)

    def saw_function(self, frame: types.FrameType) -> None:
        """See that a function that is written in Python begins."""
        self._process.saw_function(frame)
        if frame.f_code is _SEEDS and frame.f_locals["a"] is None:
            if (asking := caller_of(frame.f_back)) is not None:
                self.note("it asks the system for random numbers, by seed()", asking)
            return
        code = frame.f_code
        if code is _WHICH_THREAD or code in _ALL_THREADS:
            if (asking := caller_of(frame.f_back)) is None:
                return
            if code is _WHICH_THREAD:
                self.values[the_thread().name] = the_thread()
            else:
                self.note(f"it asks which threads there are ({_GIVE})", asking)
            return
        name = _OF_ENVIRONMENT.get(code)
        if name is None or (asking := caller_of(frame.f_back)) is None:
            return
        if name in _CHANGES_ENVIRONMENT:
            self.note("it changes an environment variable", asking)
        elif name in _WHOLE_ENVIRONMENT:
            whole = the_environment()
            self.values[whole.name] = whole
        elif name == "__getitem__":
            key = frame.f_locals["key"]
            if isinstance(key, (str, bytes)):  # else it is an error
                value = of_environment(os.fsdecode(key))
                self.values[value.name] = value

    def look_at_suspects(self, frame: types.FrameType) -> None:
        """Find the function in which a suspected generator moves."""
        for each in self._suspects:
            if not each.place and each.moved():
                code = frame.f_code
                if (own := caller_of(frame)) is not None:
                    code = own.f_code
                each.place = f"{code.co_filename}:{code.co_firstlineno}"

    def pause(self) -> None:
        """Stop watching: the code that follows runs in each call."""
        self._paused = {key: each.moved() for key, each in self._generators.items()}

    def go_on(self) -> None:
        """Watch again, after that code."""
        for key, each in self._generators.items():
            if not self._paused.get(key, False):
                each.before = each.state()

    def end(self) -> frozenset[str]:
        """Return the generators that have moved, by name. Called after the call."""
        self.values.update(self._process.end())
        self.reason = self.reason or self._process.reason
        for name, value, before in self._of_threads:
            if not self.reason and value.read() != before:
                self.reason = (
                    f"it changes {name}, of which each thread has its own (let what "
                    "changes it run in each call, by @reprise.eager, or outside)"
                )
        moved = [each for each in self._generators.values() if each.moved()]
        for each in moved:
            if not self.reason:
                self.reason = (
                    f"it draws random numbers from {each.name}, or another thread does: "
                    "no replay would (draw them by torch, or give what is drawn)"
                )
                self.place = each.place
        return frozenset([each.name for each in moved])
