"""What counts and nobody tells of: compared in each call."""

from __future__ import annotations

import itertools
import operator
import time
from typing import Any

import torch

from reprise.guards import classes
from reprise.guards.holders import APART, Holder, Sequence
from reprise.guards.names import Names
from reprise.guards.object_holders import Instance
from reprise.guards.tokens import MISSING, TensorRef, same, token_of

_clock = time.perf_counter


class Compared:
    """What nobody tells of when it changes: looked at in each call, by identity."""

    def __init__(self, holders: list[Holder]) -> None:
        """From now on."""
        self.count = 0  # values that are compared
        self.largest = ("nothing", 0)
        self._lists: list[Any] = []
        self._keys = _Keys()
        self._wholes = _Wholes()
        # Objects that are not kept: references, classes, and their dictionaries.
        self._objects: list[tuple[Any, type, Any, Any]] = []
        self._lengths: list[int] = []
        self._elements: list[Any] = []
        self._others: list[tuple[Holder, list[Any]]] = []
        for holder in holders:
            before = self.count
            self._take(holder)
            self.largest = max(
                self.largest, (holder.name, self.count - before), key=lambda of: of[1]
            )
        self.count += len(self._lists)

    def _take(self, holder: Holder) -> None:
        is_whole = isinstance(holder, Names) and holder.reads_all
        if is_whole or holder.has_places_among_all():
            items = holder.items()
            self._wholes.add(holder.of, items)
            self.count += len(items)
            return
        if isinstance(holder, Names):
            items = holder.items()
            self._keys.add(holder.of, items, holder.counting())
            self.count += len(items)
            return
        if isinstance(holder, Instance) and not holder.kept:
            kind = type(holder.object())
            read = classes.reader_of_attributes(kind)
            self._objects.append((holder.of, kind, read, holder.attributes))
            self.count += 1
            return
        values = holder.values(holder.of)
        self.count += len(values)
        plain = isinstance(holder, Sequence) and holder.is_plain and not holder.apart
        if plain and not any(issubclass(type(each), torch.Tensor) for each in values):
            self._lists.append(holder.of)
            self._lengths.append(len(values))
            self._elements += values
            return
        self._others.append((holder, list(map(token_of, values))))

    def quiet(self) -> bool:
        """All of it is what it was."""
        try:
            return (
                (not self._lists or self._same_elements())
                and (not self._keys.dicts or self._keys.are_same())
                and (not self._wholes.dicts or self._wholes.are_same())
                and (not self._objects or self._same_objects())
                and (not self._others or all(map(_is_as_taken, self._others)))
            )
        except Exception:  # another thread changes it meanwhile, or it cannot be asked
            return False

    def _same_elements(self) -> bool:
        lists = self._lists
        if list(map(len, lists)) != self._lengths:
            return False
        elements, known = itertools.chain.from_iterable, self._elements
        if all(map(operator.is_, elements(lists), known)):
            return True
        now = [*elements(lists)]
        if len(now) != len(known) or not all(map(same, known, now)):
            return False
        self._elements = now  # equal numbers
        return True

    def _same_objects(self) -> bool:
        for ref, kind, read, attributes in self._objects:
            value = ref()
            if type(value) is not kind or read(value) is not attributes:
                return False
        return True

    def seconds(self) -> float:
        """What a look takes."""
        begin = _clock()
        self.quiet()
        return _clock() - begin


# Dictionaries are compared by maps of functions that are written in C: a module has some
# 20 entries, and a model some hundred modules. The functions are those of the base type: a
# class of the program's may have its own ones. Values that are equal and not the same, and
# tensors, are looked at one by one.


class _Keys:
    """Of dictionaries the keys that count: their values, and how many there are of them."""

    def __init__(self) -> None:
        self.dicts: list[dict[Any, Any]] = []
        self._counting: list[frozenset[str]] = []  # whether or not they are there
        self._counts: list[int] = []
        self._of: list[dict[Any, Any]] = []  # of each key that counts
        self._keys: list[Any] = []
        self._tokens: list[Any] = []
        self._tensors: list[tuple[dict[Any, Any], Any, TensorRef]] = []

    def add(
        self,
        of: dict[Any, Any],
        items: list[tuple[Any, Any]],
        counting: frozenset[str],
    ) -> None:
        """From now on, these of its entries. `counting`: keys that may come, too."""
        self.dicts.append(of)
        self._counting.append(counting)
        self._counts.append(len(dict.keys(of) & counting))
        for key, value in items:
            token = token_of(value)
            if type(token) is TensorRef:
                self._tensors.append((of, key, token))
                continue
            self._of.append(of)
            self._keys.append(key)
            self._tokens.append(token)

    def are_same(self) -> bool:
        """Return whether they hold what they held."""
        there = map(operator.and_, map(dict.keys, self.dicts), self._counting)
        if [*map(len, there)] != self._counts:
            return False
        values = map(dict.get, self._of, self._keys, itertools.repeat(MISSING))
        if not all(map(operator.is_, values, self._tokens)):
            now = [*map(dict.get, self._of, self._keys, itertools.repeat(MISSING))]
            if not all(map(same, self._tokens, now)):
                return False
            self._tokens = now  # equal ones
        get = dict.get
        return all([token() is get(of, key) for of, key, token in self._tensors])


class _Wholes:
    """Dictionaries all keys of which count, but places: these in order, and their values."""

    def __init__(self) -> None:
        self.dicts: list[dict[Any, Any]] = []
        self._lengths: list[int] = []
        self._keys: list[Any] = []
        self._counts: list[
            bool
        ] = []  # of each key, that what it holds is compared here
        self._values: list[Any] = []  # of those
        self._tensors: list[tuple[dict[Any, Any], Any, TensorRef]] = []

    def add(self, of: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
        """From now on, with these entries. APART: a place."""
        self.dicts.append(of)
        keys = [*dict.__iter__(of)]
        self._lengths.append(len(keys))
        self._keys += keys
        tokens = {id(key): token_of(value) for key, value in items}
        for key in keys:
            token = tokens.get(id(key), APART)
            is_tensor = type(token) is TensorRef
            self._counts.append(token is not APART and not is_tensor)
            if is_tensor:
                self._tensors.append((of, key, token))
            elif token is not APART:
                self._values.append(token)

    def are_same(self) -> bool:
        """Return whether they hold what they held."""
        dicts, chained = self.dicts, itertools.chain.from_iterable
        if [*map(dict.__len__, dicts)] != self._lengths:
            return False
        if not all(map(operator.is_, chained(map(dict.__iter__, dicts)), self._keys)):
            return False
        values = itertools.compress(chained(map(dict.values, dicts)), self._counts)
        if not all(map(operator.is_, values, self._values)):
            values = itertools.compress(chained(map(dict.values, dicts)), self._counts)
            now = [*values]
            if len(now) != len(self._values) or not all(map(same, self._values, now)):
                return False
            self._values = now  # equal ones
        get = dict.get
        return all([token() is get(of, key) for of, key, token in self._tensors])


def _is_as_taken(of: tuple[Holder, list[Any]]) -> bool:
    holder, tokens = of
    values = holder.values(holder.of)
    return len(values) == len(tokens) and all(
        [
            token() is value if type(token) is TensorRef else same(token, value)
            for token, value in zip(tokens, values, strict=True)
        ]
    )
