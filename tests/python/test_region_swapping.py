"""Tensors that regions lead to are swapped as in eager (torch.utils.swap_tensors)."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import reprise
import torch
from reprise import _swapping
from torch import nn
from watching import assert_same_bits

CALLS = 8


@pytest.fixture(autouse=True)
def _by_swapping() -> Iterator[None]:
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def net(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()).to(device)


def run(call: Any, module: nn.Module, dtype: torch.dtype, device: str) -> list[Any]:
    """Trains a little, and gives all that came of it."""
    found = []
    for number in range(CALLS):
        x = torch.linspace(-1, 1 + number, 12, dtype=dtype, device=device).view(3, 4)
        result = call(x)
        result.square().sum().backward()
        found += [result.detach(), *(p.grad.clone() for p in module.parameters())]
        del result
        module.zero_grad()
    return found


def test_modules_are_converted(device: str) -> None:
    plain = net(device)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(ours)
    same = [id(each) for each in ours.parameters()]
    for dtype in (torch.float32, torch.float64, torch.float32):
        plain.to(dtype)
        ours.to(dtype)
        assert [id(each) for each in ours.parameters()] == same
        with torch.random.fork_rng([]):
            expected = run(plain, plain, dtype, device)
        assert_same_bits(run(fast, ours, dtype, device), expected)
    report = fast.explain()
    assert report.replayed >= 3 * (CALLS - 4), str(report)


def test_compiled_modules_forget_their_parameters(device: str) -> None:
    """Torch's own fake tensors still refer to them, as with any backend that is given."""
    module = net(device)
    fast: Any = torch.compile(module, backend=reprise.backend)
    run(fast, module, torch.float32, device)
    before = len(weakref.getweakrefs(module.get_parameter("0.weight")))
    plain = net(device)
    given = torch.compile(plain, backend=lambda graph, _: graph.forward)
    run(given, plain, torch.float32, device)
    _swapping._let_go()
    left = weakref.getweakrefs(module.get_parameter("0.weight"))
    assert len(left) == len(weakref.getweakrefs(plain.get_parameter("0.weight")))
    assert len(left) < before
    run(fast, module, torch.float32, device)


def test_what_swap_tensors_refuses(device: str) -> None:
    """It is eager's function, whoever has imported it."""
    module = net(device)
    fast: Any = reprise.region(module)
    fast(torch.ones(3, 4, device=device))
    weight: Any = module.get_parameter("0.weight")
    held = weakref.ref(weight)
    with pytest.raises(RuntimeError, match="has weakref associated with it"):
        torch.utils.swap_tensors(weight, nn.Parameter(weight.detach() * 2))
    assert held() is weight
    del held
    other = nn.Parameter(weight.detach() * 2)
    values = other.detach().clone()
    torch.utils.swap_tensors(weight, other)
    assert_same_bits([weight.detach()], [values])


def test_what_a_region_knew_goes_with_it(device: str) -> None:
    """It had references to what an object among the arguments holds."""

    class Sums:
        def __init__(self) -> None:
            self.tensor = torch.ones(3, device=device)

    sums = Sums()
    fast: Any = reprise.region(lambda x, sums: x + sums.tensor)
    x = torch.arange(3.0, device=device)
    for _ in range(CALLS):
        fast(x, sums)
    assert fast.explain().replayed, str(fast.explain())
    gc.disable()
    try:
        del fast
        torch.utils.swap_tensors(sums.tensor, torch.zeros(3, device=device))
    finally:
        gc.enable()
    assert torch.equal(x + sums.tensor, x)


def test_results_of_a_region_that_nobody_holds_are_in_nobodys_way(device: str) -> None:
    """The graph of a recorded call leads to what the region knows."""
    module = net(device)
    module.register_buffer("shift", torch.ones(4, device=device))
    fast: Any = reprise.region(lambda x: module(x) + module.shift)
    x = torch.linspace(-1, 1, 12, device=device).view(3, 4)
    kept = [fast(x) for _ in range(CALLS)]
    gc.disable()
    try:
        del fast
        shift = torch.zeros(4, device=device)
        torch.utils.swap_tensors(module.get_buffer("shift"), shift)
    finally:
        gc.enable()
    for each in kept:
        each.sum().backward()
    assert_same_bits(module(x) + module.get_buffer("shift"), module(x))


def test_a_result_is_differentiated_when_nobody_holds_its_region(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the callable does not run again for it."""
    module = net(device)
    fast: Any = reprise.region(module, check="never")
    x = torch.linspace(-1, 1, 12, device=device).view(3, 4)
    for _ in range(2 * CALLS):
        module.zero_grad()
        fast(x).square().sum().backward()
    assert fast.explain().backward, str(fast.explain())
    expected = [p.grad for p in module.parameters()]
    module.zero_grad(set_to_none=True)
    loss = fast(x).square().sum()

    def fails(*_: Any) -> None:
        pytest.fail("the callable runs again")

    monkeypatch.setattr("reprise.nodes.differentiable.graph_again", fails)
    gc.disable()
    try:
        del fast
        loss.backward()
    finally:
        gc.enable()
    assert_same_bits([p.grad for p in module.parameters()], expected)
