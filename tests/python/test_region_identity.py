"""What follows from which object an argument is: numbers by `id()` and `hash()`."""

from __future__ import annotations

import copy
import cProfile
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS, assert_same, eagerly
from torch import nn

Make = Callable[[list[torch.Tensor]], Callable[[torch.Tensor], Any]]


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


def returned(_: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    return lambda x: (x * 2, id(x))


def kept(_: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    of = types.SimpleNamespace(last=0)

    def step(x: torch.Tensor) -> Any:
        of.last = id(x)
        return x * 2

    step.state = of  # type: ignore[attr-defined]
    return step


def of_a_cache(_: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    """The result is computed anew if another tensor comes."""
    of: Any = types.SimpleNamespace(last=0, found=None)

    def step(x: torch.Tensor) -> Any:
        if id(x) != of.last:
            of.found, of.last = x * 3, id(x)
        return of.found + 1

    step.state = of  # type: ignore[attr-defined]
    return step


def hashed(_: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    return lambda x: (x * 2, hash(x))


def in_a_dictionary(given: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    known = {given[0]: 3.0, given[-1]: 2.0}
    return lambda x: x * known.get(x, 1.0)


def by_a_function_that_caches(
    _: list[torch.Tensor],
) -> Callable[[torch.Tensor], Any]:
    @functools.lru_cache(maxsize=2)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return lambda x: doubled(x) + 1


def of_a_list(_: list[torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    """That the call makes, and that an expression gives."""

    def step(x: torch.Tensor) -> Any:
        made = [x * 2]
        return made[0], id(made[0]) == id(x)

    return step


@pytest.mark.parametrize(
    "make",
    [
        *(returned, kept, of_a_cache, hashed, in_a_dictionary),
        *(by_a_function_that_caches, of_a_list),
    ],
)
def test_of_an_argument(device: str, make: Make) -> None:
    """One tensor comes for long, and then others of its form."""
    given = [torch.randn(8).to(device) for _ in range(4)]
    fn, twin = make(given), make(given)
    fast: Any = reprise.region(fn)
    for call in range(4 * CALLS):
        x = given[0 if call < CALLS else call % len(given)]
        assert_same(fast(x), eagerly(device, twin, x))
        assert _last(fn) == _last(twin)
    assert fast.explain().replayed == 0
    if make is not by_a_function_that_caches:  # what that keeps changes, too
        assert "which object an argument or a value is" in str(fast.explain())


def _last(fn: Any) -> int:
    return fn.state.last if hasattr(fn, "state") else 0


def test_of_an_object_that_is_an_argument(device: str) -> None:
    class Held:
        def __init__(self, scale: float) -> None:
            self.scale = scale

    given = [Held(2.0) for _ in range(3)]
    scales = {id(each): index + 1 for index, each in enumerate(given)}

    def step(x: torch.Tensor, held: Held) -> torch.Tensor:
        return x * scales[id(held)]

    fast: Any = reprise.region(step)
    x = torch.randn(8).to(device)
    for call in range(3 * CALLS):
        held = given[0 if call < CALLS else call % len(given)]
        assert_same(fast(x, held), step(x, held))


def test_of_what_guards_tell_by_identity(device: str) -> None:
    """Modules, functions and parameters: such numbers are as they were."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device)
    names = {id(each): name for name, each in net.named_parameters()}
    known = set(net.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        modules = {id(module) for module in net.modules()}
        for each in net.parameters():
            if names[id(each)].endswith("bias") and each in known:
                x = x * each
        return x + len(modules) + len({id(net), id(step)})

    fast: Any = reprise.region(step)
    for _ in range(CALLS):
        x = torch.randn(8).to(device)
        assert_same(fast(x), eagerly(device, step, x))
    assert fast.explain().replayed > 0, fast.explain()


def test_of_what_python_keeps_for_itself(device: str) -> None:
    """`deepcopy` keeps its books by ids, of which nothing follows."""

    def step(x: torch.Tensor) -> torch.Tensor:
        sizes = copy.deepcopy([[1, 2], {"a": (3,)}])
        return x * sizes[0][1]

    fast: Any = reprise.region(step)
    for _ in range(CALLS):
        x = torch.randn(8).to(device)
        assert_same(fast(x), x * 2)
    assert fast.explain().replayed > 0, fast.explain()


def test_beside_a_profiler_that_tells_nothing(device: str) -> None:
    given = [torch.randn(8).to(device) for _ in range(4)]
    with cProfile.Profile():
        fast: Any = reprise.region(returned(given))
        for call in range(2 * CALLS):
            x = given[0 if call < CALLS else call % len(given)]
            found, number = fast(x)
            assert number == id(x)
            assert_same(found, x * 2)
    assert fast.explain().replayed == 0
