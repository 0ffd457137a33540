"""Arguments of many sizes: in turn, at random, as numbers, and compiled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from reprise._region import ALL
from torch import nn
from watching import assert_same_bits

WIDTH = 8


def layers(device: str) -> nn.Module:
    torch.manual_seed(0)
    block = (nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH), nn.LayerNorm(WIDTH))
    return nn.Sequential(*block).eval().to(device)


def in_turn(sizes: int) -> Iterator[int]:
    while True:
        yield from range(sizes)


def at_random(sizes: int) -> Iterator[int]:
    order = random.Random(1)
    while True:
        yield order.randrange(sizes)


def replays_of(
    fast: Any,
    function: Callable[..., Any],
    arguments: Callable[[int], tuple[Any, ...]],
    which: Iterator[int],
    calls: int,
) -> None:
    """Make these calls. A region has eager's results in each of them."""
    for call in range(calls):
        given = arguments(next(which))
        assert_same_bits(fast(*given), function(*given), f"call {call}")


@pytest.mark.parametrize("sizes", [17, 40, 100])
@pytest.mark.parametrize("order", [in_turn, at_random])
@pytest.mark.parametrize("grad", [False, True])
def test_more_than_sixteen(
    device: str, sizes: int, order: Callable[[int], Iterator[int]], grad: bool
) -> None:
    model = layers(device)
    fast: Any = reprise.region(model)
    inputs = [torch.randn(size + 1, WIDTH, device=device) for size in range(sizes)]
    which = order(sizes)

    def arguments(index: int) -> tuple[torch.Tensor]:
        return (inputs[index],)

    with torch.set_grad_enabled(grad):
        replays_of(fast, model, arguments, which, 10 * sizes)
        learned = fast.explain().replayed
        replays_of(fast, model, arguments, which, sizes)
    assert fast.explain().replayed == learned + sizes, str(fast.explain())
    assert fast.explain().variants == sizes, str(fast.explain())


def test_backward_passes_of_many_sizes(device: str) -> None:
    """The second ones, and all behind them, are replayed."""
    model = layers(device)
    fast: Any = reprise.region(model)
    inputs = [torch.randn(size + 1, WIDTH, device=device) for size in range(40)]

    def gradients(called: Any, x: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad()
        called(x).square().sum().backward()
        return [each.grad for each in model.parameters() if each.grad is not None]

    for call in range(8 * len(inputs)):
        x = inputs[call % len(inputs)]
        assert_same_bits(gradients(fast, x), gradients(model, x), f"call {call}")
    report = fast.explain()
    assert report.replayed > 4 * len(inputs), str(report)
    assert report.backward > 3 * len(inputs), str(report)


def step_of(model: nn.Module) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return [loss.detach(), *(each.detach() for each in model.parameters())]

    return step


def test_a_training_step_of_many_sizes(device: str) -> None:
    fast: Any = reprise.region(step_of(layers(device)))
    inputs = [torch.randn(size + 1, WIDTH, device=device) for size in range(40)]
    step = step_of(layers(device))
    # First, as what one step changes of torch's own the other would look at.
    wanted = [[each.clone() for each in step(inputs[i % 40])] for i in range(320)]
    for call, results in enumerate(wanted):
        assert_same_bits(fast(inputs[call % 40]), results, f"call {call}")
    report = fast.explain()
    assert report.replayed > 160, str(report)


def test_sizes_that_are_numbers_too(device: str) -> None:
    """Each number is a structure of its own, of which there may be many."""
    model = layers(device)

    def function(x: torch.Tensor, size: int) -> torch.Tensor:
        return model(x) * size

    fast: Any = reprise.region(function)
    inputs = [torch.randn(size + 1, WIDTH, device=device) for size in range(100)]
    with torch.no_grad():
        which = in_turn(len(inputs))
        replays_of(fast, function, lambda i: (inputs[i], i), which, 400)
    assert fast.explain().replayed == 200, str(fast.explain())


def test_new_sizes_all_the_time_take_no_memory(device: str) -> None:
    """What makes results goes with the tapes; those of sizes that are used stay."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.mul(2).add(1)

    fast: Any = reprise.region(function)
    known = torch.randn(3, device=device)
    for _ in range(8):
        fast(known)
    replayed = fast.explain().replayed
    memory = torch.randn(9000, device=device)
    for size in range(8000):
        x = memory.as_strided((size % 90 + 1, size // 90 + 1), (89, 1))
        assert_same_bits(fast(x), function(x), f"size {size}")
        fast(known)
    report = fast.explain()
    assert report.replayed == replayed + 8000 - report.samples, str(report)
    assert report.recorded > 400, str(report)
    assert report.variants < 300, str(report)


def test_compiled_for_many_sizes(device: str) -> None:
    """Dynamo gives the size to the graph as a number."""
    model = layers(device)
    torch._dynamo.reset()
    fast = torch.compile(model, backend=reprise.backend)
    inputs = [torch.randn(size + 2, WIDTH, device=device) for size in range(100)]
    with torch.no_grad():
        which = in_turn(len(inputs))
        replays_of(fast, model, lambda i: (inputs[i],), which, 600)
    reports = [each.explain() for each in list(ALL)]
    replayed = [each.replayed for each in reports if "torch.compile" in each.name]
    assert max(replayed) >= 390, str(reprise.explain())
    torch._dynamo.reset()
