"""Objects, classes and what else holds values, but for containers and code."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from reprise.guards.classes import attributes_of, held_by, mro_of
from reprise.guards.holders import Holder
from reprise.guards.tokens import MISSING, Token

_OF_PARTIAL = functools.partial.__dict__
_PARTS_OF_PARTIAL: tuple[Callable[[Any], Any], ...] = (
    _OF_PARTIAL["func"].__get__,
    _OF_PARTIAL["args"].__get__,
    _OF_PARTIAL["keywords"].__get__,
)


class Instance(Holder):
    """An object: its class, and that its attributes stand in the same dictionary.

    `of` is a reference where the object is not to be kept.
    """

    __slots__ = ("attributes", "kept")

    def __init__(self, name: str, of: Any, attributes: Any, *, kept: bool) -> None:
        super().__init__(name, of if kept else weakref.ref(of))
        self.kept = kept
        self.attributes = attributes  # of the object, when it was met

    def values(self, of: Any) -> list[Any]:
        value = self.object()
        return [type(value), attributes_of(value)]

    def label(self, index: int) -> str:
        return f"{self.name}.{('__class__', '__dict__')[index]}"

    def object(self) -> Any:
        """Itself. None: it has gone."""
        return self.of if self.kept else self.of()

    def parts(self) -> list[tuple[str, Any]]:
        return []

    def take(self, _: Callable[[Any], Token]) -> None:
        self.tokens = self.values(self.of)

    def watched(self) -> Any:
        return self.of if self.kept else None


class Slots(Holder):
    """Attributes of an object that stand in no dictionary."""

    __slots__ = ("kept", "names", "slots")

    def __init__(
        self, name: str, of: Any, slots: list[tuple[str, Any]], *, kept: bool
    ) -> None:
        super().__init__(name, of if kept else weakref.ref(of))
        self.kept = kept
        self.names = [name for name, _ in slots]
        self.slots = [slot for _, slot in slots]

    def values(self, of: Any) -> list[Any]:
        value = self.object()
        return [_slot(value, each) for each in self.slots]

    def object(self) -> Any:
        """Whose they are. None: it has gone."""
        return self.of if self.kept else self.of()

    def label(self, index: int) -> str:
        return f"{self.name}.{self.names[index]}"

    def parts(self) -> list[tuple[str, Any]]:
        values = self.values(self.of)
        return [(self.label(index), each) for index, each in enumerate(values)]


def object_of(holder: Holder) -> Any:
    """Return what it is of. None: it has gone."""
    if isinstance(holder, (Instance, Slots, Partial)):
        return holder.object()
    return holder.of


class Reference(Holder):
    """A weak reference: whether it is the same object still, which is not kept."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return [id(weakref.ref.__call__(of))]

    def parts(self) -> list[tuple[str, Any]]:
        return []


class Partial(Holder):
    """Of a `functools.partial`: what it calls, and with what. `__setstate__` sets these.

    `of` is a reference where it is not to be kept.
    """

    __slots__ = ("kept",)

    def __init__(self, name: str, of: Any, *, kept: bool) -> None:
        super().__init__(name, of if kept else weakref.ref(of))
        self.kept = kept

    def values(self, of: Any) -> list[Any]:
        value = self.object()
        return [read(value) for read in _PARTS_OF_PARTIAL]

    def object(self) -> Any:
        """Itself. None: it has gone."""
        return self.of if self.kept else self.of()

    def watched(self) -> Any:
        return self.of if self.kept else None


class Lazy(Holder):
    """An alias of a type, or a variable for types: what it refers to.

    Python asks for that once it is needed, and keeps it.
    """

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return held_by(of)


class Bases(Holder):
    """The bases of a class, which is another one's child now and then."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return [mro_of(of)]

    def parts(self) -> list[tuple[str, Any]]:
        return []

    def take(self, _: Callable[[Any], Token]) -> None:
        self.tokens = self.values(self.of)

    def watched(self) -> Any:
        return self.of


class Cached(Holder):
    """Of `lru_cache`: the function, and the keys and results that it keeps.

    Their order is none of these: a hit is another one.
    """

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        found: dict[int, Any] = {}
        for each in held_by(of):
            inner = [*each.keys(), *each.values()] if type(each) is dict else [each]
            found.update((id(value), value) for value in inner)
        return [found[number] for number in sorted(found)]


class Memory(Holder):
    """A few bytes that Python may read: of an array, say."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        view = memoryview(of)
        return [view.tobytes(), f"{view.shape} of {view.format}"]

    def parts(self) -> list[tuple[str, Any]]:
        return []


def _slot(value: Any, slot: Any) -> Any:
    try:
        return slot.__get__(value)
    except (AttributeError, TypeError):  # it is not set, or of another class now
        return MISSING
