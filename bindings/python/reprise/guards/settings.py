"""What a recorded call sets in places, and replays set likewise."""

from __future__ import annotations

import enum
import itertools
import operator
from typing import Any

import torch

from reprise.guards import classes
from reprise.guards.places import (
    Counter,
    Held,
    Item,
    described,
    is_simple_key,
    kind_of,
    may_be_held,
)
from reprise.guards.tokens import MISSING, same
from reprise.guards.ways import Shared

# Of a recorded call: what each place is set to, Ellipsis where that is what it was, and
# `Sign.ITEMS` with the items of a list or dictionary that is the one that it was; and the
# places that held nothing before, in the order of their coming.
Behind = tuple[tuple[Any, ...], tuple[int, ...]]


class Sign(enum.Enum):
    """What no place holds."""

    ITEMS = "items"


def are_items(value: Any) -> bool:
    """Return whether a call has set items of what the place held."""
    return type(value) is tuple and bool(value) and value[0] is Sign.ITEMS


def sets_nothing(behind: Behind) -> bool:
    """Return whether all places hold what they held."""
    return all(map(operator.is_, behind[0], itertools.repeat(...)))


def sets_items(behind: Behind) -> bool:
    """Return whether items are set of what a place holds: another region may lead to it."""
    return any(map(are_items, behind[0]))


class Unlike(Exception):
    """Why no replay sets places as a call has: a sentence for people."""


class Settings:
    """What one recorded call sets: made before it, and asked behind it."""

    def __init__(self, before: Held) -> None:
        self._written = before.written
        self._before = before.values
        self._dicts = {
            id(each.of): (each.of, [*each.of])
            for each in before.written
            if type(each) is Item
        }
        # By index: what containers that places hold have held.
        self._contents = {
            index: (
                _contents_of(each),
                each.copy() if type(each) is not tuple else each,
            )
            for index, each in enumerate(before.values)
            if id(type(each)) in classes.CONTAINERS
        }

    def behind(self) -> Behind:
        """Return what the call has set. Raises Unlike."""
        values = []
        come: dict[int, list[int]] = {}  # by container
        pairs = zip(self._written, self._before, strict=True)
        for index, (place, old) in enumerate(pairs):
            new = place.read()
            if type(place) is Counter:
                new = _added(place.name, old, new)
            elif new is old:
                new = self._items_set(index, place.name, old)
            elif same(old, new):
                new = ...
            elif self._is_changed(index, old):
                raise Unlike(_INSIDE.format(place.name))
            elif new is MISSING:
                raise Unlike(f"it deletes {place.name} (set it to None)")
            elif not may_be_held(new):
                raise Unlike(f"it sets {place.name} to {described(new)}")
            elif old is MISSING:
                come.setdefault(id(place.of), []).append(index)
            values.append(new)
        self._check_order()
        order = [each for some in come.values() for each in self._in_order(some)]
        return tuple(values), tuple(order)

    def _is_changed(self, index: int, old: Any) -> bool:
        """Return whether a container holds something else than it did."""
        return index in self._contents and _contents_of(old) != self._contents[index][0]

    def _items_set(self, index: int, name: str, old: Any) -> Any:
        """Return what the call has set of what a place held, and holds still."""
        if not self._is_changed(index, old):
            return ...
        before: Any = self._contents[index][1]
        if type(old) is dict:
            is_same = list(map(_name, old)) == list(map(_name, before))
            now, were = [*old.values()], [*before.values()]
        else:
            is_same = type(old) is list and len(old) == len(before)
            now, were = [*old], [*before]
        if not is_same or not all(map(_is_flat, (*now, *were))) or not may_be_held(old):
            raise Unlike(_INSIDE.format(name))
        items = [... if new is one else new for new, one in zip(now, were, strict=True)]
        if type(old) is dict:
            return Sign.ITEMS, dict(zip(old, items, strict=True))
        return Sign.ITEMS, items

    def _check_order(self) -> None:
        """Check that keys which have stayed are in their order."""
        for of, before in self._dicts.values():
            before, now = list(map(_name, before)), list(map(_name, of))
            there, stay = set(before), set(now)
            if [each for each in now if each in there] != [
                each for each in before if each in stay
            ]:
                raise Unlike(_ORDER)

    def _in_order(self, indices: list[int]) -> list[int]:
        """Of one container: in the order of its keys."""
        of = self._written[indices[0]].of
        if id(of) not in self._dicts:
            return indices
        by_key = {self._written[index].key: index for index in indices}
        kinds = {id(type(key)) for key in by_key}
        found = [
            by_key[key] for key in [*of] if id(type(key)) in kinds and key in by_key
        ]
        if len(found) < len(indices):  # a key that is equal, of another type
            raise Unlike(_ORDER)
        return found


def _added(name: str, old: int, new: Any) -> int:
    """Return how much a call has added to a counter."""
    if type(new) is not int:
        raise Unlike(f"it sets {name} to {described(new)}")
    return new - old


_INSIDE = (
    "it changes what is in {} (set items of a list or dictionary whose length stays, or "
    "put another one there)"
)
_ORDER = "it gives a dictionary keys, or an order of them, that no replay would"


def _name(key: Any) -> Any:
    return (type(key), key) if is_simple_key(key) else id(key)


def set_to(held: Held, made: tuple[Any, Behind]) -> bool:
    """Set them as a call has that began so, with its result. Returns whether a key has come."""
    written, before = held.written, held.values
    result, (values, come) = made
    for place, old, new in zip(written, before, values, strict=True):
        if type(place) is Counter:
            place.put(place.read() + new)  # others may have counted meanwhile
        elif new is not ... and new is not old and old is not MISSING:
            kind = type(new)
            if kind is tuple and are_items(new):
                _set_items(old, new[1])
            else:
                place.put(new.of((result, before)) if kind is Shared else new)
    for index in come:
        new = values[index]
        written[index].put(new.of((result, before)) if type(new) is Shared else new)
    return bool(come)


def _set_items(old: Any, items: Any) -> None:
    for key, value in items.items() if type(items) is dict else enumerate(items):
        if value is not ...:
            old[key] = value


# --- Containers that places hold ---


def _contents_of(value: Any) -> tuple[Any, list[int]]:
    """Return the kind of a container, and which tensors it holds."""
    tensors: list[torch.Tensor] = []
    return kind_of(value, tensors, {}, 0), list(map(id, tensors))


def _is_flat(value: Any) -> bool:
    """Return whether nothing in it can be set."""
    if type(value) is tuple:
        return all(map(_is_flat, value))
    return id(type(value)) not in classes.CONTAINERS
