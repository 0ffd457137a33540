"""Memory that composite operators, or nobody, write between two ops of a trace.

A composite operator (`F.ctc_loss`, `SobolEngine`) may fill memory through a pointer: no op
tells of that, and what reads the memory must not run before it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hazards import same_as_eager
from registry import raw_writes
from watching import assert_same_bits, followed_share, rest, watched

PASSES = 40
NEVER_WRITTEN = "reads memory without content"
WRITTEN_PAST = "written past the operators"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


_LENGTHS: dict[str, Callable[[int, int], torch.Tensor]] = {
    "the same": lambda number, batch: torch.full((batch,), 4),
    "none": lambda number, batch: torch.zeros(batch, dtype=torch.long),
    "none at first": lambda number, batch: (
        (torch.arange(batch) % 4 + 1) * (number >= 20)
    ),
    "new ones": lambda number, batch: (torch.arange(batch) + number) % 4 + 1,
}


@pytest.mark.parametrize("batch", [2, 64, 3000])
@pytest.mark.parametrize("lengths", _LENGTHS)
def test_lengths_of_targets(device: str, lengths: str, batch: int) -> None:
    """`ctc_loss` copies them from the host into memory that an `empty` has made."""
    held = {number: _LENGTHS[lengths](number, batch) for number in range(PASSES)}
    if lengths in ("the same", "none"):
        held = dict.fromkeys(held, held[0])
    elif lengths == "none at first":
        held = {number: held[0 if number < 20 else 20] for number in held}

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(3)
        targets = torch.randint(1, 5, (batch, 4), device=device)
        inputs, seen = torch.full((batch,), 10), []
        for number in range(PASSES):
            x = torch.randn(10, batch, 5, device=device).log_softmax(-1)
            loss = F.ctc_loss(x, targets, inputs, held[number], zero_infinity=True)
            seen.append(loss * 2 + 1)
            tick()
        return seen

    same_as_eager(device, run)


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("since", [0, 20])
def test_a_sobol_engine_that_moves(since: int, period: int) -> None:
    """Its operators write their arguments: a replay that has read them is left before."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        engine = torch.quasirandom.SobolEngine(8, scramble=True, seed=5)
        weight, seen = torch.ones(8), []
        for number in range(PASSES):
            a = weight * 2 + 1
            if number >= since and number % period == 0:
                engine.fast_forward(3)
            seen.append(engine.quasi * 1 + a)
            if number % 5 == 4:
                seen.append(engine.draw(2))
            tick()
        return seen

    same_as_eager("cpu", run)


def test_memory_that_is_written_unseen_between_two_reads() -> None:
    """An array that was made before the first pass writes it: a recording finds out."""

    def run(tick: Callable[[], object]) -> list[torch.Tensor]:
        weight = torch.linspace(0, 1, 64)
        array, seen = weight.numpy(), []
        for number in range(PASSES):
            a = (weight * 2).tanh() + 1
            array[number] += 1
            seen.append((a + weight).sin() * 3)
            tick()
        return seen

    _, report = same_as_eager("cpu", run)
    assert WRITTEN_PAST in str(report)
    assert "gave other bits" not in str(report)


def _shares(
    device: str, one_pass: Callable[[torch.Tensor], Any]
) -> tuple[float, dict[str, Any]]:
    """As eager; the share that is followed at last, and the report."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        inputs = [torch.randn(6, 4, device=device) for _ in range(PASSES)]
    found = []
    with watched(device) as session:
        for number, x in enumerate(inputs):
            if number == PASSES - 10:
                before = session.stats()
            found.append(one_pass(x))
            rest(session)
        share, report = followed_share(session, before), session.explain().to_dict()
    assert_same_bits(found, [one_pass(x) for x in inputs])
    return share, report


def _by_columns(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(6, 2, device=x.device)
    made[:, 0] = x[:, 0]
    made[:, 1] = x[:, 1] * 2
    return made.tanh() + 1


def _by_out(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(x)
    torch.sin(x, out=made)
    return made.tanh() + 1


def _scratch(x: torch.Tensor) -> torch.Tensor:
    """With `beta=0` it is not read."""
    scores = torch.empty(1, 6, 6, device=x.device)
    made = torch.baddbmm(scores, x[None], x.t()[None], beta=0, alpha=0.5)
    return made.tanh() + torch.zeros_like(scores)


def _nothing(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(0, 4, device=x.device)
    return torch.cat([made, x]).tanh() + 1


def _a_part(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(6, 2, device=x.device)
    made[:, 0] = x[:, 0]
    return made[:, 0].tanh() + 1


@pytest.mark.parametrize(
    "one_pass", [_by_columns, _by_out, _scratch, _nothing, _a_part]
)
def test_memory_that_ops_have_written_is_read_ahead(
    device: str, one_pass: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Before it is read, that is all of it that is read; or it is not read at all."""
    share, report = _shares(device, one_pass)
    assert share > 0.95
    assert not [row for row in report["cuts"] if NEVER_WRITTEN in row["reason"]]


def test_memory_that_ops_have_not_written_is_not_read_ahead(device: str) -> None:
    """Of two columns one: the trace ends before the op that reads both."""
    held = []  # a trace that came once is expected again where its storage is

    def one_pass(x: torch.Tensor) -> torch.Tensor:
        made = torch.empty(6, 2, device=x.device)
        held.append(made)
        made[:, 0] = x[:, 0]
        read = made.mul(2)
        return (read[:, 0] + 1).tanh()

    share, report = _shares(device, one_pass)
    assert share > 0.95  # two traces
    assert [row for row in report["cuts"] if NEVER_WRITTEN in row["reason"]]


def test_what_is_empty_is_filled_where_it_shall_be() -> None:
    """With `fill_uninitialized_memory`, `empty` has content: that is eager's."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        share, report = _shares("cpu", lambda x: torch.empty(3).isnan() * x[:, :3] + 1)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = before
    assert share > 0.95
    assert not [row for row in report["cuts"] if NEVER_WRITTEN in row["reason"]]


# --- What finds them ------------------------------------------------------------------


def test_composites_that_write_past_their_operators_are_in_the_table() -> None:
    """A part of the sweep, which takes minutes (registry/raw_writes.py)."""
    only = ["_sobol_engine", "ctc_loss", "pad_sequence", "aten::cross"]
    done = subprocess.run(
        [sys.executable, raw_writes.__file__, "--only", *only],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.partition(" past")[0] for line in done.stdout.splitlines()}
    for name in raw_writes.table():
        assert f"{name}: writes an argument" in found
    assert "aten::ctc_loss.IntList: writes its own memory" in found
    assert not any("pad_sequence" in line or "cross" in line for line in found)


def test_a_composite_that_writes_past_its_operators_is_found() -> None:
    """Through an array over its argument's memory, or over its own."""
    x = torch.ones(8)
    array = x.numpy()

    def argument() -> torch.Tensor:
        y = x * 2
        array[3] = 7
        return y + x

    def own() -> torch.Tensor:
        made = torch.empty(8)
        made.numpy()[:] = np.arange(8)
        return made * x

    assert raw_writes.writes(argument, [x]) == {"an argument"}
    assert raw_writes.writes(own, [x]) == {"its own memory"}
    assert raw_writes.writes(lambda: (x * 2).add_(1), [x]) == set()
