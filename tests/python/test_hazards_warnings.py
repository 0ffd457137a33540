"""Warnings of ops come once, from the line that eager's come from, or as its error."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import pytest
import reprise
import torch
from watching import watched

PASSES = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _std(x: torch.Tensor) -> torch.Tensor:
    """Warns: there are no degrees of freedom."""
    return x[:, :1].std(dim=1)


def _resized(x: torch.Tensor) -> torch.Tensor:
    """Warns: `out` has another size."""
    return torch.sin(x, out=torch.empty(1, device=x.device))


def _alike(
    device: str, run: Callable[[Callable[[], object]], list[Any]]
) -> tuple[int, int]:
    """Under Reprise and by eager, equal; the ops seen, and those that were followed."""
    with watched(device) as session:
        found = run(lambda: session.wait(60))
        stats = session.stats()
    assert found == run(lambda: None)
    return stats.ops, stats.followed


@pytest.mark.parametrize("warns", [_std, _resized])
@pytest.mark.parametrize("since", [0, 25])
def test_a_warning_comes_once_and_at_its_op(
    device: str, warns: Callable[[torch.Tensor], torch.Tensor], since: int
) -> None:
    """From the first pass on, or when all else has long been replayed."""

    def run(tick: Callable[[], object]) -> list[Any]:
        x, seen = torch.linspace(0, 1, 12, device=device).view(4, 3), []
        for number in range(PASSES):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                counts = []
                h = x * 2
                h = h + 1
                counts.append(len(told))
                if number >= since:
                    y = warns(h)
                    counts.append(len(told))
                    h = h + y.nan_to_num().sum()
                h = h.tanh() * 3
                counts.append(len(told))
            seen.append((counts, [str(w.message) for w in told], h.tolist()))
            tick()
        return seen

    ops, followed = _alike(device, run)
    assert followed > 0.25 * ops  # what lies before and behind it


@pytest.mark.parametrize("warns", [_std, _resized])
def test_a_warning_that_is_an_error_is_raised_where_the_op_stands(
    device: str, warns: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """The program's `try` round the op gets it, and no other line raises."""

    def one_pass(x: torch.Tensor) -> list[Any]:
        try:
            h = x * 2
            h = h + 1
            what = "nothing"
            try:
                y = warns(h)
            except UserWarning as warning:
                what = type(warning).__name__
                y = h.sum(1)
            return [what, (y.nan_to_num() + 1).tolist()]
        except UserWarning as warning:
            return ["elsewhere", traceback.extract_tb(warning.__traceback__)[-1].line]

    def run(tick: Callable[[], object]) -> list[Any]:
        x, seen = torch.linspace(0, 1, 12, device=device).view(4, 3), []
        for number in range(PASSES):
            with warnings.catch_warnings():
                warnings.simplefilter("error" if number >= 20 else "ignore")
                seen.append(one_pass(x))
            tick()
        return seen

    _alike(device, run)
    assert run(lambda: None)[-1][0] == "UserWarning"


_ONCE = """
    import sys, warnings
    import reprise, torch
    device, always = sys.argv[1:]
    x = torch.ones(4, dtype=torch.complex64, device=device)
    counts = []

    def one_pass(number):
        torch.set_warn_always(always == "always" and number >= 25)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            h = x * 2
            y = torch.ones(4, device=device) + 1
            y.copy_(h)  # warns once a process: the imaginary part is lost
            y = y * 3 + 1
        told = [w for w in told if "imaginary" in str(w.message)]
        counts.append(len(told))

    with reprise.session(device, policy="always") as session:
        for number in range(60):
            before = session.stats()
            one_pass(number)
            assert session.wait(60)
            if number in (24, 59):
                during = session.stats().since(before)
                print(during.ops, during.followed)
    print(counts)
"""


def _once(device: str, always: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(_ONCE), device, always],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_warns_once_a_process_is_replayed_afterwards(device: str) -> None:
    """The warning comes once, and its op is a cut no longer than that."""
    middle, end, counts = _once(device, "once")
    assert counts == str([1] + [0] * 59)
    for line in (middle, end):
        ops, followed = map(int, line.split())
        assert followed == ops > 5


def test_what_warns_once_warns_always_once_it_is_told_to(device: str) -> None:
    """`torch.set_warn_always` in the midst of replays: no plan of before is used."""
    _, _, counts = _once(device, "always")
    assert counts == str([1] + [0] * 24 + [1] * 35)


def test_a_region_gives_the_warnings_of_its_operators(device: str) -> None:
    """In each call, recorded or replayed; where they are errors, the call raises."""
    fast = reprise.region(lambda x: _std(x * 2 + 1).nan_to_num() + 1)
    x = torch.linspace(0, 1, 12, device=device).view(4, 3)
    with watched(device) as session:
        counts = []
        for _ in range(20):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                made = fast(x)
            told = [w for w in told if "degrees of freedom" in str(w.message)]
            counts.append(len(told))
            assert {w.filename for w in told} == {__file__}
            session.wait(60)
        assert counts == [1] * 20
        assert made.tolist() == [1.0] * 4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="degrees of freedom"):
                fast(x)
        assert fast(x).tolist() == [1.0] * 4
