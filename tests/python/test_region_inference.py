"""Inference mode that begins inside of a callable, round all of its operators."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, rest, watched

CALLS = 10
Fn = Callable[..., Any]


def net_of(device: str) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout()).to(device)


def decorated(device: str) -> Fn:
    net = net_of(device)

    @torch.inference_mode()
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        y = net(x)
        for _ in range(3):
            y = y + torch.randn_like(y)
        return [y, y.t()[1:], x.view(-1)[2:], net[0].weight.t(), net[0].bias]

    return fn


def within(device: str) -> Fn:
    net = net_of(device)

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.inference_mode():
            y = net(x)
            y.add_(1)
            net[0].bias.mul_(0.5)
        return [y]

    return fn


def nested(device: str) -> Fn:
    net = net_of(device)

    @torch.inference_mode()
    def inner(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = net(x)
        return y

    @torch.inference_mode()
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            return [inner(x), torch.stack([x, x])]

    return fn


def reads(device: str) -> Fn:
    @torch.inference_mode()
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        return [y.cos() if x.sum() > 0 else y.sin()]

    return fn


MAKES = [decorated, within, nested, reads]


def traits(tensor: torch.Tensor) -> list[Any]:
    inference = tensor.is_inference()
    version = None if inference else tensor._version
    return [inference, version, tensor.requires_grad, tensor.is_leaf, tensor._is_view()]


def compare(ours: Fn, plain: Fn, x: torch.Tensor, call: int) -> None:
    found = []
    for fn in (ours, plain):
        torch.manual_seed(call)
        made = fn(x)
        found.append([*made, torch.rand(3)])
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
    assert_same_bits(*found, f"call {call}")
    assert [*map(traits, found[0])] == [*map(traits, found[1])], call


@pytest.mark.parametrize("by_plans", [False, True])
@pytest.mark.parametrize("make", MAKES)
def test_all_operators_are_inside(device: str, make: Any, by_plans: bool) -> None:
    plain, fast = make(device), reprise.region(make(device))
    xs = [torch.randn(3, 4, device=device) for _ in range(CALLS)]
    if by_plans:
        with watched(device) as session:
            for call, x in enumerate(xs):
                rest(session)
                compare(fast, plain, x, call)
    else:
        for call, x in enumerate(xs):
            compare(fast, plain, x, call)
    report = fast.explain()
    assert report.replayed >= CALLS - 6, str(report)


def test_other_modes_round_the_call_in_turn(device: str) -> None:
    plain, fast = decorated(device), reprise.region(decorated(device))
    modes: list[Any] = [torch.inference_mode, torch.no_grad, torch.enable_grad]
    for call in range(10 * len(modes)):
        x = torch.randn(3, 4, device=device, requires_grad=call % 2 == 0)
        found = []
        for fn in (fast, plain):
            torch.manual_seed(call)
            with modes[call % len(modes)]():
                found.append(fn(x))
        assert_same_bits(*found)
        assert [*map(traits, found[0])] == [*map(traits, found[1])], call
    assert fast.explain().replayed >= 12, str(fast.explain())


def test_a_callable_that_begins_it_or_not(device: str) -> None:
    """The same operators, in the mode and outside: each replays its own."""

    def fn(x: torch.Tensor, inside: torch.Tensor) -> list[torch.Tensor]:
        with torch.inference_mode(bool(flag[0])):
            return [x * 2 + inside, x.view(-1)]

    flag = [True]
    fast = reprise.region(fn)
    for call in range(4 * CALLS):
        flag[0] = call % 3 != 0
        x, y = torch.randn(3, 4, device=device), torch.randn(4, device=device)
        found, expected = fast(x, y), fn(x, y)
        assert_same_bits(found, expected)
        assert [*map(traits, found)] == [*map(traits, expected)]
    assert fast.explain().replayed >= 2 * CALLS, str(fast.explain())


def before(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    with torch.inference_mode():
        return y * 2


def behind(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        y = x * 2
    return y + 1


def left_for_one(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            z = x + 1
        return y * z


@pytest.mark.parametrize("fn", [before, behind, left_for_one])
def test_operators_outside_are_refused(device: str, fn: Fn) -> None:
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(3, device=device)
        with torch.no_grad():
            found, expected = fast(x), fn(x)
        assert_same_bits([found], [expected])
        assert traits(found) == traits(expected)
    report = fast.explain()
    assert report.replayed == 0
    assert "inference mode begins or ends between operators" in str(report)


def test_an_error_inside_leaves_the_mode(device: str) -> None:
    @torch.inference_mode()
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x) * 2

    fast: Any = reprise.region(fn)
    good = torch.eye(3, device=device)
    for call in range(CALLS):
        if call % 4 == 3:
            with pytest.raises(torch.linalg.LinAlgError):
                fast(-good)
        else:
            assert_same_bits([fast(good)], [fn(good)])
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
    assert fast.explain().replayed >= 3, str(fast.explain())


def test_what_it_makes_is_kept_from_call_to_call(device: str) -> None:
    """A tensor of inference mode in a place that calls set, and one of another in turn."""

    class Model:
        def __init__(self) -> None:
            self.last = torch.zeros(4, device=device)

        @torch.inference_mode()
        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.last = self.last * 0.5 + x
            return self.last.sin()

    ours, plain = Model(), Model()
    fast: Any = reprise.region(ours.step)
    for call in range(2 * CALLS):
        x = torch.randn(4, device=device)
        if call % 7 == 6:
            for each in (ours, plain):
                each.last = torch.ones(4, device=device)
        found, expected = [fast(x), ours.last], [plain.step(x), plain.last]
        assert_same_bits(found, expected)
        assert [*map(traits, found)] == [*map(traits, expected)], call
    assert fast.explain().replayed >= CALLS, str(fast.explain())


def test_a_copy_of_a_region(device: str) -> None:
    model = net_of(device).eval()
    model.forward = torch.inference_mode()(model.forward)  # type: ignore[method-assign]
    fast: Any = reprise.region(model)
    for _ in range(CALLS):
        x = torch.randn(3, 4, device=device)
        found, expected = fast(x), model(x)
        assert_same_bits([found], [expected])
        assert traits(found) == traits(expected)
    assert fast.explain().replayed >= CALLS - 4, str(fast.explain())
    assert copy.deepcopy(fast) is not fast
