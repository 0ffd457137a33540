"""Programs that take turns between inputs, models and ways: all of them replay."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import models
import pytest
import torch
from watching import assert_same_bits, settle, watched

ORDERS = {"turns": "AB", "pairs": "AABB", "threes": "AAAB", "random": ""}
WARM_CALLS = 288  # also of ways that are joined
CALLS = 32


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def _ways(order: str) -> Iterator[str]:
    """Endlessly; without an order, at random."""
    draw = random.Random(3)
    while True:
        yield from order or draw.choice("AB")


def _expect_followed(
    device: str, order: str, step: Callable[[str, torch.Tensor], torch.Tensor]
) -> None:
    inputs = [torch.randn(4, 32, device=device) for _ in range(CALLS)]
    ways = _ways(ORDERS[order])
    with watched(device) as session:
        # Results are kept from the beginning, so that a plan has its instances.
        kept = []
        for number in range(WARM_CALLS):
            kept.append(step(next(ways), inputs[number % CALLS]))
            assert session.wait(120)
        before = session.stats()
        taken = [next(ways) for _ in inputs]
        found = [step(way, x) for way, x in zip(taken, inputs, strict=True)]
        after = session.stats().since(before)
        report = str(session.explain())
    assert after.followed >= 0.6 * after.ops, report
    expected = [step(way, x) for way, x in zip(taken, inputs, strict=True)]
    assert_same_bits(found, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_two_shapes(device: str, order: str) -> None:
    model = models.mlp().to(device)
    _expect_followed(device, order, lambda way, x: model(x if way == "A" else x[:2]))


@pytest.mark.parametrize("order", ORDERS)
def test_two_models_of_one_form(device: str, order: str) -> None:
    both = {"A": models.mlp().to(device), "B": models.mlp().to(device)}
    _expect_followed(device, order, lambda way, x: both[way](x))


@pytest.mark.parametrize("order", ORDERS)
def test_two_ways_from_one_beginning(device: str, order: str) -> None:
    start, left, right = (models.mlp().to(device) for _ in range(3))

    def step(way: str, x: torch.Tensor) -> torch.Tensor:
        h = start(x)
        wide = torch.cat([h] * (32 // h.shape[-1]), -1)
        return left(wide.sin()) if way == "A" else right(wide.cos())

    _expect_followed(device, order, step)


def test_slices_of_every_alignment(device: str) -> None:
    """Each class of alignment has kernels, and so a plan, of its own."""
    model = models.mlp().to(device)
    draw = random.Random(5)
    buffer = torch.randn(4 * 32 + 64, device=device)

    def step(start: int) -> torch.Tensor:
        return model(buffer[start : start + 4 * 32].view(4, 32))

    with watched(device) as session:
        for _ in range(12 * CALLS):
            step(draw.choice([1, 2, 4, 8, 16, 32, 64]) * draw.choice([1, 3]) % 64)
            assert session.wait(120)
        before = session.stats()
        starts = [draw.randrange(64) for _ in range(CALLS)]
        for start in starts:
            step(start)
        after = session.stats().since(before)
        report = str(session.explain())
        found = [step(start) for start in starts]
    assert after.followed >= 0.5 * after.ops, report
    assert_same_bits(found, [step(start) for start in starts])


def test_a_model_that_feeds_itself(device: str) -> None:
    weights = [torch.randn(16, 16, device=device) / 4 for _ in range(4)]

    def step(y: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            y = (y @ weight).tanh()
        return y

    found = expected = torch.randn(4, 16, device=device)
    calls = 0
    with watched(device) as session:

        def call() -> None:
            nonlocal found, calls
            found = step(found)
            calls += 1

        settle(session, call)
        before = session.stats()
        for _ in range(CALLS):
            call()
        after = session.stats().since(before)
    assert after.followed >= 0.8 * after.ops
    for _ in range(calls):
        expected = step(expected)
    assert_same_bits(found, expected)
