"""Numbers of Python's that tell what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# What hands a number on, and gives nothing that depends on it.
_HARMLESS = frozenset(
    {
        "__new__",
        "__init__",
        "__getattribute__",
        "__setattr__",
        "__delattr__",
        "__class__",
        "__doc__",
        "__dir__",
        "__init_subclass__",
        "__subclasshook__",
        "__getformat__",
        "__getstate__",
        "__reduce__",
        "__reduce_ex__",
        "__sizeof__",
        "__getnewargs__",
        "__neg__",
        "__pos__",
    }
)


class Number(float):
    """A float that notes when Python computes with it, compares or looks at it.

    To torch it is a float like others. With a tensor Python asks the tensor; its negative
    is one of the same number.
    """

    computed: list[bool]
    index: int

    @staticmethod
    def of(value: float, index: int, computed: list[bool]) -> Number:
        """That notes it in `computed[index]`."""
        made = Number(value)
        made.index, made.computed = index, computed
        return made

    def __neg__(self) -> Number:
        return Number.of(-float.__float__(self), self.index, self.computed)

    def __pos__(self) -> Number:
        return self

    @property
    def real(self) -> float:
        """Noted, too."""
        return self + 0.0

    @property
    def imag(self) -> float:
        """Noted, too."""
        return self * 0.0

    def __reduce_ex__(self, _: Any) -> Any:
        return float, (float.__pos__(self),)


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Number, *others: Any) -> Any:
        if others and isinstance(others[0], torch.Tensor):
            return NotImplemented
        self.computed[self.index] = True
        return plain(self, *others)

    method.__name__ = name
    return method


for _name, _value in list(vars(float).items()):
    if callable(_value) and _name not in _HARMLESS:
        setattr(Number, _name, _noting(_name))
