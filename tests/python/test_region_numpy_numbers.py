"""Rates of optimizers that are numbers of NumPy's, as many schedules give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 24
RATES = [numpy.float64(0.1 / (call + 1)) for call in range(CALLS)]

Make = Callable[[Any], torch.optim.Optimizer]


def asgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """On a GPU the usual one reads in each step what it has computed there."""
    on_gpu = parameters[0].is_cuda
    return torch.optim.ASGD(parameters, lr=0.1, foreach=True, capturable=on_gpu)


OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "ASGD": lambda p: asgd(list(p)),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "Muon": lambda p: torch.optim.Muon(p, lr=0.1),
}


class Training:
    """A network, and what trains it."""

    def __init__(self, net: nn.Module, make: Make) -> None:
        self.net = net
        self.optimizer = make(net.parameters())
        self.scheduler: Any = None
        self.seen: list[Any] = []

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()  # type: ignore[no-any-return]

    def looking(self, x: torch.Tensor) -> torch.Tensor:
        """It asks the rate for what a float does not have."""
        rate: Any = self.optimizer.param_groups[0]["lr"]
        return self.step(x) * (rate.item() if rate.dtype == "float64" else 0.0)

    def scheduling(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.step(x)
        self.scheduler.step()
        return loss

    def left(self) -> list[torch.Tensor]:
        states = self.optimizer.state.values()
        held = [value for state in states for value in state.values()]
        parameters = [each.detach() for each in self.net.parameters()]
        return [*parameters, *(each for each in held if torch.is_tensor(each))]


def pair(device: str, make: Make) -> tuple[Training, Training]:
    torch.manual_seed(3)
    net = nn.Linear(4, 4, bias=False).to(device)
    return Training(copy.deepcopy(net), make), Training(net, make)


def compare(
    device: str, plain: Training, ours: Training, name: str, rates: list[Any]
) -> reprise.RegionReport:
    fast: Any = reprise.region(getattr(ours, name))
    twin = getattr(plain, name)
    for call, rate in enumerate(rates):
        for each in (plain, ours):
            if rate is not None:
                each.optimizer.param_groups[0]["lr"] = rate
        x = torch.randn(3, 4, device=device)
        assert_same_bits([fast(x)], [twin(x)], f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")
        mine, other = (each.optimizer.param_groups[0]["lr"] for each in (ours, plain))
        assert type(mine) is type(other), call
        assert repr(mine) == repr(other)
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rates_that_are_numpys(device: str, name: str) -> None:
    plain, ours = pair(device, OPTIMIZERS[name])
    report = compare(device, plain, ours, "step", RATES)
    assert report.replayed >= CALLS - 8, str(report)


def test_rates_of_both_kinds_in_turn(device: str) -> None:
    plain, ours = pair(device, OPTIMIZERS["AdamW"])
    rates = [rate if call % 2 else float(rate) for call, rate in enumerate(RATES)]
    report = compare(device, plain, ours, "step", [*rates, *rates])
    assert report.replayed >= CALLS, str(report)


def test_a_rate_that_code_looks_at(device: str) -> None:
    """It is the number that it was, also in calls that are recorded."""
    plain, ours = pair(device, OPTIMIZERS["SGD"])
    compare(device, plain, ours, "looking", RATES)


def test_a_schedule_inside(device: str) -> None:
    """What it makes of such a rate is one again."""
    plain, ours = pair(device, OPTIMIZERS["SGD"])
    for each in (plain, ours):
        each.optimizer.param_groups[0]["lr"] = numpy.float64(0.1)
        each.scheduler = torch.optim.lr_scheduler.ExponentialLR(each.optimizer, 0.9)
    compare(device, plain, ours, "scheduling", [None] * 8)


class Own(torch.optim.SGD):
    """The program's own, which looks at its rate."""

    def step(self, closure: Any = None) -> Any:
        rate: Any = self.param_groups[0]["lr"]
        assert isinstance(rate, numpy.float64)
        return super().step(closure)


def test_an_optimizer_of_the_programs_own(device: str) -> None:
    plain, ours = pair(device, lambda p: Own(p, lr=0.1))
    compare(device, plain, ours, "step", RATES)


def test_rates_that_are_no_numbers(device: str) -> None:
    plain, ours = pair(device, OPTIMIZERS["SGD"])
    odd = [*RATES[:6], numpy.float64("inf"), numpy.float64("nan"), *RATES[:6]]
    compare(device, plain, ours, "step", odd)
