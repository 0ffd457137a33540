"""What `torch.compile` sees of this package: the heads of calls, and nothing behind them.

Dynamo asks at each Python function that is called while one of its programs runs whether
to trace it, and torch calls functions of this package anywhere: a backward pass runs
nodes and hooks, a reference that goes runs a callback. Traced, such a function is another
one: what it does beside its operators is repeated, dropped, or split in two.

So functions are hidden when the package is imported. A hidden function is run as it is, and
so is all that it calls: the program's callable while it is recorded, say. A function that
calls of the program's go through is not hidden, and begins with `is_compiling()`: under
Dynamo it is the program's callable, and nothing else.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])

_HEAD = "_reprise_is_head"
_WHY = "a part of Reprise, which runs as it is"
# Each one: two functions of one text are equal, wherever they stand.
HIDDEN: list[types.CodeType] = []


def head(function: F) -> F:
    """Leave the function to Dynamo, which sees a call of the program's callable."""
    setattr(function, _HEAD, True)
    return function


def hide(package: str) -> None:
    """Hide all functions of a package's loaded modules, and their inner functions.

    Does not import Dynamo, which takes a second.
    """
    files = {getattr(each, "__file__", None) for _, each in _modules_of(package)}
    for function in functions_of(package):
        is_head = hasattr(function, _HEAD)
        if not is_head:  # Dynamo does not go into it from a function that it traces
            function._torchdynamo_disable = True  # type: ignore[attr-defined]
            function._torchdynamo_disable_msg = _WHY  # type: ignore[attr-defined]
        # A decorator's of another package's has a code that others have, too.
        if function.__code__.co_filename in files:
            for code in codes_of(function.__code__):
                if not is_head or code is not function.__code__:
                    _run_as_it_is(code)


def functions_of(package: str) -> Iterator[types.FunctionType]:
    """Yield all functions in the modules of a package and in their classes, once each."""
    seen: set[int] = set()
    for name, module in _modules_of(package):
        yield from _functions_in(vars(module), name, seen)


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code, and that of the functions that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def _modules_of(package: str) -> list[tuple[str, types.ModuleType]]:
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if name == package or name.startswith(package + ".")
    ]


def _functions_in(
    names: Any, module: str, seen: set[int]
) -> Iterator[types.FunctionType]:
    for value in list(names.values()):
        if getattr(value, "__module__", module) != module or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            yield from _functions_in(vars(value), module, seen)
        else:
            yield from _functions_behind(value)


def _functions_behind(value: Any) -> Iterator[types.FunctionType]:
    """What a decorator was given, and what it has made of it."""
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, types.FunctionType):
            yield found
        if isinstance(found, property):
            left += [found.fget, found.fset, found.fdel]
        elif isinstance(found, (staticmethod, classmethod)):
            left.append(found.__func__)
        elif hasattr(found, "__wrapped__"):
            left.append(found.__wrapped__)


def _run_as_it_is(code: types.CodeType) -> None:
    """And all that it calls."""
    frames: Any = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    HIDDEN.append(code)
