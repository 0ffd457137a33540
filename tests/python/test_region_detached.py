"""What calls hand out of detach, which replays make without it: gradients, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, rest, watched

CALLS = 10


def traits(tensor: torch.Tensor) -> list[Any]:
    """What a program can ask a tensor, beside its elements."""
    try:
        tensor.resize_(1)
        resizes = "yes"
    except RuntimeError as error:
        resizes = str(error).splitlines()[0]
    return [
        tensor._version,
        tensor._is_view(),
        tensor._base is None,
        tensor.is_leaf,
        tensor.requires_grad,
        tensor.grad_fn is None,
        getattr(tensor, "names", None),
        tensor.stride(),
        tensor.storage_offset(),
        resizes,
    ]


def learns(device: str) -> tuple[Callable[[torch.Tensor], Any], Callable[[], Any]]:
    """A step of training; its gradients are detached."""
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).to(device)

    def step(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    return step, lambda: [p.grad for p in net.parameters()]


def writes_what_it_detached(
    device: str,
) -> tuple[Callable[[torch.Tensor], Any], Callable[[], Any]]:
    """The count of writes is one with that of what it was detached from."""

    @torch.no_grad()
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        made = x.sin()
        shown = made.t().detach()
        made.mul_(2)
        return [shown, made]

    return step, list


def detaches_twice(
    device: str,
) -> tuple[Callable[[torch.Tensor], Any], Callable[[], Any]]:
    """One is written, one is a view of the other, one has a view beside it."""

    @torch.no_grad()
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        first = x.sin().detach()
        second = first.detach()
        third = x.cos()[:, 1:].detach()
        third.add_(1)
        return [first, second, third, x.exp().detach().t()]

    return step, list


Make = Callable[[str], tuple[Callable[[torch.Tensor], Any], Callable[[], Any]]]
MAKES = (learns, writes_what_it_detached, detaches_twice)


def left(make: Make, device: str, wrap: Any, wait: Any) -> tuple[Any, list[Any], Any]:
    torch.manual_seed(0)
    step, more = make(device)
    fn = wrap(step)
    found = []
    asked = []
    for _ in range(CALLS):
        wait()
        result = fn(torch.randn(2, 4).to(device))
        every = [*(result if isinstance(result, list) else [result]), *more()]
        found.append([each.clone() for each in every])
        # Who shares a count of writes, and memory.
        every[0].add_(1)
        found.append([each.clone() for each in every])
        asked.append([traits(each) for each in every])
    return fn, found, asked


@pytest.mark.parametrize("by_plans", [False, True])
@pytest.mark.parametrize("make", MAKES)
def test_detached_results(device: str, make: Make, by_plans: bool) -> None:
    _, expected, theirs = left(make, device, lambda fn: fn, lambda: None)
    if by_plans:
        with watched(device) as session:
            fn, found, ours = left(make, device, reprise.region, lambda: rest(session))
            assert session.stats().replays > 0
    else:
        fn, found, ours = left(make, device, reprise.region, lambda: None)
    assert_same_bits(found, expected)
    assert ours == theirs
    assert fn.explain().replayed >= CALLS - 4, str(fn.explain())
