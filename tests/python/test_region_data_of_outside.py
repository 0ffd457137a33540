"""The `.data` of tensors that a region uses in no other way: copies that follow, gradients."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 24
CHANGED_AT = 14


class State:
    """Three tensors; the third may lie in the place of the first."""

    def __init__(self, device: str, *, learns: bool, shares: bool) -> None:
        torch.manual_seed(0)
        made = [torch.randn(4, device=device) for _ in range(3)]
        self.first, self.second = (nn.Parameter(t) if learns else t for t in made[:2])
        self.third = self.first.detach() if shares else made[2]
        if learns:
            self.first.grad = torch.randn(4, device=device)
            self.second.grad = torch.randn(4, device=device)

    def all(self) -> list[torch.Tensor]:
        """What it holds, with gradients and counts of writes."""
        found = []
        for tensor in (self.first, self.second, self.third):
            found += [tensor.detach(), torch.tensor(tensor._version)]
            if tensor.grad is not None:
                found += [tensor.grad.detach(), torch.tensor(tensor.grad._version)]
        return found


Call = Callable[[State, torch.Tensor], torch.Tensor]
Change = Callable[[State], None]


def compare(
    device: str, call: Call, change: Change, **options: bool
) -> reprise.RegionReport:
    """A region beside a plain twin; both are changed in the middle."""
    ours, plain = (State(device, **options) for _ in range(2))
    fast: Any = reprise.region(lambda x: call(ours, x))
    for i in range(CALLS):
        if i == CHANGED_AT:
            for state in (ours, plain):
                change(state)
        x = torch.randn(4, device=device)
        assert_same_bits([fast(x), *ours.all()], [call(plain, x), *plain.all()])
    report: reprise.RegionReport = fast.explain()
    return report


def follows(state: State, x: torch.Tensor) -> torch.Tensor:
    state.second.data.mul_(0.9).add_(state.first.data, alpha=0.1)
    return x * 2


def interpolates(state: State, x: torch.Tensor) -> torch.Tensor:
    state.second.data.copy_(0.9 * state.second.data + 0.1 * state.first.data)
    return x * 2


def of_one_of_two(state: State, x: torch.Tensor) -> torch.Tensor:
    state.third.data.mul_(0.9)
    return x * 2


def of_both(state: State, x: torch.Tensor) -> torch.Tensor:
    state.first.data.mul_(0.9)
    state.third.data.add_(1)
    return x * 2


def beside_a_use(state: State, x: torch.Tensor) -> torch.Tensor:
    y = x * state.first.detach()
    state.third.data.mul_(0.9)
    return y


def clears_gradients(state: State, x: torch.Tensor) -> torch.Tensor:
    for each in (state.first, state.second):
        if each.grad is not None:
            each.grad.data.zero_()
    loss = (x * state.first + state.second).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for each in (state.first, state.second):
        assert each.grad is not None
        each.data.add_(each.grad.data, alpha=-0.01)
    return loss.detach()


def scales_a_gradient(state: State, x: torch.Tensor) -> torch.Tensor:
    if state.first.grad is not None:
        state.first.grad.data.mul_(0.5)
    return x * 2


def nothing(_: State) -> None:
    """Leave all as it is."""


def moves_the_third(state: State) -> None:
    state.third.data = torch.ones_like(state.third)


def moves_the_first(state: State) -> None:
    state.first.data = torch.ones_like(state.first)


def puts_all_in_one_place(state: State) -> None:
    place = torch.ones_like(state.first.detach())
    for each in (state.first, state.second, state.third):
        each.data = place


def makes_them_neighbours(state: State) -> None:
    place = torch.zeros(8, device=state.first.device)
    state.first.data, state.third.data = place[:4], place[4:]


def gives_another_third(state: State) -> None:
    state.third = torch.ones_like(state.third)


def gives_a_new_gradient(state: State) -> None:
    if state.first.requires_grad:
        state.first.grad = torch.ones_like(state.first)


def moves_a_gradient(state: State) -> None:
    if state.first.grad is not None:
        state.first.grad.data = torch.ones_like(state.first.grad)


def shares_a_gradient(state: State) -> None:
    state.first.grad = state.second.grad


def takes_a_gradient_away(state: State) -> None:
    state.first.grad = None


CHANGES = (
    nothing,
    moves_the_third,
    moves_the_first,
    puts_all_in_one_place,
    makes_them_neighbours,
    gives_another_third,
    gives_a_new_gradient,
    moves_a_gradient,
    shares_a_gradient,
    takes_a_gradient_away,
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("call", [follows, interpolates, of_one_of_two, of_both])
def test_what_only_data_uses(
    call: Call, learns: bool, shares: bool, change: Change, device: str
) -> None:
    report = compare(device, call, change, learns=learns, shares=shares)
    assert report.replayed >= CHANGED_AT - 3, str(report)
    if change is nothing:
        assert report.replayed >= CALLS - 3, str(report)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("learns", [False, True])
def test_one_of_two_in_one_place_beside_a_use(
    learns: bool, change: Change, device: str
) -> None:
    """The one may be moved, and the other one is used."""
    report = compare(device, beside_a_use, change, learns=learns, shares=True)
    assert report.replayed >= CHANGED_AT - 3, str(report)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", [clears_gradients, scales_a_gradient])
def test_data_of_gradients(call: Call, change: Change, device: str) -> None:
    report = compare(device, call, change, learns=True, shares=False)
    assert report.replayed >= CHANGED_AT - 3, str(report)


def test_data_where_the_result_has_a_history_is_refused(device: str) -> None:
    def call(state: State, x: torch.Tensor) -> torch.Tensor:
        state.second.data.mul_(0.9)
        return x * state.first

    report = compare(device, call, nothing, learns=True, shares=False)
    assert report.replayed == 0
    assert "in place of .data, use detach()" in " ".join(report.reasons)


def _random_call(dice: random.Random) -> Call:
    """Some writes by `.data`, uses and gradients, in an order that stays."""
    names = ("first", "second", "third")
    steps: list[Call] = []
    for _ in range(dice.randint(1, 5)):
        to, of, factor = dice.choice(names), dice.choice(names), dice.random()

        def scale(state: State, y: torch.Tensor, to=to, factor=factor):  # type: ignore[no-untyped-def]
            getattr(state, to).data.mul_(factor)
            return y

        def follow(state: State, y: torch.Tensor, to=to, of=of, factor=factor):  # type: ignore[no-untyped-def]
            getattr(state, to).data.lerp_(getattr(state, of).data, factor)
            return y

        def read(state: State, y: torch.Tensor, of=of):  # type: ignore[no-untyped-def]
            return y + getattr(state, of).data

        def use(state: State, y: torch.Tensor, of=of):  # type: ignore[no-untyped-def]
            return y * getattr(state, of).detach()

        def write(state: State, y: torch.Tensor, to=to, factor=factor):  # type: ignore[no-untyped-def]
            with torch.no_grad():
                getattr(state, to).add_(factor)
            return y

        def gradient(state: State, y: torch.Tensor, of=of, factor=factor):  # type: ignore[no-untyped-def]
            grad = getattr(state, of).grad
            if grad is not None:
                grad.data.mul_(factor)
                y = y + grad
            return y

        steps.append(dice.choice((scale, follow, follow, read, use, write, gradient)))

    def call(state: State, x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = step(state, x)
        return x * 2

    return call


def _random_change(dice: random.Random) -> Change:
    changes = [dice.choice(CHANGES) for _ in range(dice.randint(1, 3))]

    def change(state: State) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for each in changes:
                each(state)

    return change


def test_random_calls(device: str) -> None:
    replayed = 0
    for seed in range(60):
        dice = random.Random(seed)
        call, change = _random_call(dice), _random_change(dice)
        options = {"learns": dice.random() < 0.5, "shares": dice.random() < 0.5}
        report = compare(device, call, change, **options)
        replayed += report.replayed
    assert replayed >= 500
