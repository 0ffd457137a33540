"""Whole training steps: every bit of what they leave behind, and what is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import models
import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, followed_share, randoms, rest, watched

STEPS = 32
MOST_STEPS = 64  # until a step is followed whole

Made = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Made] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "SGD, for loop": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, foreach=False),
    "SGD, fused": lambda p: torch.optim.SGD(p, lr=0.01, fused=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "Adam, fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "Adam, fused, lr a tensor": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(0.01), fused=True
    ),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "Adam, for loop": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01, foreach=True),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01, foreach=True),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01, foreach=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, foreach=True),
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


def _slow_down(optimizer: torch.optim.Optimizer) -> None:
    """As a scheduler does: another learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].mul_(0.96875)
        else:
            group["lr"] *= 0.96875


@pytest.mark.parametrize(
    ("set_to_none", "scheduled"), [(True, False), (False, False), (True, True)]
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_leave_eagers_bits(
    device: str,
    name: str,
    set_to_none: bool,
    scheduled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parameters, buffers, gradients, losses and the optimizer's state."""
    make = OPTIMIZERS[name]
    start = models.SmallCnn().to(device).train()
    images = randoms(device, 4, 3, 12, 12, calls=MOST_STEPS)
    labels = [torch.randint(5, (4,), device=device) for _ in images]
    # Some steps are validated; the others are followed. What was another op each time
    # before the loop was known stays a cut.
    whole = 1.0 if device != "cpu" or name != "Adam, for loop" else 0.97
    shares: list[float] = []
    # Of steps that optimizers count on the host, where each is a cut of what is
    # watched there.
    reads = 0
    item = torch.Tensor.item

    def read(tensor: torch.Tensor) -> bool | float | int:
        nonlocal reads
        reads += 1
        return item(tensor)

    monkeypatch.setattr(torch.Tensor, "item", read)

    def run(session: reprise.Session | None, steps: int) -> list[torch.Tensor]:
        nonlocal reads
        model = models.SmallCnn().to(device).train()
        model.load_state_dict(start.state_dict())
        optimizer = make(model.parameters())
        losses = []
        with torch.enable_grad():
            for x, label in zip(images[:steps], labels, strict=False):
                before = session.stats() if session else None
                reads = 0
                optimizer.zero_grad(set_to_none=set_to_none)
                loss = nn.functional.cross_entropy(model(x), label)
                loss.backward()
                optimizer.step()
                if scheduled:
                    _slow_down(optimizer)
                losses.append(loss.detach())
                if session and before:
                    cuts = reads if device == "cpu" else 0
                    shares.append(followed_share(session, before, cuts))
                    rest(session)
                    if len(losses) >= STEPS and max(shares[-6:]) >= whole:
                        break
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [
            *losses,
            *gradients,
            *_tensors(dict(model.state_dict())),
            *_tensors(optimizer.state_dict()),
        ]

    with watched(device) as session:
        found = run(session, MOST_STEPS)
        effects = session.stats().effects
        report = str(session.explain())
    assert_same_bits(found, run(None, len(shares)))
    assert effects > 0
    assert max(shares[-6:]) >= whole, (shares, report)


@pytest.mark.parametrize("part", ["column", "block", "every other row"])
def test_parts_of_what_the_program_made_are_written(device: str, part: str) -> None:
    """By ops of a trace; what lies beside them is nobody's business."""
    where = {
        "column": (slice(None), 0),
        "block": (slice(1, 63), slice(2, 5)),
        "every other row": (slice(None, None, 2),),
    }[part]

    def run(session: reprise.Session | None) -> list[torch.Tensor]:
        torch.manual_seed(4)
        table = torch.zeros(64, 7, device=device)
        for x in randoms(device, 64, 7, calls=STEPS):
            y = x
            for _ in range(6):
                y = y * 1.5
            table[where].add_(y[where])
            table[where] = table[where] * 0.5
            if session:
                rest(session)
        return [table]

    with watched(device) as session:
        found = run(session)
        stats = session.stats()
        told = str(session.explain())
    assert_same_bits(found, run(None))
    assert stats.effects > 0, told
    assert stats.followed > stats.ops / 2, told


def test_an_operand_that_comes_to_overlap_raises_as_eagers_does(device: str) -> None:
    base = torch.zeros(128, device=device)
    apart = torch.ones(64, device=device)

    def step(h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = (h * 2).relu()
        for _ in range(4):
            y = y + x
        base[0:64].add_(h)
        return y

    with watched(device) as session:
        for x in randoms(device, 64, calls=20):
            step(apart, x)
            rest(session)
        before = base.clone()
        with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
            step(base[16:80], randoms(device, 64)[0])
        assert_same_bits(base, before)


def test_autograd_counts_writes_of_lists_of_tensors(device: str) -> None:
    """It refuses to go back through what was overwritten."""
    weights = [torch.rand(8, device=device, requires_grad=True) for _ in range(3)]
    with watched(device) as session, torch.enable_grad():
        for _ in range(20):
            y = sum((w * w).sum() for w in weights)
            with torch.no_grad():
                torch._foreach_add_(weights, 0.5)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(y, weights)
            rest(session)
        assert session.stats().effects > 0


def test_versions_of_lists_are_eagers(device: str) -> None:
    """Also of pieces of one tensor, which have one count, and of what is made here."""
    flat = torch.zeros(48, device=device)
    pieces = list(flat.split(16))
    with watched(device) as session:
        versions = []
        for x in randoms(device, 16, calls=20):
            y, z = x * 2.0, x + 1.0
            torch._foreach_mul_([y, z], 0.5)
            torch._foreach_add_(pieces, [y, z, x])
            before = flat._version
            torch._foreach_mul_([*pieces[:2], y], 0.5)
            versions.append((flat._version - before, y._version, z._version))
            rest(session)
        assert session.stats().effects > 0
    with reprise.session(device, enabled=False):
        y, z = torch.ones(16, device=device), torch.ones(16, device=device)
        torch._foreach_mul_([y, z], 0.5)
        torch._foreach_add_(pieces, [y, z, y])
        before = flat._version
        torch._foreach_mul_([*pieces[:2], y], 0.5)
        eager = (flat._version - before, y._version, z._version)
    assert versions == [eager] * len(versions)


def test_batches_that_come_again(device: str) -> None:
    """What a batch's first pass was like, before boundaries were known, is no rule."""
    batches = randoms(device, 8, 32, calls=8)

    def run(session: reprise.Session | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(6)]
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.SGD(
            model.parameters(), lr=0.01, momentum=0.9, foreach=True
        )

        def steps(count: int) -> list[torch.Tensor]:
            losses = []
            for number in range(count):
                x = batches[number % len(batches)]
                optimizer.zero_grad()
                with torch.enable_grad():
                    loss = nn.functional.mse_loss(model(x), x)
                    loss.backward()
                optimizer.step()
                losses.append(loss.detach())
                if session:
                    rest(session)
            return losses

        kept = steps(40)
        for _ in range(3):  # in between the program does without
            with reprise.session(device, enabled=False):
                kept += steps(5)
            before = session.stats() if session else None
            kept += steps(24)
            if session and before:
                shares.append(followed_share(session, before))
        return [*kept, *(p.detach().clone() for p in model.parameters())]

    shares: list[float] = []
    with watched(device) as session:
        found = run(session)
        told = str(session.explain())
    assert_same_bits(found, run(None))
    assert min(shares) >= 0.95, (shares, told)
