"""Whole training steps: every bit of what they leave behind, and what is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import models
import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, randoms, rest, watched

STEPS = 24

Made = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

# By name: what makes the optimizer, and whether it reads nothing back on the host.
OPTIMIZERS: dict[str, tuple[Made, bool]] = {
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.01), True),
    "SGD, momentum": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), True),
    "SGD, for loop": (
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, foreach=False),
        True,
    ),
    "RMSprop": (lambda p: torch.optim.RMSprop(p, lr=0.01), True),
    "Adam, fused": (lambda p: torch.optim.Adam(p, lr=0.01, fused=True), True),
    "AdamW": (lambda p: torch.optim.AdamW(p, lr=0.01), False),
    "Adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.01), False),
}


def _tensors(state: object) -> list[torch.Tensor]:
    """All in a state_dict, in order."""
    if isinstance(state, torch.Tensor):
        return [state.clone()]
    if isinstance(state, dict):
        state = list(state.values())
    if isinstance(state, list):
        return [tensor for part in state for tensor in _tensors(part)]
    return []


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_leave_eagers_bits(device: str, name: str, set_to_none: bool) -> None:
    """Parameters, buffers, gradients, losses and the optimizer's state."""
    make, is_all_device = OPTIMIZERS[name]
    start = models.SmallCnn().to(device).train()
    images = randoms(device, 4, 3, 12, 12, calls=STEPS)
    labels = [torch.randint(5, (4,), device=device) for _ in images]
    shares: list[float] = []

    def run(session: reprise.Session | None) -> list[torch.Tensor]:
        model = models.SmallCnn().to(device).train()
        model.load_state_dict(start.state_dict())
        optimizer = make(model.parameters())
        losses = []
        with torch.enable_grad():
            for x, label in zip(images, labels, strict=True):
                before = session.stats() if session else None
                optimizer.zero_grad(set_to_none=set_to_none)
                loss = nn.functional.cross_entropy(model(x), label)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
                if session and before:
                    step = session.stats().since(before)
                    shares.append(step.followed / step.ops)
                    rest(session)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [
            *losses,
            *gradients,
            *_tensors(dict(model.state_dict())),
            *_tensors(optimizer.state_dict()),
        ]

    with watched(device) as session:
        found = run(session)
        effects = session.stats().effects
    assert_same_bits(found, run(None))
    if device == "cpu":
        assert effects > 0
        # Some steps are validated; the others are followed.
        assert max(shares[-6:]) >= (1.0 if is_all_device else 0.85), shares
