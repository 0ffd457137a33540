"""What a recorded call sets that belongs to the thread or the process: replays set none of it.

Context variables, the working directory, limits of Python's, loggers, and how torch prints.
"""

from __future__ import annotations

import contextvars
import gc
import locale
import logging
import os
import signal
import sys
import types
from collections.abc import Callable, Hashable
from typing import Any

import torch

from reprise._compared_values import Value, is_plain, of_context, the_folder
from reprise._frames import Owner, is_torchs, owner_of

_OUTSIDE = "set it outside"


def _by_name(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names if hasattr(module, name)}


def _told_by(ask: Callable[[], Hashable]) -> Callable[[], Value]:
    name = f"what {getattr(ask, '__name__', '')}() returns"
    return lambda: Value(name, ask)


def _setting(
    tells: Callable[[], Value], module: Any, *names: str
) -> dict[str, tuple[Any, Callable[[], Value]]]:
    found = _by_name(module, *names)
    return {name: (function, tells) for name, function in found.items()}


def _codes_of(*functions: Any) -> dict[types.CodeType, str]:
    return {each.__code__: each.__name__ for each in functions}


# By name: functions that set what can be asked for, and what tells it.
_ASKED = {
    **_setting(the_folder, os, "chdir", "fchdir"),
    **_setting(_told_by(gc.isenabled), gc, "enable", "disable"),
    **_setting(_told_by(gc.get_threshold), gc, "set_threshold"),
    **_setting(_told_by(sys.getrecursionlimit), sys, "setrecursionlimit"),
    **_setting(_told_by(sys.getswitchinterval), sys, "setswitchinterval"),
}
# Those that set what no call is compared by.
_UNASKED = {
    **_by_name(os, "putenv", "unsetenv", "umask", "nice"),
    **_by_name(sys, "settrace", "setprofile", "set_int_max_str_digits"),
    **_by_name(gc, "freeze", "unfreeze", "set_debug"),
    **_by_name(signal, "signal", "setitimer", "alarm"),
}
# The same, of functions that are written in Python.
_CODES = _codes_of(
    *(logging.Logger.setLevel, logging.Handler.setLevel, logging.disable),
    *(logging.Logger.addHandler, logging.Logger.removeHandler),
    *(logging.Filterer.addFilter, logging.Filterer.removeFilter),
    *(logging.basicConfig, locale.setlocale, torch.set_printoptions),
)
_OF_CONTEXT = frozenset({"set", "reset"})
NAMES = frozenset(_ASKED) | frozenset(_UNASKED) | _OF_CONTEXT


class ProcessState:
    """What one recorded call sets of these. Made before it, and asked behind it."""

    def __init__(self) -> None:
        self.reason = ""  # why no replay does what the call has done
        # What was set, by name, and what it was before.
        self._set: dict[str, tuple[Value, Hashable]] = {}
        # Context variables: what they held, and how often they were set and not reset.
        self._variables: dict[str, tuple[contextvars.ContextVar[Any], Any, int]] = {}

    def saw_call(self, frame: types.FrameType, function: Any) -> None:
        """See the call of a function in C with one of these names."""
        name = function.__name__
        of = getattr(function, "__self__", None)
        if type(of) is contextvars.ContextVar and name in _OF_CONTEXT:
            if _asks(frame):
                self._saw_variable(of, 1 if name == "set" else -1)
        elif name in _ASKED and function is _ASKED[name][0]:
            if _asks(frame):
                value = _ASKED[name][1]()
                self._set.setdefault(value.name, (value, value.read()))
        elif function is _UNASKED.get(name) and _asks(frame):
            self._note(f"it calls {name}() ({_OUTSIDE})")

    def saw_function(self, frame: types.FrameType) -> None:
        """See that a function that is written in Python begins."""
        name = _CODES.get(frame.f_code)
        if name is not None and frame.f_back is not None and _asks(frame.f_back):
            self._note(f"it calls {name}() ({_OUTSIDE})")

    def _saw_variable(self, variable: contextvars.ContextVar[Any], step: int) -> None:
        name = of_context(variable).name
        _, first, depth = self._variables.get(name, (variable, variable.get(...), 0))
        self._variables[name] = variable, first, depth + step

    def _note(self, reason: str) -> None:
        self.reason = self.reason or reason

    def end(self) -> dict[str, Value]:
        """Return what calls are to be compared by. Then `reason` says what else was set."""
        compared = {name: value for name, (value, _) in self._set.items()}
        for name, (value, before) in self._set.items():
            if value.read() != before:
                self._note(f"it sets {name} ({_OUTSIDE})")
        for name, (variable, first, depth) in self._variables.items():
            is_told = first is ... or is_plain(first)
            if variable.get(...) is not first or not (depth == 0 or is_told):
                self._note(f"it sets {name} ({_OUTSIDE})")
            elif depth != 0:  # it may have been set to what it was
                compared[name] = of_context(variable)
        return compared


def _asks(frame: types.FrameType | None) -> bool:
    """Return whether the program, or a package but torch, asks the library for it there."""
    while frame is not None:
        file = frame.f_code.co_filename
        owner = owner_of(file)
        if owner != Owner.LIBRARY:
            return owner != Owner.REPRISE and not is_torchs(file)
        frame = frame.f_back
    return False
