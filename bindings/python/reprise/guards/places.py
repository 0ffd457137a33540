"""Places that a region's calls set: attributes, items, variables of closures and globals."""

from __future__ import annotations

import enum
import types
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from reprise.guards import classes
from reprise.guards.constants import Constant, constant, enums_in
from reprise.guards.inside import holds_any
from reprise.guards.tokens import MISSING
from reprise.guards.tree import LEAVES, Parts

_KEYS = classes.ids_of(str, int)
_MOST_DEEP = 8  # tuples in tuples
# Types of constants that places may hold; bools and members of enums, too.
_CONSTANTS = classes.ids_of(
    *(int, float, complex, str, bytes, torch.Size),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
OTHER = object()  # no kind that a place may hold


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


class Counter(Item):
    """An attribute to which calls add an integer, and of which they read nothing.

    Its number tells no call from another one; behind a call it is so much more.
    """

    __slots__ = ()


def counts_still(place: Place, counted: Container[str], shared: Container[int]) -> bool:
    """Return whether it may be a place, where code counts in these attributes.

    `shared`: ids of dictionaries that are read as such, whosever attributes they hold.
    """
    if type(place) is not Counter:
        return True
    return place.key in counted and id(place.of) not in shared


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
            if not is_plain(value):
                return Held(reason=f"{place.name} that it sets is {described(value)}")
            tensors.append(value)
        elif type(place) is Counter:
            if kind is not int:
                return Held(
                    reason=f"{place.name}, in which it counts, is no integer now"
                )
        elif kind is bool:
            kind = value
        elif value is not None:
            seen = seen or _containers_of(written)
            kind = kind_of(value, tensors, seen, len(values))
            if kind is OTHER:
                return Held(reason=f"{place.name} that it sets is {described(value)}")
        values.append(value)
        kinds.append(kind)
    # No key tells whether one of these is an argument, too, that is read behind a change.
    if (containers := parts.containers) is not None:
        ids = seen or _containers_of(written)
        if not containers.known().keys().isdisjoint(ids):
            return Held(reason=_IS_AN_ARGUMENT)
    if (
        parts.kwargs
        or given
        or not all([id(type(each)) in LEAVES for each in parts.args])
    ):
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


def kind_of(
    value: Any, tensors: list[torch.Tensor], seen: Seen, root: int, deep: int = 0
) -> Any:
    """Return the kind of what a place holds. `OTHER`: it is none that a place may.

    `root`: the number of that place.
    """
    if is_plain(value):
        tensors.append(value)
        return torch.Tensor
    if value is None or (value is MISSING and not deep):
        return value
    kind = type(value)
    if kind is bool:
        return value
    if _is_constants(kind):
        return constant(value)
    start: tuple[Any, ...] = ()
    inner: list[Any] = []
    if kind is list or kind is dict:
        if (known := seen.get(id(value))) is not None:
            return OTHER if known[1] == root else ("again", known[0])
        seen[id(value)] = len(seen), root
        start, inner = (kind,), [*value]
        if kind is dict:
            start = kind, tuple([(type(key), key) for key in inner])
            if not all([id(type(key)) in _KEYS for key in inner]):
                return OTHER
            inner = [*value.values()]
    elif kind is tuple:
        inner = [*value]
    if (not inner and kind is not tuple) or deep >= _MOST_DEEP:
        return OTHER
    count = len(tensors)
    kinds = [kind_of(each, tensors, seen, root, deep + 1) for each in inner]
    # By its tensors a container is told from others that the callable leads to. A tuple
    # of constants is one itself.
    is_told = len(tensors) > count or kind is tuple
    return (*start, *kinds) if is_told and OTHER not in kinds else OTHER


def is_plain(value: Any) -> bool:
    """Return whether it is a tensor of which nothing else is known. It may have a history."""
    if type(value) is not torch.Tensor or value.__dict__:
        return False
    return not (value.requires_grad and value.is_leaf)


def may_be_held(value: Any) -> bool:
    """Return whether a place may be set to it, or hold it."""
    return value is not MISSING and kind_of(value, [], {}, 0) is not OTHER


def is_constant(value: Any) -> bool:
    """Return whether it is a constant that a place may hold: a number, a text, or such."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_constant, value))
    return value is None or kind is bool or _is_constants(kind)


def _is_constants(kind: type) -> bool:
    return id(kind) in _CONSTANTS or issubclass(kind, enum.Enum)


def has_constants(kind: Any) -> bool:
    """Return whether a kind is of constants, bools apart, or of what holds some."""
    if type(kind) is tuple:
        return any(map(has_constants, kind))
    return type(kind) is Constant


def enums_of(kind: Any) -> Iterator[type]:
    """Yield classes of members that are in a kind: code may ask these for more."""
    if type(kind) is tuple:
        for each in kind:
            yield from enums_of(each)
    elif type(kind) is Constant:
        yield from enums_in(kind.value)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return those that places hold."""
    tensors: list[torch.Tensor] = []
    for each in values:
        kind_of(each, tensors, {}, 0)
    return tensors


def is_simple_key(key: Any) -> bool:
    """Return whether it is compared and hashed by no code of the program's."""
    kind = type(key)
    return (
        kind is str or kind is int or (kind is tuple and all(map(is_simple_key, key)))
    )


def described(value: Any) -> str:
    """Return what it is that no place may hold, and what helps."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return "a tensor that requires a gradient itself (detach it before it is kept)"
    return (
        f"a {type(value).__name__}, where only plain tensors, containers of these, and "
        "constants are replayed"
    )
