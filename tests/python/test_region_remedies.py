"""Why a callable is not replayed, with what helps; and that it helps."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 8


def reasons(fn: Any, device: str) -> str:
    """Of calls that give what they give without a region."""
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(3, device=device)
        assert_same_bits(fast(x), fn(x))
    assert fast.explain().replayed == 0, str(fast.explain())
    return " ".join(fast.explain().reasons)


def test_gradients_with_histories(device: str) -> None:
    weight = torch.ones(3, device=device, requires_grad=True)
    fn = torch.func.grad(lambda x: (x * weight).sin().sum())
    assert "torch.func.grad makes one, too): detach it" in reasons(fn, device)
    detached: Any = reprise.region(lambda x: fn(x).detach())
    for _ in range(CALLS):
        detached(torch.randn(3, device=device))
    assert detached.explain().replayed > 0


def test_a_sparse_tensor(device: str) -> None:
    matrix = torch.eye(3, device=device).to_sparse_coo()
    assert "(leave what uses it outside)" in reasons(lambda x: matrix @ x, device)


def test_an_argument_that_is_changed(device: str) -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        given = collections.deque([x])
        return changes(x, given) + given[0]

    def change(x: torch.Tensor, given: Any) -> torch.Tensor:
        given[0] = x * 2
        return x + 1

    changes: Any = reprise.region(change)
    for _ in range(CALLS):
        x = torch.randn(3, device=device)
        assert_same_bits(writes(x), (x + 1) + x * 2)
    report = changes.explain()
    assert report.replayed == 0
    assert "(let it return what it changes, and leave" in " ".join(report.reasons)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@torch.inference_mode()
def test_an_encoder_and_its_padding(nested: bool, device: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
    model = model.to(device).eval()
    fast: Any = reprise.region(model)
    places = torch.arange(6, device=device)
    for call in range(CALLS):
        x = torch.randn(2, 6, 16, device=device)
        padded = places >= torch.tensor([[6], [1 + call % 5]], device=device)
        found = fast(x, src_key_padding_mask=padded)
        assert_same_bits(found, model(x, src_key_padding_mask=padded))
    report = fast.explain()
    assert (report.replayed > 0) is not nested, str(report)
    remedy = "makes none with enable_nested_tensor=False"
    assert (remedy in " ".join(report.reasons)) is nested


def replays(fn: Any, device: str) -> int:
    """How many calls are replayed that give what they give without a region."""
    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(3, device=device)
        assert_same_bits([*fast(x)], [*fn(x)])
    found: int = fast.explain().replayed
    return found


Pair = collections.namedtuple("Pair", ["one", "two"])


def test_a_class_that_is_made_inside(device: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        pair = collections.namedtuple("pair", ["one", "two"])
        return pair(x + 1, x * 2)

    fast: Any = reprise.region(fn)
    for _ in range(CALLS):
        x = torch.randn(3, device=device)
        assert_same_bits([*fast(x)], [*fn(x)])
    assert fast.explain().replayed == 0
    assert "a pair, a class that it makes anew in each call" in str(fast.explain())
    assert replays(lambda x: Pair(x + 1, x * 2), device) > 0


def test_a_tensor_that_is_made_of_tensors(device: str) -> None:
    why = reasons(lambda x: x + torch.Tensor([[x[0]]]).to(x.device), device)
    assert "(put tensors together by torch.stack, or by view and cat)" in why
    assert replays(lambda x: x + x[0].view(1, 1), device) > 0


class Batch:
    """Data of one call."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def test_objects_of_calls_that_count(device: str) -> None:
    """It is not the objects that keep these calls from being replayed."""
    total = {"calls": 0}

    def fn(batch: Batch) -> torch.Tensor:
        total["calls"] += 1
        return batch.x * 2

    fast: Any = reprise.region(fn)
    for _ in range(5 * CALLS):
        x = torch.randn(3, device=device)
        assert_same_bits(fast(Batch(x)), x * 2)
    report = fast.explain()
    assert report.replayed == 0
    assert "total.calls to another constant again and again" in str(report)
    assert "another Batch in each call, which does no harm" in str(report)
    without: Any = reprise.region(lambda batch: batch.x * 2)
    for _ in range(CALLS):
        without(Batch(torch.randn(3, device=device)))
    assert without.explain().replayed > 0, str(without.explain())


def test_the_line_of_a_number_that_python_computes(device: str) -> None:
    """It is where that number is given, though others differ before it."""
    net = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = torch.zeros(4, 4, device=device)

    def step(x: torch.Tensor, momentum: float) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            kept.mul_(momentum).add_(net.weight, alpha=1 - momentum)
        return loss.detach()

    fast: Any = reprise.region(step)
    for call in range(3 * CALLS):
        optimizer.param_groups[0]["lr"] = 0.1 / (call + 1)
        fast(torch.randn(3, 4, device=device), 1 - 0.5 / (call + 2))
    line = step.__code__.co_firstlineno + 6
    text = str(fast.explain()).replace("\n        ", " ")
    assert f"{__file__}:{line}" in text, text
    assert "compute this number outside of the callable" in text


def test_a_number_that_counts_among_the_arguments(device: str) -> None:
    """It is told early, while nothing is replayed, and as a tensor it is replayed."""

    def fn(x: torch.Tensor, step: Any) -> torch.Tensor:
        return x * step

    fast: Any = reprise.region(fn)
    for step in range(20):
        x = torch.randn(3, device=device)
        assert_same_bits([fast(x, step)], [fn(x, step)])
    report = fast.explain()
    assert report.replayed == 0
    assert "its arguments are others in each call (give numbers as tensors" in str(
        report
    ).replace("\n        ", " ")
    for call in range(CALLS):
        x, step = torch.randn(3, device=device), torch.tensor(call, device=device)
        assert_same_bits([fast(x, step)], [fn(x, step)])
    assert fast.explain().replayed >= CALLS - 2, str(fast.explain())
