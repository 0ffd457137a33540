"""Where passes begin and end is found in programs that tell nothing of it."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator

import pytest
import reprise
import torch
from torch import nn
from watching import BUILD_TIMEOUT_S, assert_same_bits

WARM = 60  # passes
PASSES = 120
KEPT = 8  # the results of so many

# A program's pass of that number, and what it has made.
Step = Callable[[int], list[torch.Tensor]]


def check(device: str, make: Callable[[str], Step], share: float = 0.9) -> None:
    """The last passes are eager's, and most ops behind the first ones are replayed.

    What is compared is looked at behind all: a look would tell where passes end.
    """
    torch.manual_seed(1)
    plain = make(device)
    expected = [plain(i) for i in range(PASSES)][-KEPT:]
    torch.manual_seed(1)
    step = make(device)
    found: collections.deque[list[torch.Tensor]] = collections.deque(maxlen=KEPT)
    with _session(device) as session:
        before = session.stats()
        for i in range(PASSES):
            if i == WARM:
                before = session.stats()
            found.append(step(i))
            session.wait(BUILD_TIMEOUT_S)
        now = session.stats().since(before)
        assert now.followed >= share * now.ops, str(session.explain())
    for number, (mine, eagers) in enumerate(zip(found, expected, strict=True)):
        assert_same_bits(mine, eagers, f"pass {PASSES - KEPT + number}")


@contextlib.contextmanager
def _session(device: str) -> Iterator[reprise.Session]:
    with reprise.session(device, policy="always") as session:
        session.reset()
        yield session


@pytest.mark.parametrize("every", [0, 10, 16])
def test_a_look_at_a_number_now_and_then(device: str, every: int) -> None:
    """Each pass begins with a draw, which no operand tells from others."""

    def make(device: str) -> Step:
        weight = torch.randn(6, 6, device=device)
        total = torch.zeros(6, 6, device=device)

        def step(number: int) -> list[torch.Tensor]:
            h = (torch.randn(6, 6, device=device) @ weight + 1).relu()
            h = (h.sin() if number % 3 == 0 else h.cos()) * 0.5
            h = (h.exp().clamp(0, 2) - 0.5).abs()
            total.add_(h)
            if every and number % every == 0:
                h.sum().item()
            return [h, total]

        return step

    check(device, make)


@pytest.mark.parametrize("looks", [False, True])
def test_lengths_in_turn_and_results_of_passes_before(device: str, looks: bool) -> None:
    def make(device: str) -> Step:
        net = nn.Sequential(nn.LayerNorm(10), nn.Linear(10, 20), nn.GELU())
        net = net.append(nn.Linear(20, 10)).eval().to(device)
        window: list[torch.Tensor] = []

        @torch.no_grad()
        def step(number: int) -> list[torch.Tensor]:
            y = net(torch.randn(4, 10, device=device))
            for _ in range(1 + number % 3):
                y = net(y) + 0.5 * y
            window[:] = [*window, y][-2:]
            z = torch.stack(window).mean(0)
            if looks:
                z.sum().item()
            return [y, z]

        return step

    check(device, make)


def test_derivatives_of_slices_in_forward_mode(device: str) -> None:
    """Torch makes their zeros in storages as large as those of the slices."""

    def make(device: str) -> Step:
        x = torch.randn(3, 5, device=device)
        one = torch.ones(5, device=device)

        def step(number: int) -> list[torch.Tensor]:
            row = x[number % 2]
            return list(torch.func.jvp(lambda a: (a * a.sin()).sum(), (row,), (one,)))

        return step

    check(device, make)


def test_a_zero_has_the_storage_of_what_it_is_like(device: str) -> None:
    """A slice of a larger tensor is another op's operand, if its form is the same."""
    zeros_like = torch.ops.aten._new_zeros_with_same_feature_meta.default

    def make(device: str) -> Step:
        one = torch.ones(4, device=device)
        lengths = [4, 8, 4, 12]

        def step(number: int) -> list[torch.Tensor]:
            like = torch.ones(lengths[number // 8 % 4], device=device)[:4]
            made = zeros_like(one * 2, like)
            (made + 1).sum().item()
            assert made.untyped_storage().nbytes() == like.untyped_storage().nbytes()
            return [made, made + 1]

        return step

    check(device, make, 0.5)
