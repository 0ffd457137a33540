"""The form of a region's call: what calls have in common that one tape may answer."""

from __future__ import annotations

import enum
import operator
from collections.abc import Container, Sequence
from typing import Any

import torch

from reprise._arithmetic import is_numpys
from reprise.guards import classes, tree
from reprise.guards.constants import constant
from reprise.guards.containers import Containers


def form_of(
    args: tuple[Any, ...], kwargs: dict[str, Any], parts: tree.Parts
) -> tree.Form:
    """Return the form of a call's arguments; see `tree.flatten`."""
    form = tree.flatten(args, parts)
    if kwargs:
        form = form, tree.flatten(kwargs, parts), "by name"
    return form


class Following:
    """Whether calls of a region are known to change what their arguments hold.

    One for all regions of a callable.
    """

    __slots__ = ("is_on", "why_not")

    def __init__(self) -> None:
        self.is_on = False
        self.why_not = ""  # of the arguments of the last call

    def begin(self) -> bool:
        """Begin to follow such changes. Returns whether that is new."""
        was_on, self.is_on = self.is_on, True
        return not was_on


def taken_apart(
    args: tuple[Any, ...], kwargs: dict[str, Any], following: Following
) -> tuple[tree.Form, tree.Parts, str]:
    """Return the form of a call's arguments, the parts, and why there is no form."""
    why = following.why_not = ""
    for with_objects in (True, False) if following.is_on else ():
        parts = _parts_of(args, kwargs)
        try:
            containers = Containers(with_objects=with_objects)
            return containers.take_apart(args, kwargs, parts), parts, why
        except (TypeError, RecursionError) as unknown:
            following.why_not = following.why_not or f"an argument holds {unknown}"
    parts = _parts_of(args, kwargs)
    try:
        return form_of(args, kwargs, parts), parts, why
    except TypeError as unknown:
        why = f"an argument holds {unknown}"
    except RecursionError:
        why = f"an argument is more than {tree.MOST_DEEP} deep, or holds itself"
    # Not while the error is handled: it would be the context of others.
    return None, parts, why


def _parts_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tree.Parts:
    parts = tree.Parts()
    parts.args, parts.kwargs = args, kwargs
    return parts


def are_floats(value: Any) -> bool:
    """Return whether it is a tuple of floats, as `betas` are."""
    return type(value) is tuple and {*map(type, value)} == _FLOATS


def with_optimizers(
    form: Any,
    numbers: list[float],
    optimizers: Sequence[Any],
    loose: Container[str] = (),
) -> tuple[Any, list[float], str]:
    """Return that form and these numbers with what optimizers hold.

    And why that cannot be told: a group holds an object. Empty: it can. `loose`: keys whose
    tuples of floats are numbers; others are a part of the form.
    """
    numbers = [*numbers]
    for optimizer in optimizers:
        others: list[tuple[Any, ...]] = []
        for group in optimizer.param_groups:
            for key, value in group.items():
                if type(value) is float:
                    numbers.append(value)
                elif key in loose and are_floats(value):
                    numbers.extend(value)
                    others.append((key, tuple, len(value)))
                elif key != "params":
                    try:
                        token = _comparable(value)
                    except tree.Foreign as unknown:
                        return form, numbers, f"a group of an optimizer holds {unknown}"
                    if token is _A_NUMBER:
                        numbers.append(float.__float__(value))
                    others.append((key, type(value), token))
            params = group["params"]
            others.append(("params", id(params), *map(id, params)))
        form = form, tuple(others), _GROUPS
    return form, numbers, ""


_PLAIN = classes.ids_of(bool, int, str, type(None))
_FLOATS = {float}
_GROUPS = object()  # marks what one optimizer holds
_A_NUMBER = "a number of NumPy's"  # whose value may be another one


def _comparable(value: Any) -> Any:
    """By value where that tells all, a tensor by identity. `_A_NUMBER`: it is one.

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
    if is_numpys(kind):
        return _A_NUMBER
    known = None if issubclass(kind, (type, enum.Enum)) else constant(value)
    if known is None:
        raise tree.Foreign(
            f"an object of {classes.name_of(kind)} (keep it outside of the groups, which hold "
            "numbers, texts and tensors)"
        )
    return known.token


AN_ARGUMENT = "an argument"
NUMBERS = "an argument, or the numbers of an optimizer"


class Loose:
    """Keys of optimizers' groups whose tuples of floats a program sets to others.

    A schedule that does so (`OneCycleLR`, of the betas of Adam) does it before each call.
    """

    def __init__(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self._before: tuple[Any, ...] = ()  # groups of the last call that was recorded

    def learn(self, form: Any) -> None:
        """Learn from the form of a call that is recorded, with what optimizers hold."""
        groups: list[Any] = []
        while type(form) is tuple and form and form[-1] is _GROUPS:
            form, of_one, _ = form
            groups += of_one
        before, self._before = self._before, tuple(groups)
        if len(before) != len(groups):
            return
        for one, other in zip(before, groups, strict=True):
            is_one = one[0] == other[0] != "params" and len(one) == len(other)
            if is_one and all(map(are_floats, (one[2], other[2]))) and one != other:
                self.keys |= {one[0]}


def what_changed(
    form: Any,
    numbers: list[float],
    parts: tree.Parts,
    optimizers: Sequence[Any],
    loose: Container[str] = (),
) -> str | None:
    """Return what of arguments and optimizers has changed since a call. None: nothing.

    `form`, `numbers`: with what the optimizers held; `loose`: see `with_optimizers`. `parts`: of
    the arguments. Of containers that are followed nobody is asked.
    """
    now, form_now = parts, form
    for _ in optimizers:
        form_now = form_now[0]
    if parts.containers is None:
        now, before = tree.Parts(), form_now
        try:
            form_now = form_of(parts.args, parts.kwargs, now)
        except (TypeError, RecursionError):  # what they hold now is something else
            return AN_ARGUMENT
        if form_now != before or not _are_same(parts, now):
            return AN_ARGUMENT
    form_now, numbers_now, why = with_optimizers(
        form_now, now.numbers, optimizers, loose
    )
    if why:
        return "what a group of an optimizer holds"
    if form_now != form or [*map(float.hex, numbers_now)] != [*map(float.hex, numbers)]:
        return NUMBERS
    return None


def _are_same(before: tree.Parts, after: tree.Parts) -> bool:
    return all(
        len(one) == len(two) and all(map(operator.is_, one, two))
        for one, two in (
            (before.tensors, after.tensors),
            (before.objects, after.objects),
            (before.leading, after.leading),
        )
    )
