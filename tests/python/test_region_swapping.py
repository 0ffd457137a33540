"""Tensors that regions lead to are swapped as in eager (torch.utils.swap_tensors)."""

from __future__ import annotations

import copy
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
