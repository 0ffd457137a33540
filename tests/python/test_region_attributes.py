"""Attributes of modules that a region's calls set to tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 12


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


class Masked(nn.Module):
    """Its user sets the mask before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.mask = torch.zeros(1)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.mask * self.scale


class Net(nn.Module):
    """Hands a mask to its layers by attributes, and keeps what it last saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Masked() for _ in range(3))
        self.register_buffer("mean", torch.zeros(8))
        self.hidden: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 0).float()
        for layer in self.layers:
            layer.mask = mask
            x = layer(x)
        self.hidden = x * 2
        self.mean = x.mean(0)
        return x.sin() if self.training else x.cos()


def attributes(net: Any) -> list[torch.Tensor]:
    kept = [*(layer.mask for layer in net.layers), net.hidden, net.mean]
    assert all(kept[0] is mask for mask in kept[:3])
    return kept


def batch(device: str) -> torch.Tensor:
    return torch.randn(4, 8).to(device)


def eagerly(device: str, fn: Callable[..., Any], *args: Any) -> Any:
    with reprise.session(device, enabled=False):
        return fn(*args)


def pair(device: str, net: nn.Module) -> tuple[Any, Any, Any]:
    net = net.to(device).eval()
    return net, reprise.region(net), copy.deepcopy(net)


def test_replays_set_them(device: str) -> None:
    net, fast, twin = pair(device, Net())
    kept = []
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        kept.append((attributes(net), attributes(twin)))
        assert net._buffers["mean"] is net.mean
    for ours, theirs in kept:
        for mine, other in zip(ours, theirs, strict=True):
            assert_same_bits(mine, other)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.train(not net.training),
        lambda net: setattr(net.layers[1], "scale", net.layers[1].scale + 1),
        lambda net: setattr(
            net.layers[2], "linear", nn.Linear(8, 8).to(net.mean.device)
        ),
        lambda net: net.layers[0].linear.weight.data.mul_(2),
        lambda net: setattr(net.layers[0], "mask", torch.ones(3)),
        lambda net: setattr(net, "hidden", None),
        lambda net: setattr(net.layers[0], "forward", net.layers[1].forward),
    ],
)
def test_what_else_is_another_one_is_seen(
    device: str, change: Callable[[Any], Any]
) -> None:
    net, fast, twin = pair(device, Net())
    for _ in range(3):
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
            for mine, other in zip(attributes(net), attributes(twin), strict=True):
                assert_same_bits(mine, other)
        assert fast.explain().replayed > 0, str(fast.explain())
        torch.manual_seed(0)
        change(net)
        torch.manual_seed(0)
        change(twin)


class Caching(nn.Module):
    """Makes what it needs once."""

    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None
        self.factor = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(8, device=x.device) * self.factor
        return x * self.table + 1


def test_what_is_made_once(device: str) -> None:
    net, fast, twin = pair(device, Caching())
    old = []
    for _ in range(3):
        replayed = fast.explain().replayed
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, twin, x))
        assert fast.explain().replayed > replayed, str(fast.explain())
        old.append(net.table)  # it lives on
        for each in (net, twin):
            each.table = None
            each.factor += 1


class Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = [0]
        self.seen = torch.zeros(1)

    def forward(self, x: torch.Tensor, keeps: bool) -> torch.Tensor:
        y = x * 2 + 1
        if keeps:
            self.seen = y
        return y + self.seen


def test_set_in_some_calls_and_read(device: str) -> None:
    net, fast, twin = pair(device, Sometimes())
    for call in range(5 * CALLS):
        x, keeps = batch(device), call % 3 == 0 or call in (20, 40)
        assert_same_bits(fast(x, keeps), eagerly(device, twin, x, keeps))
        assert_same_bits(net.seen, twin.seen)


class Recurrent(nn.Module):
    """Reads what the call before has left."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state.to(x.device) * 0.5 + x
        return self.state.tanh()


def test_read_before_it_is_set(device: str) -> None:
    net, fast, twin = pair(device, Recurrent())
    for _ in range(4 * CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.state, twin.state)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = x
        return x + 1


class Telling(nn.Module):
    """Its attributes are set by what it does itself."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["told"] = 0
        self.last = torch.zeros(1)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "last":
            self.__dict__["told"] = self.__dict__["told"] + 1
        super().__setattr__(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2
        return x + 1


@pytest.mark.parametrize("kind", [Counting, Telling])
def test_what_no_replay_would_do_is_refused(device: str, kind: Any) -> None:
    net, fast, twin = pair(device, kind())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert_same_bits(net.last, twin.last)
    assert getattr(net, "calls", 0) == getattr(twin, "calls", 0)
    assert net.__dict__.get("told") == twin.__dict__.get("told")
    assert fast.explain().replayed == 0


class Handing(nn.Module):
    """Sets them to an argument, a parameter's view, and one tensor twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))
        self.given = self.view = self.first = self.second = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        self.view = self.weight[2:]
        self.first = self.second = x * self.weight
        return self.first + 1


def test_arguments_and_views(device: str) -> None:
    net, fast, twin = pair(device, Handing())
    for _ in range(CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        assert net.given is x and net.first is net.second
        assert torch._C._is_alias_of(net.view, net.weight)
        assert_same_bits(net.view, twin.view)
        assert_same_bits(net.first, twin.first)
        net.first.add_(1)  # it is the program's
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_an_attribute_as_the_next_argument(device: str) -> None:
    net, fast, twin = pair(device, Net())
    x = batch(device)
    y = x.clone()
    for _ in range(CALLS):
        assert_same_bits(fast(x), eagerly(device, twin, y))
        x, y = net.hidden, twin.hidden
        assert_same_bits(x, y)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())


def test_with_gradients(device: str) -> None:
    """A loss of what a module keeps."""
    net, fast, twin = pair(device, Net())
    with torch.enable_grad():
        for _ in range(CALLS):
            x = batch(device)
            for each, call in ((net, fast), (twin, twin)):
                each.zero_grad()
                (call(x).sum() + each.hidden.square().sum()).backward()
            for mine, other in zip(net.parameters(), twin.parameters(), strict=True):
                assert (mine.grad is None) == (other.grad is None)
                if mine.grad is not None:
                    assert_same_bits(mine.grad, other.grad)


class Detached(Net):
    """What it keeps has no history, as behind a backward pass no region gives one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        assert self.hidden is not None
        self.hidden = self.hidden.detach()
        self.mean = self.mean.detach()
        return y


@pytest.mark.parametrize("kind", [Net, Detached])
def test_a_whole_step(device: str, kind: Any) -> None:
    net, _, twin = pair(device, kind())
    steps = []
    for each in (net, twin):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)

        def step(x: torch.Tensor, each: Any = each, by: Any = optimizer) -> Any:
            by.zero_grad()
            loss = each(x).sum() + each.hidden.square().sum()
            loss.backward()
            by.step()
            return loss.detach()

        steps.append(step)
    fast: Any = reprise.region(steps[0])
    with torch.enable_grad():
        for _ in range(CALLS):
            x = batch(device)
            assert_same_bits(fast(x), eagerly(device, steps[1], x))
            assert_same_bits(net.hidden.detach(), twin.hidden.detach())
    for mine, other in zip(net.parameters(), twin.parameters(), strict=True):
        assert_same_bits(mine, other)
    replays = CALLS - 4 if kind is Detached else 0
    assert fast.explain().replayed >= replays, str(fast.explain())


def test_two_regions_of_one_module(device: str) -> None:
    """One that sets them, and one that reads what the other has set."""
    net, fast, twin = pair(device, Net())
    reads: Any = reprise.region(lambda x: x * net.hidden + net.layers[0].scale)
    for call in range(3 * CALLS):
        x = batch(device)
        assert_same_bits(fast(x), eagerly(device, twin, x))
        expected = eagerly(device, lambda x: x * twin.hidden + twin.layers[0].scale, x)
        assert_same_bits(reads(x), expected)
        if call == CALLS:
            net.layers[0].scale = twin.layers[0].scale = 5.0
    assert fast.explain().replayed >= 2 * CALLS, str(fast.explain())
