"""Numbers that Python reads from tensors of the host, and computes, are computed in each replay."""

from __future__ import annotations

import copy
import math
import operator
import struct
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import random_arithmetic
import reprise
import torch
from torch import library as torch_library
from torch import nn
from watching import assert_same_bits

CALLS = 24
BATCHES = 5
MODULES = {
    name: module
    for name, module in vars(torch.optim).items()
    if isinstance(module, types.ModuleType)
}
# By optimizer: what it is given besides.
FOLLOWED: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"betas": (0.0, 0.9)}),  # of adversarial networks
    ("AdamW", {}),
    ("RAdam", {"betas": (0.9, 0.99)}),  # its steps change after some calls
    ("Adamax", {}),
    ("Adagrad", {"lr_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
]


STEPS: list[torch.Tensor] = []
LIBRARY = torch_library.Library("reprise_test_arithmetic", "DEF")  # for good
LIBRARY.define("bump(Tensor x) -> Tensor")


def bump(x: torch.Tensor) -> torch.Tensor:
    for each in STEPS:
        each.add_(1)
    return x.clone()


for _key in ("CPU", "CUDA"):
    LIBRARY.impl("bump", bump, _key)


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


@pytest.mark.parametrize("adjusts", [None, "match_rms_adamw"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon(adjusts: Any, decay: float, device: str) -> None:
    """It computes with its rate, and takes roots of sizes alone."""

    class OfMatrices(Training):
        def __init__(self) -> None:
            super().__init__("SGD", device)
            weights = [p for p in self.model.parameters() if p.dim() == 2]
            self.optimizer = torch.optim.Muon(
                weights, weight_decay=decay, adjust_lr_fn=adjusts
            )

    plain, ours = OfMatrices(), OfMatrices()

    def between(training: Training, call: int) -> None:
        for group in training.optimizer.param_groups:
            group["lr"] = 0.1 / (call + 2)

    fast: Any = reprise.region(ours.step)
    compare(plain, ours, fast, between, device=device)
    assert fast.explain().replayed >= CALLS - 6, str(fast.explain())


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

    def __init__(self, device: str) -> None:
        self.counter = torch.zeros(())
        self.state = torch.zeros(3, device=device)

    def count(self, x: torch.Tensor) -> float:
        self.state.add_(x)
        self.counter += 1
        return self.counter.item()


class Rate(float):
    """Its operators look at the value of another float without asking it."""


Function = Callable[[Counting, torch.Tensor, float], Any]
# Numbers that the program's own code reads, by ways that no float is told of and others.
PROGRAMS: dict[str, Function] = {
    "negative": lambda of, x, a: x * -of.count(x),
    "power": lambda of, x, a: x * (1 - 0.9 ** of.count(x)) * a,
    "branch": lambda of, x, a: x * (2 if of.count(x) < 9 else 3) * a,
    "formatted": lambda of, x, a: (
        x * (2 if operator.mod("%.0f", of.count(x)) != "9" else 3)
    ),
    "another float": lambda of, x, a: x * max(2.0, Rate(0.5) * of.count(x)),
    "complex": lambda of, x, a: x * (2 if abs(1j * of.count(x)) < 9 else 3),
    "wrapper": lambda of, x, a: x * (2 if (9.0).__gt__(of.count(x)) else 3),
    "root": lambda of, x, a: x * math.sqrt(of.count(x)) * a,
    "rounded": lambda of, x, a: x * round(of.count(x) / 100) * a,
    "tensor": lambda of, x, a: x * torch.tensor(1 - 1e-9 * of.count(x)).item() * a,
    "size": lambda of, x, a: x * torch.arange(0.0, of.count(x) * 0.3).numel(),
    "of a": lambda of, x, a: x * (a * 2) * (1 - a) + x / (a + of.count(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_the_programs_own_code(name: str, device: str) -> None:
    """They are followed in torch's optimizers only: others read them in each call."""
    function = PROGRAMS[name]
    plain, ours = Counting(device), Counting(device)
    fast: Any = reprise.region(lambda x, a: function(ours, x, a))
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.full((3,), 0.25 * (call % 3), device=device)
            a = call + 1.0 if call < CALLS // 2 else 3.0
            assert_same_bits(fast(x, a), function(plain, x, a), f"call {call}")
            assert_same_bits([ours.state, ours.counter], [plain.state, plain.counter])
    assert fast.explain().replayed == 0
    assert "hands data to the host" in str(fast.explain())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.uint16, torch.float8_e5m2])
def test_constants_of_other_types(dtype: torch.dtype, device: str) -> None:
    """A number varies beside a constant in whose type no float is."""
    fast: Any = reprise.region(
        lambda x, a: x * a + torch.tensor(1).to(dtype).real.item()
    )
    with torch.no_grad():
        for a in (0.5, 1.5, 2.5, 0.25):
            x = torch.ones(2, device=device)
            assert_same_bits(fast(x, a), x * a + 1)


@pytest.mark.parametrize("foreach", [False, True])
def test_counters_that_share_memory(foreach: bool, device: str) -> None:
    """What is added to one is added to the other, too."""
    plain, ours = (Training("Adam", device, foreach=foreach) for _ in range(2))
    fast: Any = reprise.region(ours.step)

    def between(each: Training, call: int) -> None:
        if call == 8:
            states = list(each.optimizer.state.values())
            states[2]["step"].data = states[0]["step"].data

    compare(plain, ours, fast, between, device=device)
    assert fast.explain().replayed > 0, str(fast.explain())


@pytest.mark.parametrize("number", [Rate(0.01), 1e-2 + 0j, True])
def test_numbers_of_other_classes(number: Any, device: str) -> None:
    """Such a rate reads another number without asking it."""
    plain, ours = (Training("Adagrad", device, foreach=False) for _ in range(2))
    for each in (plain, ours):
        for group in each.optimizer.param_groups:
            group["lr_decay"] = number if not isinstance(number, complex) else 0.5
            group["lr"] = number if isinstance(number, Rate) else 0.01
    compare(plain, ours, reprise.region(ours.step), device=device)


def test_a_constant_that_the_call_has_written(device: str) -> None:
    """It is added to the steps; its content is an argument's."""
    plain, ours = (Training("Adam", device) for _ in range(2))

    def step(each: Training, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        more = torch.tensor(0.0)
        more.add_(t)
        for state in each.optimizer.state.values():
            state["step"].add_(more)
        return each.step(x)

    fast: Any = reprise.region(lambda x, t: step(ours, x, t))
    given = batches(device)
    for call in range(CALLS):
        x, t = given[call % BATCHES], torch.tensor(1.0 if call < CALLS // 2 else 3.0)
        assert_same_bits(fast(x, t), step(plain, x, t), f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")


def test_counters_that_overlap(device: str) -> None:
    """An array holds all of them, and the call adds to it as a whole."""
    plain, ours = (Training("Adam", device) for _ in range(2))
    first = batches(device)[0]
    for each in (plain, ours):
        each.step(first)
    arrays = {each: np.ones(5, np.float32) for each in (plain, ours)}
    for each, array in arrays.items():
        for k, state in enumerate(each.optimizer.state.values()):
            state["step"] = torch.from_numpy(array[k + 1 : k + 2]).view(())
    wholes = {each: torch.from_numpy(array) for each, array in arrays.items()}

    def step(each: Training, x: torch.Tensor) -> torch.Tensor:
        wholes[each].add_(1)
        return each.step(x)

    fast: Any = reprise.region(lambda x: step(ours, x))
    given = batches(device)
    for call in range(CALLS):
        x = given[call % BATCHES]
        assert_same_bits(fast(x), step(plain, x), f"call {call}")
        assert_same_bits(ours.left(), plain.left(), f"call {call}")


class Bounded(torch.Tensor):
    """Its number is not what it holds."""

    def item(self) -> float:
        return min(super().item(), 12.0)


def bounded_steps(each: Training) -> None:
    for state in each.optimizer.state.values():
        state["step"] = state["step"].as_subclass(Bounded)


def bounded_numbers(each: Training) -> None:
    """A function of the program's stands between the optimizer and torch."""

    class Between(nn.Parameter):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.Tensor.addcdiv_:
                seen = struct.unpack("d", struct.pack("d", kwargs["value"]))[0]
                kwargs["value"] = min(seen, -0.005)
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)

    layer = each.model[0]
    layer.weight = Between(layer.weight.detach())
    group = each.optimizer.param_groups[0]
    each.optimizer.state.clear()
    group["params"][0] = layer.weight


@pytest.mark.parametrize("change", [bounded_steps, bounded_numbers])
def test_numbers_that_others_see(
    change: Callable[[Training], None], device: str
) -> None:
    plain, ours = (
        Training("Adam", device, foreach=False, betas=(0.99, 0.5)) for _ in range(2)
    )
    first = batches(device)[0]
    for each in (plain, ours):
        each.step(first)
        change(each)
    fast: Any = reprise.region(ours.step)
    compare(plain, ours, fast, device=device, calls=40)
    assert fast.explain().replayed == 0


def test_a_writer_that_no_call_shows(device: str) -> None:
    """An operator of the program's changes the steps, and does not say so."""
    plain, ours = (Training("Adam", device) for _ in range(2))

    def step(each: Training, x: torch.Tensor) -> torch.Tensor:
        x = torch.ops.reprise_test_arithmetic.bump(x)
        return each.step(x)

    fast: Any = reprise.region(lambda x: step(ours, x))
    given = batches(device)
    for call in range(CALLS):
        x = given[call % BATCHES]
        for each, function in ((plain, lambda x: step(plain, x)), (ours, fast)):
            STEPS[:] = [s["step"] for s in each.optimizer.state.values()]
            function(x)
        assert_same_bits(ours.left(), plain.left(), f"call {call}")
    assert fast.explain().replayed == 0


def test_the_optimizers_modules_are_as_they_were(device: str) -> None:
    before = {name: vars(module).copy() for name, module in MODULES.items()}
    ours = Training("RAdam", device)
    fast: Any = reprise.region(ours.step)
    for x in batches(device):
        fast(x)
    for name, module in MODULES.items():
        assert vars(module) == before[name], name
    held = [value for group in ours.optimizer.param_groups for value in group.values()]
    assert {type(each) for each in held if isinstance(each, float)} == {float}


@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic(seed: int, device: str) -> None:
    random_arithmetic.compare(seed, device)


def test_random_arithmetic_is_replayed(device: str) -> None:
    replayed = [random_arithmetic.compare(seed, device).replayed for seed in range(8)]
    assert sum(replayed) > len(replayed) * random_arithmetic.CALLS // 2
