"""What a program brings from the host in the middle of a pass, on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import reprise
import skips
import torch
from watching import assert_same_bits, rest, watched

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU),
]

PASSES = 30

Bring = Callable[[torch.Tensor], torch.Tensor]

WAYS: dict[str, Bring] = {
    "to": lambda host: host.to("cuda"),
    "cuda": lambda host: host.cuda(),
    "another dtype": lambda host: host.to("cuda", torch.float64),
    "pinned": lambda host: host.pin_memory().to("cuda", non_blocking=True),
    "not contiguous": lambda host: host.view(8, 8).t().to("cuda").reshape(-1),
    "from a list": lambda host: torch.tensor(host.tolist(), device="cuda"),
    "one number": lambda host: host[:1].to("cuda"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_comes_from_the_host_is_this_passes(way: str) -> None:
    """The whole pass is followed; what is before and behind the copy is replayed."""
    bring = WAYS[way]
    x = torch.rand(64, device="cuda")
    sent = [torch.rand(64) for _ in range(PASSES)]
    shares: list[float] = []

    def run(session: reprise.Session | None) -> list[torch.Tensor]:
        kept = []
        for host in sent:
            before = session.stats() if session else None
            h = (x * 2).sin() + 1
            h = (h * bring(host)).cos() * 3
            for _ in range(4):
                h = h + x
            kept.append(h)
            if session and before:
                during = session.stats().since(before)
                shares.append(during.followed / during.ops)
                rest(session)
        return kept

    with watched("cuda") as session:
        found = run(session)
    assert_same_bits(found, run(None))
    assert max(shares) == 1.0, shares


def test_masks_of_other_sizes_are_other_traces() -> None:
    x = torch.rand(64, device="cuda")

    def step(size: int, number: int) -> torch.Tensor:
        h = (x * 2).sin()[:size] + 1
        mask = torch.arange(size) % (number + 2) == 0
        return torch.where(mask.to("cuda"), h, -h) * 3

    with watched("cuda") as session:
        found = []
        for number in range(3 * PASSES):
            found.append(step(64 if number % 2 else 32, number))
            rest(session)
    expected = [step(64 if n % 2 else 32, n) for n in range(3 * PASSES)]
    assert_same_bits(found, expected)


def test_what_is_brought_and_kept_outlives_its_pass() -> None:
    x = torch.rand(64, device="cuda")
    kept = []
    with watched("cuda") as session:
        for number in range(PASSES):
            brought = torch.full((64,), float(number)).to("cuda")
            h = x + brought
            for _ in range(6):
                h = h * 0.5
            kept.append(brought)
            rest(session)
    for number, brought in enumerate(kept):
        assert bool((brought == number).all())


def test_what_is_brought_is_written_by_the_pass() -> None:
    """It is the program's memory by then: the write waits for its turn."""
    x = torch.rand(64, device="cuda")
    sent = [torch.rand(64) for _ in range(PASSES)]

    def step(host: torch.Tensor) -> torch.Tensor:
        h = (x * 2).sin()
        brought = host.to("cuda")
        brought.mul_(h)
        return brought.add_(1).relu() * h

    with watched("cuda") as session:
        found = []
        for host in sent:
            found.append(step(host))
            rest(session)
        assert session.stats().effects > 0
    assert_same_bits(found, [step(host) for host in sent])


def test_a_copy_into_a_tensor_that_exists_is_a_cut() -> None:
    out, x = torch.zeros(64, device="cuda"), torch.rand(64, device="cuda")
    sent = [torch.rand(64) for _ in range(PASSES)]

    def step(host: torch.Tensor) -> torch.Tensor:
        h = x * 2
        torch.ops.aten._to_copy.out(host, out=out)
        h = out * h
        for _ in range(6):
            h = h.sin() + 1
        return h

    with watched("cuda") as session:
        found = []
        for host in sent:
            found.append(step(host))
            rest(session)
        assert "_to_copy.out: host operand" in str(session.explain())
    assert_same_bits(found, [step(host) for host in sent])
