"""Python numbers that note what is done with them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import torch

from reprise._arithmetic import (
    EXACT,
    Arithmetic,
    is_followed,
    is_numpys,
    reading,
    take_read,
)
from reprise._call_form import are_floats
from reprise._enums import NumberOp
from reprise._stored_numbers import replace
from reprise._summing import summing, tells_floats_apart
from reprise.guards import tree
from reprise.guards.containers import Containers

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
        "__abs__",
    }
)


class Notes:
    """What became of the numbers of one recorded call."""

    def __init__(self, given: list[float]) -> None:
        """`given`: the numbers of the call."""
        # By number that is given: Python did something with it but to compute.
        self.computed = [True] * len(given)
        self.arithmetic = Arithmetic(given)
        self.made: list[Number] = []

    def look_at(self, node: int) -> None:
        """Note that Python goes by a number."""
        if node < len(self.computed):
            self.computed[node] = True
        else:
            self.arithmetic.look_at(node)

    def look_at_given(self, count: int) -> None:
        """Note that Python did something with the first ones of those that are given."""
        self.computed[:count] = [True] * count

    def look_at_operands(self) -> None:
        """Note that Python did something with each number that it computed with."""
        for node in self.arithmetic.operands():
            self.look_at(node)

    def read(self, value: float) -> float:
        """Return what was read of a tensor, as a number if it is followed."""
        if type(value) is not float or (read := take_read()) < 0:
            return value
        return Number.of(
            value, self.arithmetic.add(NumberOp.READ, read, 0, value), self
        )


class Number(float):
    """A float that notes what Python computes with it, and whether it looks at it.

    For torch it is an ordinary float. In arithmetic with a tensor, Python asks the tensor.
    What torch's optimizers compute is a node of `Arithmetic`, and so is a negative.
    """

    node: int
    notes: Notes

    @staticmethod
    def of(value: float, node: int, notes: Notes) -> Number:
        """Return the number of a node."""
        number = Number(value)
        number.node, number.notes = node, notes
        notes.made.append(number)
        return number

    def __neg__(self) -> Number:
        return self._function(NumberOp.NEGATE, -float.__float__(self))

    def __abs__(self) -> float:
        value = abs(float.__float__(self))
        if is_followed(sys._getframe(1)):
            return self._function(NumberOp.ABSOLUTE, value)
        self.notes.look_at(self.node)
        return value

    def __pos__(self) -> Number:
        return self

    def _function(self, op: int, value: float) -> Number:
        arithmetic = self.notes.arithmetic
        return Number.of(value, arithmetic.add(op, self.node, 0, value), self.notes)

    @property
    def real(self) -> float:
        """The real part. The access is noted."""
        self.notes.look_at(self.node)
        return float.__float__(self)

    @property
    def imag(self) -> float:
        """The imaginary part. The access is noted."""
        self.notes.look_at(self.node)
        return 0.0

    def __reduce_ex__(self, _: Any) -> Any:
        self.notes.look_at(self.node)
        return float, (float.__float__(self),)


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Number, *others: Any) -> Any:
        if others and isinstance(others[0], torch.Tensor):
            return NotImplemented
        self.notes.look_at(self.node)
        for other in others:
            if type(other) is Number:
                other.notes.look_at(other.node)
        return plain(self, *others)

    method.__name__ = name
    return method


def _node_of(value: Any, notes: Notes) -> int | None:
    """The node of an operand. None: it is no number whose value a float has."""
    kind = type(value)
    if kind is Number:
        return value.node if value.notes is notes else None
    if kind is float:
        return notes.arithmetic.constant(value)
    if kind in (int, bool) and abs(value) <= EXACT:
        return notes.arithmetic.constant(float(value))
    return None


def _computing(name: str, op: int, *, reflected: bool = False) -> Callable[..., Any]:
    noting = _noting(name)
    plain = getattr(float, name)

    def method(self: Number, *others: Any) -> Any:
        if (
            len(others) != 1
            or not is_followed(sys._getframe(1))
            or (other := _node_of(others[0], self.notes)) is None
        ):
            return noting(self, *others)
        try:
            value = plain(self, others[0])
        except ArithmeticError:
            noting(self, *others)
            raise
        if type(value) is not float:
            return noting(self, *others)
        left, right = (other, self.node) if reflected else (self.node, other)
        return Number.of(
            value, self.notes.arithmetic.add(op, left, right, value), self.notes
        )

    method.__name__ = name
    return method


def _comparing(
    name: str, op: int, *, swapped: bool, negated: bool
) -> Callable[..., Any]:
    noting = _noting(name)
    plain = getattr(float, name)

    def method(self: Number, other: Any) -> Any:
        followed = is_followed(sys._getframe(1))
        if not followed or (node := _node_of(other, self.notes)) is None:
            return noting(self, other)
        holds = plain(self, other)
        left, right = (node, self.node) if swapped else (self.node, node)
        arithmetic = self.notes.arithmetic
        arithmetic.look_at(arithmetic.add(op, left, right, float(holds is not negated)))
        return holds

    method.__name__ = name
    return method


# Of errors that name the classes of what was given, the text is eager's.
Number.__name__ = Number.__qualname__ = "float"

for _name, _value in list(vars(float).items()):
    if callable(_value) and _name not in _HARMLESS:
        setattr(Number, _name, _noting(_name))
for _stem, _op in (
    ("add", NumberOp.ADD),
    ("sub", NumberOp.SUBTRACT),
    ("mul", NumberOp.MULTIPLY),
    ("truediv", NumberOp.DIVIDE),
    ("pow", NumberOp.POWER),
):
    setattr(Number, f"__{_stem}__", _computing(f"__{_stem}__", _op))
    setattr(Number, f"__r{_stem}__", _computing(f"__r{_stem}__", _op, reflected=True))
for _name, _op, _swapped, _negated in (
    ("__lt__", NumberOp.LESS, False, False),
    ("__gt__", NumberOp.LESS, True, False),
    ("__le__", NumberOp.LESS_EQUAL, False, False),
    ("__ge__", NumberOp.LESS_EQUAL, True, False),
    ("__eq__", NumberOp.EQUAL, False, False),
    ("__ne__", NumberOp.EQUAL, False, True),
):
    _method = _comparing(_name, _op, swapped=_swapped, negated=_negated)
    setattr(Number, _name, _method)


def _plain(value: Any) -> Any:
    """Return an ordinary float in place of a number, which is noted."""
    if type(value) is not Number:
        return value
    value.notes.look_at(value.node)
    return float.__float__(value)


# Groups, keys, what stands there, and what is to stand there meanwhile.
Replaced = list[tuple[dict[str, Any], str, Any, Any]]


class _Noting:
    """Puts numbers that note in the places of floats, which come in order."""

    def __init__(
        self, notes: Notes, containers: Containers | None, computes: bool
    ) -> None:
        self._notes = notes
        self._containers = containers
        self._computes = computes
        self._index = 0

    def argument(self, value: Any) -> Any:
        """Return a number in place of a float. Those within others count as looked at."""
        if type(value) is float:
            return self._number(value, self._computes)
        inside = tree.Parts()
        inside.containers = self._containers
        tree.flatten(value, inside)
        self._index += len(inside.numbers)
        return value

    def rates(
        self,
        optimizers: Iterable[torch.optim.Optimizer],
        computes: bool,
        hidden: bool,
        loose: Container[str],
    ) -> Replaced:
        """Return what is to be put into groups, and where. `hidden`, `loose`: see `noted`."""
        replaced: Replaced = []
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for key, value in group.items():
                    if type(value) is float or (hidden and is_numpys(type(value))):
                        plain = float.__float__(value)
                        number = self._number(plain, computes)
                        replaced.append((group, key, value, number))
                    elif key in loose and are_floats(value):
                        numbers = [self._number(each, computes) for each in value]
                        replaced.append((group, key, value, tuple(numbers)))
                    elif is_numpys(type(value)):
                        self._index += 1  # which counts as looked at
        return replaced

    def _number(self, value: float, computes: bool) -> float:
        index = self._index
        self._notes.computed[index] = computes
        self._index += 1
        return value if computes else Number.of(value, index, self._notes)


@contextlib.contextmanager
def noted(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    optimizers: Iterable[torch.optim.Optimizer],
    notes: Notes,
    containers: Containers | None,
    *,
    computes: bool,
    computes_rates: bool,
    reads: bool,
    hidden: bool,
    loose: Container[str],
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield arguments whose floats note what Python does with them; optimizers' floats too.

    `containers`: among the arguments, whose floats are part of their form. If it `reads`, so do numbers that torch's optimizers read from tensors of the host. Floats
    within containers count as looked at. If the code `computes`, all floats do. So do floats that the code stores: ordinary ones are in their places at the end.
    `computes_rates`: likewise of optimizers' floats alone.
    `hidden`: only torch's optimizers look at their numbers, so that NumPy's are noted, too.
    `loose`: see `with_optimizers`.
    """
    apart = tells_floats_apart()
    noting = _Noting(notes, containers, computes or apart)
    noted_args = [noting.argument(each) for each in args]
    noted_kwargs = {key: noting.argument(each) for key, each in kwargs.items()}
    replaced = noting.rates(optimizers, computes_rates or apart, hidden, loose)
    try:
        _set(replaced)
        with (
            summing(_plain),
            reading(notes.read) if reads else contextlib.nullcontext(),
        ):
            yield noted_args, noted_kwargs
    finally:
        _put_back(replaced)
        noted_args.clear()
        noted_kwargs.clear()
        _replace_stored(notes)


# Variables of these end with them: they would hold numbers that the code has not stored.


def _replace_stored(notes: Notes) -> None:
    """Put ordinary floats in place of those that the code has stored, and let go of all."""
    made = notes.made
    if stored := [each for each in made if sys.getrefcount(each) > _HELD_BY_MADE]:
        for each in stored:
            notes.look_at(each.node)
        replace(stored, [made])
    made.clear()


def _set(replaced: Replaced) -> None:
    for group, key, _, number in replaced:
        group[key] = number


def _put_back(replaced: Replaced) -> None:
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
