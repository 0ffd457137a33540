"""Random regions that take what no guard tells of, and fail inside, beside eager.

Iterators, random numbers, counters, environment and context variables, files, and errors
with and without handlers, among random operators. The same programs find each of these
faults where it is planted again. REPRISE_RANDOM_OPS and REPRISE_RANDOM_SECONDS go on with
others (watching.more).
"""

from __future__ import annotations

import copy
import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import hidden_ops
import pytest
import reprise
import torch
from reprise import _call_watch, _handlers, _hidden_state, _region, _region_recorder
from reprise._enums import Step
from test_random_regions import OPS, ROWS, WIDTH, Mixed
from watching import assert_same_bits, random_regions

PROGRAMS = 24
PLANTED = 24
CALLS = 30
PURE = sorted(set(OPS) - {"read", "norm"})


class Hidden(Mixed):
    """A random program, with one to three of such operators in it."""

    def __init__(
        self, seed: int, device: str, kinds: list[str], folder: pathlib.Path
    ) -> None:
        super().__init__(seed, device, (PURE, 8), (kinds, 3), hidden_ops.ALL)
        self.world = hidden_ops.World(seed, folder)


def outcome(call: Callable[..., Any], *given: torch.Tensor) -> torch.Tensor | str:
    """What it returns, or the error that it raises."""
    try:
        found: torch.Tensor = call(*given)
    except RuntimeError as error:
        return str(error)
    return found


def compare(
    seed: int, device: str, kinds: list[str], folder: pathlib.Path
) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region."""
    draw = random.Random(seed + 1)
    hidden_ops.turn(hidden_ops.World(seed, folder), random.Random(seed))
    (folder / "factor").write_text("2")
    plain = Hidden(seed, device, kinds, folder).eval()
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        hidden_ops.turn(plain.world, draw)
        # Errors come late and seldom: by values, not by forms.
        sign = -1.0 if call > 8 and draw.random() < 0.3 else 1.0
        x = sign * torch.rand(draw.choice(ROWS[:2]), WIDTH, device=device)
        where = f"seed {seed} call {call} {plain.steps}"
        found = []
        for program in (plain, fast):
            hidden_ops.begin(call)
            found.append(outcome(program, x))
            found.append(torch.rand(3))
        for one, other in zip(found[:2], found[2:], strict=True):
            if isinstance(one, str) or isinstance(other, str):
                assert one == other, where
            else:
                assert_same_bits([other], [one], where)
        assert_same_bits([ours.state], [plain.state], where)
        assert ours.world.holds() == plain.world.holds(), where
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    before = os.environ.get(hidden_ops.NAME)
    with torch.no_grad():
        yield
    os.environ.pop(hidden_ops.NAME, None)
    assert before is None


def test_random_hidden_regions(device: str, tmp_path: pathlib.Path) -> None:
    def one(seed: int) -> Any:
        kinds = sorted(hidden_ops.ALL)
        if seed % 2:  # such that leave something to be replayed
            kinds = [*hidden_ops.VALUES, "handled", "raised"]
        return compare(seed, device, kinds, tmp_path)

    totals = random_regions(PROGRAMS, one)
    assert totals.replayed > totals.calls // 10


# --- The same faults, planted again ---


def _nothing(*_: Any, **__: Any) -> None:
    return None


def plant_random(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_hidden_state, "_state_of", _nothing)


def plant_iterators(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_region_recorder, "unguarded", _nothing)


def plant_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_hidden_state.HiddenState, "saw_function", _nothing)
    patch.setattr(_hidden_state.HiddenState, "_read_context", _nothing)


def plant_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_hidden_state, "_FILES", frozenset())


def plant_handlers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_handlers, "may_handle", lambda *_, **__: False)


def plant_errors(patch: pytest.MonkeyPatch) -> None:
    """An error is raised past a handler that stands before any write."""
    run, are_these = _region.functions()

    def raising(*call: Any) -> Any:
        found = run(*call)
        if found[0] == Step.RAISED:
            raise RuntimeError("raised past the handler")
        return found

    patch.setattr(_region, "functions", lambda: (raising, are_these))


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (plant_random, hidden_ops.RANDOM),
        (plant_iterators, hidden_ops.ITERATORS),
        (plant_values, hidden_ops.VALUES),
        (plant_files, hidden_ops.FILES),
        (plant_handlers, ["forgiven", "at_last"]),
        (plant_errors, ["handled", "forgiven"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_planted_faults_are_found(
    device: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    kinds: Any,
) -> None:
    """With the fault some program goes wrong; without it none does."""
    for seed in range(PLANTED):
        compare(seed, device, list(kinds), tmp_path)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(PLANTED):
            compare(seed, device, list(kinds), tmp_path)


def test_planted_classes_of_floats_are_found(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callable that asks for the class of a number is told another one."""

    def fn(x: torch.Tensor, t: float) -> torch.Tensor:
        return x * t if type(t) is float else x * 100

    def wrong() -> int:
        fast: Any = reprise.region(fn)
        x = torch.ones(3, device=device)
        return sum(not torch.equal(fast(x, 0.5), x * 0.5) for _ in range(6))

    assert wrong() == 0
    monkeypatch.setattr(_call_watch, "_ASKS_FOR_CLASS", frozenset())
    assert wrong() > 0
