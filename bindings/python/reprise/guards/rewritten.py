"""Which places a call has set, and why others cannot be places."""

from __future__ import annotations

import collections
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from reprise.guards import classes
from reprise.guards.holders import (
    APART,
    Cell,
    Child,
    Dictionary,
    Holder,
    Sequence,
    name_of_key,
)
from reprise.guards.names import Names
from reprise.guards.object_holders import Instance, Slots
from reprise.guards.places import (
    Counter,
    Place,
    is_constant,
    is_simple_key,
    may_be_held,
    place_of,
)
from reprise.guards.tokens import MISSING, TensorRef, Token, is_simple, same

_DICTS = classes.ids_of(dict, collections.OrderedDict, collections.defaultdict)
_PLAIN = (object, types.ModuleType, types.SimpleNamespace)
# Of classes that set attributes, and read them, in the ordinary way.
_SETTERS = frozenset(
    map(id, map(operator.attrgetter("__setattr__"), (*_PLAIN, torch.nn.Module)))
)
_GETTERS = frozenset(map(id, map(operator.attrgetter("__getattribute__"), _PLAIN)))

_LENGTH = (
    "set items of a list or dictionary whose length stays; return what it adds, and take "
    "items away outside of the callable"
)
_CONTAINER = "let it hold plain tensors, or constants, under texts or integers"
_OWN_WAY = "only attributes and items that are set in the ordinary way are followed"
_HELD = "let it hold plain tensors, containers of these, or constants"
_TRAINING = "call train() and eval() outside of the callable"
_CONTAINERS = classes.ids_of(list, dict, set, collections.deque)


class Change(NamedTuple):
    """Something that is another one than it was."""

    name: str  # what the program calls it
    place: Place | None  # where that is set; None: nobody can set it for the program
    token: Token  # of what it was; MISSING: nothing
    value: Any  # that it is; MISSING: nothing

    def is_adopted(self) -> bool:
        """Return whether replays can set it."""
        return type(self.place) is Counter or (
            self.place is not None
            and _may_have_been_held(self.token)
            and may_be_held(self.value)
        )

    def is_of_constants(self) -> bool:
        """Return whether no tensor was there, and none is."""
        token = self.token.holder.of if type(self.token) is Child else self.token
        return type(self.place) is not Counter and all(
            each is MISSING or is_constant(each) for each in (token, self.value)
        )


def _may_have_been_held(token: Token) -> bool:
    if type(token) is Child:
        token = token.holder.of
    return (
        token is MISSING
        or type(token) is TensorRef
        or is_constant(token)
        or (id(type(token)) in classes.CONTAINERS and may_be_held(token))
    )


class Owners:
    """Dictionaries whose keys are attributes or globals, and how these are set."""

    def __init__(
        self,
        holders: Iterable[Holder],
        modules: Iterable[weakref.ref[torch.nn.Module]],
        namespaces: Mapping[int, Any],
        shown: Iterable[int],
        counted: frozenset[str],
    ) -> None:
        """See the properties of `Walk` of these names."""
        self.counted = counted
        holders = list(holders)
        # Of dictionaries that are held as such, too: attributes are read by other ways.
        self.shared = {id(each.of) for each in holders if isinstance(each, Dictionary)}
        # By id of a dictionary. None: it cannot be set so.
        self._kinds: dict[int, type | None] = {}
        for number, of in namespaces.items():
            self._kinds[number] = types.FunctionType if type(of) is dict else None
        for ref in modules:
            if (module := ref()) is not None:
                buffers = module.__dict__.get("_buffers")
                self._kinds[id(buffers)] = dict if type(buffers) is dict else None
        for each in holders:
            if isinstance(each, Instance):
                self._take(each.object(), each.attributes)
            elif isinstance(each, Names):
                self._kinds.setdefault(id(each.of), None)
        self._kinds.update(dict.fromkeys(shown))

    def _take(self, value: Any, attributes: Any) -> None:
        kind = type(value)
        if type(attributes) is not dict or not _is_ordinary(kind):
            self._kinds[id(attributes)] = None
        elif self._kinds.get(id(attributes), kind) is not None:
            self._kinds[id(attributes)] = kind

    def lets_set(self, of: Any, key: Any) -> bool:
        """Return whether a key of that dictionary is set as of any."""
        if id(of) not in self._kinds:
            return id(type(of)) in _DICTS and all(map(is_hashed_plainly, [*of]))
        kind = self._kinds[id(of)]
        return kind is not None and type(key) is str and not _has_setter(kind, key)


def _is_ordinary(kind: type) -> bool:
    """Return whether attributes of its objects are set, and read, in the ordinary way."""
    return (
        id(classes.found_in(kind, "__setattr__")) in _SETTERS
        and id(classes.found_in(kind, "__getattribute__")) in _GETTERS
    )


def _has_setter(kind: type, name: str) -> bool:
    descriptor = type(classes.found_in(kind, name))
    return any(
        classes.found_in(descriptor, each) is not None
        for each in ("__set__", "__delete__")
    )


def sets_plainly(kind: type, name: str) -> bool:
    """Return whether an attribute of its objects is set in their dictionary, and that is all."""
    return _is_ordinary(kind) and not _has_setter(kind, name)


def is_hashed_plainly(key: Any) -> bool:
    """Return whether it is hashed and compared by no code of the program's."""
    return is_simple_key(key) or is_simple(type(key))


def changes_of(holders: Iterable[Holder], owners: Owners) -> Iterator[Change]:
    """Yield what is another one now, of all holders."""
    for holder in holders:
        for find in _FINDERS:
            if isinstance(holder, find[0]):
                yield from find[1](holder, owners)
                break


def _of_names(holder: Names, owners: Owners) -> Iterator[Change]:
    there = set()
    for key, value in holder.items():
        there.add(key)
        token = holder.present.get(key, MISSING)
        if not _is(token, value):
            yield _at_key(holder, key, owners, token, value)
    for key, token in holder.present.items():
        if key not in there:
            yield Change(holder.label_of(key), None, token, MISSING)


def _of_dictionary(holder: Dictionary, owners: Owners) -> Iterator[Change]:
    of, keys = holder.of, holder.keys
    values = holder.values(of)
    if len(values) < len(holder.tokens):
        yield Change(holder.name, None, APART, MISSING)
        return
    for index, (key, token) in enumerate(zip(keys, holder.tokens, strict=False)):
        if not _is(token, values[index]):
            yield _at_key(holder, key, owners, token, values[index])
    for key in holder.come():
        yield _at_key(holder, key, owners, MISSING, dict.get(of, key, MISSING))


def _of_sequence(holder: Sequence, _: Owners) -> Iterator[Change]:
    of = holder.of
    values = holder.values(of)
    if len(values) != len(holder.tokens):
        yield Change(holder.name, None, APART, MISSING)
        return
    for index, (token, value) in enumerate(zip(holder.tokens, values, strict=True)):
        if not _is(token, value):
            name = f"{holder.name}[{index}]"
            place = place_of(name, of, index) if type(of) is list else None
            yield Change(name, place, token, value)


def _of_cell(holder: Cell, _: Owners) -> Iterator[Change]:
    value = holder.values(holder.of)[0]
    if not _is(holder.tokens[0], value):
        place = place_of(holder.name, holder.of, None)
        yield Change(holder.label(0), place, holder.tokens[0], value)


def _of_slots(holder: Slots, _: Owners) -> Iterator[Change]:
    values = holder.values(holder.of)
    for index, (token, value) in enumerate(zip(holder.tokens, values, strict=False)):
        if not _is(token, value):
            yield Change(holder.label(index), None, token, value)


_FINDERS: tuple[tuple[type[Holder], Callable[..., Iterator[Change]]], ...] = (
    (Names, _of_names),
    (Dictionary, _of_dictionary),
    (Sequence, _of_sequence),
    (Cell, _of_cell),
    (Slots, _of_slots),
)


def _is(token: Token, value: Any) -> bool:
    return same(token.holder.of if type(token) is Child else token, value)


def _at_key(
    holder: Names | Dictionary, key: Any, owners: Owners, token: Token, value: Any
) -> Change:
    if isinstance(holder, Names):
        name = holder.label_of(key)
    else:
        name = f"{holder.name}.{name_of_key(key)}"
    can_be_set = is_simple_key(key) and owners.lets_set(holder.of, key)
    place = place_of(name, holder.of, key) if can_be_set else None
    counts = type(token) is int and type(value) is int and key in owners.counted
    if (
        place is not None
        and counts
        and isinstance(holder, Names)
        and id(holder.of) not in owners.shared
        and not holder.reads_all
    ):
        place = Counter(name, holder.of, key)
    return Change(name, place, token, value)


class Obstacle(NamedTuple):
    """What a call has changed that no replay can set."""

    name: str  # what the program calls it; empty: nothing is known
    remedy: str  # empty: none is known


def obstacle_among(changes: Iterable[Change]) -> Obstacle:
    """Return the first of these."""
    for change in changes:
        if not change.is_adopted():
            return Obstacle(change.name, _remedy_for(change))
    return Obstacle("", "")


def _remedy_for(change: Change) -> str:
    value = change.value
    if issubclass(type(value), torch.Tensor) and value.requires_grad:
        return "detach a tensor before it is kept"
    if change.place is None and change.name.endswith(".training"):
        return _TRAINING
    if id(type(value)) in _CONTAINERS:
        return _CONTAINER
    if change.token is APART or value is MISSING:
        return _LENGTH
    if may_be_held(value):
        return _OWN_WAY if change.place is None else ""
    return _HELD
