"""What operators do beyond their schemas is in the hooks' tables (registry/sweep.py)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from hazards import restored
from registry import effects, findings, known, replays, sweep
from registry.hooks import Call, Hook, hooks
from torch import library as torch_library
from watching import BUILD_TIMEOUT_S, assert_same_bits, watched

# Of the sources of calls every SHARDS-th is run; 1 for all, which takes minutes.
SHARDS = int(os.environ.get("REGISTRY_SHARDS", "4"))


def test_the_tables_cover_what_operators_do(device: str) -> None:
    """No effect that they do not know, no call lost, no bit that is not eager's."""
    from registry.calls import units  # torch's lists of samples take seconds to load

    if SHARDS == 1:
        lines, crashes, _ = sweep.whole(device)
        assert findings.unneeded(lines, device) == []
    else:
        lines, crashes, _ = sweep.sweep(units()[::SHARDS], device)
    assert findings.problems(lines, crashes) == []
    replayed = {line["op"] for line in lines if line["verdict"] == "replayed"}
    assert len(replayed) > 1200 / SHARDS


# --- What the sweep would find ----------------------------------------------------

KEPT = torch.zeros(4)


def _writes(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1) * 2


def _keeps(x: torch.Tensor) -> torch.Tensor:
    return KEPT


def _draws(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4)


def _counts(x: torch.Tensor) -> torch.Tensor:
    KEPT.add_(1)
    return x + KEPT


def _switches(x: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(
        torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32
    )
    return x + 1


@pytest.fixture
def library() -> Iterator[torch_library.Library]:
    with torch_library._scoped_library("registry_test", "FRAGMENT") as library:
        yield library


def _problems(call: Call) -> list[str]:
    line = {"op": call.name, "form": "", **effects.examine(call, "cpu")}
    line.update(replays.replay(call, "cpu", repeats=True))
    return findings.problems([line], [])


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        (_writes, "writes [0], which neither schema nor tables say"),
        (_keeps, "gives out memory that it keeps"),
        (_draws, "draws from the default generator, which the tables do not say"),
        (_counts, "equal arguments give other results"),
        (_switches, "writes ['global switches'], which neither schema nor tables say"),
    ],
)
def test_an_operator_that_does_more_than_it_says_is_found(
    library: torch_library.Library,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[torch.Tensor], torch.Tensor],
    problem: str,
) -> None:
    """Defined after the hooks were made, it is also one that none of them shows."""
    name = f"registry_test::{work.__name__}"
    hook = Hook(name, "", frozenset(), frozenset(), -1, generator=False, factory=False)
    monkeypatch.setitem(hooks(), name, hook)
    library.define(f"{work.__name__}(Tensor x) -> Tensor")
    library.impl(work.__name__, work, "CPU")
    with restored(torch.get_default_dtype, torch.set_default_dtype):
        found = "\n".join(_problems(Call(name, (torch.randn(4),), {}, "test")))
    assert f"{name}: {problem}" in found
    assert f"{name}: no hook shows it" in found


def test_a_table_that_lacks_or_invents_a_hidden_write_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = [torch.rand(3) + 0.5 for _ in range(4)]
    norm = Call(
        "aten::native_batch_norm",
        (torch.randn(4, 3), *weights, True, 0.1, 1e-5),
        {},
        "test",
    )
    relu = Call("aten::relu", (torch.randn(4),), {}, "test")
    assert _problems(norm) == _problems(relu) == []
    for call, hidden in ((norm, frozenset[int]()), (relu, frozenset({0}))):
        changed = dataclasses.replace(hooks()[call.name], hidden=hidden)
        monkeypatch.setitem(hooks(), call.name, changed)
    assert any("writes [3, 4], which neither" in text for text in _problems(norm))
    assert any("hidden writes, no call has any" in text for text in _problems(relu))


def test_what_is_known_and_no_longer_found_is_told() -> None:
    rows = [
        *known.COMPOSITES,
        *known.UNREPEATABLE,
        *known.REFUSED,
        *known.SOMETIMES_CUT,
    ]
    expected = [row for row in rows if "cpu" in row.found_on]
    told = findings.unneeded([], "cpu")
    assert len(told) == len(expected) > 5
    line = {"op": "aten::empty_like", "seen": 1, "reasons": ["explicit generator"]}
    found = {**line, "verdict": "cut", "repeats": False}
    gone = set(told) - set(findings.unneeded([found], "cpu"))
    assert len(gone) == 2
    assert any("memory without contents" in text for text in gone)
    assert any("explicit generator" in text for text in gone)
    found = {**line, "verdict": "replayed", "repeats": True}
    assert findings.unneeded([found], "cpu") == told


# --- What it found ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("slice_scatter", ()), ("select_scatter", (0, 1)), ("diagonal_scatter", ())],
)
def test_what_depends_on_the_storage_behind_an_operand_is_cut(
    device: str, name: str, arguments: tuple[int, ...]
) -> None:
    """Views of one form in storages of other sizes: the op copies all of a storage."""
    inputs = [
        torch.randn(64 + 16 * n, device=device)[8 : 8 + 16].view(4, 4)
        for n in range(8, 0, -1)
    ]

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        part = y + 1 if name == "slice_scatter" else (y + 1)[0]
        made = torch.relu(getattr(torch, name)(x, part, *arguments))
        made.sum().item()  # ends the trace
        return made

    with watched(device) as session:
        found = []
        for x in inputs:
            found.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
        cuts = {row["op"] for row in session.explain().to_dict()["cuts"]}
    assert f"aten::{name}" in cuts
    assert_same_bits(found, [step(x) for x in inputs])


def test_what_pool_threads_call_belongs_to_the_op_they_work_for() -> None:
    """The backward of attention on the host calls operators from its threads."""
    name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    inputs = [torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(16)]

    def step(x: torch.Tensor) -> torch.Tensor:
        out = F.scaled_dot_product_attention(x, x, x)
        grad = torch.autograd.grad(out, x, torch.ones_like(out))[0]
        grad.sum().item()  # ends the trace
        return grad

    with watched("cpu") as session:
        found = []
        for x in inputs:
            found.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
        report = session.explain().to_dict()
    assert not [note for note in report["notes"] if "threads" in note]
    plans = [plan for plan in report["plans"] if name in plan["operators"]]
    assert sum(plan["replays"] for plan in plans) > 0
    assert_same_bits(found, [step(x) for x in inputs])
