"""A region beside a twin that runs its Python: results and states are compared in each call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 12

Program = tuple[Callable[..., Any], Callable[[], Any]]  # a callable, and its state


def batch(device: str) -> torch.Tensor:
    return torch.randn(8).to(device)


def ones(device: str) -> torch.Tensor:
    return torch.ones(8).to(device)


def linear(device: str) -> nn.Linear:
    torch.manual_seed(3)
    return nn.Linear(8, 8).to(device)


def eagerly(device: str, fn: Callable[..., Any], *args: Any) -> Any:
    with reprise.session(device, enabled=False):
        return fn(*args)


class Told:
    """What a region tells of itself."""

    fast: Any

    def replayed(self) -> int:
        found: int = self.fast.explain().replayed
        return found

    def reasons(self) -> str:
        return "; ".join(self.fast.explain().reasons)


class Pair(Told):
    """A region and its twin that runs its Python, each with a state of its own."""

    def __init__(self, device: str, make: Callable[[str], Program]) -> None:
        self.device = device
        fn, self.state = make(device)
        self.twin, self.twins_state = make(device)
        self.fast = reprise.region(fn)

    def call(self, *args: Any) -> None:
        """Both, with a tensor of this call; compares results and states."""
        x = batch(self.device)
        with_own = [copy.copy(each) for each in args]
        assert_same(self.fast(x, *args), eagerly(self.device, self.twin, x, *with_own))
        assert_same(self.state(), self.twins_state())

    def calls(self, count: int = CALLS, *args: Any) -> int:
        """Return how many of them were replayed."""
        before = self.replayed()
        for _ in range(count):
            self.call(*args)
        return self.replayed() - before


def assert_same(mine: Any, other: Any) -> None:
    """Tensors of the same bits in the same containers, in the same order."""
    assert type(mine) is type(other)
    if isinstance(mine, torch.Tensor):
        assert_same_bits(mine, other)
    elif isinstance(mine, dict):
        assert list(mine) == list(other)
        assert_same(list(mine.values()), list(other.values()))
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(other)
        for one, two in zip(mine, other, strict=True):
            assert_same(one, two)
    else:
        assert mine == other
