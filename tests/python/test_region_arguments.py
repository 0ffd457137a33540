"""Arguments of regions as in real code: modules, optimizers, functions.

A module, an optimizer or a function counts as one in the closure does.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional as F
from watching import assert_same_bits

CALLS = 12


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with reprise.session(device, policy="always"):
        yield


def make_net(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to(device)


def train(
    net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, t: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), t)
    loss.backward()
    optimizer.step()
    return loss.detach()


Steps = Callable[[Any], Iterator[Any]]


def run_both(steps: Steps, fn: Callable[..., Any]) -> reprise.RegionReport:
    """Runs steps with the callable and with its region. All that they yield has the same bits."""
    fast: Any = reprise.region(fn)
    found = []
    for called in (fn, fast):
        torch.manual_seed(3)
        found.append([_copied(each) for each in steps(called)])
    for mine, other in zip(found[1], found[0], strict=True):
        assert_same_bits(mine, other)
    report: reprise.RegionReport = fast.explain()
    return report


def _copied(value: Any) -> Any:
    if torch.is_tensor(value):
        return value.detach().clone()
    return [_copied(each) for each in value]


def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4).to(device), torch.randint(0, 3, (5,)).to(device)


# --- Modules and optimizers ---


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("nets", [1, 2])
def test_a_step_with_its_module_and_optimizer(
    device: str, kind: str, nets: int
) -> None:
    def steps(step: Any) -> Iterator[Any]:
        made = [make_net(device) for _ in range(nets)]
        optimizers = [getattr(torch.optim, kind)(each.parameters()) for each in made]
        for index in range(CALLS * nets):
            which = index % nets
            yield step(made[which], optimizers[which], *batch(device))
        yield [list(each.parameters()) for each in made]

    report = run_both(steps, train)
    assert report.replayed >= (CALLS - 4) * nets, str(report)


def test_what_changes_of_a_module_between_calls(device: str) -> None:
    """It is looked at in each call, as one in the closure is."""

    def doubled(_: Any, __: Any, found: torch.Tensor) -> torch.Tensor:
        return found * 2

    def steps(run: Any) -> Iterator[Any]:
        net: Any = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4))
        net.to(device)
        other = nn.Linear(4, 4).to(device)

        def calls() -> Iterator[Any]:
            with torch.no_grad():
                for _ in range(6):
                    yield run(net, torch.randn(5, 4).to(device))

        yield from calls()
        hook = net[0].register_forward_hook(doubled)
        yield from calls()
        hook.remove()
        yield from calls()
        net[0] = other
        yield from calls()
        net[0].weight = nn.Parameter(torch.randn(4, 4).to(device))
        yield from calls()
        net[2].forward = lambda x: x + 1
        yield from calls()
        net.eval()
        net[1].p = 0.5
        yield from calls()

    report = run_both(steps, lambda net, x: net(x))
    assert report.replayed >= 20, str(report)


def test_numbers_of_an_optimizer_that_is_an_argument(device: str) -> None:
    def steps(step: Any) -> Iterator[Any]:
        net = make_net(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for index in range(2 * CALLS):
            optimizer.param_groups[0]["lr"] = 0.1 / (index + 1)
            yield step(net, optimizer, *batch(device))
        optimizer.param_groups[0]["params"].pop()
        for _ in range(CALLS):
            yield step(net, optimizer, *batch(device))
        yield list(net.parameters())

    report = run_both(steps, train)
    assert report.replayed >= 2 * CALLS, str(report)


def test_one_module_in_two_places(device: str) -> None:
    def asks(first: nn.Module, second: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return first(x) if first is second else first(x) + second(x)

    def steps(run: Any) -> Iterator[Any]:
        a, b = nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)
        with torch.no_grad():
            for pair in [(a, a)] * 6 + [(a, b)] * 6 + [(b, a)] * 6 + [(a, a)] * 6:
                yield run(*pair, torch.randn(5, 4).to(device))

    report = run_both(steps, asks)
    assert report.replayed >= 16, str(report)


def test_a_module_that_the_closure_holds_too(device: str) -> None:
    known = nn.Linear(4, 4).to(device)

    def asks(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x) * 2 if net is known else net(x)

    def steps(run: Any) -> Iterator[Any]:
        nonlocal known
        first, other = known, nn.Linear(4, 4).to(device)
        with torch.no_grad():
            for net in [first] * 6 + [other] * 6:
                yield run(net, torch.randn(5, 4).to(device))
            known = other
            for net in [first] * 6 + [other] * 6:
                yield run(net, torch.randn(5, 4).to(device))
        known = first

    report = run_both(steps, asks)
    assert report.replayed >= 12, str(report)


def test_a_cache_beside_a_module(device: str) -> None:
    """Another cache that holds the same is as good, for the same module."""

    class Cache:
        def __init__(self) -> None:
            self.keys = [torch.zeros(8, 4).to(device)]

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(
            self, x: torch.Tensor, cache: Any, at: torch.Tensor
        ) -> torch.Tensor:
            cache.keys[0].index_copy_(0, at, self.inner(x))
            return x + cache.keys[0].sum(0)

    def steps(run: Any) -> Iterator[Any]:
        net = Layer().to(device)
        with torch.no_grad():
            for _ in range(4):
                cache = Cache()
                for index in range(6):
                    at = torch.tensor([index]).to(device)
                    yield run(net, torch.randn(1, 4).to(device), cache, at)
                yield cache.keys

    report = run_both(steps, lambda net, x, cache, at: net(x, cache, at))
    assert report.replayed >= 21, str(report)


def test_modules_are_not_kept(device: str) -> None:
    fast: Any = reprise.region(train)
    for _ in range(2):
        net = make_net(device)
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(CALLS):
            fast(net, optimizer, *batch(device))
        gone = weakref.ref(net), weakref.ref(optimizer), weakref.ref(net[0].weight)  # type: ignore[index]
        del net, optimizer
        gc.collect()
        assert [each() for each in gone] == [None] * 3
        assert len(fast._objects) == 0
    assert fast.explain().replayed >= 2 * (CALLS - 4), str(fast.explain())


def test_a_module_for_each_call(device: str) -> None:
    """Such calls run the callable, which the report says with what helps."""

    def run(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x)

    def steps(called: Any) -> Iterator[Any]:
        for _ in range(40):
            yield called(nn.Linear(4, 4).to(device), torch.randn(5, 4).to(device))

    report = run_both(steps, run)
    assert report.replayed == 0 and report.recorded < 30
    assert any("another Linear in each call (make it once" in r for r in report.reasons)


def test_modules_and_optimizers_that_are_returned(device: str) -> None:
    def run(net: nn.Module, x: torch.Tensor) -> Any:
        return net(x), {"net": net}

    fast: Any = reprise.region(run)
    with torch.no_grad():
        for net in [make_net(device)] * CALLS + [make_net(device)] * CALLS:
            x = torch.randn(5, 4).to(device)
            found, held = fast(net, x)
            assert held["net"] is net
            assert_same_bits(found, net(x))
    assert fast.explain().replayed == 2 * (CALLS - 2), str(fast.explain())


# --- Functions ---


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def own(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@pytest.mark.parametrize(
    "made",
    [
        lambda: own,
        lambda: F.gelu,
        lambda: F.silu,
        lambda: torch.relu,
        lambda: torch.ops.aten.relu.default,
        lambda: Scaled.of_class,
        lambda: functools.partial(F.leaky_relu, negative_slope=0.2),
        lambda: functools.partial(torch.add, torch.ones(4)),
        lambda: functools.partial(functools.partial(own)),
    ],
)
def test_a_function_that_is_an_argument(
    device: str, made: Callable[[], Callable[..., Any]]
) -> None:
    """Methods and partials are made anew for each call."""
    if device != "cpu":
        pytest.skip("one of the functions has a tensor of the host")

    def steps(run: Any) -> Iterator[Any]:
        for _ in range(CALLS):
            yield run(made(), torch.randn(5, 4))

    report = run_both(steps, lambda function, x: function(x) + 1)
    assert report.replayed == CALLS - 2, str(report)


def test_methods_of_objects(device: str) -> None:
    def steps(run: Any) -> Iterator[Any]:
        objects = [Scaled(2.0), Scaled(5.0)]
        for index in range(3 * CALLS):
            each = objects[index % 2]
            yield run(each.method, torch.randn(5, 4).to(device))
            if index == 2 * CALLS:
                objects[0].by = 7.0

    report = run_both(steps, lambda function, x: function(x) + 1)
    assert report.replayed >= 2 * CALLS, str(report)


def test_what_a_function_leads_to(device: str) -> None:
    """Its closure, defaults, code and attributes, and what its code names."""
    by = 2.0

    def scaled(x: torch.Tensor, more: float = 1.0) -> torch.Tensor:
        return x * by + more + getattr(scaled, "extra", 0.0)

    def other(x: torch.Tensor, more: float = 1.0) -> torch.Tensor:
        return x - by + more + getattr(scaled, "extra", 0.0)

    before = scaled.__code__

    def steps(run: Any) -> Iterator[Any]:
        nonlocal by

        def calls() -> Iterator[Any]:
            for _ in range(6):
                yield run(scaled, torch.randn(5, 4).to(device))

        yield from calls()
        by = 3.0
        yield from calls()
        scaled.__defaults__ = (5.0,)
        yield from calls()
        vars(scaled)["extra"] = 4.0
        yield from calls()
        scaled.__code__ = other.__code__
        yield from calls()
        by, scaled.__defaults__, scaled.__code__ = 2.0, (1.0,), before
        del vars(scaled)["extra"]

    report = run_both(steps, lambda function, x: function(x))
    assert report.replayed >= 15, str(report)


def test_what_a_partial_holds(device: str) -> None:
    scales = [2.0]

    def scaled(values: list[float], x: torch.Tensor, more: float) -> torch.Tensor:
        return x * values[0] + more

    def steps(run: Any) -> Iterator[Any]:
        part = functools.partial(scaled, scales, more=1.0)
        for index in range(4 * CALLS):
            if index == CALLS:
                scales[0] = 3.0
            elif index == 2 * CALLS:
                part.keywords["more"] = 4.0
            elif index == 3 * CALLS:
                part.__setstate__((own, (), {}, {}))  # type: ignore[attr-defined]
            yield run(part, torch.randn(5, 4).to(device))
        scales[0] = 2.0

    report = run_both(steps, lambda function, x: function(x))
    assert report.replayed >= 3 * CALLS, str(report)


def test_a_class_that_is_an_argument(device: str) -> None:
    class Config:
        by = 2.0

    def steps(run: Any) -> Iterator[Any]:
        for by in (2.0, 3.0, 2.0):
            Config.by = by
            for _ in range(CALLS):
                yield run(Config, torch.randn(5, 4).to(device))

    report = run_both(steps, lambda config, x: x * config.by)
    assert report.replayed >= 2 * CALLS, str(report)
