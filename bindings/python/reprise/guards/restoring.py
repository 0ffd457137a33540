"""Puts back what a run of a callable sets that is none of the program's own."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reprise.guards.holders import Cell, Holder, content
from reprise.guards.names import Names
from reprise.guards.object_holders import Slots, object_of
from reprise.guards.tokens import MISSING


@contextlib.contextmanager
def keeping(holders: Iterable[Holder]) -> Iterator[None]:
    """Dictionaries, lists, variables and the like hold behind it what they held before.

    No method of the program's is called for that.
    """
    put_backs = [each for each in map(_put_back, holders) if each is not None]
    try:
        yield
    finally:
        for put_back in put_backs:
            put_back()


def _put_back(holder: Holder) -> Callable[[], None] | None:
    """Return what puts back what it holds now. None: calls set nothing in it."""
    of = object_of(holder)
    if isinstance(holder, Cell):
        return functools.partial(_set_cell, of, content(of))
    if isinstance(holder, Slots):
        return functools.partial(_set_slots, holder, of, holder.values(of))
    if isinstance(holder, Names):  # others of its keys may be other threads'
        was = {key: dict.get(of, key, MISSING) for key, _ in holder.items()}
        return functools.partial(_set_names, of, was)
    if isinstance(of, dict):
        base: Any = OrderedDict if isinstance(of, OrderedDict) else dict
        return functools.partial(_set_dict, of, base, dict(base.items(of)))
    if isinstance(of, list):
        return functools.partial(_set_list, of, [*list.__iter__(of)])
    if isinstance(of, set):
        return functools.partial(_set_set, of, [*set.__iter__(of)])
    return None


def _set_cell(of: Any, value: Any) -> None:
    if content(of) is value:
        return
    if value is MISSING:
        del of.cell_contents
    else:
        of.cell_contents = value


def _set_slots(holder: Slots, of: Any, was: list[Any]) -> None:
    for slot, now, value in zip(holder.slots, holder.values(of), was, strict=True):
        if now is value:
            continue
        if value is MISSING:
            slot.__delete__(of)
        else:
            slot.__set__(of, value)


def _set_names(of: dict[Any, Any], was: dict[Any, Any]) -> None:
    for key, value in was.items():
        if dict.get(of, key, MISSING) is value:
            continue
        if value is MISSING:
            dict.__delitem__(of, key)
        else:
            dict.__setitem__(of, key, value)


def _set_dict(of: dict[Any, Any], base: Any, was: dict[Any, Any]) -> None:
    for key in [key for key in base.__iter__(of) if key not in was]:
        base.__delitem__(of, key)
    for key, value in was.items():
        if base.get(of, key, MISSING) is not value:
            base.__setitem__(of, key, value)


def _set_list(of: list[Any], was: list[Any]) -> None:
    if [*map(id, list.__iter__(of))] != [*map(id, was)]:
        list.__setitem__(of, slice(None), was)


def _set_set(of: set[Any], was: list[Any]) -> None:
    if [*map(id, set.__iter__(of))] != [*map(id, was)]:
        set.clear(of)
        set.update(of, was)
