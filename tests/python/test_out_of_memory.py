"""A GPU that is full: plans give way to what the program allocates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import reprise
import skips
import torch
from watching import BUILD_TIMEOUT_S, SETTLING_CALLS, assert_same_bits

pytestmark = pytest.mark.gpu

ELEMENTS = 32 << 20  # of a value of the pass: 128 MiB
STATES = 8
LARGE = {"max_arena_bytes": 8 << 30, "plan_budget_bytes": 8 << 30}


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    if skips.gpus() == 0:
        pytest.skip(skips.NO_GPU)
    torch.manual_seed(3)
    torch.cuda.empty_cache()
    with torch.no_grad():
        yield


def _step(x: torch.Tensor) -> torch.Tensor:
    """Needs all its large values at once, and returns a small one."""
    states = [x + 0.5]
    for _ in range(STATES):
        states.append(torch.tanh(states[-1]))
    total = states[0].clone()
    for state in states[1:]:
        total.add_(state)
    return total[:4096].clone()


def _call(session: reprise.Session, x: torch.Tensor, calls: int) -> list[torch.Tensor]:
    """The results of the later calls, which lie in memory of their own.

    The last result is alive at each call, so that all but the first ones escape.
    """
    kept = []
    for _ in range(calls):
        kept.append(_step(x))
        kept = kept[-(calls // 4) :]
        assert session.wait(BUILD_TIMEOUT_S)
    return kept


def _uint8(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def _free() -> int:
    """Bytes of the device, with nothing cached that torch could give back."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def _warm(session: reprise.Session, x: torch.Tensor) -> tuple[list[torch.Tensor], int]:
    """Kept results of replays, and the bytes of the plan behind them."""
    session.reset()
    kept = _call(session, x, 2 * SETTLING_CALLS)
    stats = session.stats()
    assert stats.replays > 0, str(session.explain())
    assert stats.plan_bytes > STATES * ELEMENTS * 4, str(session.explain())
    return kept, stats.plan_bytes


def _check_recovery(
    session: reprise.Session,
    x: torch.Tensor,
    kept: list[torch.Tensor],
    expected: torch.Tensor,
) -> None:
    before = session.stats()
    assert before.plan_bytes == 0
    assert "memory ran short" in str(session.explain().to_dict())
    kept += _call(session, x, 2 * SETTLING_CALLS)
    after = session.stats().since(before)
    assert after.recorded >= 2, str(session.explain())
    assert after.replays > 0, str(session.explain())
    for number, found in enumerate(kept):
        assert_same_bits(found, expected, f"result {number}")


def test_an_allocation_takes_the_arenas_place() -> None:
    """It is larger than what is left, and smaller than that and the arena."""
    x = torch.randn(ELEMENTS, device="cuda")
    expected = _step(x)
    with reprise.session("cuda", policy="always", **LARGE) as session:
        kept, plan_bytes = _warm(session, x)
        total = torch.cuda.mem_get_info()[1]
        filler = _uint8(_free() - total // 32)
        assert session.stats().plan_bytes == plan_bytes, "there was room for this"
        size = _free() + plan_bytes // 2
        taken = _uint8(size).fill_(7)
        assert session.stats().plan_bytes == 0
        del filler, taken
        _free()
        _check_recovery(session, x, kept, expected)


def test_the_next_try_after_an_error_succeeds() -> None:
    """Where much is free, only a failure tells that more is needed."""
    x = torch.randn(ELEMENTS, device="cuda")
    expected = _step(x)
    with reprise.session("cuda", policy="always", **LARGE) as session:
        kept, plan_bytes = _warm(session, x)
        size = _free() + plan_bytes // 2
        with pytest.raises(torch.OutOfMemoryError):
            _uint8(size)
        assert session.stats().plan_bytes == 0
        taken = _uint8(size)
        del taken
        _free()
        _check_recovery(session, x, kept, expected)


def test_plans_of_a_session_that_is_off_give_way_too() -> None:
    x = torch.randn(ELEMENTS, device="cuda")
    expected = _step(x)
    with reprise.session("cuda", policy="always", **LARGE) as session:
        kept, plan_bytes = _warm(session, x)
    total = torch.cuda.mem_get_info()[1]
    filler = _uint8(_free() - total // 32)
    taken = _uint8(_free() + plan_bytes // 2)
    assert session.stats().plan_bytes == 0
    del filler, taken
    for number, found in enumerate(kept):
        assert_same_bits(found, expected, f"result {number}")
