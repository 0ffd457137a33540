"""Switches of torch's that a region's callable sets, and those round its calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
import torch.nn.functional as F
from hazards import flushed_denormals, restored
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from watching import assert_same_bits

CALLS = 8

Switch = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def default_dtype() -> Iterator[None]:
    with restored(torch.get_default_dtype, torch.set_default_dtype):
        torch.set_default_dtype(torch.float64)
        yield


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    switch = torch.use_deterministic_algorithms
    with restored(torch.are_deterministic_algorithms_enabled, switch):
        switch(True)
        yield


def attention(x: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(x, x, x) + 1


def small(x: torch.Tensor) -> torch.Tensor:
    return x * 1e-39


def sum_of_new(x: torch.Tensor) -> torch.Tensor:
    return x + torch.full((3, 1), 0.1, device=x.device).sum()


SWITCHES: dict[str, tuple[Switch, Callable[[torch.Tensor], torch.Tensor]]] = {
    "attention": (lambda: sdpa_kernel(SDPBackend.MATH), attention),
    "denormals": (flushed_denormals, small),
    "default dtype": (default_dtype, sum_of_new),
    "deterministic": (deterministic, lambda x: x * 2),
    "cudnn": (lambda: torch.backends.cudnn.flags(enabled=False), lambda x: x * 2),
}


def batch(device: str) -> torch.Tensor:
    return torch.randn(2, 4, 8, 16, device=device)


def calls(fn: Any, x: torch.Tensor) -> list[torch.Tensor]:
    found = []
    for _ in range(CALLS):
        given = x.clone().requires_grad_()
        y = fn(given)
        y.sum().backward()
        found += [y.detach(), given.grad]
    return found


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_is_set_inside_is_refused(device: str, name: str) -> None:
    """No replay would set it."""
    switch, work = SWITCHES[name]

    def fn(x: torch.Tensor) -> torch.Tensor:
        with switch():
            y = work(x * 2)
        return y + 1

    x = batch(device)
    fast: Any = reprise.region(fn)
    assert_same_bits(calls(fast, x), calls(fn, x))
    report = fast.explain()
    assert report.replayed == 0
    assert any("changes inside" in reason for reason in report.reasons), str(report)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_round_the_calls_is_theirs(device: str, name: str) -> None:
    switch, work = SWITCHES[name]
    x = batch(device)
    fast: Any = reprise.region(work)
    for set_there in (False, True, False):
        with switch() if set_there else contextlib.nullcontext():
            assert_same_bits(calls(fast, x), calls(work, x))
    assert fast.explain().replayed > CALLS


def test_autocast_round_a_region_with_a_composite(device: str) -> None:
    theta = torch.randn(2, 2, 3, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(x * 2, [2, 1, 4, 4], align_corners=False) * 1.0

    fast: Any = reprise.region(fn)
    with torch.no_grad():
        for enabled in (False, True):
            with torch.autocast(device, torch.bfloat16, enabled=enabled):
                made = [[each(theta) for _ in range(CALLS)] for each in (fast, fn)]
            assert_same_bits(*made)
    assert fast.explain().replayed > CALLS, str(fast.explain())


@pytest.mark.parametrize("begins", [False, True])
def test_autocast_that_begins_inside_a_composite(device: str, begins: bool) -> None:
    """`affine_grid` has no kernel of autocast's, and calls one that has."""
    theta = torch.randn(2, 2, 3, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=not begins):
            return F.affine_grid(x * 2, [2, 1, 4, 4], align_corners=False) * 1.0

    fast: Any = reprise.region(fn)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=begins):
        found, expected = ([each(theta) for _ in range(CALLS)] for each in (fast, fn))
    assert_same_bits(found, expected)
    assert fast.explain().replayed > 0, str(fast.explain())


@pytest.mark.parametrize("inside", [False, True])
def test_a_backward_pass_under_autocast(device: str, inside: bool) -> None:
    """`convolution_backward` has no kernel of autocast's: it finds autocast on."""

    def autocast(enabled: bool) -> contextlib.AbstractContextManager[Any]:
        # One round all calls would keep the casts of weights from call to call.
        return (
            torch.autocast(device, torch.bfloat16)
            if enabled
            else contextlib.nullcontext()
        )

    def make() -> tuple[nn.Module, Callable[[], torch.Tensor]]:
        torch.manual_seed(1)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5))
        net.to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            with autocast(inside):
                loss = net(x).float().square().mean()
                loss.backward()
            optimizer.step()
            return loss.detach()

        return net, step

    x = torch.randn(2, 3, 8, 8, device=device)
    seen = []
    for ours in (False, True):
        net, step = make()
        run: Any = reprise.region(step) if ours else step
        losses = []
        for _ in range(CALLS):
            with autocast(not inside):
                losses.append(run())
        seen.append([*losses, *net.parameters()])
        if ours:
            assert run.explain().replayed > 0, str(run.explain())
    assert_same_bits(seen[1], seen[0])


def test_autocast_leaves_no_casts_of_weights(device: str) -> None:
    """One that a replay's call made, and nobody drops, would be an old weight's."""
    theta = nn.Parameter(torch.randn(2, 2, 3, device=device))

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            grid = F.affine_grid(theta, [2, 1, 4, 4], align_corners=False)
        return grid.float() + x

    fast: Any = reprise.region(fn)
    x = torch.ones(1, device=device)
    for number in range(2 * CALLS):
        with torch.no_grad():
            assert_same_bits([fast(x)], [fn(x)], f"call {number}")
            theta.mul_(1.5)
    assert fast.explain().replayed > 0, str(fast.explain())


def test_autocast_that_begins_late_round_a_composite(device: str) -> None:
    """What its op computes goes by it, so it is another op."""
    theta = torch.randn(2, 2, 3, device=device)

    def work(late: bool) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=late):
            grid = F.affine_grid(theta * 2, [2, 1, 4, 4], align_corners=False)
        return grid.float() + 1

    expected = [work(number >= 30) for number in range(60)]
    with reprise.session(device, policy="always") as session:
        session.reset()
        found = []
        for number in range(60):
            found.append(work(number >= 30))
            found[-1].sum().item()
            session.wait(60)
        assert session.stats().replays > 20, str(session.explain())
    assert_same_bits(found, expected)


@contextlib.contextmanager
def anomalies() -> Iterator[None]:
    with restored(torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly):
        yield


@contextlib.contextmanager
def default_devices() -> Iterator[None]:
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def cached_casts() -> Iterator[None]:
    switch = torch.set_autocast_cache_enabled
    with restored(torch.is_autocast_cache_enabled, switch):
        yield


LEFT: dict[str, tuple[Switch, Callable[[], None], Callable[[], Any]]] = {
    "anomaly": (
        anomalies,
        lambda: torch.autograd.set_detect_anomaly(True),
        torch.is_anomaly_enabled,
    ),
    "device": (
        default_devices,
        lambda: torch.set_default_device("meta"),
        lambda: str(torch.get_default_device()),
    ),
    "casts": (
        cached_casts,
        lambda: torch.set_autocast_cache_enabled(False),
        torch.is_autocast_cache_enabled,
    ),
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_mode_that_a_call_leaves_on(device: str, name: str) -> None:
    """It stays as eager leaves it: no replay would set it."""
    around, change, read = LEFT[name]

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        change()
        return y

    fast: Any = reprise.region(fn)
    x = batch(device)
    for _ in range(CALLS):
        with around():
            change()
            left = read()
        with around():
            fast(x)
            assert read() == left
    report = fast.explain()
    assert report.replayed == 0
    assert "leaves another mode of torch's on" in str(report)
