"""Calls of a region whose argument was computed from a parameter that the region reads.

Such are the steps of a recurrent cell, and the stages of a solver of differential
equations. Hooks on what lies before a call run as often as in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 10
LINKS = 24  # a pass that runs all before it again would take 2 ** 24 times as long
NODES = "operators have nodes of their own: "

Wrap = Callable[[Any], Any]


def plain(fn: Any) -> Any:
    """As it is."""
    return fn


def hooked_passes(wrap: Wrap, last: torch.Tensor) -> tuple[Any, list[Any], Any]:
    """Passes by a region between two uses of its weight; what a hook before it was given.

    The gradient of the last passes is `last`.
    """
    torch.manual_seed(0)
    weight = torch.randn(4, requires_grad=True)
    other = torch.randn(4, requires_grad=True)
    fn = wrap(lambda x: torch.tanh(x * weight))
    given: list[Any] = []
    results = []
    for call in range(2 * CALLS):
        of = other if call < CALLS else weight
        before = of * torch.randn(4)
        before.register_hook(given.append)
        gradient = torch.randn(4) if call < CALLS else last
        out = fn(before + 1)
        out.backward(gradient)
        results += [out.detach(), weight.grad.clone()]
    return fn, given, results


LAYOUTS = {
    "as before": torch.full((4,), 0.5),
    "another layout": torch.full((1,), 0.5).expand(4),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_hooks_before_a_call_run_once(name: str) -> None:
    fn, given, results = hooked_passes(reprise.region, LAYOUTS[name])
    _, expected_given, expected = hooked_passes(plain, LAYOUTS[name])
    assert len(given) == len(expected_given) == 2 * CALLS
    assert_same_bits(given, expected_given)
    assert_same_bits(results, expected)
    assert fn.explain().replayed >= 2 * CALLS - 4, str(fn.explain())


def test_hooks_before_recorded_calls_run_once() -> None:
    def passes(wrap: Wrap) -> tuple[Any, list[Any], list[Any]]:
        torch.manual_seed(0)
        weight = torch.randn(4, requires_grad=True)
        fn = wrap(lambda x: x * weight)
        given: list[Any] = []
        gradients = []
        for _ in range(CALLS):
            before = weight * torch.randn(4)
            before.register_hook(given.append)
            fn(before + 1).sum().backward()
            gradients.append(weight.grad.clone())
        return fn, given, gradients

    fn, given, gradients = passes(reprise.region)
    _, expected_given, expected = passes(plain)
    assert len(given) == len(expected_given) == CALLS
    assert_same_bits(given, expected_given)
    assert_same_bits(gradients, expected)
    report = fn.explain()
    assert report.replayed >= CALLS - 4, str(report)
    why = f"{NODES}an argument was computed from a parameter that is read, too"
    assert why in report.reasons, str(report)


@pytest.mark.parametrize("expanded", (False, True))
def test_a_chain_of_calls(expanded: bool) -> None:
    """Its backward pass runs no part of the chain twice."""

    def passes(wrap: Wrap) -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        cell = nn.Linear(4, 4)
        fn = wrap(lambda h: torch.tanh(cell(h)))
        for _ in range(CALLS):  # of an argument that the cell has no part in
            (torch.randn(2, 4, requires_grad=True) * 2).sum().backward()
            fn(torch.randn(2, 4, requires_grad=True) * 2).square().sum().backward()
        results = []
        for _ in range(CALLS):
            h = torch.randn(2, 4)
            for _ in range(LINKS):
                h = fn(h) + 1
                if expanded:  # a gradient of another layout at each link
                    h = h.sum(1, keepdim=True) + torch.zeros(2, 4)
            h.sum().backward()
            results += [h.detach(), cell.weight.grad.clone()]
        return fn, results

    fn, results = passes(reprise.region)
    _, expected = passes(plain)
    assert_same_bits(results, expected)
    assert fn.explain().replayed > CALLS * (LINKS - 2), str(fn.explain())
