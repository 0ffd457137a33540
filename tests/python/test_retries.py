"""An op that raises once is replayed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hazards
import pytest
import reprise
import torch
import torch.nn.functional as F
from watching import watched

PASSES = 120


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _followed(stats: reprise.Stats) -> float:
    return stats.followed / max(stats.ops, 1)


def _check(one_pass: Callable[[int], Any], device: str) -> float:
    """As eager; the share that is followed in the last twenty passes."""
    with watched(device) as session:
        found = []
        for number in range(PASSES):
            if number == PASSES - 20:
                before = session.stats()
            found.append(one_pass(number))
            assert session.wait(60)
        late = session.stats().since(before)
    assert found == [one_pass(number) for number in range(PASSES)]
    return _followed(late)


@pytest.mark.parametrize("when", [0, 3, 5, 8, 40])
@pytest.mark.parametrize("kind", ["embedding", "index"])
def test_one_error_is_forgotten(kind: str, when: int) -> None:
    """While the op is watched, recorded or validated, or in a replay of it.

    (On a GPU a bad index ends the device.)
    """
    table, weight = torch.linspace(0, 1, 64).view(16, 4), torch.eye(4)
    indices = torch.arange(4)

    def one_pass(number: int) -> Any:
        h = (weight * 2 + 1) @ weight
        at = indices + 64 * (number == when)
        try:
            y = F.embedding(at, table) if kind == "embedding" else table[at]
        except IndexError:
            y = h.neg()
        return (y * h).tanh().sum(1).add(1).tolist()

    assert _check(one_pass, "cpu") > 0.85


@pytest.mark.parametrize("when", [0, 8, 40])
def test_one_error_of_sizes_is_forgotten(device: str, when: int) -> None:
    """Another op raises than the one that is replayed."""
    weight = torch.eye(4, device=device)

    def one_pass(number: int) -> Any:
        h = weight * 2 + 1
        try:
            y = h @ (weight if number != when else weight[:3])
        except RuntimeError:
            y = h.neg()
        return (y * h).tanh().sum(1).add(1).tolist()

    assert _check(one_pass, device) > 0.7


def test_what_raises_now_and_then_is_mostly_replayed() -> None:
    """Every thirtieth pass."""
    table, weight = torch.linspace(0, 1, 64).view(16, 4), torch.eye(4)
    indices = torch.arange(4)

    def one_pass(number: int) -> Any:
        h = (weight * 2 + 1) @ weight
        at = indices + 64 * (number % 30 == 29)
        try:
            y = F.embedding(at, table)
        except IndexError:
            y = h.neg()
        return (y * h).tanh().sum(1).add(1).tolist()

    assert _check(one_pass, "cpu") > 0.6
