"""Ops that would stop the device on bad data run only where the program asks for them."""

from __future__ import annotations

import pytest
import torch
from watching import assert_same_bits, replaying, settle, watched


@pytest.mark.parametrize("kind", ["embedding", "index_select", "gather", "index"])
def test_bad_indices_that_are_never_used_do_no_harm(device: str, kind: str) -> None:
    table = torch.randn(16, 8, device=device)
    weight = torch.randn(8, 8, device=device)
    indices = torch.arange(4, device=device)
    wide = indices.view(4, 1)

    def look_up() -> torch.Tensor:
        if kind == "embedding":
            return torch.nn.functional.embedding(indices, table)
        if kind == "index_select":
            return table.index_select(0, indices)
        if kind == "gather":
            return table.gather(0, wide).expand(4, 8)
        return table[indices]

    def step(x: torch.Tensor, valid: bool) -> torch.Tensor:
        h = (x @ weight).relu()
        h = (h * 2).tanh() + x
        if not valid:
            return h.sin()
        return (h + look_up()).cos()

    inputs = [torch.randn(4, 8, device=device) for _ in range(8)]
    expected = [step(x, True) for x in inputs]
    with watched(device) as session:
        settle(session, lambda x: step(x, True), inputs)
        with replaying(session):
            found = [step(x, True) for x in inputs]
        indices.fill_(1_000_000)
        with replaying(session):
            found += [step(x, False) for x in inputs]
        indices.copy_(torch.arange(4, 8, device=device))
        found += [step(x, True) for x in inputs]
        if device == "cuda":
            torch.cuda.synchronize()
    expected += [step(x, False) for x in inputs] + [step(x, True) for x in inputs]
    assert_same_bits(found, expected)


@pytest.mark.parametrize(
    "kind",
    [
        "embedding",
        "index",
        "binary_cross_entropy",
        "bernoulli",
        "poisson",
        "normal",
    ],
)
def test_bad_data_of_the_trace_that_is_never_used_does_no_harm(
    device: str, kind: str
) -> None:
    """What an op checks was made by ops of the same trace, so that it runs with them."""
    table = torch.randn(16, 8, device=device)
    weight = torch.randn(8, 8, device=device)

    def step(x: torch.Tensor, valid: bool) -> torch.Tensor:
        h = (x @ weight).relu()
        h = (h * 2).tanh() + x
        scaled = x.abs() * 4
        indices = scaled[:, 0].long()
        if not valid:
            return h.sin()
        if kind == "embedding":
            return (h + torch.nn.functional.embedding(indices, table)).cos()
        if kind == "index":
            return (h + table[indices]).cos()
        # What these draw is not looked at.
        if kind == "bernoulli":
            return (h + torch.bernoulli(scaled / 16) * 0).cos()
        if kind == "poisson":
            return (h + torch.poisson(8 - scaled) * 0).cos()
        if kind == "normal":
            return (h + torch.normal(0.0, 8 - scaled) * 0).cos()
        target = torch.zeros_like(scaled)
        return h + torch.nn.functional.binary_cross_entropy(scaled / 16, target)

    good = [torch.rand(4, 8, device=device) for _ in range(8)]
    bad = [x + 1e6 for x in good]  # indices out of range, probabilities above 1
    calls = [(x, True) for x in good] + [(x, False) for x in bad]
    calls += [(x, True) for x in good]
    expected = [step(x, valid) for x, valid in calls]
    with watched(device) as session:
        settle(session, lambda x: step(x, True), good)
        with replaying(session):
            found = [step(x, valid) for x, valid in calls[:8]]
        with replaying(session):
            found += [step(x, valid) for x, valid in calls[8:]]
        if device == "cuda":
            torch.cuda.synchronize()
    assert_same_bits(found, expected)
