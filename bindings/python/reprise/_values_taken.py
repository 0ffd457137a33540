"""Calls of functions in C that may take the value of a number, in a recorded call.

What the program's code names is known before (`guards/values.py`). These are calls by code of
packages and of Python's library.
"""

from __future__ import annotations

import dis
import functools
import math
import types
from typing import Any

import torch

from reprise._arithmetic import is_followed
from reprise._frames import Owner, owner_of
from reprise.guards import classes
from reprise.guards.values import takes_value

_LEFT_OUT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP"})
# What gives a number of its own, whatever it is given.
_DIVIDES = frozenset({"/", "//", "**", "/=", "//=", "**="})
_OLD_DIVIDES = ("BINARY_TRUE_DIVIDE", "BINARY_FLOOR_DIVIDE", "BINARY_POWER")
_PLAIN = classes.ids_of(bool, int, float)
_COMPUTES = frozenset({"BINARY_OP", "UNARY_NEGATIVE", "PUSH_NULL", "PRECALL", "CALL"})
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
    steps, index_of = _steps_of(frame.f_code)
    at = index_of.get(frame.f_lasti, 0)
    call = steps[at]
    if not call.opname.startswith("CALL") or call.arg != 1 or call.is_jump_target:
        return False
    if _is_of_constants(steps[at - 1].offset, frame):
        return True
    return id(type(_operand(steps, at - 1, frame))) in _PLAIN


def _operand(steps: list[dis.Instruction], at: int, frame: types.FrameType) -> Any:
    """Return what that step gives, or any number of its type. None: nobody knows.

    Nothing of the program's is called.
    """
    if at < 0 or steps[at].is_jump_target:  # it may come from elsewhere
        return None
    step = steps[at]
    name = step.opname
    if name == "LOAD_CONST":
        return step.argval
    if name.startswith(("LOAD_FAST", "LOAD_DEREF")) and type(step.argval) is str:
        return frame.f_locals.get(step.argval)
    if name == "LOAD_ATTR":
        return _attribute(_operand(steps, at - 1, frame), step.argval)
    if name in _OLD_DIVIDES or (name == "BINARY_OP" and step.argrepr in _DIVIDES):
        return 1.0
    with_constant = at > 0 and steps[at - 1].opname == "LOAD_CONST"
    if name == "BINARY_SUBSCR" and with_constant:  # `x.shape[0]`
        is_size = type(_operand(steps, at - 2, frame)) is torch.Size
        return 1 if is_size and type(steps[at - 1].argval) is int else None
    if name.startswith("CALL") and step.arg == 1 and with_constant:  # `x.size(0)`
        asks = at > 1 and steps[at - 2].argval == "size"
        of = _operand(steps, at - 3, frame) if asks else None
        return 1 if type(of) in (torch.Tensor, torch.nn.Parameter) else None
    return None


def _is_of_constants(offset: int, frame: types.FrameType) -> bool:
    """Return whether what the step there gives is computed from constants: `math.sqrt(2 * math.pi)`.

    By steps in a row, of which each is known.
    """
    steps = _all_steps_of(frame.f_code)
    at = next(index for index, each in enumerate(steps) if each.offset == offset)
    depth = 0  # by how much the steps from there on have the stack grow
    for index in range(at, -1, -1):
        step = steps[index]
        if not _is_constant(step, steps[index - 1] if index else step, frame):
            return False
        depth += dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth == 1:
            return True
        if step.is_jump_target:
            return False
    return False


def _is_constant(
    step: dis.Instruction, before: dis.Instruction, frame: types.FrameType
) -> bool:
    """Return whether a step loads a number, or what `math` has of its own, or computes."""
    name = step.opname
    if name == "LOAD_CONST":
        return id(type(step.argval)) in _PLAIN
    if name == "LOAD_GLOBAL":
        return frame.f_globals.get(str(step.argval)) is math
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        own = vars(math).get(str(step.argval))
        is_own = type(own) is types.BuiltinFunctionType and own.__self__ is math
        return before.opname == "LOAD_GLOBAL" and (is_own or type(own) is float)
    return name in _COMPUTES


def _attribute(of: Any, name: str) -> Any:
    if type(of) is torch.Tensor and name == "shape":
        return torch.Size(())
    if classes.found_in(type(of), name) is not None:
        return None
    return (classes.attributes_of(of) or {}).get(name)


@functools.lru_cache(maxsize=256)
def _all_steps_of(code: types.CodeType) -> list[dis.Instruction]:
    """Those too that only the interpreter's stack has a part in."""
    return [each for each in dis.get_instructions(code) if each.opname != "CACHE"]


@functools.lru_cache(maxsize=256)
def _steps_of(
    code: types.CodeType,
) -> tuple[list[dis.Instruction], dict[int, int]]:
    """Its steps, and where each stands, by offset."""
    steps = [
        each for each in dis.get_instructions(code) if each.opname not in _LEFT_OUT
    ]
    return steps, {each.offset: index for index, each in enumerate(steps)}
