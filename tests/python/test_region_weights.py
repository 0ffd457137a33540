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


# --- Modules that take each other's place ---


class Adapter(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.down = nn.Linear(WIDTH, 2, bias=False)
        self.up = nn.Linear(2, WIDTH, bias=False)
        self.scale = 1.0
        self.more = [2.0]
        self.kind: type[nn.Module] = nn.Tanh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.up(self.down(x)) * self.scale
        return self.kind()(y * self.more[0])


class Adapted(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        torch.manual_seed(100)
        self.base = nn.Linear(WIDTH, WIDTH)
        self.adapter = nn.Module()
        self.to(device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.base(x) + self.adapter(x)
        return y


def compare_adapters(
    device: str,
    adapters: list[Adapter],
    turns: int,
    calls: int,
    between: Callable[[int, int], None] = lambda turn, index: None,
) -> list[int]:
    """The same bits in each call. Returns how many calls each turn replays."""
    ours, plain = Adapted(device), Adapted(device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    replayed = [0]
    for turn in range(turns):
        for index, adapter in enumerate(adapters):
            between(turn, index)
            ours.adapter = plain.adapter = adapter
            for call in range(calls):
                assert_same_bits(fast(x), plain(x), f"{turn}, {index}, {call}")
        replayed.append(fast.explain().replayed)
    return [now - before for before, now in itertools.pairwise(replayed)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("count", [2, 8, 16])
def test_adapters_that_come_back(device: str, count: int, grad: bool) -> None:
    adapters = [Adapter(seed).to(device) for seed in range(count)]
    with torch.set_grad_enabled(grad):
        replayed = compare_adapters(device, adapters, turns=5, calls=4)
    assert replayed[3:] == 2 * [4 * count], replayed


def test_too_many_adapters(device: str) -> None:
    adapters = [Adapter(seed).to(device) for seed in range(24)]
    with torch.no_grad():
        replayed = compare_adapters(device, adapters, turns=6, calls=4)
    assert min(replayed[3:]) >= 2 * 24, replayed


def _other_weight(adapter: Adapter) -> None:
    adapter.up.weight = nn.Parameter(adapter.up.weight.detach() * 2)


def _other_data(adapter: Adapter) -> None:
    adapter.up.weight.data = adapter.up.weight.data * 3


def _other_module(adapter: Adapter) -> None:
    adapter.down = Adapter(77).down.to(adapter.down.weight.device)


def _hook(adapter: Adapter) -> None:
    adapter.up.register_forward_hook(lambda module, given, result: result * 5)


def _element(adapter: Adapter) -> None:
    adapter.more[0] += 1


def _container(adapter: Adapter) -> None:
    adapter.more = [adapter.more[0] + 3]


def _scale(adapter: Adapter) -> None:
    adapter.scale += 1


def _kind(adapter: Adapter) -> None:
    adapter.kind = nn.GELU


def _attribute(adapter: Adapter) -> None:
    adapter.up.weight.factor = 3.0


# And how many of 15 calls are replayed behind them: one that leads to a function or a class
# of its own is learned each time that it comes back.
CHANGES = [
    *((_other_weight, 15), (_other_data, 15), (_other_module, 15), (_element, 15)),
    *((_container, 15), (_scale, 15), (_attribute, 15), (_hook, 9), (_kind, 9)),
]


@pytest.mark.parametrize(("change", "least"), CHANGES)
def test_an_adapter_that_changes_while_it_is_away(
    device: str, change: Callable[[Adapter], None], least: int
) -> None:
    adapters = [Adapter(seed).to(device) for seed in range(3)]

    def between(turn: int, index: int) -> None:
        if turn in (4, 6) and index == 0:
            change(adapters[1])

    with torch.no_grad():
        replayed = compare_adapters(device, adapters, 9, 5, between)
    assert replayed[8] >= least, replayed


def test_a_global_that_changes_while_an_adapter_is_away(device: str) -> None:
    class Scaled(Adapter):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * SHARED["scale"][0]

    adapters: list[Adapter] = [Scaled(seed).to(device) for seed in range(3)]

    def between(turn: int, index: int) -> None:
        if turn == 4 and index == 0:
            SHARED["scale"][0] = 3.0
        if turn == 5 and index == 1:
            SHARED["scale"] = [1.0]

    with torch.no_grad():
        replayed = compare_adapters(device, adapters, 9, 5, between)
    assert replayed[8] == 15, replayed


SHARED = {"scale": [1.0]}


def test_adapters_that_the_program_drops(device: str) -> None:
    ours = Adapted(device)
    fast: Any = reprise.region(ours)
    x = torch.randn(4, WIDTH, device=device)
    adapters = [Adapter(seed).to(device) for seed in range(6)]
    with torch.no_grad():
        for adapter in 4 * adapters:
            ours.adapter = adapter
            for _ in range(3):
                fast(x)
    assert fast.explain().replayed >= 36, str(fast.explain())
    whole = [each for adapter in adapters for each in (adapter, *adapter.parameters())]
    alive = [weakref.ref(each) for each in whole]
    ours.adapter = Adapter(50).to(device)
    fast(x)
    del adapters, adapter, whole
    gc.collect()
    assert not [each for each in alive if each() is not None]
