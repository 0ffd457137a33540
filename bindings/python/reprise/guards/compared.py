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
        self._names: list[tuple[dict[Any, Any], Any, Any]] = []
        self._ends: list[tuple[dict[Any, Any], int, Any]] = []
        # Dictionaries with places: their keys, and what counts of them.
        self._wholes: list[tuple[dict[Any, Any], list[Any], list[tuple[Any, Any]]]] = []
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
        if holder.has_places_among_all():
            of, items = holder.of, holder.items()
            rest = [
                (key, token_of(value)) for key, value in items if value is not APART
            ]
            self._wholes.append((of, [*dict.__iter__(of)], rest))
            self.count += len(items)
            return
        if isinstance(holder, Names):
            for key, value in holder.items():
                self._names.append((holder.of, key, token_of(value)))
                self.count += 1
            self._ends.append((holder.of, *_end_of(holder.of)))
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
                and (not self._ends or self._same_names())
                and (not self._wholes or all(map(_is_whole_as_taken, self._wholes)))
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

    def _same_names(self) -> bool:
        for of, size, last in self._ends:
            size_now, last_now = _end_of(of)
            if size_now != size or last_now is not last:
                return False
        get = dict.get  # of a type of the program's, too
        for of, key, token in self._names:
            value = get(of, key, MISSING)
            if token is not value and not same(token, value):
                return False
        return True

    def seconds(self) -> float:
        """What a look takes."""
        begin = _clock()
        self.quiet()
        return _clock() - begin


def _end_of(of: dict[Any, Any]) -> tuple[int, Any]:
    """How many keys there are, and the last one: a key that has come is that."""
    try:
        return dict.__len__(of), next(dict.__reversed__(of), None)
    except RuntimeError:  # another thread changes it meanwhile
        return -1, None


def _is_whole_as_taken(
    whole: tuple[dict[Any, Any], list[Any], list[tuple[Any, Any]]],
) -> bool:
    of, keys, rest = whole
    if len(of) != len(keys) or not all(map(operator.is_, of, keys)):
        return False
    return all([same(token, dict.get(of, key, MISSING)) for key, token in rest])


def _is_as_taken(of: tuple[Holder, list[Any]]) -> bool:
    holder, tokens = of
    values = holder.values(holder.of)
    return len(values) == len(tokens) and all(
        [
            token() is value if type(token) is TensorRef else same(token, value)
            for token, value in zip(tokens, values, strict=True)
        ]
    )
