"""Calls of functions in C that may take the value of a number, in a recorded call.

What the program's code names is known before (`guards/values.py`). These are calls by code of
packages and of Python's library.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

import torch

from reprise._arithmetic import is_followed
from reprise._frames import Owner, owner_of
from reprise.guards.values import takes_value

_LEFT_OUT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP"})
# What gives a number of its own, whatever it is given.
_DIVIDES = frozenset({"/", "//", "**", "/=", "//=", "**="})
_OLD_DIVIDES = ("BINARY_TRUE_DIVIDE", "BINARY_FLOOR_DIVIDE", "BINARY_POWER")
_PLAIN = frozenset(map(id, (bool, int, float)))
# By these a tensor gives a complex number, which takes the value of floats.
_READS = frozenset({"item", "tolist"})


def takes(frame: types.FrameType, function: Any) -> bool:
    """Return whether a function in C, that `frame` calls, may be given a number and take its value."""
    if type(function) is not types.BuiltinFunctionType:
        return False
    of: Any = function.__self__
    if issubclass(type(of), torch.Tensor):
        return function.__name__ in _READS and _is_complex(of)
    if not (issubclass(type(of), float) or takes_value(function)):
        return False
    if owner_of(frame.f_code.co_filename) == Owner.REPRISE or is_followed(frame):
        return False
    return not _gives_a_plain_one(frame)


def _is_complex(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunctionSubclass():
        return bool(tensor.is_complex())


def _gives_a_plain_one(frame: types.FrameType) -> bool:
    """Return whether all that a call is given is one ordinary number."""
    steps = _steps_of(frame.f_code)
    at = steps.get(frame.f_lasti)
    if at is None:
        return False
    call, last = at
    if not call.opname.startswith("CALL") or call.arg != 1:
        return False
    name = last.opname
    if name == "LOAD_CONST":
        return id(type(last.argval)) in _PLAIN
    if name.startswith("LOAD_FAST") and type(last.argval) is str:
        return id(type(frame.f_locals.get(last.argval))) in _PLAIN
    divides = name == "BINARY_OP" and last.argrepr in _DIVIDES
    return (divides or name in _OLD_DIVIDES) and not last.is_jump_target


@functools.lru_cache(maxsize=256)
def _steps_of(
    code: types.CodeType,
) -> dict[int, tuple[dis.Instruction, dis.Instruction]]:
    """Each step with the one before it, by offset."""
    steps = [
        each for each in dis.get_instructions(code) if each.opname not in _LEFT_OUT
    ]
    pairs = zip(steps[1:], steps, strict=False)
    # What is jumped to may come from elsewhere.
    return {
        step.offset: (step, before) for step, before in pairs if not step.is_jump_target
    }
