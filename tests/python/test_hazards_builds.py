"""Builds that finish early, late or in the middle of a pass: eager's results."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import models
import pytest
import reprise
import torch
from hazards import same_as_eager

CALLS_AFTER_ALL = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


@pytest.mark.parametrize("seed", range(6))
def test_builds_finish_whenever(device: str, seed: int) -> None:
    """Several models at once, left to their builds for a random while at any layer."""
    parts = [models.mlp().to(device), models.mlp(layers=3).to(device)]
    parts.append(models.mlp(layers=9).to(device))

    def run(wait: Callable[[], object]) -> list[Any]:
        torch.manual_seed(seed)
        choose = random.Random(seed)

        def rest() -> None:
            kind = choose.randrange(8)
            if kind == 0:
                wait()
            elif kind == 1:
                reprise.wait(0)
            elif kind == 2:
                time.sleep(choose.random() / 1000)

        kept: list[Any] = []
        for _ in range(90):
            model = choose.choice(parts)
            h = torch.randn(4, 32, device=device)
            for layer in model:
                h = layer(h)
                if choose.random() < 0.05:
                    rest()
            kept.append(h)
            rest()
            if choose.random() < 0.01:
                reprise.reset()
        for _ in range(CALLS_AFTER_ALL):  # by which builds have come, whatever was
            kept += [model(torch.randn(4, 32, device=device)) for model in parts]
            wait()
        return kept

    same_as_eager(device, run)


def test_replays_come_without_anybody_waiting(device: str) -> None:
    """Builds are collected by the program's own passes, whenever they are done."""
    model = models.mlp().to(device)
    x = torch.randn(4, 32, device=device)
    expected = model(x)
    with reprise.session(device, policy="always") as session:
        session.reset()
        found = []
        while session.stats().replays == 0 and len(found) < 20_000:
            found.append(model(x.clone()))
        assert session.stats().replays > 0, str(session.explain())
    assert all(torch.equal(value, expected) for value in found)
