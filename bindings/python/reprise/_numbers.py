"""Python numbers that note what is done with them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from reprise.guards import classes, tree

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
    made: list[Number]

    @staticmethod
    def of(
        value: float, index: int, computed: list[bool], made: list[Number]
    ) -> Number:
        """Return a number that notes its uses in `computed[index]`, and itself in `made`."""
        number = Number(value)
        number.index, number.computed, number.made = index, computed, made
        made.append(number)
        return number

    def __neg__(self) -> Number:
        negative = -float.__float__(self)
        return Number.of(negative, self.index, self.computed, self.made)

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


# Of errors that name the classes of what was given, the text is eager's.
Number.__name__ = Number.__qualname__ = "float"

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
    So do floats that the code stores: ordinary ones are in their places at the end.
    """
    index = 0
    made: list[Number] = []

    def note(value: Any) -> Any:
        nonlocal index
        if type(value) is float:
            computed[index] = computes
            index += 1
            return Number.of(value, index - 1, computed, made)
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
        _set(replaced)
        yield noted_args, noted_kwargs
    finally:
        _put_back(replaced)
        noted_args.clear()
        noted_kwargs.clear()
        if stored := [each for each in made if sys.getrefcount(each) > _HELD_BY_MADE]:
            for each in stored:
                computed[each.index] = True
            _replace(stored)
        made.clear()


# Variables of these end with them: they would hold numbers that the code has not stored.


def _set(replaced: list[tuple[dict[str, Any], str, float, Number]]) -> None:
    for group, key, _, number in replaced:
        group[key] = number


def _put_back(replaced: list[tuple[dict[str, Any], str, float, Number]]) -> None:
    while replaced:
        group, key, value, number = replaced.pop()
        if group.get(key) is number:
            group[key] = value


def _held_by_made() -> int:
    """What `noted` counts for a number that only `made` holds."""
    made = [object()]
    (count,) = [sys.getrefcount(each) for each in made]
    return count


_HELD_BY_MADE = _held_by_made()


def _replace(numbers: list[Number]) -> None:
    """Put ordinary floats in their places: elements, variables and attributes."""
    floats = {id(each): float.__pos__(each) for each in numbers}
    for holder in gc.get_referrers(*numbers):
        kind = type(holder)
        if holder is numbers or holder is numbers[0].made:
            continue
        if issubclass(kind, (list, collections.deque)):
            for index, each in enumerate(list(holder)):
                if id(each) in floats:
                    holder[index] = floats[id(each)]
        elif kind is types.CellType:
            holder.cell_contents = floats[id(holder.cell_contents)]
        else:
            _replace_attributes(holder, floats)


def _replace_attributes(holder: Any, floats: dict[int, float]) -> None:
    kind = type(holder)
    of = holder if issubclass(kind, dict) else classes.attributes_of(holder) or {}
    for key, each in list(dict.items(of)):
        if id(each) in floats:
            dict.__setitem__(of, key, floats[id(each)])
    for _, slot in classes.slots_of(kind):
        with contextlib.suppress(AttributeError):  # it is not set
            if (name := id(slot.__get__(holder))) in floats:
                slot.__set__(holder, floats[name])


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
