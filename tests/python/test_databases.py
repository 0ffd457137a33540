"""Torch's own samples are under Reprise what they are by eager (databases/run.py)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import hazards
import pytest
import torch
from databases import cases, check, run

SAMPLES = int(os.environ.get("DATABASES_SAMPLES", "2"))  # of an entry and dtype
SHARD = os.environ.get("DATABASES_SHARD", "1/2")
PROCESSES = 2


def test_samples_of_torchs_databases_hold_eagers_bits(device: str) -> None:
    """In float32 and a half type; nearly all of them are replayed."""
    units = run.chosen(device, ["float32", "half"], SHARD)
    assert len(units) > 1200 / int(SHARD.split("/")[1])
    found = run.sweep(units, device, count=PROCESSES, samples=SAMPLES)
    assert found["wrong"] == []
    assert found["crashed"] == []
    assert found["left"] == []
    counts = found["counts"]
    assert counts["units"] > 0.95 * len(units), found["skipped"]
    assert counts["replayed"] > 0.9 * counts["samples"], found["not replayed"]
    assert counts["late_followed"] > 0.4 * counts["late_ops"]


# --- What it would find -------------------------------------------------------------


@pytest.fixture
def _quiet() -> Iterator[None]:
    with hazards.quiet(), torch.enable_grad():
        yield


def _case(work: Any) -> cases.Case:
    """A case beside ordinary ops, as those of operators are."""
    weight = torch.linspace(-2, 2, 24)

    def begin() -> cases.Run:
        def passes(x: torch.Tensor) -> dict[str, Any]:
            side = torch.relu(weight * 1.5)
            out = work(x)
            (side + 1).sum().item()
            return {"called": out, "around": side}

        return cases.Run(lambda number: torch.randn(4, 4), passes)

    return cases.Case("op:made", 0, "made", cases.PASSES, begin)


def test_a_case_that_is_right_is_replayed(_quiet: None) -> None:
    found = check.check(_case(lambda x: (x @ x).tanh()), "cpu")
    assert (found.wrong, found.skipped) == ("", "")
    assert found.replays > 0
    assert found.late_followed > 0


@pytest.mark.parametrize(
    ("name", "work", "told"),
    [
        ("a bit", lambda x, on: x.sin() + (1e-7 if on else 0), "called"),
        ("a layout", lambda x, on: x.sin().t() if on else x.sin(), "called"),
        ("an input", lambda x, on: x.mul_(2).sin() if on else (x * 2).sin(), "the inputs"),
        ("an alias", lambda x, on: (y := x.sin(), y if on else y.clone()), "shared memory"),
        ("a gradient's flag", lambda x, on: x.sin().requires_grad_(on), "requires_grad"),
    ],
)  # fmt: skip
def test_what_differs_under_reprise_is_found(
    _quiet: None, name: str, work: Any, told: str
) -> None:
    def errs(x: torch.Tensor) -> Any:
        return work(x, check._native.active() is not None)

    assert check.check(_case(errs), "cpu").wrong.startswith(told)


def test_what_eager_does_not_repeat_is_skipped(_quiet: None) -> None:
    """Memory without contents, which is filled with other bytes in each run."""
    found = check.check(_case(lambda x: torch.empty(4096)), "cpu")
    assert found.skipped == "eager does not repeat itself (called)"


def test_a_sample_that_ends_its_process_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And those behind it are run."""
    monkeypatch.setenv(run.CRASH_AT, "op:add:float32 3")
    found = run.sweep(["op:add:float32"], "cpu", count=1, samples=3)
    (crash,) = found["crashed"]
    assert (crash["unit"], crash["number"]) == ("op:add:float32", 3)
    assert signal.SIGSEGV.name in crash["crashed"]
    assert found["counts"]["samples"] == 2
