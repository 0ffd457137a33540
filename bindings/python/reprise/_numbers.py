"""Python numbers that note what is done with them."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from reprise.guards import tree

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
    """A float that notes if Python computes with it, compares it or looks at it.

    For torch it is an ordinary float. In arithmetic with a tensor, Python asks the tensor.
    Its negative is a `Number` of the same number.
    """

    computed: list[bool]
    index: int

    @staticmethod
    def of(value: float, index: int, computed: list[bool]) -> Number:
        """Return a number that notes its uses in `computed[index]`."""
        made = Number(value)
        made.index, made.computed = index, computed
        return made

    def __neg__(self) -> Number:
        return Number.of(-float.__float__(self), self.index, self.computed)

    def __pos__(self) -> Number:
        return self

    @property
    def real(self) -> float:
        """The real part. The access is noted."""
        return self + 0.0

    @property
    def imag(self) -> float:
        """The imaginary part. The access is noted."""
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


@contextlib.contextmanager
def noted(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    optimizers: Iterable[torch.optim.Optimizer],
    computes: bool,
    computed: list[bool],
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield arguments whose floats note what Python does with them; optimizers' floats too.

    Floats within containers count as computed with. If the code `computes`, all floats do.
    """
    index = 0

    def note(value: Any) -> Any:
        nonlocal index
        if type(value) is float:
            computed[index] = computes
            index += 1
            return Number.of(value, index - 1, computed)
        inside = tree.Parts()
        tree.flatten(value, inside)
        index += len(inside.numbers)
        return value

    noted_args = [note(each) for each in args]
    noted_kwargs = {key: note(each) for key, each in kwargs.items()}
    replaced: list[tuple[dict[str, Any], str, float, Number]] = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for key, value in group.items():
                if type(value) is float:
                    replaced.append((group, key, value, note(value)))
    try:
        for group, key, _, number in replaced:
            group[key] = number
        yield noted_args, noted_kwargs
    finally:
        for group, key, value, number in replaced:
            if group.get(key) is number:
                group[key] = value


def plain(result: Any) -> Any:
    """Return the result with ordinary floats in it."""
    return _plain(result, set())


def _plain(value: Any, seen: set[int]) -> Any:
    if type(value) is Number:
        return float.__add__(value, 0.0) if value else float.__pos__(value)
    if id(value) in seen:
        return value
    if isinstance(value, tuple):
        parts = [_plain(each, seen) for each in value]
        same = all(map(operator.is_, parts, value))
        return value if same else tuple.__new__(type(value), parts)
    if isinstance(value, list):
        seen.add(id(value))
        value[:] = [_plain(each, seen) for each in value]
    elif isinstance(value, dict):
        seen.add(id(value))
        for key, each in list(value.items()):
            if (made := _plain(each, seen)) is not each:
                value[key] = made
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        seen.add(id(value))
        for field in dataclasses.fields(value):
            each = getattr(value, field.name, None)
            if (made := _plain(each, seen)) is not each:
                object.__setattr__(value, field.name, made)
    return value
