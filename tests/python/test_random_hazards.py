"""Random programs in which something interferes between an op and its early run.

The hazards are those of programs/interference.py. Each is also shown to be seen: a fault
of its kind that is planted makes the programs differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import pytest
import random_programs
import torch
from programs.check import check
from programs.generate import random_program
from programs.interference import CALM_PASSES, HAZARDS, Interference
from programs.program import State, compiled

PROGRAMS = 12
PASSES = 60

# What a hazard's programs do at least, so that the test has not passed by doing nothing.
REACHED = {
    "in flight": {"step: another thread's draw under way": 60},
    "kernels": {"step: a kernel registered, in a replay": 60},
    "switches": {"step: another switch, denormals, in a replay": 10},
    "warnings": {"step: an op warned, in a replay": 60},
    "versions": {},
    "forward mode": {"step: a derivative in forward mode, in a replay": 60},
    "slopes": {"step: a slope in forward mode, in a replay": 60},
    "raised once": {"step: an op raised that may, in a replay": 2},
    "logging": {"step: a number logged, in a replay": 20},
    "raw fills": {"step: lengths of targets, none, in a replay": 20},
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _problems(device: str, hazard: str, programs: int = PROGRAMS) -> list[str]:
    """What is wrong with a hazard's programs, or met too seldom."""
    found = random_programs.run(
        device,
        seed=1,
        programs=programs,
        passes=PASSES,
        hazards=[hazard],
        shrink_s=0,
    )
    assert found["invalid"] == []
    counts = found["counts"]
    least = {"replays": 100, **(REACHED[hazard] if device == "cpu" else {})}
    least = {name: count * programs // PROGRAMS for name, count in least.items()}
    few = [f"{name}: {counts.get(name, 0)}" for name in least]
    few = [
        text for text, n in zip(few, least, strict=True) if counts.get(n, 0) < least[n]
    ]
    return [str(failure["wrong"]) for failure in found["failures"]] or few


@pytest.mark.parametrize("hazard", HAZARDS)
def test_programs_with_a_hazard_hold_eagers_bits(device: str, hazard: str) -> None:
    """And it has met replays."""
    assert _problems(device, hazard) == []


# --- What they would find -----------------------------------------------------------


def _under_reprise(
    name: str, wrong: Callable[..., Any]
) -> tuple[str, Callable[..., Any]]:
    """A method of programs that errs under Reprise, when the calm passes are over."""
    right = getattr(Interference, name)

    def method(state: State, *given: Any) -> Any:
        if state._session is None or state.number < CALM_PASSES:
            return right(state, *given)
        return wrong(state, *given)

    return name, method


def _nothing(state: State, *given: Any) -> None:
    pass


def _quietly(state: State, call: Callable[[], torch.Tensor]) -> torch.Tensor:
    before = len(state._told)
    result = call()
    del state._told[before:]
    state.say((len(state._warnings()), len(state._warnings())))
    return result


PLANTED: dict[str, tuple[str, Callable[..., Any]]] = {
    "in flight": _under_reprise("start", _nothing),
    "kernels": _under_reprise("override", _nothing),
    "switches": _under_reprise("switched", lambda *_: contextlib.nullcontext()),
    "warnings": _under_reprise("warns", _quietly),
    "forward mode": _under_reprise("jvp", lambda state, function, x, t: function(x)),
    "raised once": _under_reprise("once", lambda state: 0),
    "logging": _under_reprise("log", _nothing),
    "raw fills": _under_reprise("lengths", lambda state, kind: state._lengths[0]),
}


@pytest.mark.parametrize("hazard", PLANTED)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, hazard: str) -> None:
    """Nothing behind a hazard's lines hides what they make wrong."""
    monkeypatch.setattr(Interference, *PLANTED[hazard])
    assert any(
        check(compiled(random_program(seed, PASSES, [hazard])), "cpu").wrong
        for seed in range(1, PROGRAMS + 1)
    )
