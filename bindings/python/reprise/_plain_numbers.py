"""Ordinary floats in the place of those that note what is done with them."""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Iterable
from typing import Any

from reprise._numbers import Number
from reprise.guards import classes

_CONSTANTS = classes.ids_of(set, frozenset, slice)


def make_plain(containers: Iterable[Any]) -> None:
    """Put ordinary floats into these in the place of those that note."""
    for each in containers:
        is_held = isinstance(each, (list, dict))
        plain(each if is_held else classes.attributes_of(each))


def plain(result: Any) -> Any:
    """Return the result with ordinary floats in it."""
    return _plain(result, set())


def _plain(value: Any, seen: set[int]) -> Any:
    if type(value) is Number:
        if value.node >= len(value.notes.computed):
            value.notes.look_at(value.node)  # the result is no other one in a replay
        return float.__float__(value)
    if id(value) in seen:
        return value
    if isinstance(value, tuple):
        parts = [_plain(each, seen) for each in value]
        same = all(map(operator.is_, parts, value))
        return value if same else tuple.__new__(type(value), parts)
    if isinstance(value, list):  # no method of the program's is called
        seen.add(id(value))
        for index, each in enumerate(list.__iter__(value)):
            if (made := _plain(each, seen)) is not each:
                list.__setitem__(value, index, made)
    elif isinstance(value, dict):
        seen.add(id(value))
        of: Any = collections.OrderedDict
        of = of if isinstance(value, of) else dict
        entries = [*of.items(value)]
        for key, each in entries:
            if (made := _plain(each, seen)) is not each:
                of.__setitem__(value, key, made)
        keys = [_plain(key, seen) for key, _ in entries]
        if any(new is not old for new, (old, _) in zip(keys, entries, strict=True)):
            entries = [*zip(keys, of.values(value), strict=True)]
            of.clear(value)
            of.update(value, entries)
    elif id(type(value)) in _CONSTANTS:
        return _plain_constant(value, seen)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        seen.add(id(value))
        for field in dataclasses.fields(value):
            each = getattr(value, field.name, None)
            if (made := _plain(each, seen)) is not each:
                object.__setattr__(value, field.name, made)
    return value


def _plain_constant(value: Any, seen: set[int]) -> Any:
    is_slice = type(value) is slice
    parts = [value.start, value.stop, value.step] if is_slice else [*value]
    found = [_plain(each, seen) for each in parts]
    if not any(map(operator.is_not, found, parts)):
        return value
    if type(value) is set:
        value.clear()
        value.update(found)
        return value
    return slice(*found) if is_slice else frozenset(found)
