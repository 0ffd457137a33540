"""Rates of optimizers that schedules change, beside code that takes values of floats."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 16
RATES = [0.5 / (call + 1) for call in range(CALLS)]
REPLAYS = CALLS - 4


class Attention(nn.Module):
    """Its code names `math`, and makes a tensor of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = x @ x.mT * (1.0 / math.sqrt(x.size(-1)))
        pick = torch.tensor([0, 2, 1], dtype=torch.long, device=x.device)
        out: torch.Tensor = self.mix(score.softmax(-1) @ x)
        return out[pick]


Step = Callable[[torch.Tensor], torch.Tensor]
Make = Callable[[nn.Module, torch.optim.Optimizer], Step]


def trains(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()  # type: ignore[no-any-return]

    return step


def looks_at_a_state(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """It takes the rate from what torch's code hands out, by a function in C."""
    train = trains(net, optimizer)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = train(x)
        return loss * math.cos(optimizer.state_dict()["param_" + "groups"][0]["lr"])

    return step


def looks_at_its_groups(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """It has the optimizer's own dictionaries, and does not name them."""
    train, settings = trains(net, optimizer), optimizer.param_groups

    def step(x: torch.Tensor) -> torch.Tensor:
        return train(x) * math.cos(settings[0]["lr"])

    return step


def looks_at_one_group(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    train, settings = trains(net, optimizer), optimizer.param_groups[0]

    def step(x: torch.Tensor) -> torch.Tensor:
        return train(x) * math.cos(settings["lr"])

    return step


def looks_by_a_text(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    train = trains(net, optimizer)

    def step(x: torch.Tensor) -> torch.Tensor:
        rate = getattr(optimizer, "param" + "_groups")[0]["lr"]
        return train(x) * math.cos(rate)

    return step


def looks_in_a_hook(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    found: list[float] = [0.0]

    def hook(of: Any, *_: Any) -> None:
        found[0] = math.cos(of.param_groups[0]["lr"])

    optimizer.register_step_pre_hook(hook)
    train = trains(net, optimizer)

    def step(x: torch.Tensor) -> torch.Tensor:
        return train(x) * found[0]

    return step


def asks_a_schedule(net: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)
    train = trains(net, optimizer)

    def step(x: torch.Tensor) -> torch.Tensor:
        return train(x) * math.cos(schedule._last_lr[0])

    return step


def adamw(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, weight_decay=0.1)


def sgd(params: Any) -> torch.optim.Optimizer:
    groups = [{"params": [each]} for each in params]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1)


def compare(device: str, make: Make, optimizer: Any, *, given: bool = False) -> Any:
    """`given`: the groups are an argument, too."""
    torch.manual_seed(3)
    net = Attention().to(device)
    nets = copy.deepcopy(net), net
    optimizers = [optimizer(each.parameters()) for each in nets]
    steps: list[Any] = [make(*each) for each in zip(nets, optimizers, strict=True)]
    steps[0] = reprise.region(steps[0])
    for call, rate in enumerate(RATES):
        x = torch.randn(3, 4, device=device)
        found = []
        for step, each in zip(steps, optimizers, strict=True):
            for group in each.param_groups:
                group["lr"] = rate
            found.append(step(x, each.param_groups) if given else step(x))
        assert_same_bits(found[:1], found[1:], f"call {call}")
        kept = [
            [*map(torch.Tensor.detach, one.parameters())]
            + [
                value
                for of in each.state.values()
                for value in of.values()
                if torch.is_tensor(value)
            ]
            for one, each in zip(nets, optimizers, strict=True)
        ]
        assert_same_bits(*kept, f"call {call}")
        ours, theirs = (
            [group["lr"] for group in each.param_groups] for each in optimizers
        )
        assert [*map(type, ours)] == [*map(type, theirs)] and ours == theirs
    return steps[0].explain()


@pytest.mark.parametrize("optimizer", [adamw, sgd])
def test_rates_beside_code_that_names_math(device: str, optimizer: Any) -> None:
    """Nobody but torch's optimizer looks at them, so it does not matter what code names."""
    report = compare(device, trains, optimizer)
    assert report.replayed >= REPLAYS, str(report)


LOOKING: list[Make] = [
    looks_at_a_state,
    looks_at_its_groups,
    looks_at_one_group,
    looks_by_a_text,
    looks_in_a_hook,
    asks_a_schedule,
]


@pytest.mark.parametrize("make", LOOKING)
def test_code_that_takes_the_value_of_a_rate(device: str, make: Make) -> None:
    """What it computes of the rate is that of the call."""
    compare(device, make, adamw)
    compare(device, make, sgd)


def test_code_that_is_given_the_groups(device: str) -> None:
    def make(net: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        train = trains(net, optimizer)

        def step(x: torch.Tensor, settings: list[dict[str, Any]]) -> torch.Tensor:
            numbers = {key: value for key, value in settings[0].items() if key == "lr"}
            return train(x) * math.cos(numbers["lr"])

        return step

    compare(device, make, adamw, given=True)
