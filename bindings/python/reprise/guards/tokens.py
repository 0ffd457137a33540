"""What tells whether a value is the one that was there before.

Numbers and texts are compared by value, all else by identity. Nothing of the program's is
called: a class may compare, count and hash its objects as it likes, or raise.
"""

from __future__ import annotations

import enum
import operator
import struct
import types
import weakref
from typing import Any

import torch

# Types of which each object is what it says.
SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_VALUES = (
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    *(type(...), type(NotImplemented), object, range),
)
_bits_of_float = struct.Struct("d").pack
_bits_of_complex = struct.Struct("dd").pack
# Two of the same numbers are equal, whatever they end at.
_of_range = operator.attrgetter("start", "stop", "step")
_SIMPLE_IDS = frozenset(map(id, SIMPLE))
_VALUE_IDS = frozenset(map(id, (*SIMPLE, *_VALUES)))
_BY_EQUALITY = frozenset(map(id, (bool, int, str, bytes, torch.device, torch.Size)))


def bits_of(value: float | complex) -> bytes:
    """Zeros of two signs differ, and NaNs: they print alike."""
    if type(value) is float:
        return _bits_of_float(value)
    return _bits_of_complex(value.real, value.imag)


def from_bits(bits: bytes) -> float | complex:
    """What has these."""
    found = struct.unpack(f"{len(bits) // 8}d", bits)
    return float(found[0]) if len(found) == 1 else complex(*found)


def is_simple(kind: type) -> bool:
    """A number, a text or nothing. A metaclass may compare as it likes."""
    return id(kind) in _SIMPLE_IDS


def is_value(kind: type) -> bool:
    """Its objects hold nothing that may change."""
    return id(kind) in _VALUE_IDS


class Is:
    """In a key: that very object, which it does not keep.

    Raises TypeError: of some types there are no weak references.
    """

    __slots__ = ("_hash", "_of")

    def __init__(self, of: Any) -> None:
        self._hash = id(of)
        self._of = weakref.ref(of)

    def __eq__(self, other: object) -> bool:
        of = self._of()
        return self is other or (
            isinstance(other, Is) and of is not None and of is other._of()
        )

    def __hash__(self) -> int:
        return self._hash


class TensorRef(weakref.ref[torch.Tensor]):
    """A tensor, which is not kept."""

    __slots__ = ()


MISSING = object()
Token = Any


def token_of(value: Any) -> Token:
    """What `same` compares with."""
    return TensorRef(value) if issubclass(type(value), torch.Tensor) else value


def same(token: Token, value: Any) -> bool:
    """That value, or one that nobody can tell from it."""
    if token is value:
        return True
    kind = type(token)
    if kind is TensorRef:
        return token() is value
    if kind is not type(value):
        return False
    number = id(kind)
    if number in _BY_EQUALITY:
        return bool(token == value)
    if kind is float:
        return _bits_of_float(token) == _bits_of_float(value)
    if kind is complex:
        return bits_of(token) == bits_of(value)
    if kind is range:
        return bool(_of_range(token) == _of_range(value))
    if kind is types.MethodType:  # made anew wherever it is asked for
        return token.__self__ is value.__self__ and token.__func__ is value.__func__
    return False


def described(value: Any) -> Any:
    """A key, equal for values that nobody can tell apart. Raises TypeError."""
    kind = type(value)
    if kind is float or kind is complex:
        return kind, bits_of(value)
    if kind is range:
        return kind, _of_range(value)
    if is_value(kind):
        return kind, value
    if issubclass(kind, enum.Enum):
        return Is(kind), value.name
    return Is(value)
