"""The form of a region's call: what calls have in common that one tape may answer."""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any

import torch

from reprise.guards import classes, tree
from reprise.guards.constants import constant


def form_of(
    args: tuple[Any, ...], kwargs: dict[str, Any], parts: tree.Parts
) -> tree.Form:
    """Return the form of a call's arguments; see `tree.flatten`."""
    form = tree.flatten(args, parts)
    if kwargs:
        form = form, tree.flatten(kwargs, parts), "by name"
    return form


def with_optimizers(
    form: Any, numbers: list[float], optimizers: Sequence[Any]
) -> tuple[Any, list[float], str]:
    """Return that form and these numbers with what optimizers hold.

    And why that cannot be told: a group holds an object. Empty: it can.
    """
    numbers = [*numbers]
    for optimizer in optimizers:
        others: list[tuple[Any, ...]] = []
        for group in optimizer.param_groups:
            for key, value in group.items():
                if type(value) is float:
                    numbers.append(value)
                elif key != "params":
                    try:
                        others.append((key, type(value), _comparable(value)))
                    except tree.Foreign as unknown:
                        return form, numbers, f"a group of an optimizer holds {unknown}"
            params = group["params"]
            others.append(("params", id(params), *map(id, params)))
        form = form, tuple(others)
    return form, numbers, ""


_PLAIN = classes.ids_of(bool, int, str, type(None))
_FLOATS = {float}


def _comparable(value: Any) -> Any:
    """By value where that tells all, a tensor by identity.

    Raises Foreign: nobody looks at what an object holds.
    """
    kind = type(value)
    if id(kind) in _PLAIN:
        return value
    if issubclass(kind, torch.Tensor):
        return id(value)
    if kind is tuple or kind is list:
        # Of zeros and NaNs the bits tell.
        if {*map(type, value)} == _FLOATS and all(value):
            return (*value,)
        return tuple([(type(each), _comparable(each)) for each in value])
    if kind is dict and all([id(type(key)) in _PLAIN for key in value]):
        pairs = value.items()
        return tuple(
            [(type(key), key, type(each), _comparable(each)) for key, each in pairs]
        )
    known = None if issubclass(kind, (type, enum.Enum)) else constant(value)
    if known is None:
        raise tree.Foreign(
            f"an object of {classes.name_of(kind)} (keep it outside of the groups, which hold "
            "numbers, texts and tensors)"
        )
    return known.token


def what_changed(
    form: Any, numbers: list[float], parts: tree.Parts, optimizers: Sequence[Any]
) -> str | None:
    """Return what of arguments and optimizers has changed since a call. None: nothing.

    `form`, `numbers`: with what the optimizers held. `parts`: of the arguments.
    """
    now = tree.Parts()
    form_now = form_of(parts.args, parts.kwargs, now)
    for before, after in (
        (parts.tensors, now.tensors),
        (parts.objects, now.objects),
        (parts.leading, now.leading),
    ):
        if len(before) != len(after) or any(map(operator.is_not, before, after)):
            return "an argument"
    form_now, numbers_now, why = with_optimizers(form_now, now.numbers, optimizers)
    if why:
        return "what a group of an optimizer holds"
    if form_now != form or list(map(float.hex, numbers_now)) != list(
        map(float.hex, numbers)
    ):
        return "an argument, or the numbers of an optimizer"
    return None
