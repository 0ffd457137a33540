"""A region's parts by themselves: its standing, its structures, objects and sessions."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
import reprise
import torch
from reprise import _native, _region
from reprise._call_form import form_of, what_changed, with_optimizers
from reprise._enums import Step
from reprise._hidden_state import Value
from reprise._region_report import RegionReport
from reprise._region_standing import Standing
from reprise._region_structures import MOST_CHANGES, Structures
from reprise.guards import tree


def a_standing() -> Standing:
    return Standing(RegionReport("step"))


def test_reasons_are_counted_and_bounded() -> None:
    standing = a_standing()
    for each in range(100):
        standing.note(f"reason {each}")
        standing.note_guard(f"guard {each}")
    standing.note("reason 0", "train.py:3")
    report = standing.report
    assert len(report.reasons) == len(report.guards) == 64
    assert report.reasons["reason 0"] == (2, "train.py:3")
    assert not standing.off


def test_a_withdrawn_region_is_off_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    standing = a_standing()
    with caplog.at_level(logging.ERROR, "reprise"):
        standing.withdraw("aten::add is called", "train.py:3")
    assert standing.off
    assert standing.report.reasons == {
        "withdrawn: aten::add is called": (1, "train.py:3")
    }
    assert "region step" in caplog.text
    assert "aten::add is called at train.py:3" in caplog.text


def test_structures_are_made_once_and_bounded() -> None:
    structures = Structures("sample", a_standing())
    first = structures[1, "form"]
    assert structures[1, "form"] is first
    first.worth = 100.0
    for each in range(1100):
        structures.fruitless = 0
        structures[1, each]
    assert 896 <= len(structures) <= 1024
    assert structures[1, "form"] is first  # it is used more than the others


def test_structures_that_never_come_again_turn_the_region_off() -> None:
    standing = a_standing()
    structures = Structures("sample", standing)
    for each in range(128):
        structures[1, each]
    assert not standing.off
    structures[1, 128]
    assert standing.off
    assert any("others in each call" in each for each in standing.report.reasons)


def test_structures_go_with_their_states() -> None:
    standing = a_standing()
    structures = Structures("sample", standing)
    kept = structures[2, "form"]
    structures[1, "form"]
    structures.keep_states({2, 3}, 1, "x.mode")
    assert structures.all() == [kept]
    assert structures.take() == [kept] and not structures
    structures.keep_states(set(), 200, "x.mode")
    assert standing.off
    assert "x.mode is another one again and again" in standing.report.reasons


def test_variables_are_learned_once() -> None:
    structures = Structures("sample", a_standing())
    read = {"A": Value("A", lambda: 1)}
    assert structures.learn_variables(read)
    assert not structures.learn_variables(read)
    assert [each.name for each in structures.variables] == ["A"]


def test_a_structure_that_is_off_asks_ever_less_often() -> None:
    structure = Structures("sample", a_standing())[1, "form"]
    asked = []
    for call in range(64):
        if structure.asks():
            asked.append(call)
            structure.no_difference()
    assert asked == [0, 2, 5, 10, 19, 36]


def test_hidden_state_twice_in_a_row_is_too_much() -> None:
    structure = Structures("sample", a_standing())[1, "form"]
    for took in (True, False, True):
        structure.note_hidden(took)
    assert not structure.off
    structure.note_hidden(True)
    assert structure.off


def test_only_first_changes_of_objects_count() -> None:
    structure = Structures("sample", a_standing())[1, "form"]
    for _ in range(10):
        structure.note_changed("the cache", is_first=False)
    assert not structure.off
    for _ in range(MOST_CHANGES):
        structure.note_changed("the cache", is_first=True)
    assert structure.off and structure.changed == "the cache"


def test_the_form_of_a_call_knows_what_changed() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    held = [torch.ones(2), 1.5]
    parts = tree.Parts()
    parts.args, parts.kwargs = (held,), {"scale": 2.0}
    form = form_of(parts.args, parts.kwargs, parts)
    assert parts.numbers == [1.5, 2.0]
    form, numbers, why = with_optimizers(form, parts.numbers, [optimizer])
    assert not why
    assert parts.numbers == [1.5, 2.0] and 0.5 in numbers
    assert what_changed(form, numbers, parts, [optimizer]) is None
    optimizer.param_groups[0]["lr"] = 0.25
    changed = what_changed(form, numbers, parts, [optimizer])
    assert changed == "an argument, or the numbers of an optimizer"
    held[0] = torch.ones(2)
    assert what_changed(form, numbers, parts, [optimizer]) == "an argument"


def test_calls_without_a_session_have_one_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where there is a GPU and nothing is enabled. A region with an optimizer, too."""
    run, are_these = _region.functions()
    inactive = []

    def needs_session(*call: Any) -> Any:
        if _native.active() is None:
            inactive.append(True)
            return Step.INACTIVE, 0, ()
        return run(*call)

    monkeypatch.setattr(_region, "functions", lambda: (needs_session, are_these))
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fast: Any = reprise.region(step)
    expected = torch.ones(3)
    for call in range(8):
        assert torch.equal(fast(torch.full((3,), 2.0)), (expected * 2).sum())
        expected = expected - 1.0
        assert torch.equal(weight, expected)
        assert _native.active() is None
        assert len(inactive) == call + 1
    assert fast.explain().replayed > 0, str(fast.explain())


def test_a_region_goes_when_nobody_holds_it() -> None:
    """Its parts do not refer back to it."""
    gone = []

    class Token:
        def __del__(self) -> None:
            gone.append(True)

    fast: Any = reprise.region(lambda x: x + 1)
    fast.token = Token()
    for _ in range(4):
        fast(torch.ones(3))
    assert fast.explain().replayed
    gc.disable()
    try:
        del fast
        assert gone
    finally:
        gc.enable()
