"""The form of a region's call: what calls have in common that one tape may answer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from reprise.guards import tree


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
) -> tuple[Any, list[float]]:
    """Return that form and these numbers with what optimizers hold."""
    numbers = [*numbers]
    for optimizer in optimizers:
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
    return form, numbers


def _comparable(value: Any) -> Any:
    """By value where that tells all, else by identity."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return id(value) if isinstance(value, torch.Tensor) else value


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
    form_now, numbers_now = with_optimizers(form_now, now.numbers, optimizers)
    if form_now != form or list(map(float.hex, numbers_now)) != list(
        map(float.hex, numbers)
    ):
        return "an argument, or the numbers of an optimizer"
    return None
