"""Programs that keep many outputs of a pass: several instances of one plan."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import models
import pytest
import reprise
import torch
from torch import nn
from watching import BUILD_TIMEOUT_S, assert_same_bits, randoms

CALLS = 44
SETTLED = 20  # calls after which a look between two of them disturbs nothing


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


class HiddenStates(nn.Module):
    """Returns what every layer made, some of it overwritten by the next one."""

    def __init__(self, width: int = 32, layers: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        states = []
        for layer in self.layers:
            x = layer(x).mul_(0.5)
            states.append(x)
            x = torch.tanh(x).add_(states[-1])
        return [*states, x]


def run(
    device: str,
    step: Callable[[Any], Any],
    inputs: list[Any],
    keep: int,
    **options: Any,
) -> tuple[reprise.Stats, list[dict[str, Any]]]:
    """Call `step` on each input while its last `keep` results live, and compare.

    Gives the counters, and the instances of the plan that was replayed most.
    """
    expected = [step(x) for x in inputs]
    kept: collections.deque[Any] = collections.deque(maxlen=keep)
    chosen = {"policy": "always", **options}
    with reprise.session(device, **chosen) as session:
        session.reset()
        for number, x in enumerate(inputs):
            kept.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
            if number < SETTLED:
                continue
            reprise.disable()
            first = number + 1 - len(kept)
            for index, found in enumerate(kept, first):
                assert_same_bits(found, expected[index], f"result {index}")
            reprise.enable(device, **chosen)
        stats = session.stats()
        report = session.explain()
    plans = sorted(report.to_dict()["plans"], key=lambda plan: -plan["replays"])
    instances: list[dict[str, Any]] = plans[0]["instances"]
    assert stats.replays > 0, str(report)
    if len(instances) > 1:
        assert f"{len(instances)} instances" in str(report)
    return stats, instances


def test_hidden_states_of_the_last_pass(device: str) -> None:
    model = HiddenStates().to(device)
    stats, instances = run(device, model, randoms(device, 4, 32, calls=CALLS), keep=1)
    assert len(instances) == 2
    assert all(instance["replays"] >= 8 for instance in instances)
    assert all(instance["validations"] >= 2 for instance in instances)
    assert stats.escapes == 0


def test_hidden_states_of_all_passes(device: str) -> None:
    """More than instances can hold: outputs escape."""
    model = HiddenStates().to(device)
    inputs = randoms(device, 4, 32, calls=CALLS)
    stats, instances = run(device, model, inputs, keep=CALLS)
    assert len(instances) == 2
    assert stats.escapes > 0


def test_one_instance_where_no_other_is_allowed(device: str) -> None:
    model = HiddenStates().to(device)
    inputs = randoms(device, 4, 32, calls=CALLS)
    stats, instances = run(device, model, inputs, keep=1, max_instances=1)
    assert len(instances) == 1
    assert stats.escapes > 0


def test_one_output_that_is_kept_needs_no_other_instance(device: str) -> None:
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32, calls=CALLS)
    stats, instances = run(device, model, inputs, keep=1)
    assert len(instances) == 1
    assert stats.escapes > 0


def test_micro_batches_in_flight(device: str) -> None:
    """The forward of one batch, that of the next, then both are used."""
    model = HiddenStates().to(device)

    def step(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        states = []
        for x in pair:
            states.append(model(x))
            assert states[-1][-1].sum().item() < 1e9  # a loss that is looked at
        total = states[0][-1]
        for a, b in zip(*states, strict=True):
            total = total * 0.5 + a * b
        assert total.sum().item() < 1e9
        return total

    left = randoms(device, 4, 32, calls=CALLS)
    right = randoms(device, 4, 32, calls=CALLS)
    inputs = list(zip(left, right, strict=True))
    _, instances = run(device, step, inputs, keep=1)
    assert len(instances) == 2
    assert all(instance["replays"] >= 20 for instance in instances)
