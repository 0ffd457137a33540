"""Callables that begin inference mode themselves, round all that they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS
from torch import nn
from torch.nn import functional

WIDTH = 4
Step = Callable[[torch.Tensor], Any]


class World:
    """Weights, and what is written and kept from call to call."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5)).to(device)
        self.sums = torch.zeros(WIDTH).to(device)
        self.kept = torch.zeros(2, WIDTH).to(device)


def told(value: Any) -> Any:
    """Its bits, and what autograd knows of it."""
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    inference = value.is_inference()
    return (
        value.detach().clone().reshape(-1).view(torch.uint8).tolist(),
        value.shape,
        value.stride(),
        value.requires_grad,
        inference,
        value._is_view(),
        None if inference else value._version,
    )


PROGRAMS: list[Callable[[World], Step]] = []


def program(make: Callable[[World], Step]) -> Callable[[World], Step]:
    PROGRAMS.append(make)
    return make


@program
def decorated(world: World) -> Step:
    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        y = world.net(x)
        return y, y[0], y.view(-1), x[:1], x.T, functional.softmax(y, -1)

    return step


@program
def in_a_block(world: World) -> Step:
    def step(x: torch.Tensor) -> Any:
        with torch.inference_mode(), torch.autocast(x.device.type, torch.bfloat16):
            y = world.net(x)
        return {"y": y, "mode": torch.is_inference_mode_enabled()}["y"]

    return step


@program
def draws(world: World) -> Step:
    """Tokens, one after the other."""

    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        for _ in range(3):
            chosen = torch.multinomial(functional.softmax(world.net(x), -1), 1)
            x = torch.cat([x[:, 1:], chosen.to(x.dtype)], 1)
        return x

    return step


@program
def writes(world: World) -> Step:
    """Into ordinary tensors, which count that."""

    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        world.sums.add_(x.sum(0))
        x.mul_(2)
        return world.sums * 1, world.sums.view(2, 2)

    return step


@program
def keeps(world: World) -> Step:
    """A tensor of inference mode is what the next call begins with."""

    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        world.kept = world.net(x) + world.kept
        return world.kept.sum()

    return step


@program
def reads(world: World) -> Step:
    """What a number of the device decides."""

    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        y = x * 2
        return y + 1 if y.sum() > -1e9 else y

    return step


@program
def constants(world: World) -> Step:
    """Tensors of numbers, which torch detaches there, in code that handles errors."""

    @torch.inference_mode()
    def step(x: torch.Tensor) -> Any:
        try:
            scale = torch.tensor([2.0, 3.0, 4.0, 5.0]).to(x.device)
            whole = torch.tensor(3)
        finally:
            world.net.eval()
        world.sums.add_(x.sum(0))
        return x * scale + whole, (x * 2).detach_()

    return step


def run_both(device: str, make: Callable[[World], Step], training: bool) -> Any:
    """Compare a region with a plain twin in each call, and return its report."""
    worlds = World(device), World(device)
    for world in worlds:
        world.net.train(training)
    fast: Any = reprise.region(make(worlds[0]))
    twin = make(worlds[1])
    with torch.set_grad_enabled(training):
        for call in range(2 * CALLS):
            x = torch.randn(2, WIDTH).to(device)
            found = []
            for of, step, enabled in zip(
                worlds, (fast, twin), (True, False), strict=True
            ):
                given = x.clone()
                torch.manual_seed(call)
                with reprise.session(device, policy="always", enabled=enabled):
                    result = step(given)
                assert not torch.is_inference_mode_enabled()
                state = [given, of.sums, of.kept, torch.get_rng_state()]
                found.append(told([result, state]))
            assert found[0] == found[1]
    return fast.explain()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", PROGRAMS)
def test_replays_are_made_in_it(device: str, make: Any, training: bool) -> None:
    report = run_both(device, make, training)
    assert report.replayed >= 2 * CALLS - 6, str(report)


def test_results_take_part_in_no_gradient(device: str) -> None:
    fast: Any = reprise.region(torch.inference_mode()(lambda x: x * 2))
    weight = torch.ones(WIDTH, device=device, requires_grad=True)
    for _ in range(CALLS):
        y = fast(torch.randn(2, WIDTH).to(device))
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            (y * weight).sum().backward()
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_an_error_ends_it(device: str) -> None:
    """One by data, before anything is written, and behind a write."""
    if device != "cpu":
        pytest.skip("an operator of a GPU raises no error by its data")
    for behind in (False, True):
        total = torch.zeros(WIDTH)

        @torch.inference_mode()
        def take(
            x: torch.Tensor,
            at: torch.Tensor,
            total: torch.Tensor = total,
            behind: bool = behind,
        ) -> torch.Tensor:
            if behind:
                total.add_(1)
            return x.index_select(0, at)

        fast: Any = reprise.region(take)
        for call in range(CALLS):
            x = torch.randn(3, WIDTH)
            if call % 4 == 3:
                with pytest.raises(IndexError):
                    fast(x, torch.tensor([7]))
            else:
                assert fast(x, torch.tensor([call % 3])).is_inference()
            assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
            assert total.tolist() == [(call + 1) * behind] * WIDTH
        assert fast.explain().replayed > 0, str(fast.explain())


@pytest.mark.parametrize("ends", [False, True])
def test_one_that_begins_or_ends_between_operators(device: str, ends: bool) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(ends):
            y = x * 2
        with torch.inference_mode(not ends):
            return x + y.clone()

    fast: Any = reprise.region(step)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(2, WIDTH).to(device)
            assert told(fast(x)) == told(step(x))
    assert fast.explain().replayed == 0
    assert "put it around all of them" in str(fast.explain())


def test_calls_with_it_and_without(device: str) -> None:
    """Two variants in turn, of the same operators."""

    def step(x: torch.Tensor, inference: bool) -> torch.Tensor:
        with torch.inference_mode(inference), torch.no_grad():
            return x.sin() * 2

    fast: Any = reprise.region(step)
    for call in range(4 * CALLS):
        x, inference = torch.randn(2, WIDTH).to(device), call % 3 == 0
        if call % 5 == 4:
            with torch.inference_mode():
                assert told(fast(x, True)) == told(step(x, True))
        else:
            assert told(fast(x, inference)) == told(step(x, inference))
    assert fast.explain().replayed >= 2 * CALLS, str(fast.explain())
