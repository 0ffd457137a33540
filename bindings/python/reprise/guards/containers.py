"""Lists, dictionaries and objects among the arguments, where calls change these.

Each has a number, so that a form tells which of them are one and the same, and a replay
sets what the recorded call has set of each. Sets and the like have one, too: they may be moved.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from reprise.guards import classes
from reprise.guards.kinds import is_node, laid_out
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
            forms.append(self.form_within(len(forms), parts))
            held = forms[-1][-1]
            count += len(held) if type(held) is tuple else 1
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
        is_one, found = self._is_numbered(value)
        if not is_one:
            return None
        number = self._numbers[id(value)] = len(self.values)
        if found is not None:
            self._attributes.add(id(classes.attributes_of(value)))
        self.values.append(value)
        self._found.append(found)
        return number

    def _is_numbered(self, value: Any) -> tuple[bool, tuple[Layout, list[Any]] | None]:
        """Return whether it is told from others that hold the same, and how it is laid out.

        No tuple is, and no constant. Others are told by the parts (`GivenObject`).
        """
        kind = type(value)
        if id(kind) in _PLAIN or (kind is OrderedDict and not value.__dict__):
            return True, None
        if issubclass(kind, tuple):
            return False, None
        found = None if isinstance(value, Iterator) else laid_out(value)
        if found is not None and self._with_objects:
            return True, found
        is_taken_apart = (
            kind is set
            or is_node(kind)
            or hasattr(kind, "__dataclass_fields__")
            or (found is not None and not classes.has_references(kind))
        )
        return is_taken_apart, None

    def form_within(self, number: int, parts: Parts) -> Form:
        """Return the form of what a container holds."""
        value, found = self.values[number], self._found[number]
        kind = type(value)
        if found is not None:
            return flatten_laid_out(value, found, parts)
        if kind is list:
            return kind, tuple([flatten(each, parts) for each in value])
        return flatten_inside(kind, value, parts)

    def may_be_set(self, number: int) -> bool:
        """Return whether it is known where all that it holds stands."""
        kind = type(self.values[number])
        return (
            self._found[number] is not None or id(kind) in _PLAIN or kind is OrderedDict
        )

    def have_objects(self) -> bool:
        """Return whether one is no list or dictionary of Python's own."""
        return any(self._found)

    def are_among(self, ids: frozenset[int]) -> bool:
        """Return whether one of them, or its dictionary of attributes, is one of these."""
        return not (ids.isdisjoint(self._numbers) and ids.isdisjoint(self._attributes))

    def known(self) -> Mapping[int, int]:
        """Return their ids, with their numbers."""
        return self._numbers
