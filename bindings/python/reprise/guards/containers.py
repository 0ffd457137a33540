"""Lists, dictionaries and objects among the arguments, where calls change these.

Each has a number, so that a form tells which of them are one and the same, and a replay
sets what the recorded call has set of each.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from reprise.guards import classes
from reprise.guards.kinds import laid_out
from reprise.guards.layouts import Layout
from reprise.guards.tree import (
    Foreign,
    Form,
    Parts,
    flatten,
    flatten_inside,
    flatten_laid_out,
)

_PLAIN = classes.ids_of(list, dict, defaultdict)
_MOST = 4096  # containers of a call, and what they hold


class Containers:
    """Those of one call, each once, in the order in which they were met."""

    __slots__ = (
        *("_attributes", "_found", "_is_open", "_numbers", "_with_objects"),
        *("form", "values"),
    )

    def __init__(self, *, with_objects: bool) -> None:
        """`with_objects`: else they count by what they hold, and may not be changed."""
        self._with_objects = with_objects
        self.form: Form = None  # of the arguments
        self.values: list[Any] = []
        self._numbers: dict[int, int] = {}  # by id
        # Ids of dictionaries in which attributes of these stand.
        self._attributes: set[int] = set()
        self._found: list[tuple[Layout, list[Any]] | None] = []
        self._is_open = True

    def take_apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], parts: Parts
    ) -> Form:
        """Return the form of these arguments. Raises Foreign.

        Floats in containers are part of it, and may not be others in the next call.
        """
        parts.containers = self
        root: Form = flatten(args, parts)
        if kwargs:
            root = (
                root,
                tuple([(key, flatten(each, parts)) for key, each in kwargs.items()]),
            )
        parts.varies = False
        forms: list[Form] = []
        count = 0
        while len(forms) < len(self.values):
            forms.append(self._form_of(len(forms), parts))
            count += 1 + len(forms[-1][-1])  # what it holds is last
            if count > _MOST:
                raise Foreign(f"more than {_MOST} values in lists and objects")
        self._is_open = False
        if not self._attributes.isdisjoint(self._numbers):
            raise Foreign("the __dict__ of an object that is among the arguments, too")
        self.form = "containers", root, tuple(forms)
        return self.form

    def find(self, value: Any) -> int | None:
        """Return which of them it is. None: it is none, and is taken apart as ever."""
        known = self._numbers.get(id(value))
        if known is not None or not self._is_open:
            return known
        found = None
        kind = type(value)
        if id(kind) not in _PLAIN and (kind is not OrderedDict or value.__dict__):
            if not self._with_objects or issubclass(kind, tuple):
                return None
            if isinstance(value, Iterator) or (found := laid_out(value)) is None:
                return None
        number = self._numbers[id(value)] = len(self.values)
        if found is not None:
            self._attributes.add(id(classes.attributes_of(value)))
        self.values.append(value)
        self._found.append(found)
        return number

    def _form_of(self, number: int, parts: Parts) -> Form:
        """Return the form of what it holds."""
        value, found = self.values[number], self._found[number]
        kind = type(value)
        if found is not None:
            return flatten_laid_out(value, found, parts)
        if kind is list:
            return kind, tuple([flatten(each, parts) for each in value])
        return flatten_inside(kind, value, parts)

    def have_objects(self) -> bool:
        """Return whether one is no list or dictionary of Python's own."""
        return any(self._found)

    def are_among(self, ids: frozenset[int]) -> bool:
        """Return whether one of them, or its dictionary of attributes, is one of these."""
        return not (ids.isdisjoint(self._numbers) and ids.isdisjoint(self._attributes))

    def known(self) -> Mapping[int, int]:
        """Return their ids, with their numbers."""
        return self._numbers
