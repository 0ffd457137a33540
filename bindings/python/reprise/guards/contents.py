"""What a recorded call changes of containers among its arguments, and replays set likewise."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from reprise.guards import classes
from reprise.guards.constants import Itself
from reprise.guards.containers import Containers
from reprise.guards.layouts import stands_in
from reprise.guards.places import is_simple_key
from reprise.guards.rewritten import is_hashed_plainly, sets_plainly
from reprise.guards.settings import Unlike
from reprise.guards.tokens import same
from reprise.guards.tree import LEAVES, Foreign, Parts, flatten
from reprise.guards.ways import ITEMS, KEYS, NAMES, Before, Setting

# Of each container: what is set, and to what.
ArgumentSettings = tuple[tuple[Setting, tuple[Any, ...]], ...]
_LISTS = classes.ids_of(list)
_DICTS = classes.ids_of(dict, OrderedDict, defaultdict)
_Pairs = Sequence[tuple[Any, Any]]


_INSIDE = "what is in a set, a tuple or the like among its arguments"
_OWN = "{} of a {} among its arguments, which are set in a way of its class"
_REST = "a {} among its arguments in more than its items and attributes"


class _Held(NamedTuple):
    """What a container holds, and where."""

    kind: type
    items: Sequence[Any] = ()  # of a list
    keys: _Pairs = ()  # of a dictionary
    names: _Pairs = ()  # attributes
    rest: Sequence[Any] = ()  # what no replay sets
    attributes: Any = None  # the dictionary in which they stand

    def values(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield where each value stands, and it."""
        for index, each in enumerate(self.items):
            yield ITEMS, index, each
        for where, pairs in ((KEYS, self.keys), (NAMES, self.names)):
            for key, each in pairs:
                yield where, key, each


class _Form(NamedTuple):
    """What a value that is no container was, with all in it."""

    value: Any
    form: Any
    parts: list[Any]

    @staticmethod
    def of(value: Any, containers: Containers) -> _Form:
        """Return that of a value now. Of a container: of what it holds."""
        parts = Parts()
        parts.containers, parts.varies = containers, False
        if (number := containers.known().get(id(value))) is not None:
            form = containers.form_within(number, parts)
        else:
            form = flatten(value, parts)
        held = [*parts.tensors, *parts.objects, *parts.leading]
        return _Form(value, form, held)

    def is_as_before(self, containers: Containers) -> bool:
        """Return whether it still is so."""
        try:
            now = _Form.of(self.value, containers)
        except (Foreign, RecursionError):
            return False
        return (
            self.form == now.form
            and len(self.parts) == len(now.parts)
            and all(one is two for one, two in zip(self.parts, now.parts, strict=True))
        )


class Contents:
    """What the containers among a call's arguments hold, noted before it."""

    def __init__(self, parts: Parts, containers: Containers) -> None:
        self.containers = containers
        self._before = [
            _held_by(each) if containers.may_be_set(number) else _Held(type(each))
            for number, each in enumerate(containers.values)
        ]
        # By id, of what is no container: where it stood.
        self._places: dict[int, Before] = {}
        self._others: list[_Form] = []
        for each in (parts.args, *parts.kwargs.values()):
            self._note(each)
        for number, held in enumerate(self._before):
            if not containers.may_be_set(number):
                self._others.append(_Form.of(containers.values[number], containers))
            for where, key, value in held.values():
                if self._note(value) and _is_found(where, key):
                    self._places[id(value)] = Before(number, where, key)
            for value in held.rest:
                if not isinstance(value, types.MemberDescriptorType):
                    self._note(value)

    def _note(self, value: Any) -> bool:
        """Return whether something is in it, and it is no container."""
        if not self._counts(value):
            return False
        self._others.append(_Form.of(value, self.containers))
        return True

    def _counts(self, value: Any) -> bool:
        """Return whether something is in it, and it is no container that is known."""
        kind = type(value)
        is_leaf = id(kind) in LEAVES
        return not is_leaf and id(value) not in self.containers.known()

    def have_changed(self) -> bool:
        """Return whether they hold something else now."""
        try:
            return bool(self.behind())
        except Exception:  # Unlike, or of the program's own
            return True

    def new(self) -> Iterator[Any]:
        """Yield values that were put into them."""
        for number, held in enumerate(self._before):
            if not self.containers.may_be_set(number):
                continue
            before = {id(each) for _, _, each in held.values()}
            for _, _, each in _held_by(self.containers.values[number]).values():
                if id(each) not in before:
                    yield each

    def before(self) -> Iterator[Any]:
        """Yield what they held, and what was given beside them."""
        for each in self._others:
            yield each.value

    def behind(self) -> ArgumentSettings:
        """Return what the call has set. Raises Unlike: it has changed something else."""
        found: list[tuple[Setting, tuple[Any, ...]]] = []
        values = self.containers.values
        for number, (value, held) in enumerate(zip(values, self._before, strict=True)):
            may_be_set = self.containers.may_be_set(number)
            now = _held_by(value) if may_be_set else _Held(type(value))
            if (
                now.kind is not held.kind
                or now.attributes is not held.attributes
                or not _are_same(held.rest, now.rest)
            ):
                raise Unlike(_REST.format(classes.short_name_of(held.kind)))
            found += self._items_set(number, held, now)
            found += self._keys_set(number, KEYS, held, held.keys, now.keys)
            found += self._keys_set(number, NAMES, held, held.names, now.names)
        if not all(each.is_as_before(self.containers) for each in self._others):
            raise Unlike(_INSIDE)
        return tuple(found)

    def _items_set(
        self, number: int, held: _Held, now: _Held
    ) -> Iterator[tuple[Setting, tuple[Any, ...]]]:
        if _are_same(held.items, now.items):
            return
        if id(held.kind) not in _LISTS:
            raise Unlike(_OWN.format("items", classes.short_name_of(held.kind)))
        if len(held.items) != len(now.items):
            values = tuple(map(self._in_form, now.items))
            yield Setting(number, ITEMS, None), values
            return
        pairs = zip(held.items, now.items, strict=True)
        keys = tuple([at for at, (old, new) in enumerate(pairs) if not same(old, new)])
        values = tuple([self._in_form(now.items[at]) for at in keys])
        yield Setting(number, ITEMS, keys), values

    def _keys_set(
        self, number: int, where: str, held: _Held, before: _Pairs, now: _Pairs
    ) -> Iterator[tuple[Setting, tuple[Any, ...]]]:
        """Keys that stay are in the order in which they were; others go, and come anew."""
        old, new = dict(_by_name(before)), dict(_by_name(now))
        order, left = list(new), iter(old)
        stay = 0
        while stay < len(order) and order[stay] in left:
            stay += 1
        kept = set(order[:stay])
        gone = tuple([key[1] for key in old if key not in kept])
        put = [key for key in order if key not in kept or not same(old[key], new[key])]
        if not gone and not put:
            return
        names = [*gone, *[key[1] for key in put]]
        if not _may_be_set(
            held.kind, where, names, [key for key, _ in (*before, *now)]
        ):
            what = "attributes" if where == NAMES else "items"
            raise Unlike(_OWN.format(what, classes.short_name_of(held.kind)))
        values = tuple([self._in_form(new[key]) for key in put])
        yield Setting(number, where, tuple([key[1] for key in put]), gone), values

    def _in_form(self, value: Any) -> Any:
        """Return it, or where it stood before."""
        return self._places.get(id(value), value)


def _held_by(value: Any) -> _Held:
    """Return what a container holds. Raises Unlike: nobody knows now."""
    kind = type(value)
    if id(kind) in _LISTS:
        return _Held(kind, [*value], [], [], [])
    if id(kind) in _DICTS and not (kind is OrderedDict and value.__dict__):
        made_by = [value.default_factory] if kind is defaultdict else []
        return _Held(kind, [], [*value.items()], [], made_by)
    stands = stands_in(value)
    if stands is None:
        raise Unlike(_REST.format(classes.short_name_of(kind)))
    keys = [(key.value, each) for key, each in stands.keys or ()]
    rest = [each for pair in stands.slots for each in pair]
    names = [*stands.attributes.items()]
    attributes = classes.attributes_of(value)
    return _Held(kind, stands.items, keys, names, rest, attributes)


def _is_found(where: str, key: Any) -> bool:
    return where != KEYS or is_simple_key(key)


def _are_same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return len(before) == len(now) and all(map(same, before, now))


def _by_name(pairs: _Pairs) -> Iterator[tuple[tuple[Any, Any], Any]]:
    """Yield keys such that those are equal which nobody can tell apart."""
    for key, value in pairs:
        yield (type(key), key) if is_simple_key(key) else (Itself, Itself(key)), value


def _may_be_set(kind: type, where: str, names: list[Any], keys: list[Any]) -> bool:
    """Return whether that calls nothing of the program's. `keys`: all that are there."""
    if where == NAMES:
        return all(type(each) is str and sets_plainly(kind, each) for each in names)
    return (
        id(kind) in _DICTS
        and all(map(is_simple_key, names))
        and all(map(is_hashed_plainly, keys))
    )


def set_in(containers: Containers, settings: ArgumentSettings) -> None:
    """Set in these what a recorded call has set."""
    for setting, values in settings:
        of = containers.values[setting.container]
        if setting.where == NAMES:
            of = classes.attributes_of(of)
        if setting.keys is None:
            of[:] = values
            continue
        for key in setting.gone:
            of.pop(key, None)
        for key, value in zip(setting.keys, values, strict=True):
            of[key] = value
