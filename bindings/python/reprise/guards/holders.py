"""Things that hold values, of which some or all count, and what they held before."""

from __future__ import annotations

import collections
import operator
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from reprise.guards.places import is_simple_key
from reprise.guards.tokens import MISSING, Token, same, token_of

_PLAIN_DICTS = frozenset(
    map(id, (dict, collections.OrderedDict, collections.defaultdict))
)

_DICT_OF_FUNCTION = 1  # which of the parts

# In the place of what calls set, which nobody compares.
APART = object()
# Places that may be other ones: ids of containers, and keys.
Beside = Collection[tuple[int, Any]]
NOWHERE: Beside = ()

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

    __slots__ = ("apart", "held", "name", "of", "tokens")
    changes = True  # it may hold something else some day

    @property
    def movable(self) -> bool:
        """An equal one in its place is as good."""
        return False

    def __init__(self, name: str, of: Any) -> None:
        self.name = name
        self.of = of
        self.held = 0  # by how many others
        self.apart: frozenset[Any] = frozenset()  # keys that calls set; see `Place`
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

    def has_places_among_all(self) -> bool:
        """It is a dictionary all of which counts, but places: each call compares it.

        What calls set would have a watch tell of it in each of them.
        """
        return False

    def items(self) -> list[tuple[Any, Any]]:
        """Of a dictionary, what counts. APART: a place."""
        return []

    def parts(self) -> list[tuple[str, Any]]:
        """The values, with names."""
        return [(self.name, each) for each in self.values(self.of)]

    def take(self, token: Callable[[Any], Token]) -> None:
        """From now on, what it holds now."""
        self.tokens = list(map(token, self.values(self.of)))

    def key(self, index: int) -> Any:
        """The key of the value with that number. APART: it has none."""
        return APART

    def difference(self, moved: Moved, beside: Beside = NOWHERE) -> str | None:
        """What is another one, as the program names it, but for places `beside`."""
        return self.difference_of(self.of, moved, beside)

    def difference_of(
        self, of: Any, moved: Moved, beside: Beside = NOWHERE
    ) -> str | None:
        """The same, if `of` is in its place."""
        values = self.values(of)
        if len(values) != len(self.tokens):
            return self.label(min(len(values), len(self.tokens)))
        for index, (token, value) in enumerate(zip(self.tokens, values, strict=True)):
            if token is value or (beside and (id(self.of), self.key(index)) in beside):
                continue
            if differs(token, value, moved):
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
        values, apart = [*self._read(of)], self.apart
        if apart:
            values = [
                APART if index in apart else each for index, each in enumerate(values)
            ]
        return values

    def key(self, index: int) -> Any:
        return index


class Fixed(Sequence):
    """A tuple or frozenset."""

    __slots__ = ()
    changes = False


class Slice(Fixed):
    """What a slice holds."""

    __slots__ = ()

    def __init__(self, name: str, of: slice) -> None:
        Holder.__init__(self, name, of)
        self._read = operator.attrgetter("start", "stop", "step")
        self.is_plain = False


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
        values, keys, apart = [*dict.values(of)], [*dict.__iter__(of)], self.apart
        if apart:
            values = [
                APART if is_simple_key(key) and key in apart else each
                for key, each in zip(keys, values, strict=True)
            ]
        found = values + keys
        if issubclass(type(of), collections.defaultdict):
            found.append(of.default_factory)
        elif issubclass(type(of), collections.OrderedDict):
            found += _order_of(of)
        return found

    def parts(self) -> list[tuple[str, Any]]:
        name, of = self.name, self.of
        found = [
            (f"{name}.{name_of_key(key)}", each)
            for key, each in list(dict.items(of))
            if not self.apart or not is_simple_key(key) or key not in self.apart
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

    def key(self, index: int) -> Any:
        key = self.keys[index] if index < len(self.keys) else APART
        return key if is_simple_key(key) else APART

    def difference(self, moved: Moved, beside: Beside = NOWHERE) -> str | None:
        of = self.of
        more = self.come() if beside else []
        if more and all(is_simple_key(key) and (id(of), key) in beside for key in more):
            of = dict([*dict.items(of)][: -len(more)])
        return self.difference_of(of, moved, beside)

    def has_places_among_all(self) -> bool:
        return bool(self.apart) and type(self.of) is dict

    def items(self) -> list[tuple[Any, Any]]:
        keys = [*dict.__iter__(self.of)]
        return list(zip(keys, self.values(self.of), strict=False))

    def come(self) -> list[Any]:
        """Keys behind those that were there. Of other dictionaries than plain ones: none."""
        if type(self.of) is not dict:
            return []
        return [*dict.__iter__(self.of)][len(self.keys) :]

    def difference_of(
        self, of: Any, moved: Moved, beside: Beside = NOWHERE
    ) -> str | None:
        if not self.tokens and dict.__len__(of) == 0:
            return None
        found = super().difference_of(of, moved, beside)
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
        return [APART if self.apart else content(of)]

    def key(self, index: int) -> Any:
        return None

    def label(self, _: int) -> str:
        return f"{self.name}, a variable of its closure"

    def watched(self) -> Any:
        return self.of


class Function(Holder):
    """Code, where its attributes stand, defaults, and other things that it holds."""

    __slots__ = ()

    def values(self, of: Any) -> list[Any]:
        return parts_of_function(of)

    def label(self, index: int) -> str:
        if index == _DICT_OF_FUNCTION:
            return f"{self.name}.__dict__"
        return f"{self.name}, its code or defaults"

    def parts(self) -> list[tuple[str, Any]]:
        held = parts_of_function(self.of)[_DICT_OF_FUNCTION + 1 :]
        return [(f"a default of {self.name}", each) for each in held]

    def take(self, token: Callable[[Any], Token]) -> None:
        super().take(token)
        self.tokens[_DICT_OF_FUNCTION] = self.of.__dict__  # no equal one is as good

    def watched(self) -> Any:
        return self.of


def parts_of_function(of: types.FunctionType) -> list[Any]:
    """Return what may be set of a function, as `Function` takes it."""
    held = [of.__code__, of.__dict__, of.__defaults__, of.__kwdefaults__]
    if sys.version_info >= (3, 12):
        held.append(of.__type_params__)
    return held


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
