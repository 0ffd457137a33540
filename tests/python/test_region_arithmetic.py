"""Numbers that Python reads from tensors of the host, and computes, are computed in each replay."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import random_arithmetic
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 24
BATCHES = 5
# By optimizer: what it is given besides.
FOLLOWED: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {}),
    ("RAdam", {"betas": (0.9, 0.99)}),  # its steps change after some calls
    ("Adamax", {}),
    ("Adagrad", {"lr_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
]


class Training:
    """A model in training, and what it leaves."""

    def __init__(self, name: str, device: str, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.model.to(device)
        weights = [p for p in self.model.parameters() if p.dim() > 1]
        biases = [p for p in self.model.parameters() if p.dim() == 1]
        groups = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
        self.optimizer = getattr(torch.optim, name)(groups, **options)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def left(self) -> list[torch.Tensor]:
        states = self.optimizer.state.values()
        held = [value for state in states for value in state.values()]
        return [*self.model.parameters(), *filter(torch.is_tensor, held)]


def batches(device: str) -> list[torch.Tensor]:
    return [torch.randn(4, 6, device=device) for _ in range(BATCHES)]


def compare(
    plain: Training,
    ours: Training,
    fast: Any,
    between: Callable[[Training, int], None] = lambda training, call: None,
    calls: int = CALLS,
    device: str = "cpu",
) -> None:
    """The same calls of both, with what happens between them: the same bits."""
    given = batches(device)
    for call in range(calls):
        x = given[call % BATCHES]
        assert_same_bits(fast(x), plain.step(x), f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")
        for each in (plain, ours):
            between(each, call)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(("name", "options"), FOLLOWED)
def test_optimizers_as_they_are(
    name: str, options: dict[str, Any], foreach: bool, device: str
) -> None:
    """A schedule steps outside; it is one variant for all steps, or two."""
    plain, ours = (Training(name, device, foreach=foreach, **options) for _ in range(2))
    schedules = {
        each: torch.optim.lr_scheduler.CosineAnnealingLR(each.optimizer, 60)
        for each in (plain, ours)
    }
    fast: Any = reprise.region(ours.step)
    compare(plain, ours, fast, lambda each, _: schedules[each].step(), device=device)
    report = fast.explain()
    assert report.replayed >= CALLS - 8, str(report)
    assert report.variants <= 2, str(report)


@pytest.mark.parametrize("foreach", [False, True])
def test_counters_that_part(foreach: bool, device: str) -> None:
    """Those that were equal in all recordings are others later, are reset, and saturate."""
    plain, ours = (Training("AdamW", device, foreach=foreach) for _ in range(2))
    fast: Any = reprise.region(ours.step)

    def between(each: Training, call: int) -> None:
        states = list(each.optimizer.state.values())
        if call == 10:
            states[1]["step"].fill_(3.0)
        if call == 16:
            for state in states:
                state["step"].zero_()
        if call == 24:
            for state in states:
                state["step"].fill_(1e6)
        if call == 32:
            for state in states:
                state["step"].fill_(5.0)

    compare(plain, ours, fast, between, 40, device)
    assert fast.explain().replayed >= 16, str(fast.explain())


def test_a_state_that_is_loaded(device: str) -> None:
    plain, ours = (Training("Adam", device, foreach=True) for _ in range(2))
    fast: Any = reprise.region(ours.step)
    kept: dict[Training, Any] = {}

    def between(each: Training, call: int) -> None:
        if call == 6:
            kept[each] = copy.deepcopy(each.optimizer.state_dict())
        if call == 12:
            each.optimizer.load_state_dict(kept[each])

    compare(plain, ours, fast, between, 30, device)
    assert fast.explain().replayed >= 12, str(fast.explain())


class Counting:
    """A counter on the host, and a tensor that is written before it is read."""

    def __init__(self, device: str, dtype: torch.dtype = torch.float32) -> None:
        self.counter = torch.zeros((), dtype=dtype)
        self.state = torch.zeros(3, device=device)

    def count(self, x: torch.Tensor) -> float:
        self.state.add_(x)
        self.counter += 1
        return self.counter.item()


def replays(
    function: Callable[[Counting, torch.Tensor, float], Any],
    device: str,
    dtype: torch.dtype = torch.float32,
    calls: int = CALLS,
) -> tuple[int, str]:
    """How often the function of a counter was replayed, with eager's bits, and what is said."""
    plain, ours = Counting(device, dtype), Counting(device, dtype)
    fast: Any = reprise.region(lambda x, a: function(ours, x, a))
    with torch.no_grad():
        for call in range(calls):
            x = torch.full((3,), 0.25 * (call % 3), device=device)
            a = 0.5 if call < calls // 2 else 0.125
            assert_same_bits(fast(x, a), function(plain, x, a), f"call {call}")
            assert_same_bits(
                [ours.state, ours.counter], [plain.state, plain.counter], f"call {call}"
            )
    assert torch.Tensor.item is torch._C.TensorBase.item
    return fast.explain().replayed, str(fast.explain())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_quotients_and_branches(dtype: torch.dtype, device: str) -> None:
    def function(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        n = of.count(x)
        decay = min(0.9, (1 + n) / (10 + n))
        return x * (1 - 0.99**n) + (decay if n < 12 else -decay) * a

    replayed, said = replays(function, device, dtype)
    assert replayed >= CALLS // 2, said


def test_numbers_that_are_equal_by_chance(device: str) -> None:
    """While `a` and the number of the counter agree, each of them may be what is given."""

    def function(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        n = of.count(x)
        return x * (n / n * a) + x * max(a, 0.125)

    replayed, said = replays(function, device)
    assert replayed >= CALLS // 2, said


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16])
def test_other_counters_are_not_followed(dtype: torch.dtype, device: str) -> None:
    replayed, said = replays(lambda of, x, a: x * (1 / of.count(x)) * a, device, dtype)
    assert replayed == 0
    assert "hands data to the host" in said


def test_mathematics_are_not_followed(device: str) -> None:
    root = math.sqrt

    def computed(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        return x * root(of.count(x)) * a

    def rounded(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        return x * round(of.count(x) / 100) * a

    def told(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        return x * len(f"{of.count(x):.0f}") * a

    def made(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        return x * torch.tensor(1 - 1e-9 * of.count(x), device=x.device) * a

    for function in (computed, rounded, told, made):
        replays(function, device)


def test_numbers_that_stay(device: str) -> None:
    """What the program keeps of them are ordinary floats, with eager's values."""
    kept: list[Any] = []

    def function(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        n = of.count(x)
        kept.append(n / 2)
        return x * a

    replays(function, device)
    assert all(type(each) is float for each in kept)


def test_an_error_of_a_later_number(device: str) -> None:
    """Where Python raises, so does the region, at the same call."""
    plain, ours = Counting(device), Counting(device)

    def function(of: Counting, x: torch.Tensor, a: float) -> torch.Tensor:
        return x * (a / (of.count(x) - 9))

    fast: Any = reprise.region(lambda x, a: function(ours, x, a))
    x = torch.ones(3, device=device)
    with torch.no_grad():
        for call in range(14):
            if call == 8:
                for run in (fast, lambda x, a: function(plain, x, a)):
                    with pytest.raises(ZeroDivisionError):
                        run(x, 0.5)
            else:
                assert_same_bits(fast(x, 0.5), function(plain, x, 0.5))
            assert_same_bits([ours.counter, ours.state], [plain.counter, plain.state])
    assert fast.explain().replayed >= 6, str(fast.explain())


@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic(seed: int, device: str) -> None:
    random_arithmetic.compare(seed, device)


def test_random_arithmetic_is_replayed(device: str) -> None:
    replayed = [random_arithmetic.compare(seed, device).replayed for seed in range(8)]
    assert sum(replayed) > len(replayed) * random_arithmetic.CALLS // 2
