"""Objects of classes that are written in Python, taken apart and made anew.

What such an object holds stands in its attributes, its slots, and what it has as a dict,
list or tuple. Nothing of the class is called: neither `__init__` nor `__setattr__`, nor
what it overrides of its base.
"""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from reprise.guards import classes
from reprise.guards.constants import Constant, Itself, constant

_ABSTRACT = 1 << 20  # a flag of classes
_ITEMS: dict[int, Callable[[Any], Iterable[Any]]]
_ITEMS = {id(list): list.__iter__, id(tuple): tuple.__iter__}
_DICTS = classes.ids_of(dict, collections.OrderedDict)
# Their own objects may have attributes, too.
_WITH_ATTRIBUTES = classes.ids_of(collections.OrderedDict, types.SimpleNamespace)
_BASES = classes.ids_of(
    *(object, dict, collections.OrderedDict, list, tuple, types.SimpleNamespace)
)


class Layout(NamedTuple):
    """Of an object: its class, and where each of its values stands."""

    kind: Itself
    base: Itself  # the class below it that is written in C
    keys: tuple[Constant, ...] | None  # of a dict
    items: int  # of a list or tuple
    names: tuple[str, ...]  # attributes, in order
    slots: tuple[Itself, ...]  # those that are set: what reads and sets each
    # Which of the values stands there: a value that stands in two places is one.
    places: tuple[int, ...]

    def make(self, values: list[Any]) -> Any:
        """Return such an object that holds these."""
        kind, base = self.kind.of, self.base.of
        placed = [values[index] for index in self.places]
        if base is tuple:
            made = tuple.__new__(kind, placed[: self.items])
        else:
            made = base.__new__(kind)
        if base is list:
            list.extend(made, placed[: self.items])
        if self.keys is not None:
            for key, value in zip(self.keys, placed, strict=False):
                base.__setitem__(made, key.value, value)
        rest = placed[self.items :]
        if self.names:
            attributes = classes.attributes_of(made)
            assert attributes is not None
            attributes.update(zip(self.names, rest, strict=False))
        for slot, value in zip(self.slots, rest[len(self.names) :], strict=True):
            slot.of.__set__(made, value)
        return made


class Stands(NamedTuple):
    """What an object holds, and where that stands."""

    base: type  # the class below its own that is written in C
    keys: list[tuple[Constant, Any]] | None  # of a dict, in its order
    items: list[Any]  # of a list or tuple
    attributes: dict[str, Any]
    slots: list[tuple[Any, Any]]  # those that are set: what reads each, and its value


class _Kind(NamedTuple):
    """What objects of a class are made of."""

    of: weakref.ref[type]
    mro: tuple[type, ...]  # when that was found out
    base: type | None  # see `Stands`; None: nobody knows
    slots: list[Any]  # what reads each
    attributes: Callable[[Any], Any]
    has_attributes: bool


_known: dict[int, _Kind] = {}  # by id of a class
_MOST_KNOWN = 4096


def _kind_of(kind: type) -> _Kind:
    """Return that of a class. It is another one only if the class gets other bases."""
    mro = classes.mro_of(kind)
    known = _known.get(id(kind))
    if known is not None and known.mro is mro and known.of() is kind:
        return known
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    slots = [slot for name, slot in classes.slots_of(kind) if name != "__weakref__"]
    reader, has = classes.reader_of_attributes(kind), classes.has_attributes(kind)
    made = _Kind(weakref.ref(kind), mro, _base_of(kind), slots, reader, has)
    _known[id(kind)] = made
    return made


def stands_in(value: Any) -> Stands | None:
    """Return what the object holds. None: nobody knows."""
    _, _, base, readers, read_attributes, has_attributes = _kind_of(type(value))
    if base is None:
        return None
    keys = None
    items: list[Any] = []
    if id(base) in _DICTS:
        if (keys := _items_of(base, value)) is None:
            return None
    elif (read := _ITEMS.get(id(base))) is not None:
        items = [*read(value)]
    attributes = read_attributes(value)
    if type(attributes) is dict:
        if any([type(name) is not str for name in attributes]):
            return None
    elif attributes is not None or has_attributes:
        return None
    slots = []
    for slot in readers:
        try:
            slots.append((slot, slot.__get__(value)))
        except AttributeError:  # it is not set
            continue
    return Stands(base, keys, items, attributes or {}, slots)


def layout_of(value: Any) -> tuple[Layout, list[Any]] | None:
    """Return how the object is laid out, and its values, each once. None: nobody knows."""
    stands = stands_in(value)
    if stands is None:
        return None
    keys = None if stands.keys is None else tuple([key for key, _ in stands.keys])
    found = [each for _, each in stands.keys or ()] + stands.items
    count = len(found)
    found += stands.attributes.values()
    found += [each for _, each in stands.slots]
    unique: dict[int, int] = {}
    for each in found:
        unique.setdefault(id(each), len(unique))
    values = list({id(each): each for each in found}.values())
    layout = Layout(
        *(Itself(type(value)), Itself(stands.base), keys, count),
        tuple(stands.attributes),
        tuple([Itself(slot) for slot, _ in stands.slots]),
        tuple([unique[id(each)] for each in found]),
    )
    return layout, values


def why_not_made(value: Any) -> str | None:
    """Return why a replay may not make such an object. None: it may."""
    kind = type(value)
    if classes.found_in(kind, "__del__") is not None:
        return "with a __del__"
    if weakref.getweakrefcount(value):
        return "to which there are weak references"
    if classes.flags_of(kind) & _ABSTRACT:
        return "of an abstract class"
    return None


def _items_of(base: Any, value: Any) -> list[tuple[Constant, Any]] | None:
    """Those of a dict, in its order. None: keys are no constants, or in two orders."""
    found = []
    keys = [*dict.__iter__(value)]
    if base is not dict:
        order = [*base.__iter__(value)]
        if [*map(id, order)] != [*map(id, keys)]:
            return None
    for key in keys:
        if (known := constant(key)) is None:
            return None
        found.append((known, dict.__getitem__(value, key)))
    return found


def _base_of(kind: type) -> type | None:
    """The class below it that is written in C, if its objects hold nothing more.

    A class that is written in C may look like one of Python's. Its objects are larger.
    """
    bases = classes.mro_of(kind)
    base = next(
        (each for each in bases if not classes.is_written_in_python(each)), kind
    )
    if id(base) not in _BASES or (base is kind and id(kind) not in _WITH_ATTRIBUTES):
        return None
    if any(map(_has_members_of_c, bases)):
        return None
    slots = sum(name != "__weakref__" for name, _ in classes.slots_of(kind))
    return base if classes.adds_to(kind, base) == slots else None


def _has_members_of_c(kind: type) -> bool:
    """What looks like slots was not made by a `class` statement, which notes them."""
    names = classes.names_of(kind)
    return (
        classes.is_written_in_python(kind)
        and "__slots__" not in names
        and any(type(each) is types.MemberDescriptorType for each in names.values())
    )
