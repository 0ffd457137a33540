"""Histories of what a region returns, where a backward pass inside has used some of them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from pairs import CALLS
from torch import nn
from watching import assert_same_bits

Fn = Callable[[torch.Tensor], Any]


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with reprise.session(device, policy="always"):
        yield


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)


def stacked(net: Net, x: torch.Tensor) -> Any:
    """As the states of a recurrent module are, behind its last steps."""
    h = net.one(x).tanh()
    out = net.two(h).tanh()
    out.square().mean().backward()
    return torch.stack([h, out]), torch.cat([out, h])[2:]


def other_heads(net: Net, x: torch.Tensor) -> Any:
    """What was computed, and is no part of the loss."""
    h = net.one(x).tanh()
    net.two(h).square().mean().backward()
    return (h * 2).exp(), h.view(-1) + h.sum()


def losses(net: Net, x: torch.Tensor) -> Any:
    one, two = net.one(x).square().mean(), net.two(x).abs().sum()
    loss = one + 0.5 * two
    loss.backward()
    return loss, one, two


@pytest.mark.parametrize("fn", [stacked, other_heads, losses])
def test_what_leads_to_nothing_but_what_is_used_up(device: str, fn: Any) -> None:
    """Eager raises an error behind them: replays give them without a history."""
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x: fn(net, x))
    for _ in range(CALLS):
        x = torch.randn(4, 8).to(device)
        found, expected = fast(x), fn(twin, x)
        for mine, other in zip(found, expected, strict=True):
            assert_same_bits(mine.detach(), other.detach())
            with pytest.raises(RuntimeError):
                other.sum().backward()
            with pytest.raises(RuntimeError):
                mine.sum().backward()
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert_same_bits(one.grad, two.grad)
    assert fast.explain().replayed > 0, fast.explain()


def of_leaves(net: Net, x: torch.Tensor) -> torch.Tensor:
    (net.one(x).square().mean() + net.two(x).mean()).backward()
    return net.one.weight + net.two.weight


def a_view(net: Net, x: torch.Tensor) -> torch.Tensor:
    """The pass inside went through it, and another one may."""
    weight = net.one.weight.t()
    (x @ weight).square().mean().backward()
    return weight


def a_penalty(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.two(net.one(x).tanh()).square().mean().backward()
    return net.one.weight.square().sum()


def a_sum(net: Net, x: torch.Tensor) -> torch.Tensor:
    """No function of its history has saved a tensor."""
    loss = net.one.weight.sum() - net.two.bias.mean()
    loss.backward()
    return loss


def beside_one_that_is_used_up(net: Net, x: torch.Tensor) -> torch.Tensor:
    """One half of it leads on."""
    h = net.one(x).tanh()
    h.sum().backward()
    return torch.cat([h.detach(), net.two.weight])


@pytest.mark.parametrize(
    "fn", [of_leaves, a_view, a_penalty, a_sum, beside_one_that_is_used_up]
)
def test_what_another_pass_may_begin_at(device: str, fn: Any) -> None:
    """It keeps its history, of which the program makes gradients: the callable runs."""
    net, twin = Net().to(device), Net().to(device)
    fast: Any = reprise.region(lambda x: fn(net, x))
    for _ in range(CALLS):
        x = torch.randn(4, 8).to(device)
        for each, found in ((net, fast(x)), (twin, fn(twin, x))):
            assert found.requires_grad
            (found.sin().sum() + each.two.weight.mean()).backward()
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None)
            if one.grad is not None:
                assert_same_bits(one.grad, two.grad)
            one.grad = two.grad = None
    assert fast.explain().replayed == 0
    assert "an output has a history still" in str(fast.explain())
