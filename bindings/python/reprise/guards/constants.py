"""Values that hold nothing which may change, told from each other by all that they are."""

from __future__ import annotations

import enum
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from reprise.guards import classes
from reprise.guards.tokens import bits_of

Token = tuple[Any, ...]  # hashable
# Ids of types. Each value is equal to another one only if nobody can tell the two apart.
PLAIN = classes.ids_of(
    *(bool, int, str, bytes, type(None), type(...)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
)
# Methods of classes that are written in C. They are as old as their classes.
_OF_CLASSES = (types.MethodDescriptorType, types.WrapperDescriptorType)


class Itself:
    """In a key: that very object, which it keeps."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class Constant:
    """In a form: a value, compared by its token alone. It keeps the value."""

    __slots__ = ("token", "value")

    def __init__(self, token: Token, value: Any) -> None:
        self.token = token
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)


def constant(value: Any) -> Constant | None:
    """Return the constant of that value. None: it is none, or holds what is none."""
    token = _token_of(value)
    return None if token is None else Constant(token, value)


def _token_of(value: Any) -> Token | None:
    """Equal for values that nobody can tell apart. Calls nothing of the program's."""
    kind = type(value)
    if issubclass(kind, enum.Enum):  # a member is made once
        return Itself(kind), Itself(value)
    if issubclass(kind, _OF_CLASSES):
        return Itself(kind), Itself(value)
    if (parts := _PARTS.get(id(kind))) is not None:
        tokens = [_token_of(each) for each in parts(value)]
        return None if None in tokens else (kind, *tokens)
    if id(kind) in _BITS:
        return kind, bits_of(value)
    if id(kind) in PLAIN:
        return kind, value
    numpy = sys.modules.get("numpy")
    # A scalar of NumPy's own classes. Those of records may be written.
    if (
        numpy is not None
        and issubclass(kind, numpy.generic)
        and not issubclass(kind, numpy.void)
        and numpy.generic.dtype.__get__(value).type is kind
    ):
        return kind, value.dtype.str, value.tobytes()
    return None


def enums_in(value: Any) -> Iterator[type]:
    """Classes of members that are in a constant: code may ask these for more."""
    kind = type(value)
    if issubclass(kind, enum.Enum):
        yield kind
    elif (parts := _PARTS.get(id(kind))) is not None:
        for each in parts(value):
            yield from enums_in(each)


_BITS = frozenset(map(id, (float, complex)))
# By type, what is in it. The order of a set is what a loop over it sees.
_PARTS: dict[int, Callable[[Any], Any]] = {
    id(tuple): list,
    id(frozenset): list,
    id(set): list,
    id(range): operator.attrgetter("start", "stop", "step"),
    id(slice): operator.attrgetter("start", "stop", "step"),
}


def is_found(key: Any) -> bool:
    """Whether a dict finds an entry by any key of that token. By a NaN it does not."""
    kind = type(key)
    if (parts := _PARTS.get(id(kind))) is not None:
        return all(map(is_found, parts(key)))
    return bool(key == key)


def is_made_alike(value: Any) -> bool:
    """Whether a set that is made of the elements of this one is in the same order.

    It depends on what the set held before. So does the room that it has for more.
    """
    made = set(value)
    return [*made] == [*value] and sys.getsizeof(made) == sys.getsizeof(value)
