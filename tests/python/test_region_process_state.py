"""What a callable sets of its thread, the process or tensors from outside, and no operator shows."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 10
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("mode", default=0)
LOGGER = logging.getLogger("reprise.tests.process")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    folder, limit = os.getcwd(), sys.getrecursionlimit()
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    os.chdir(folder)
    sys.setrecursionlimit(limit)
    gc.enable()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)
    torch.set_printoptions(profile="default")
    LOGGER.setLevel(logging.NOTSET)
    VARIABLE.set(0)


def check(
    does: Callable[[torch.Tensor], Any],
    begin: Callable[[], Any],
    tells: Callable[[], Any],
) -> reprise.RegionReport:
    """After each call, what is told is what the callable has set, from one beginning."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        does(x)
        return x * 2

    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(4)
        begin()
        expected, told = fn(x), tells()
        begin()
        assert_same_bits([fast(x)], [expected])
        assert tells() == told
    report: reprise.RegionReport = fast.explain()
    return report


# By name: what a call does, what is before each, what tells what it has done.
SETS: dict[
    str, tuple[Callable[[torch.Tensor], Any], Callable[[], Any], Callable[[], Any]]
] = {
    "variable": (lambda _: VARIABLE.set(5), lambda: VARIABLE.set(0), VARIABLE.get),
    "variable, to a size": (
        lambda x: VARIABLE.set(x.shape[0]),
        lambda: VARIABLE.set(0),
        VARIABLE.get,
    ),
    "variable, to an object": (
        lambda x: VARIABLE.set([x.shape[0]]),
        lambda: VARIABLE.set([]),
        VARIABLE.get,
    ),
    "folder": (lambda _: os.chdir("/"), lambda: os.chdir("/usr"), os.getcwd),
    "collector": (lambda _: gc.disable(), gc.enable, gc.isenabled),
    "limit": (
        lambda _: sys.setrecursionlimit(4000),
        lambda: sys.setrecursionlimit(3000),
        sys.getrecursionlimit,
    ),
    "interval": (
        lambda _: sys.setswitchinterval(0.25),
        lambda: sys.setswitchinterval(0.125),
        sys.getswitchinterval,
    ),
    "level": (
        lambda _: LOGGER.setLevel(logging.ERROR),
        lambda: LOGGER.setLevel(logging.INFO),
        lambda: LOGGER.level,
    ),
    "how torch prints": (
        lambda _: torch.set_printoptions(precision=2),
        lambda: torch.set_printoptions(precision=6),
        lambda: repr(torch.tensor([1.23456789])),
    ),
}


@pytest.mark.parametrize(("does", "begin", "tells"), SETS.values(), ids=SETS)
def test_what_a_call_leaves_set(
    does: Callable[[torch.Tensor], Any],
    begin: Callable[[], Any],
    tells: Callable[[], Any],
) -> None:
    report = check(does, begin, tells)
    assert report.replayed == 0, str(report)
    assert "outside)" in str(report)


def test_what_is_what_it_was_before_is_compared() -> None:
    """The calls that are recorded set what is set already; later ones do not."""
    beginnings = iter([5] * 5 + [0, 0, 5, 5, 0] * 4)
    held: list[int] = []

    def begin() -> None:
        if len(held) % 2 == 0:
            held.append(next(beginnings))
        else:
            held.append(held[-1])
        VARIABLE.set(held[-1])

    report = check(lambda _: VARIABLE.set(5), begin, VARIABLE.get)
    assert report.replayed >= 2, str(report)


@contextlib.contextmanager
def mode(value: Any) -> Iterator[None]:
    token = VARIABLE.set(value)
    try:
        yield
    finally:
        VARIABLE.reset(token)


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


KEEPS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "variable": lambda: mode(5),
    "variable, to an object": lambda: mode([5]),
    "collector": collector_off,
}


@pytest.mark.parametrize("keeps", KEEPS.values(), ids=KEEPS)
def test_what_is_put_back_is_replayed(
    keeps: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    def does(_: torch.Tensor) -> None:
        with keeps():
            pass

    report = check(does, lambda: VARIABLE.set(0), VARIABLE.get)
    assert report.replayed >= CALLS - 3, str(report)


# --- Tensors from outside ---


def memory_of_nobody(held: list[torch.Tensor], x: torch.Tensor) -> None:
    held[0].data = x.clone()


def memory_of_a_parameter(held: list[torch.Tensor], _: torch.Tensor) -> None:
    for mine, other in zip(held[:2], held[2:], strict=True):
        mine.data = other.data.clone()


def memory_of_each_other(held: list[torch.Tensor], _: torch.Tensor) -> None:
    held[0].data, held[1].data = held[1].data, held[0].data


def memory_that_is_used(held: list[torch.Tensor], x: torch.Tensor) -> None:
    held[0].data = x * held[0]


@pytest.mark.parametrize(
    "does",
    [
        memory_of_nobody,
        memory_of_a_parameter,
        memory_of_each_other,
        memory_that_is_used,
    ],
)
@pytest.mark.parametrize("trains", [False, True])
def test_tensors_that_are_given_other_memory(
    does: Callable[[list[torch.Tensor], torch.Tensor], None], trains: bool
) -> None:
    """As a target is given the weights of the network that learns."""
    made = []
    for ours in (False, True):
        torch.manual_seed(3)
        held: list[torch.Tensor] = [nn.Parameter(torch.randn(4)) for _ in range(4)]
        if not trains:
            held = [each.detach() for each in held]

        def fn(x: torch.Tensor, held: list[torch.Tensor] = held) -> torch.Tensor:
            with torch.no_grad():
                for each in held[2:]:
                    each.add_(x)
                does(held, x)
                return held[1] * x

        run: Any = reprise.region(fn) if ours else fn
        found = []
        for _ in range(CALLS):
            found.append(run(torch.randn(4)))
            found += [each.detach().clone() for each in held]
        made.append(found)
    assert_same_bits(*made)
    report = run.explain()
    assert report.replayed == 0
    assert "other memory" in str(report)


def sets_hook(tensor: torch.Tensor) -> None:
    tensor.register_hook(lambda gradient: gradient * 2)


def sets_hook_behind(tensor: torch.Tensor) -> None:
    tensor.register_post_accumulate_grad_hook(lambda of: None)


def puts_another(tensor: torch.Tensor) -> None:
    hooks: Any = tensor._backward_hooks
    if hooks:
        hooks.popitem()
    sets_hook(tensor)


@pytest.mark.parametrize("does", [sets_hook, sets_hook_behind, puts_another])
def test_each_hook_counts(does: Callable[[torch.Tensor], None]) -> None:
    """Also those that are set where there is one already."""
    weight = nn.Parameter(torch.ones(4))
    twin = nn.Parameter(torch.ones(4))

    def made(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        def fn(x: torch.Tensor) -> torch.Tensor:
            does(weight)
            return x * 2

        return fn

    fast: Any = reprise.region(made(weight))
    plain = made(twin)
    for _ in range(CALLS):
        x = torch.randn(4)
        assert_same_bits([fast(x)], [plain(x)])
        for each in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            mine, other = getattr(weight, each), getattr(twin, each)
            assert len(mine or ()) == len(other or ())
    assert fast.explain().replayed == 0


def test_hooks_that_stay_are_replayed() -> None:
    weight = nn.Parameter(torch.ones(4))
    sets_hook(weight)

    def fn(x: torch.Tensor) -> torch.Tensor:
        handle = weight.register_hook(lambda gradient: gradient)
        handle.remove()
        return x * weight.detach()

    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(4)
        assert_same_bits([fast(x)], [fn(x)])
    assert fast.explain().replayed >= CALLS - 3, str(fast.explain())


def test_a_gradient_that_the_callable_holds_itself() -> None:
    """It is written as such, whatever the parameter has in its place by then."""
    made = []
    for ours in (False, True):
        torch.manual_seed(3)
        weight = nn.Parameter(torch.ones(4))
        kept = torch.zeros(4)
        weight.grad = kept

        def fn(
            x: torch.Tensor, weight: Any = weight, kept: torch.Tensor = kept
        ) -> torch.Tensor:
            weight.grad = kept
            kept.copy_(x)
            return x * 2

        run: Any = reprise.region(fn) if ours else fn
        found = []
        for call in range(CALLS):
            if call in (4, 7):
                weight.grad = torch.ones(4)
            found += [run(torch.randn(4)), weight.grad.clone(), kept.clone()]
            assert weight.grad is kept
        made.append(found)
    assert_same_bits(*made)
    assert "a gradient comes from outside" in str(run.explain())
