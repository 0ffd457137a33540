"""Looks at what of a recorded call depends on which object an argument is."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import types
from collections.abc import Container
from typing import Any

import torch

from reprise._frames import Owner, is_torchs, owner_of

_HASHES = torch.Tensor.__hash__.__code__
_LEFT_OUT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP"})
_LOADS_VARIABLE = ("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF")
# Of these, guards know one that is equal for the same.
_ALIKE = (torch.Tensor, list, dict, set, tuple, int, float, complex, str, bytes)
_UNKNOWN = object()


class IdentityWatch:
    """The uses of `id()`, and of hashes of tensors, for what no guard tells by identity.

    Guards tell tensors among the arguments by their form, and which of them are one. A
    number that follows from which tensor it is (`if id(x) != self.last`) is not told.
    """

    def __init__(self, arguments: Container[int], own: Container[int]) -> None:
        """`arguments`: ids of what the call is given. `own`: of tensors from outside."""
        self._arguments = arguments
        self._own = own

    def saw_id(self, frame: types.FrameType) -> str | None:
        """See a call of `id`. Returns why no replay would give that number."""
        if not _asks(frame):
            return None
        value = _argument_of(frame)
        if isinstance(value, torch.Tensor) and id(value) in self._own:
            return None
        is_alike = value is _UNKNOWN or isinstance(value, _ALIKE)
        return _WHY.format("id") if is_alike or id(value) in self._arguments else None

    def saw_function(self, frame: types.FrameType) -> str | None:
        """See a function begin. Returns why no replay would give its result."""
        if frame.f_code is not _HASHES or not _asks(frame.f_back):
            return None
        value = frame.f_locals["self"]
        is_given = id(value) in self._arguments and id(value) not in self._own
        return _WHY.format("hash") if is_given else None


_WHY = (
    "it asks which object an argument or a value is, by its {}, and replays are given "
    "others (compare by `is`)"
)


def _asks(frame: types.FrameType | None) -> bool:
    """Return whether it is the program's or a package's code: torch's own keeps books."""
    if frame is None:
        return False
    file = frame.f_code.co_filename
    whose = owner_of(file)
    return whose == Owner.PROGRAM or (whose == Owner.PACKAGE and not is_torchs(file))


def _argument_of(frame: types.FrameType) -> Any:
    """Return what the frame calls a function with, if that is a variable or a global."""
    found = _loads(frame.f_code).get(frame.f_lasti)
    if found is None:
        return _UNKNOWN
    name, is_global = found
    if is_global:
        return frame.f_globals.get(name, _UNKNOWN)
    if not has_plain_variables(frame.f_code):
        return _UNKNOWN
    return frame.f_locals.get(name, _UNKNOWN)


@functools.lru_cache(maxsize=1024)
def has_plain_variables(code: types.CodeType) -> bool:
    """Return whether each of its variables has a name of its own, by which it is told.

    From Python 3.12 on, those of comprehensions are the function's: another one may have
    the name, and in a class or a module nobody is shown them. Where a profiler's hook
    asks for variables, 3.12 sets all of them behind it, by their names.
    """
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return not code.co_varnames and not code.co_cellvars
    held = {*code.co_varnames, *code.co_cellvars}
    return held.isdisjoint(code.co_freevars)


@functools.lru_cache(maxsize=1024)
def _loads(code: types.CodeType) -> dict[int, tuple[str, bool]]:
    """By the place of a call with one argument, what that is: a name, and whether a global."""
    found: dict[int, tuple[str, bool]] = {}
    steps = [
        each for each in dis.get_instructions(code) if each.opname not in _LEFT_OUT
    ]
    for before, call in itertools.pairwise(steps):
        if not call.opname.startswith("CALL") or call.arg != 1:
            continue
        if before.opname.startswith(_LOADS_VARIABLE):
            if isinstance(before.argval, str):
                found[call.offset] = before.argval, False
        elif before.opname == "LOAD_GLOBAL" and not before.argrepr.startswith("NULL"):
            found[call.offset] = before.argval, True
    return found
