"""Optimizers that a region leads to, and does not have step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.nn import functional
from watching import assert_same_bits

CALLS = 30

Step = Callable[[], Any]


def fitted(device: str, search: str | None, fast: bool) -> tuple[Any, list[Any]]:
    """What `LBFGS` makes of a network, with a closure that may be a region."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.LBFGS(
        net.parameters(), lr=0.5, max_iter=5, history_size=3, line_search_fn=search
    )
    x, target = torch.randn(16, 4, device=device), torch.randn(16, 1, device=device)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), target)
        loss.backward()
        return loss

    called: Any = reprise.region(closure) if fast else closure
    losses: list[Any] = [optimizer.step(called).detach().clone() for _ in range(6)]
    kept = [*losses, *(each.detach() for each in net.parameters())]
    return (called.explain() if fast else None), kept


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_closure_of_lbfgs(device: str, search: str | None) -> None:
    """What the optimizer keeps differs in each call, and no code of the region comes to it."""
    _, expected = fitted(device, search, fast=False)
    report, found = fitted(device, search, fast=True)
    assert_same_bits(found, expected)
    assert report.replayed >= report.calls - 4, str(report)


def of_state(net: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    return optimizer.state_dict()["state"].get(0, {}).get("func_evals", 0)


def of_torchs(net: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    found: Any = get_optimizer_state_dict(net, optimizer)["state"]
    return next(iter(found.values()), {}).get("func_evals", 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("read", [of_state, of_torchs])
def test_code_that_reads_what_an_optimizer_keeps(device: str, read: Any) -> None:
    torch.manual_seed(3)
    net = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return net(x).detach() + read(net, optimizer)  # type: ignore[no-any-return]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(torch.ones(2, 4, device=device)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    fast: Any = reprise.region(fn)
    for call in range(8):
        x = torch.randn(2, 4, device=device)
        assert_same_bits([fast(x)], [fn(x)], f"call {call}")
        if call > 2:
            optimizer.step(closure)  # type: ignore[arg-type]


class Holder:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.go = optimizer.step


def by_name(optimizer: torch.optim.Optimizer) -> Step:
    return lambda: optimizer.step()  # type: ignore[call-arg]


def by_method(optimizer: torch.optim.Optimizer) -> Step:
    go = optimizer.step
    return lambda: go()  # type: ignore[call-arg]


def by_partial(optimizer: torch.optim.Optimizer) -> Step:
    go: Any = functools.partial(optimizer.step)
    return lambda: go()


def by_function(optimizer: torch.optim.Optimizer) -> Step:
    go: Any = type(optimizer).step
    return lambda: go(optimizer)


def by_attribute(optimizer: torch.optim.Optimizer) -> Step:
    holder = Holder(optimizer)
    return lambda: holder.go()  # type: ignore[call-arg]


def by_text(optimizer: torch.optim.Optimizer) -> Step:
    return lambda: getattr(optimizer, "st" + "ep")()


WAYS = [by_name, by_method, by_partial, by_function, by_attribute, by_text]


def training(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    def train(x: torch.Tensor, then: Step | None) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        if then is not None:
            then()
        return loss.detach()  # type: ignore[no-any-return]

    return train


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", [False, True])
def test_a_step_that_is_not_named(
    device: str, way: Callable[[torch.optim.Optimizer], Step], given: bool
) -> None:
    """What the optimizer keeps is looked at however code comes to its step."""
    kept: list[list[torch.Tensor]] = []
    for is_region in (False, True):
        torch.manual_seed(3)
        net = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        step = way(optimizer)

        train = training(net, optimizer)
        held: Any = train if given else lambda x, t=train, s=step: t(x, s)
        fn: Any = reprise.region(held) if is_region else held
        generator = torch.Generator().manual_seed(7)
        found = []
        for call in range(CALLS):
            x = torch.randn(3, 4, generator=generator).to(device)
            found.append(fn(x, step) if given else fn(x))
            if call == 12:
                optimizer.state.clear()
            if call == 20:
                for state in optimizer.state.values():
                    state["step"] = torch.tensor(50.0)
        kept.append([*found, *(each.detach() for each in net.parameters())])
    assert_same_bits(*kept)


def test_a_region_that_begins_to_step(device: str) -> None:
    """By another argument, in later calls."""
    kept: list[list[torch.Tensor]] = []
    for is_region in (False, True):
        torch.manual_seed(3)
        net = nn.Linear(4, 2).to(device)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        train = training(net, optimizer)
        fn: Any = reprise.region(train) if is_region else train
        generator = torch.Generator().manual_seed(7)
        found = []
        for call in range(2 * CALLS):
            x = torch.randn(3, 4, generator=generator).to(device)
            found.append(fn(x, None if call < CALLS else optimizer.step))
            if call < CALLS:
                optimizer.step()
            if call == CALLS + 12:
                optimizer.state.clear()
        kept.append([*found, *(each.detach() for each in net.parameters())])
    assert_same_bits(*kept)
