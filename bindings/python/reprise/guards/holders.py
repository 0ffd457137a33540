"""Things that hold values, of which some or all count, and what they held before."""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable, Container
from typing import Any

from reprise.guards.classes import attributes_of, held_by, mro_of
from reprise.guards.tokens import MISSING, Token, same, token_of

_PLAIN_DICTS = frozenset(
    map(id, (dict, collections.OrderedDict, collections.defaultdict))
)

# Holders that have been compared as others: equal lists and the like that were put there.
Moved = dict[int, tuple["Holder", Any]]


class Child:
    """In the place of a token: a list, dictionary or the like that nobody else holds.

    An equal one in its place is as good, and is looked at from then on.
    """

    __slots__ = ("holder",)

    def __init__(self, holder: Holder) -> None:
        self.holder = holder

    def is_now(self, value: Any, moved: Moved) -> bool:
        """It is that one, or an equal one."""
        holder = self.holder
        if value is holder.of:
            return True
        if type(value) is not type(holder.of):
            return False
        moved[id(holder)] = holder, value
        return holder.difference_of(value, moved) is None


def differs(token: Token, value: Any, moved: Moved) -> bool:
    """It is another value, for all that can be told."""
    if type(token) is Child:
        return not token.is_now(value, moved)
    return not same(token, value)


class Holder:
    """What holds values, all of which count.

    Values are read by the functions of the base type: a class of the program's may have
    its own ones.
    """

    __slots__ = ("held", "name", "of", "tokens")
    changes = True  # it may hold something else some day

    @property
    def movable(self) -> bool:
        """An equal one in its place is as good."""
        return False

    def __init__(self, name: str, of: Any) -> None:
        self.name = name
        self.of = of
        self.held = 0  # by how many others
        self.tokens: list[Token] = []

    def values(self, of: Any) -> list[Any]:
        """What counts of it, in order."""
        raise NotImplementedError

    def label(self, _: int) -> str:
        """What holds the value with that number, as the program names it."""
        return self.name

    def watched(self) -> Any:
        """What the library can tell of, in which all of it stands. None: nothing."""
        return None

    def parts(self) -> list[tuple[str, Any]]:
        """The values, with names."""
        return [(self.name, each) for each in self.values(self.of)]

    def take(self, token: Callable[[Any], Token]) -> None:
        """From now on, what it holds now."""
        self.tokens = list(map(token, self.values(self.of)))

    def difference(self, moved: Moved, _: Container[Any] = ()) -> str | None:
        """What is another one, as the program names it."""
        return self.difference_of(self.of, moved)

    def difference_of(self, of: Any, moved: Moved) -> str | None:
        """The same, if `of` is in its place."""
        values = self.values(of)
        if len(values) != len(self.tokens):
            return self.label(min(len(values), len(self.tokens)))
        for index, (token, value) in enumerate(zip(self.tokens, values, strict=True)):
            if token is not value and differs(token, value, moved):
                return self.label(index)
        return None


class Sequence(Holder):
    """A list, a set, or a deque: in its order."""

    __slots__ = ("_read", "is_plain")

    def __init__(self, name: str, of: Any, base: Any) -> None:
        super().__init__(name, of)
        self._read = base.__iter__
        self.is_plain = type(of) is base

    @property
    def movable(self) -> bool:
        return self.is_plain

    def values(self, of: Any) -> list[Any]:
        return [*self._read(of)]


class Fixed(Sequence):
    """A tuple or frozenset."""

    __slots__ = ()
    changes = False


class Dictionary(Holder):
    """Its keys and values."""

    __slots__ = ("keys",)

    def __init__(self, name: str, of: dict[Any, Any]) -> None:
        super().__init__(name, of)
        self.keys: list[Any] = []

    @property
    def movable(self) -> bool:
        return id(type(self.of)) in _PLAIN_DICTS

    def values(self, of: Any) -> list[Any]:
        found = [*dict.values(of), *dict.__iter__(of)]
        if issubclass(type(of), collections.defaultdict):
            found.append(of.default_factory)
        elif issubclass(type(of), collections.OrderedDict):
            found += _order_of(of)
        return found

    def parts(self) -> list[tuple[str, Any]]:
        name, of = self.name, self.of
        found = [
            (f"{name}.{name_of_key(key)}", each) for key, each in list(dict.items(of))
        ]
        found += [(name, key) for key in dict.__iter__(of)]
        if issubclass(type(of), collections.defaultdict):
            found.append((f"{name}.default_factory", of.default_factory))
        return found

    def take(self, token: Callable[[Any], Token]) -> None:
        super().take(token)
        self.keys = [*dict.__iter__(self.of)]

    def label(self, index: int) -> str:
        count = len(self.keys)
        if index >= 2 * count:
            is_ordered = issubclass(type(self.of), collections.OrderedDict)
            return f"{self.name}.{'order' if is_ordered else 'default_factory'}"
        key = self.keys[index % count] if count else "order"
        return f"{self.name}.{name_of_key(key)}"

    def difference_of(self, of: Any, moved: Moved) -> str | None:
        if not self.tokens and dict.__len__(of) == 0:
            return None
        found = super().difference_of(of, moved)
        if found is None:
            return None
        # Of keys that have come or gone the name says more.
        now = [*dict.__iter__(of)]
        more, less = (now, self.keys) if len(now) > len(self.keys) else (self.keys, now)
        if len(more) == len(less):
            return found
        known = set(map(id, less))
        odd = next((each for each in more if id(each) not in known), "order")
        return f"{self.name}.{name_of_key(odd)}"

    def watched(self) -> Any:
        return self.of

    def is_ordered(self) -> bool:
        """No watcher is told that it was put in another order."""
        return issubclass(type(self.of), collections.OrderedDict) and len(self.keys) > 1


class Cell(Holder):
    """A variable of a closure."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return [content(of)]

    def label(self, _: int) -> str:
        return "a variable of its closure"

    def watched(self) -> Any:
        return self.of


class Function(Holder):
    """Code, defaults, and defaults by name."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return [of.__code__, of.__defaults__, of.__kwdefaults__]

    def label(self, _: int) -> str:
        return f"{self.name}, its code or defaults"

    def parts(self) -> list[tuple[str, Any]]:
        what = f"a default of {self.name}"
        return [(what, each) for each in (self.of.__defaults__, self.of.__kwdefaults__)]

    def watched(self) -> Any:
        return self.of


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


class Reference(Holder):
    """A weak reference: whether it is the same object still, which is not kept."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return [id(weakref.ref.__call__(of))]

    def parts(self) -> list[tuple[str, Any]]:
        return []


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


def made_tokens(holders: list[Holder]) -> None:
    """Each holder takes what it holds."""
    children = {
        id(each.of): Child(each) for each in holders if each.movable and each.held == 1
    }

    def token(value: Any) -> Token:
        child = children.get(id(value))
        return token_of(value) if child is None else child

    for holder in holders:
        holder.take(token)


def content(cell: types.CellType) -> Any:
    """Of a variable of a closure."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _slot(value: Any, slot: Any) -> Any:
    try:
        return slot.__get__(value)
    except (AttributeError, TypeError):  # it is not set, or of another class now
        return MISSING


def _order_of(of: collections.OrderedDict[Any, Any]) -> list[Any]:
    """The keys in the order that it has beside its dictionary's.

    It asks keys for their hashes, and another thread may change it meanwhile.
    """
    try:
        return [*collections.OrderedDict.__iter__(of)]
    except Exception:  # the keys' own, too
        return [MISSING]


def name_of_key(key: Any) -> str:
    return key if type(key) is str else f"[{type(key).__name__}]"
