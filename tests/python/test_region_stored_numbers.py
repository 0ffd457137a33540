"""Floats of a region's calls that its callable keeps: the program finds ordinary ones."""

from __future__ import annotations

import collections
import contextvars
import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from reprise._stored_numbers import replace
from watching import assert_same_bits

VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("rate")


class Pair(collections.namedtuple("Pair", "rate step")):
    """With attributes of its own."""


def in_a_variable(number: float) -> None:
    VARIABLE.set(number)


def in_a_large_set(number: float) -> set[float]:
    kept = set(map(float, range(100)))
    kept.add(number)
    kept.difference_update(map(float, range(90)))
    return kept


KEEPS: dict[str, tuple[Callable[[float], Any], Callable[[Any], Any]]] = {
    "tuple": (lambda f: (f, 1), lambda kept: kept[0]),
    "tuple in a tuple": (lambda f: ((f, f),), lambda kept: kept[0][1]),
    "tuple with names": (lambda f: Pair(f, 1), lambda kept: kept.rate),
    "set": (lambda f: {f, 2.0}, lambda kept: min(kept)),
    "large set": (in_a_large_set, min),
    "frozenset": (lambda f: frozenset([f]), lambda kept: min(kept)),
    "key": (lambda f: {"a": 0, f: 1, "b": 2}, lambda kept: [*kept][1]),
    "key of an OrderedDict": (
        lambda f: collections.OrderedDict([(f, 1), ("b", 2)]),
        lambda kept: next(iter(kept)),
    ),
    "key that is a tuple": (lambda f: {(f, 1): 1}, lambda kept: next(iter(kept))[0]),
    "slice": (lambda f: slice(f, None), lambda kept: kept.start),
    "error": (lambda f: ValueError("rate", f), lambda kept: kept.args[1]),
    "variable": (in_a_variable, lambda _: VARIABLE.get()),
    "list": (lambda f: [f], lambda kept: kept[0]),
}


@pytest.mark.parametrize(("makes", "looks"), KEEPS.values(), ids=KEEPS)
def test_what_is_kept_is_an_ordinary_float(
    makes: Callable[[float], Any], looks: Callable[[Any], Any]
) -> None:
    keeper = types.SimpleNamespace(kept=None)

    def fn(x: torch.Tensor, number: float, keeps: bool) -> torch.Tensor:
        if keeps:
            keeper.kept = makes(number)
        return x * number

    fast: Any = reprise.region(fn)
    for call in range(16):
        keeps = call < 3  # which no replay does
        x, number = torch.randn(4), 0.5 if keeps else 0.1 * call
        assert_same_bits([fast(x, number, keeps)], [x * number])
        if keeps:
            expected, found = makes(number), keeper.kept
            assert type(looks(found)) is float
            assert looks(found) == looks(expected) == number
            if type(found) not in (ValueError, types.MethodType):
                assert repr(found) == repr(expected)
                assert found == expected
        else:
            keeper.kept = None
    assert fast.explain().replayed >= 8, str(fast.explain())


def test_what_is_kept_can_be_found_and_let_go() -> None:
    """Sets and dictionaries find it by an equal float; nothing lives on with it."""
    keeper = types.SimpleNamespace(kept=None)

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        keeper.kept = {number}, {number: number}, (number,)
        return x * number

    fast: Any = reprise.region(fn)
    for _ in range(4):
        fast(torch.randn(2), 0.5)
        elements, keys, one = keeper.kept
        keeper.kept = None
        assert 0.5 in elements
        assert keys[0.5] == 0.5
        elements.remove(0.5)
        assert not elements
        del keys[0.5]
        assert one == (0.5,)
        assert type(one[0]) is float
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    names = [each.__module__ for each in kinds if issubclass(each, float)]
    assert not [each for each in names if each.startswith("reprise")]


class Noting(float):
    """In the place of those that note what is done with them."""


HOLDERS: dict[str, tuple[Callable[[float], Any], Callable[[Any], Any]]] = {
    "slice": (lambda f: slice(1, f, f), lambda kept: kept.step),
    "method": (lambda f: types.MethodType(max, f), lambda kept: kept.__self__),
    "deque": (lambda f: collections.deque([1, f]), lambda kept: kept[1]),
    "partial": (lambda f: functools.partial(max, f), lambda kept: kept.args[0]),
    "attribute": (lambda f: types.SimpleNamespace(of=f), lambda kept: kept.of),
    "closure": (lambda f: lambda: f, lambda kept: kept()),
    "default": (lambda f: lambda of=f: of, lambda kept: kept()),
    "counter": (lambda f: collections.Counter([f]), lambda kept: min(kept)),
}


@pytest.mark.parametrize(("makes", "looks"), HOLDERS.values(), ids=HOLDERS)
def test_what_holds_one_is_given_another(
    makes: Callable[[float], Any], looks: Callable[[Any], Any]
) -> None:
    numbers = [Noting(0.5), Noting(0.25)]
    kept = makes(numbers[0])
    counts = [sys.getrefcount(each) for each in numbers]
    replace(numbers, [])
    assert type(looks(kept)) is float
    assert looks(kept) == 0.5
    assert sys.getrefcount(numbers[0]) < counts[0]
    assert sys.getrefcount(numbers[1]) == counts[1]
    assert type(numbers[0]) is Noting
