"""The functional, in-place, out= and copying forms of one operator, from a call of one."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from registry.hooks import Call, check_device, hooks, overload
from registry.memory import replaced


def _split(name: str) -> tuple[str, str]:
    namespace, _, rest = name.partition("::")
    return namespace, rest.partition(".")[0]


def _is_out(argument: Any) -> bool:
    alias = argument.alias_info
    return argument.kwarg_only and alias is not None and alias.is_write


# The out= form of a factory has none.
_TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory")


def _kinship(name: str) -> Any:
    """Equal for the functional, in-place, out= and copying form of an operator."""
    namespace, base = _split(name)
    base = base.removesuffix("_").removesuffix("_copy").removesuffix("_functional")
    arguments = overload(name)._schema.arguments
    kinds = tuple(
        (argument.name, str(argument.type))
        for argument in arguments
        if not _is_out(argument) and argument.name not in _TENSOR_OPTIONS
    )
    return namespace, base, kinds


@functools.cache
def _kin() -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = collections.defaultdict(list)
    for name in hooks():
        with contextlib.suppress(Exception):
            found[_kinship(name)].append(name)
    return found


@functools.cache
def kin_names(name: str) -> list[str]:
    try:
        kin = _kin().get(_kinship(name), [])
    except Exception:  # an operator that Python does not show
        return []
    return [other for other in kin if other != name]


def kin_of(call: Call, full: Callable[[str], bool]) -> Iterator[Call]:
    """The call in the operator's other forms, as far as they can be run."""
    others = [name for name in kin_names(call.name) if not full(name)]
    if not others:
        return
    values = {
        argument.name: value
        for argument, value in zip(
            overload(call.name)._schema.arguments, call.arguments(), strict=True
        )
        if not _is_out(argument)
    }
    results: list[Any] | None = None
    for other in others:
        try:
            made = Call(other, *_given(other, values), call.source)
            names = [a.name for a in overload(other)._schema.arguments if _is_out(a)]
            if names and results is None:
                results = _results(call, len(names))
            for name, result in zip(names, results or (), strict=bool(names)):
                made.kwargs[name] = replaced(result, _like)
            made = made.copy()
            made.copy().run()
        except Exception:  # not a form that takes these arguments
            check_device()
            continue
        yield made


def _given(name: str, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = [], {}
    for argument in overload(name)._schema.arguments:
        if _is_out(argument):
            continue
        value = values.get(argument.name, argument.default_value)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _results(call: Call, count: int) -> list[Any]:
    result = call.copy().run()
    alone = isinstance(result, torch.Tensor) or (
        count == 1 and isinstance(result, (list, tuple))
    )
    return [result] if alone else list(result)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a result, with something in it."""
    return torch.empty_like(tensor).fill_(1)
