"""A program that does something awkward between two of its ops, and eager's results."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from watching import assert_same_bits, rest, watched

PASSES = 40
LATE = 18  # a pass at which what repeats has long been replayed
WIDTH = 16


@dataclasses.dataclass
class Point:
    """Where a program is, between two ops of a pass."""

    device: str
    x: torch.Tensor  #: the input, made for this pass
    w: torch.Tensor  #: the weight, the same at every pass
    h: torch.Tensor  #: what the last op made; the next op reads it
    seen: list[torch.Tensor]  #: what the ops before made
    number: int  #: of the pass
    memo: dict[str, Any]  #: what the hazard keeps between its passes


#: Does it, and returns what the program keeps of it; all of that is compared, too.
Hazard = Callable[[Point], Any]

# In place and not, with views, over several segments of a plan.
_OPS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda h, w: h @ w,
    lambda h, w: h.relu_(),
    lambda h, w: h + 0.5,
    lambda h, w: h.mul_(0.75),
    lambda h, w: torch.softmax(h, -1),
    lambda h, w: h.t().contiguous(),
    lambda h, w: h - w,
    lambda h, w: h.tanh_(),
    lambda h, w: h @ w.t(),
    lambda h, w: torch.cat([h, w], 1)[:, ::2],
    lambda h, w: h.sub_(0.25),
    lambda h, w: h.abs() * h,
    lambda h, w: h.neg_(),
    lambda h, w: h.sum(0, keepdim=True) + h,
]


@dataclasses.dataclass(frozen=True)
class Case:
    """In which passes a program does it, and before which op."""

    name: str
    when: Callable[[int], bool]
    place: int


_CASES = [
    Case("always", lambda number: True, 10),
    Case("from late on", lambda number: number >= LATE, 4),
    Case("late, near the end", lambda number: number >= LATE, 13),
    Case("now and then", lambda number: number % 5 == 4, 1),
]
#: For tests of hazards: all that a `Case` may be.
cases = pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)


def run_pass(
    device: str,
    x: torch.Tensor,
    w: torch.Tensor,
    hazard: Hazard,
    case: Case,
    number: int,
    memo: dict[str, Any],
) -> list[Any]:
    """What one pass makes: of the hazard, and of each op."""
    kept: list[Any] = []
    h, seen = x, []
    for index, op in enumerate(_OPS):
        if index == case.place and case.when(number):
            point = Point(device, x, w, h, seen, number, memo)
            kept.append(hazard(point))
            h = point.h
        h = op(h, w)
        seen.append(h)
    return [*kept, seen if number % 3 == 0 else h]


def walk(
    device: str, hazard: Hazard, case: Case, wait: Callable[[], object]
) -> list[Any]:
    """All that the passes of a program make which does `hazard` in their midst."""
    with reprise.session(device, enabled=False):  # no pass of its own
        torch.manual_seed(7)
        w = torch.randn(WIDTH, WIDTH, device=device)
        inputs = [torch.randn(WIDTH, WIDTH, device=device) for _ in range(PASSES)]
    memo: dict[str, Any] = {}
    kept: list[Any] = []
    for number in range(PASSES):
        x = inputs.pop()  # no longer alive after its pass
        kept += run_pass(device, x, w, hazard, case, number, memo)
        wait()
    return kept


def same_as_eager(
    device: str, run: Callable[[Callable[[], object]], Any], *, why_not: str = ""
) -> tuple[reprise.Stats, reprise.Report]:
    """Run a program under Reprise and then by eager alone, and compare what it made.

    `run` makes all that it works on, seeded, and calls its argument between passes,
    which waits for builds (`rest`). It is replayed; or nothing of it can be, and
    `why_not` is a part of what `explain()` says about that.
    """
    with watched(device, replays=not why_not) as session:
        found = run(lambda: rest(session))
        stats, report = session.stats(), session.explain()
    assert_same_bits(found, run(lambda: None))
    if why_not:
        assert stats.replays == 0, str(report)
        assert why_not in str(report)
    return stats, report


def check_case(
    device: str, hazard: Hazard, case: Case, *, why_not: str = ""
) -> tuple[reprise.Stats, reprise.Report]:
    """`same_as_eager` for a walk."""
    return same_as_eager(
        device, lambda wait: walk(device, hazard, case, wait), why_not=why_not
    )


@contextlib.contextmanager
def restored(read: Callable[[], Any], write: Callable[[Any], object]) -> Iterator[None]:
    """Puts a switch of torch's back to what it was."""
    before = read()
    try:
        yield
    finally:
        write(before)


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Denormal numbers count as nothing. Nobody can ask whether they did before."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No gradients, and one thread, so that small ops do not wait for others."""
    threads = torch.get_num_threads()
    with torch.no_grad(), restored(lambda: threads, torch.set_num_threads):
        torch.set_num_threads(1)
        yield
