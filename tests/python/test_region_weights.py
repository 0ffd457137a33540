"""Sets of weights that take turns in one module: known once they have come."""

from __future__ import annotations

import copy
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

WIDTH = 8


@pytest.fixture(autouse=True)
def _looks_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """These modules are small: a look takes longer than their calls."""
    monkeypatch.setattr("reprise._region_looks._LONGEST_LOOK", 1.0)


def layers(seed: int, device: str) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)
    ).to(device)


def weights_of(module: nn.Module) -> list[nn.Parameter]:
    return [*module.parameters()]


def put(module: nn.Module, weights: list[nn.Parameter]) -> None:
    left = iter(weights)
    for each in module.modules():
        for name in each._parameters:
            each._parameters[name] = next(left)


def pairs(
    sets: list[list[nn.Parameter]], device: str
) -> Iterator[tuple[nn.Module, nn.Module, Callable[[int], None]]]:
    """A module that is a region, one that is not, and what puts a set into both."""
    ours, plain = layers(0, device), layers(0, device)
    copies = copy.deepcopy(sets)

    def use(index: int) -> None:
        put(ours, sets[index])
        put(plain, copies[index])

    yield ours, plain, use


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("count", "calls"), [(2, 1), (9, 1), (20, 1), (20, 5)])
def test_sets_that_come_back(device: str, count: int, calls: int, grad: bool) -> None:
    """A set is learned by two calls, or three with gradients, and known from then on."""
    sets = [weights_of(layers(seed, device)) for seed in range(count)]
    ((ours, plain, use),) = pairs(sets, device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    replayed = 0
    with torch.set_grad_enabled(grad):
        for turn in range(8):
            for index in range(count):
                use(index)
                for call in range(calls):
                    assert_same_bits(fast(x), plain(x), f"{turn}, {index}, {call}")
            if turn == 4:
                replayed = fast.explain().replayed
    report = fast.explain()
    assert report.replayed == replayed + 3 * count * calls, str(report)


def test_gradients_go_to_the_set_that_is_there(device: str) -> None:
    sets = [weights_of(layers(seed, device)) for seed in range(12)]
    ((ours, plain, use),) = pairs(sets, device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    for turn, index in itertools.product(range(8), range(len(sets))):
        use(index)
        for module, called in ((ours, fast), (plain, plain)):
            module.zero_grad()
            called(x).square().sum().backward()
        assert_same_bits(
            [each.grad for each in weights_of(ours)],
            [each.grad for each in weights_of(plain)],
            f"turn {turn}, set {index}",
        )
    report = fast.explain()
    assert report.backward > 2 * len(sets), str(report)


def test_sets_are_assigned(device: str) -> None:
    """By a state of Parameters: others are made anew by torch each time."""
    sets = [dict(layers(seed, device).named_parameters()) for seed in range(9)]
    ours = layers(0, device)
    plain = [copy.deepcopy(ours) for _ in sets]
    for module, state in zip(plain, copy.deepcopy(sets), strict=True):
        module.load_state_dict(state, assign=True)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for turn, index in itertools.product(range(6), range(len(sets))):
            ours.load_state_dict(sets[index], assign=True)
            assert_same_bits(fast(x), plain[index](x), f"turn {turn}, set {index}")
    report = fast.explain()
    assert report.replayed >= 3 * len(sets), str(report)


def test_weights_that_change_places(device: str) -> None:
    """The same tensors, and sometimes one of them twice."""
    first, second, *_ = (layers(seed, device) for seed in range(3))
    biases = [weights_of(first)[1], weights_of(first)[3]]
    matrices = [weights_of(each)[at] for each in (first, second) for at in (0, 2)]
    sets = [
        [one, biases[0], other, biases[1]]
        for one, other in itertools.product(matrices, matrices)
    ]
    ((ours, plain, use),) = pairs(sets, device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for turn, index in itertools.product(range(6), range(len(sets))):
            use((5 * index + turn) % len(sets))
            assert_same_bits(fast(x), plain(x), f"turn {turn}, set {index}")
    report = fast.explain()
    assert report.replayed >= 3 * len(sets), str(report)


def test_attributes_of_weights(device: str) -> None:
    """They are a part of the set, and may change while another set is there."""

    class Scaled(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            factor: float = getattr(self.weight, "factor", 1.0)
            return (x @ self.weight) * factor

    sets = [weights_of(Scaled(seed).to(device)) for seed in range(9)]
    ours, plain = Scaled(0).to(device), Scaled(0).to(device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for turn, index in itertools.product(range(12), range(len(sets))):
            if turn == 4 or (turn == 8 and index == 3):
                sets[index][0].factor = 1.0 + turn + index
                sets[-1][0].factor = 7.0 + turn
            put(ours, sets[index])
            put(plain, sets[index])
            assert_same_bits(fast(x), plain(x), f"turn {turn}, set {index}")
    report = fast.explain()
    assert report.replayed >= 5 * len(sets), str(report)


def test_sets_by_a_functional_call(device: str) -> None:
    model = layers(0, device)
    sets = [dict(layers(seed, device).named_parameters()) for seed in range(9)]
    fast: Any = reprise.region(model)
    x = torch.randn(4, WIDTH, device=device)
    call = torch.func.functional_call
    with torch.no_grad():
        for turn, index in itertools.product(range(6), range(len(sets))):
            found = call(fast, sets[index], (x,))
            wanted = call(model, sets[index], (x,))
            assert_same_bits(found, wanted, f"turn {turn}, set {index}")
    report = fast.explain()
    assert report.replayed >= 3 * len(sets), str(report)


def test_sets_that_the_program_drops(device: str) -> None:
    """None is kept, whether it was known or not."""
    sets = [weights_of(layers(seed, device)) for seed in range(20)]
    ours = layers(0, device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for _, weights in itertools.product(range(4), sets):
            put(ours, weights)
            fast(x)
    assert fast.explain().replayed >= 20, str(fast.explain())
    alive = [weakref.ref(each) for weights in sets for each in weights]
    put(ours, weights_of(layers(0, device)))
    del sets, weights
    gc.collect()
    assert not [each for each in alive if each() is not None]


def test_new_sets_without_end(device: str) -> None:
    """Each is learned, and no more is kept than of a few."""
    ours = layers(0, device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    with torch.no_grad():
        for index in range(100):
            state = layers(index, device).state_dict()
            ours.load_state_dict(state, assign=True)
            plain = copy.deepcopy(ours)
            for call in range(5):
                assert_same_bits(fast(x), plain(x), f"set {index}, call {call}")
    report = fast.explain()
    assert report.replayed == 300, str(report)
    assert len(fast._reprise_region._reads._states) == 1
