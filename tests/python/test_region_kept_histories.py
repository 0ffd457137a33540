"""Histories that a region's call leaves: of its results, and of state that it keeps.

A backward pass inside uses them up, or operators give them in each call.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS
from torch import nn
from watching import assert_same_bits

WIDTH = 4
Step = Callable[[torch.Tensor], Any]


class Kept:
    """A recurrent cell, its optimizer, and state that goes from call to call."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(3)
        self.cell = nn.GRUCell(WIDTH, WIDTH).to(device)
        self.optimizer = torch.optim.SGD(self.cell.parameters(), lr=0.1)
        self.start = torch.zeros(2, WIDTH).to(device)
        self.h: Any = self.start

    def unrolled(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            h = self.cell(x, h)
        return h

    def learn(self, loss: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def told(value: Any) -> Any:
    """Its bits, and what autograd knows of it."""
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    leaf = value.is_leaf
    gradient = value.grad if leaf or value.retains_grad else None
    bits = value.detach().clone().reshape(-1).view(torch.uint8).tolist()
    return bits, value.shape, value.requires_grad, leaf, told(gradient)


def twice(device: str, make: Callable[[Kept], Step]) -> tuple[Any, list[Any]]:
    """A region beside a plain twin. What each has done in each call is compared."""
    found: list[list[Any]] = [[], []]
    regions = []
    for of, is_region in zip(found, (True, False), strict=True):
        kept = Kept(device)
        step: Any = make(kept)
        if is_region:
            step = reprise.region(step)
            regions.append(step)
        generator = torch.Generator().manual_seed(0)
        with reprise.session(device, policy="always", enabled=is_region):
            for _ in range(2 * CALLS):
                x = torch.randn(2, WIDTH, generator=generator).to(device)
                try:
                    result = step(x)
                except RuntimeError as error:
                    result = str(error)
                state = [*kept.cell.parameters()]
                of.append(told([result, kept.h, state, [each.grad for each in state]]))
    assert found[0] == found[1]
    return regions[0], found[0]


# --- A pass inside has used it up ---


def test_a_second_pass_from_a_result(device: str) -> None:
    """It requires a gradient as eager's does, and raises eager's error."""
    kept = Kept(device)
    fast: Any = reprise.region(lambda x: kept.learn(kept.unrolled(x, kept.start).sum()))
    for _ in range(CALLS):
        loss = fast(torch.randn(2, WIDTH).to(device))
        assert loss.requires_grad and not loss.is_leaf
        with pytest.raises(RuntimeError, match="backward through the graph a second"):
            (loss * 2).backward()
        with pytest.raises(RuntimeError, match="explicitly by the user"):
            copy.deepcopy(loss)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def errors_of(of: torch.Tensor, tensors: list[Any]) -> list[bool]:
    """Whether a gradient by each of them raises eager's error; else there is none."""
    found = []
    for each in tensors:
        try:
            by = torch.autograd.grad(of.sum(), each, allow_unused=True)
        except RuntimeError as error:
            assert "backward through the graph a second" in str(error)
            found.append(True)
        else:
            assert by == (None,)
            found.append(False)
    return found


def test_gradients_by_name_from_a_result(device: str) -> None:
    """Autograd makes only the way to these, which must not be none."""
    found: list[Any] = []
    other = nn.Parameter(torch.ones(2).to(device))

    def make(kept: Kept) -> Step:
        def step(x: torch.Tensor) -> Any:
            h = kept.unrolled(x, kept.start)
            kept.h = kept.cell(x, h)
            return kept.learn(kept.h.square().sum()), h

        return step

    for is_region in (True, False):
        kept = Kept(device)
        step: Any = make(kept)
        if is_region:
            fast = step = reprise.region(step)
        told_of = []
        for _ in range(CALLS):
            x = torch.ones(2, WIDTH).to(device).requires_grad_()
            loss, h = step(x)
            outside = [x, *kept.cell.parameters(), other]
            # Of one by itself there is a gradient.
            told_of.append(errors_of(loss, [*outside, h, kept.h]))
            told_of.append(errors_of(h, [*outside, loss, kept.h]))
            told_of.append(errors_of(kept.h, [*outside, loss, h]))
        found.append(told_of)
    assert found[0] == found[1]
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_a_result_and_its_data(device: str) -> None:
    """Below autograd these are one tensor, and only one of them has a history."""

    def make(kept: Kept) -> Step:
        def step(x: torch.Tensor) -> Any:
            y = kept.unrolled(x, kept.start)
            loss = kept.learn(y.square().sum())
            return y.data, y, loss, loss.data, loss.detach(), loss

        return step

    fast, _ = twice(device, make)
    assert fast.explain().replayed >= 2 * CALLS - 4, str(fast.explain())


def test_a_gradient_that_is_the_data_of_a_result(device: str) -> None:
    def make(kept: Kept) -> Step:
        def step(x: torch.Tensor) -> Any:
            y = kept.unrolled(x, kept.start).mean(0)
            kept.learn(y.square().sum())
            kept.cell.bias_hh.grad = torch.cat([y, y, y]).data
            return y, kept.cell.bias_hh.grad

        return step

    fast, _ = twice(device, make)
    assert fast.explain().replayed >= 2 * CALLS - 4, str(fast.explain())


def attribute(kept: Kept) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: kept.h, lambda h: setattr(kept, "h", h)


def in_tuples(kept: Kept) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    kept.h = kept.start, 1

    def put(h: Any) -> None:
        kept.h = h, 1

    return lambda: kept.h[0], put


def an_item(kept: Kept) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    kept.h = items = [kept.start]
    return lambda: items[0], lambda h: items.__setitem__(0, h)


def variable(kept: Kept) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    h = kept.start

    def put(new: Any) -> None:
        nonlocal h
        h = kept.h = new

    return lambda: h, put


PLACES = [attribute, in_tuples, an_item, variable]


@pytest.mark.parametrize("place", PLACES)
def test_truncated_backpropagation(device: str, place: Any) -> None:
    """The state is detached where the next call begins."""

    def make(kept: Kept) -> Step:
        get, put = place(kept)

        def step(x: torch.Tensor) -> Any:
            h = kept.unrolled(x, get().detach())
            put(h)
            return kept.learn(h.square().sum())

        return step

    fast, _ = twice(device, make)
    assert fast.explain().replayed >= 2 * CALLS - 5, str(fast.explain())


def test_a_gradient_for_what_is_kept(device: str) -> None:
    """A pass that ends at it does not come to what is used up."""

    def make(kept: Kept) -> Step:
        def step(x: torch.Tensor) -> Any:
            old = kept.h
            kept.h = kept.unrolled(x, kept.h.detach())
            kept.learn(kept.h.square().sum())
            if not old.requires_grad:
                return old
            (slope,) = torch.autograd.grad((kept.unrolled(x, old)).sum(), old)
            return slope

        return step

    fast, _ = twice(device, make)
    assert fast.explain().replayed >= 2 * CALLS - 6, str(fast.explain())


def undetached(kept: Kept) -> Step:
    def step(x: torch.Tensor) -> Any:
        kept.h = kept.unrolled(x, kept.h)
        return kept.learn(kept.h.square().sum())

    return step


def test_state_that_is_never_detached(device: str) -> None:
    """Each second call raises eager's error: replays of those between do not hide it."""
    mine, other = Kept(device), Kept(device)
    fast: Any = reprise.region(undetached(mine))
    twin = undetached(other)
    for _ in range(CALLS):
        x = torch.randn(2, WIDTH).to(device)
        mine.h, other.h = mine.start, other.start
        with reprise.session(device, policy="always"):
            loss = fast(x)
        with reprise.session(device, enabled=False):
            assert told(loss) == told(twin(x))
        for step in (fast, twin):
            with pytest.raises(
                RuntimeError, match="backward through the graph a second"
            ):
                step(x)
        assert told(mine.h) == told(other.h)
        for one, two in zip(
            mine.cell.parameters(), other.cell.parameters(), strict=True
        ):
            assert_same_bits(one, two)
    assert fast.explain().replayed > 0, str(fast.explain())


# --- Operators give it in each call ---


class Remembering(nn.Module):
    """In training it keeps what it computes, which a loss outside uses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.h = torch.zeros(2, WIDTH)
        self.seen: dict[str, Any] = {"h": None}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h = torch.tanh(self.linear(x) + self.h)
        self.seen["h"] = self.h.softmax(-1)
        return self.h * 3


def over_time(net: Any, call: Any, x: torch.Tensor, number: int) -> list[Any]:
    """Four calls, and a pass behind them through all of these."""
    found, loss = [], torch.zeros(()).to(x.device)
    for step in range(4):
        y = call(x[step])
        loss = loss + y.square().mean() + net.seen["h"].sum()
        if step == 1:
            net.h.register_hook(lambda gradient: gradient * 1.5)
            net.h.retain_grad()
            found.append(net.h)
        if number % 3 == 2 and step == 2:
            with torch.no_grad():
                found.append(call(x[step]))
        if number % 4 == 3 and step == 2:
            net.h = torch.ones(2, WIDTH).to(x.device)
    net.zero_grad()
    loss.backward()
    kept = [found, loss, net.h, [each.grad for each in net.parameters()]]
    net.h = net.h.detach()
    return kept


def test_a_pass_through_several_calls(device: str) -> None:
    """Hooks, kept gradients and calls without gradients come between."""
    torch.manual_seed(3)
    net = Remembering().to(device)
    twin = copy.deepcopy(net)
    net.h, twin.h = net.h.to(device), twin.h.to(device)
    fast: Any = reprise.region(net)
    for number in range(CALLS):
        x = torch.randn(4, 2, WIDTH).to(device)
        with reprise.session(device, policy="always"):
            mine = over_time(net, fast, x, number)
        with reprise.session(device, enabled=False):
            other = over_time(twin, twin, x, number)
        assert told(mine) == told(other)
    assert fast.explain().replayed >= 2 * CALLS, str(fast.explain())


def test_a_history_that_comes_and_goes(device: str) -> None:
    """What decides that nobody sees: calls of the same operators differ by it."""
    kept, switch = Kept(device), ctypes.c_int(0)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = kept.unrolled(x, kept.start)
        kept.learn(y.square().sum())
        return y if switch.value else y.data

    fast: Any = reprise.region(step)
    for call in range(CALLS):
        switch.value = call % 2
        assert fast(torch.randn(2, WIDTH).to(device)).requires_grad == bool(call % 2)
    assert "it leaves other gradients" in str(fast.explain())
