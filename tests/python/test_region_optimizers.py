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
from torch.optim import optimizer as optimizer_of_torch
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


# --- Betas that a schedule sets to others ---


def trained(net: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    """One step of training, and its loss."""
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def under_one_cycle(
    device: str, name: str, fast: bool, between: Callable[[Any, int], None], **how: Any
) -> tuple[Any, list[Any]]:
    """A network that `OneCycleLR` trains, which cycles the first beta with the rate."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters()}]
    optimizer = getattr(torch.optim, name)(groups, lr=0.1, **how)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=100)

    def step(x: torch.Tensor) -> Any:
        return trained(net, optimizer, x)

    called: Any = reprise.region(step) if fast else step
    found: list[Any] = []
    with reprise.session(device, policy="always", enabled=fast):
        for call in range(CALLS):
            loss = called(torch.randn(16, 4).to(device))
            schedule.step()
            between(optimizer, call)
            state = [
                each
                for held in optimizer.state.values()
                for each in held.values()
                if torch.is_tensor(each)
            ]
            found += [
                each.detach().clone() for each in (loss, *net.parameters(), *state)
            ]
            found.append(
                torch.tensor([group["betas"] for group in optimizer.param_groups])
            )
    return (called.explain() if fast else None), found


def nothing(optimizer: Any, call: int) -> None:
    pass


def other_betas(optimizer: Any, call: int) -> None:
    """Of one group: zeros, other numbers, a list, and what it had."""
    if call % 3 == 2:
        some: list[Any] = [(0.0, 0.5), (-0.0, 0.9), [0.5, 0.99], (0.5, 0.0), (0, 0.9)]
        optimizer.param_groups[1]["betas"] = some[call // 3 % len(some)]


HOW: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"foreach": True}),
    ("Adam", {"fused": True}),
    ("AdamW", {"amsgrad": True}),
    ("Adamax", {}),
    ("RAdam", {}),
]


@pytest.mark.parametrize(("name", "how"), HOW)
def test_betas_under_a_schedule(device: str, name: str, how: Any) -> None:
    _, expected = under_one_cycle(device, name, False, nothing, **how)
    report, found = under_one_cycle(device, name, True, nothing, **how)
    assert_same_bits(found, expected)
    assert report.replayed >= CALLS - 6, str(report)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_betas_of_other_kinds(device: str, name: str) -> None:
    _, expected = under_one_cycle(device, name, False, other_betas)
    report, found = under_one_cycle(device, name, True, other_betas)
    assert_same_bits(found, expected)
    assert report.replayed > 0, str(report)


class Printed(torch.optim.SGD):
    """It computes with numbers of its own groups, in its own way."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group.setdefault("ways", (1.0, 2.0))
            first, second = group["ways"]
            with torch.no_grad():
                for each in group["params"]:
                    each.sub_(each.grad, alpha=first / (1 + second))
                    if second > 4:
                        each.mul_(0.5)


def test_numbers_that_the_programs_own_optimizer_computes_with(device: str) -> None:
    found: list[list[Any]] = [[], []]
    for of, fast in zip(found, (True, False), strict=True):
        torch.manual_seed(3)
        net = nn.Linear(4, 1).to(device)
        optimizer = Printed(net.parameters(), lr=0.1)

        def step(x: torch.Tensor, net: Any = net, by: Any = optimizer) -> Any:
            return trained(net, by, x)

        called: Any = reprise.region(step) if fast else step
        with reprise.session(device, policy="always", enabled=fast):
            for call in range(CALLS):
                loss = called(torch.randn(4, 4).to(device))
                optimizer.param_groups[0]["ways"] = (call / 8, float(call % 7))
                of += [each.detach().clone() for each in (loss, *net.parameters())]
                assert all(
                    type(each) is float for each in optimizer.param_groups[0]["ways"]
                )
    assert_same_bits(*found)


@pytest.mark.parametrize(
    "schedule",
    [
        functools.partial(
            torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda n: 0.9**n
        ),
        functools.partial(torch.optim.lr_scheduler.StepLR, step_size=4),
    ],
)
def test_a_schedule_inside_and_its_remedy(device: str, schedule: Any) -> None:
    net = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    rates = schedule(optimizer)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def whole(x: torch.Tensor) -> torch.Tensor:
        loss = step(x)
        rates.step()
        return loss

    inside: Any = reprise.region(whole)
    for _ in range(CALLS):
        inside(torch.randn(3, 4).to(device))
    assert inside.explain().replayed == 0
    assert "the scheduler outside of the region, behind it" in str(inside.explain())
    outside: Any = reprise.region(step)
    for _ in range(CALLS):
        outside(torch.randn(3, 4).to(device))
        rates.step()
    assert outside.explain().replayed >= CALLS - 6, str(outside.explain())


class Storing(torch.optim.SGD):
    """It keeps what its group holds."""

    kept: Any = None

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            self.kept = group["ways"], group["ways"][0]
            with torch.no_grad():
                for each in group["params"]:
                    each.sub_(each.grad, alpha=group["ways"][0])


def test_numbers_that_an_optimizer_stores(device: str) -> None:
    """They are the program's own behind the call."""
    net = nn.Linear(4, 1).to(device)
    optimizer = Storing(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["ways"] = (0.1, 1.0)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    fast: Any = reprise.region(step)
    for call in range(CALLS):
        ways = optimizer.param_groups[0]["ways"] = (0.1 + call / 100, float(call))
        fast(torch.randn(3, 4).to(device))
        assert optimizer.param_groups[0]["ways"] is ways
        assert optimizer.kept == (ways, ways[0])
        assert {*map(type, (*optimizer.kept[0], optimizer.kept[1]))} == {float}


# --- Hooks of all optimizers ---


@pytest.mark.parametrize("begins", [0, CALLS // 2])
@pytest.mark.parametrize("behind", [False, True])
def test_hooks_of_all_optimizers(behind: bool, begins: int, device: str) -> None:
    """They come and go between calls, and may look at rates."""
    plain, ours = Stepped(device), Stepped(device)
    fast: Any = reprise.region(ours.step)
    register = (
        optimizer_of_torch.register_optimizer_step_post_hook
        if behind
        else optimizer_of_torch.register_optimizer_step_pre_hook
    )
    removed = []
    try:
        for call in range(CALLS):
            if call == begins:
                removed = [register(each.hook) for each in (plain, ours)]
            if call == begins + CALLS // 3:
                while removed:
                    removed.pop().remove()
            x = torch.randn(8, 4, device=device)
            for each in (plain, ours):
                each.optimizer.param_groups[0]["lr"] = 0.5 / (call + 1)
            assert_same_bits(fast(x), plain.step(x), f"call {call}")
            weights = [[*each.net.parameters()] for each in (ours, plain)]
            assert_same_bits(*weights, f"call {call}")
    finally:
        while removed:
            removed.pop().remove()
    assert fast.explain().replayed >= CALLS // 3, str(fast.explain())


class Stepped:
    """A network, its optimizer, and a hook that goes by the rate."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(3)
        self.net = nn.Linear(4, 1).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.5)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def hook(self, of: Any, *_: Any) -> None:
        if of is self.optimizer:
            rate = of.param_groups[0]["lr"]
            with torch.no_grad():
                self.net.weight.mul_(0.5 if rate > 0.1 else 0.9)
