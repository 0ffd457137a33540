"""Operators of other libraries beside numbers that optimizers read from tensors of the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import library as torch_library
from torch import nn
from watching import assert_same_bits, rest, watched

CALLS = 24
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adam": {"foreach": False},
    "AdamW": {"foreach": True},
    "RAdam": {"betas": (0.9, 0.99)},  # its steps change after some calls
    "Adamax": {},
    "Adagrad": {"lr_decay": 0.01},
}

# What the operator writes, and does not say so: a number of the host. None: nothing.
WRITTEN = ctypes.pointer(ctypes.c_float())
NOTHING = ctypes.pointer(ctypes.c_float())
LIBRARY = torch_library.Library("reprise_test_others_operators", "DEF")  # for good
LIBRARY.define("scale(Tensor x) -> Tensor")


def scale(x: torch.Tensor) -> torch.Tensor:
    WRITTEN.contents.value += 1
    return x * 2


for _key in ("CPU", "CUDA"):
    LIBRARY.impl("scale", scale, _key)
torch_library.register_fake("reprise_test_others_operators::scale", torch.empty_like)
torch_library.register_autograd(
    "reprise_test_others_operators::scale",
    lambda _, gradient: gradient * 2,
    setup_context=lambda *_, **__: None,
)
OPERATOR = torch.ops.reprise_test_others_operators.scale


class Training:
    """A model in training, and what it leaves."""

    def __init__(self, name: str, device: str) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.model.to(device)
        kind = getattr(torch.optim, name)
        self.optimizer = kind(self.model.parameters(), **OPTIMIZERS[name])

    def update(self, y: torch.Tensor) -> torch.Tensor:
        loss = y.square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def left(self) -> list[torch.Tensor]:
        states = self.optimizer.state.values()
        held = [value for state in states for value in state.values()]
        return [*self.model.parameters(), *filter(torch.is_tensor, held)]

    def steps(self) -> list[torch.Tensor]:
        return [state["step"] for state in self.optimizer.state.values()]


def points_at(address: int) -> None:
    """Have the operator write there; 0: nowhere that matters."""
    where = ctypes.c_void_p(address or ctypes.addressof(NOTHING.contents))
    ctypes.memmove(ctypes.addressof(WRITTEN), ctypes.addressof(where), 8)


Step = Callable[[Training, torch.Tensor], torch.Tensor]


def before(training: Training, x: torch.Tensor) -> torch.Tensor:
    return training.update(OPERATOR(training.model(x)))


def behind(training: Training, x: torch.Tensor) -> torch.Tensor:
    return OPERATOR(training.update(training.model(x)))  # type: ignore[no-any-return]


def between(training: Training, x: torch.Tensor) -> torch.Tensor:
    loss = OPERATOR(training.update(training.model(x)))
    return training.update(training.model(x)) + loss


def compare(
    name: str, step: Step, device: str, wait: Callable[[], object] = lambda: None
) -> reprise.RegionReport:
    plain, ours = Training(name, device), Training(name, device)
    fast: Any = reprise.region(lambda x: step(ours, x))
    for call in range(CALLS):
        wait()
        x = torch.randn(4, 6, device=device)
        assert_same_bits(fast(x), step(plain, x), f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.mark.parametrize("step", [before, behind, between])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_default_optimizers(name: str, step: Step, device: str) -> None:
    report = compare(name, step, device)
    assert report.replayed >= CALLS - 8, str(report)


@pytest.mark.parametrize("step", [before, between])
def test_default_optimizers_by_plans(step: Step, device: str) -> None:
    with watched(device) as session:
        report = compare("AdamW", step, device, lambda: rest(session))
    assert report.replayed >= CALLS - 8, str(report)


@pytest.mark.parametrize("step", [before, between])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_is_written_unsaid_raises(
    name: str, step: Step, device: str
) -> None:
    """No recorded call has shown that the operator writes."""
    ours = Training(name, device)
    fast: Any = reprise.region(lambda x: step(ours, x))
    for _ in range(CALLS):
        fast(torch.randn(4, 6, device=device))
    assert fast.explain().replayed >= CALLS - 8, str(fast.explain())
    points_at(ours.steps()[0].data_ptr())
    try:
        said = (
            "an operator of another library has changed a tensor that it was not given"
        )
        with pytest.raises(RuntimeError, match=said):
            fast(torch.randn(4, 6, device=device))
    finally:
        points_at(0)


def test_a_step_that_is_always_written_is_refused(device: str) -> None:
    plain, ours = Training("AdamW", device), Training("AdamW", device)
    fast: Any = reprise.region(lambda x: before(ours, x))
    for call in range(CALLS):
        x = torch.randn(4, 6, device=device)
        found = []
        for each, function in ((plain, lambda x: before(plain, x)), (ours, fast)):
            points_at(each.steps()[0].data_ptr() if each.steps() else 0)
            try:
                found.append(function(x))
            finally:
                points_at(0)
        assert_same_bits(found[0], found[1], f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")
    assert fast.explain().replayed == 0
