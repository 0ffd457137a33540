"""Places that a region's calls set: attributes, items, variables of closures and globals."""

from __future__ import annotations

import types
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from reprise.guards.inside import holds_any
from reprise.guards.tokens import MISSING
from reprise.guards.tree import LEAVES, Parts
from reprise.guards.ways import Shared

_MOST_DEEP = 8  # tuples in tuples
_OTHER = object()  # no kind that a place may hold


class Place:
    """One key of a container, which it keeps.

    What a place holds before a call is as an argument, and what it holds behind it as a
    result, so it is nothing that the region leads to.
    """

    __slots__ = ("key", "name", "of")

    def __init__(self, name: str, of: Any, key: Any) -> None:
        """`name`: what the program calls it."""
        self.name = name
        self.of = of
        self.key = key

    @property
    def at(self) -> tuple[int, Any]:
        """The container's id, and the key. Tells places apart as long as one is kept."""
        return id(self.of), self.key

    def read(self) -> Any:
        """Return what it holds. MISSING: nothing."""
        raise NotImplementedError

    def put(self, value: Any) -> None:
        """Set what it holds."""
        raise NotImplementedError

    def moved(self, of: Any) -> Place:
        """Return the same place of another container of that type."""
        return type(self)(self.name, of, self.key)


class Item(Place):
    """An item of a dictionary, an attribute, or a global."""

    __slots__ = ()

    def read(self) -> Any:
        return self.of.get(self.key, MISSING)

    def put(self, value: Any) -> None:
        self.of[self.key] = value


class Element(Item):
    """An item of a list."""

    __slots__ = ()

    def read(self) -> Any:
        try:
            return self.of[self.key]
        except IndexError:
            return MISSING


class Variable(Place):
    """A variable of a closure."""

    __slots__ = ()

    def read(self) -> Any:
        try:
            return self.of.cell_contents
        except ValueError:
            return MISSING

    def put(self, value: Any) -> None:
        self.of.cell_contents = value


def place_of(name: str, of: Any, key: Any) -> Place:
    """Return that of a dictionary, a list or a cell."""
    if type(of) is list:
        return Element(name, of, key)
    return (Variable if type(of) is types.CellType else Item)(name, of, key)


Written = tuple[Place, ...]


class _HoldsAny(Protocol):
    def holds_any(self, ids: Container[int]) -> bool: ...


class Held(NamedTuple):
    """What places hold before a call."""

    written: Written = ()
    values: tuple[Any, ...] = ()
    tensors: Sequence[torch.Tensor] = ()  # in these, in order
    kinds: tuple[Any, ...] = ()  # of a key: what they hold, tensors apart
    reason: str = ""  # why no replay takes that: one holds something else than it may

    def come(self) -> frozenset[tuple[int, Any]]:
        """Return places that hold nothing, and may hold something behind the call."""
        pairs = zip(self.written, self.values, strict=True)
        return frozenset([place.at for place, value in pairs if value is MISSING])


NOTHING = Held()
_IS_AN_ARGUMENT = (
    "among the arguments is a list, dictionary or object of which it sets items (give it "
    "once: as an argument, or from outside)"
)
# Lists and dictionaries that were met, by id: in which order, and in which place.
Seen = dict[int, tuple[int, int]]


def held_by(written: Written, parts: Parts, given: _HoldsAny | None) -> Held:
    """Return what they hold. `parts`: of the arguments. `given`: objects among these."""
    values: list[Any] = []
    tensors: list[torch.Tensor] = []
    kinds: list[Any] = []
    seen: Seen = {}
    for place in written:
        value = place.read()
        kind = type(value)
        if kind is torch.Tensor:
            if value.requires_grad or value.__dict__:
                return Held(reason=f"{place.name} that it sets is {described(value)}")
            tensors.append(value)
        elif value is not None:
            seen = seen or _containers_of(written)
            kind = _kind_of(value, tensors, seen, len(values))
            if kind is _OTHER:
                return Held(reason=f"{place.name} that it sets is {described(value)}")
        values.append(value)
        kinds.append(kind)
    # No key tells whether one of these is an argument, too, that is read behind a change.
    if parts.kwargs or given or not LEAVES.issuperset(map(type, parts.args)):
        ids = seen or _containers_of(written)
        if holds_any(
            (parts.args, parts.kwargs), ids, [*parts.objects, *parts.leading]
        ) or (given and given.holds_any(ids)):
            return Held(reason=_IS_AN_ARGUMENT)
    return Held(written, tuple(values), tensors, tuple(kinds))


def _containers_of(written: Written) -> Seen:
    """Return those that have places: one may be what another place holds."""
    ids = dict.fromkeys([id(each.of) for each in written])
    return {of: (order, -1) for order, of in enumerate(ids)}


def _kind_of(
    value: Any, tensors: list[torch.Tensor], seen: Seen, root: int, deep: int = 0
) -> Any:
    """Return the kind of what a place holds. `_OTHER`: it is none that a place may.

    `root`: the number of that place.
    """
    if is_plain(value):
        tensors.append(value)
        return torch.Tensor
    if value is None or (value is MISSING and not deep):
        return value
    kind = type(value)
    start: tuple[Any, ...] = ()
    inner: list[Any] = []
    if kind is list or kind is dict:
        if (known := seen.get(id(value))) is not None:
            return _OTHER if known[1] == root else ("again", known[0])
        seen[id(value)] = len(seen), root
        start, inner = (kind,), [*value]
        if kind is dict:
            start = kind, tuple([(type(key), key) for key in inner])
            if not all([type(key) in (str, int) for key in inner]):
                return _OTHER
            inner = [*value.values()]
    elif kind is tuple:
        inner = [*value]
    if not inner or deep >= _MOST_DEEP:
        return _OTHER
    count = len(tensors)
    kinds = [_kind_of(each, tensors, seen, root, deep + 1) for each in inner]
    # By its tensors a container is told from others that the callable leads to.
    return _OTHER if _OTHER in kinds or len(tensors) == count else (*start, *kinds)


def is_plain(value: Any) -> bool:
    """Return whether it is a tensor without a history, of which nothing else is known."""
    return type(value) is torch.Tensor and not (value.requires_grad or value.__dict__)


def may_be_held(value: Any) -> bool:
    """Return whether a place may be set to it, or hold it."""
    return value is not MISSING and _kind_of(value, [], {}, 0) is not _OTHER


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return those that places hold."""
    tensors: list[torch.Tensor] = []
    for each in values:
        _kind_of(each, tensors, {}, 0)
    return tensors


def _contents_of(value: Any) -> tuple[Any, list[int]]:
    """Return the kind of a container, and which tensors it holds."""
    tensors: list[torch.Tensor] = []
    return _kind_of(value, tensors, {}, 0), list(map(id, tensors))


def _is_flat(value: Any) -> bool:
    """Return whether nothing in it can be set."""
    if type(value) is tuple:
        return all(map(_is_flat, value))
    return type(value) not in (list, dict)


# --- Behind a call ---

# Of a recorded call: what each place is set to, Ellipsis where that is what it was, and
# `_ITEMS` with the items of a list or dictionary that is the one that it was; and the
# places that held nothing before, in the order of their coming.
_ITEMS = "items"
Behind = tuple[tuple[Any, ...], tuple[int, ...]]


def are_items(value: Any) -> bool:
    """Return whether a call has set items of what the place held."""
    return type(value) is tuple and type(value[0]) is str


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
            if type(each) in (tuple, list, dict)
        }

    def behind(self) -> Behind:
        """Return what the call has set. Raises Unlike."""
        values = []
        come: dict[int, list[int]] = {}  # by container
        pairs = zip(self._written, self._before, strict=True)
        for index, (place, old) in enumerate(pairs):
            new = place.read()
            if new is old:
                new = self._items_set(index, place.name, old)
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
            return _ITEMS, dict(zip(old, items, strict=True))
        return _ITEMS, items

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
        kinds = set(map(type, by_key))
        found = [by_key[key] for key in [*of] if type(key) in kinds and key in by_key]
        if len(found) < len(indices):  # a key that is equal, of another type
            raise Unlike(_ORDER)
        return found


_INSIDE = (
    "it changes what is in {} (set items of a list or dictionary whose length stays, or "
    "put another one there)"
)
_ORDER = "it gives a dictionary keys, or an order of them, that no replay would"


def is_simple_key(key: Any) -> bool:
    """Return whether it is compared and hashed by no code of the program's."""
    kind = type(key)
    return (
        kind is str or kind is int or (kind is tuple and all(map(is_simple_key, key)))
    )


def _name(key: Any) -> Any:
    return (type(key), key) if is_simple_key(key) else id(key)


def described(value: Any) -> str:
    """Return what it is that no place may hold, and what helps."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return "a tensor with a history (detach it before it is kept)"
    return (
        f"a {type(value).__name__}, where only plain tensors, containers of these, and None "
        "are replayed"
    )


def set_to(held: Held, made: tuple[Any, Behind]) -> bool:
    """Set them as a call has that began so, with its result. Returns whether a key has come."""
    written, before = held.written, held.values
    result, (values, come) = made
    for place, old, new in zip(written, before, values, strict=True):
        if new is not ... and new is not old and old is not MISSING:
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
