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
