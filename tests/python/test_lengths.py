"""Batches of many lengths in random order: plans that take turns in one arena."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import BUILD_TIMEOUT_S, assert_same_bits, followed_share

LENGTHS = range(8, 72, 8)
ROUNDS = 24


def layers() -> nn.Module:
    torch.manual_seed(1)
    block = (nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.LayerNorm(32))
    return nn.Sequential(*block, nn.Dropout(0.1), nn.Linear(32, 32), nn.Tanh())


def inference(device: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    model = layers().to(device).eval()

    @torch.no_grad()
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        y = model(x)
        y.sum().item()  # the host looks, between batches
        return [y]

    return step


def training(device: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    model = layers().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
        return [loss.detach(), next(model.parameters()).detach().clone()]

    return step


def texts(device: str) -> list[torch.Tensor]:
    torch.manual_seed(2)
    order = random.Random(3)
    lengths = [n for _ in range(ROUNDS) for n in order.sample(LENGTHS, len(LENGTHS))]
    return [torch.randn(4, length, 32).to(device) for length in lengths]


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("make", [inference, training])
def test_plans_of_all_lengths_share_an_arena(
    device: str, make: Callable[[str], Callable[[torch.Tensor], Any]], kept: int
) -> None:
    batches = texts(device)
    step = make(device)
    torch.manual_seed(4)
    expected = [[t.cpu() for t in step(x)] for x in batches]
    step = make(device)
    torch.manual_seed(4)
    options = {"policy": "always", "shared_arena_bytes": 0}
    with reprise.session(device, **options) as session:
        session.reset()
        found: list[list[torch.Tensor]] = []
        for number, x in enumerate(batches):
            if number == len(batches) - len(LENGTHS):
                before = session.stats()
            found.append(step(x))
            assert session.wait(BUILD_TIMEOUT_S)
            if number >= kept:
                found[number - kept] = [t.cpu() for t in found[number - kept]]
        report = session.explain()
        share = followed_share(session, before)
    for number, results in enumerate(found):
        for index, result in enumerate(results):
            assert_same_bits(result.cpu(), expected[number][index], f"{number}")
    plans = [p for p in report.to_dict()["plans"] if p["state"] == "ready"]
    shared = [p for p in plans if all(i["shares_arena"] for i in p["instances"])]
    assert share > 0.6, str(report)
    assert len(shared) >= len(LENGTHS) - 2, str(report)
    assert "beside an arena that it shares" in str(report)


def test_one_length_has_an_arena_of_its_own(device: str) -> None:
    step, x = inference(device), torch.randn(4, 8, 32, device=device)
    with reprise.session(device, policy="always", shared_arena_bytes=0) as session:
        session.reset()
        for _ in range(20):
            step(x)
            assert session.wait(BUILD_TIMEOUT_S)
        assert session.stats().replays > 0
        plan = session.explain().to_dict()["plans"][0]
    assert not any(instance["shares_arena"] for instance in plan["instances"])
    assert plan["arena_bytes"] > plan["layout_bytes"] > 0 or device == "cpu"


class Places(nn.Module):
    """Begins with an op on nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.places = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)
            )
            for _ in range(4)
        )
        self.out = nn.Linear(32, 16)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Words [n, length] become scores, [n, length, 16]."""
        place = torch.arange(text.shape[1], device=text.device)
        h = self.words(text) + self.places(place)
        for layer in self.layers:
            h = h + layer(h)
        scores: torch.Tensor = self.out(h)
        return scores


def test_evaluation_behind_training(device: str) -> None:
    """Its passes are how training's begin, which promise more; nothing parts them."""
    torch.manual_seed(1)
    model = Places().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(text: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(text).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def evaluate(text: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(text)

    order = random.Random(3)
    batches = [
        torch.randint(100, (2, order.choice(range(8, 14))), device=device)
        for _ in range(200)
    ]
    with reprise.session(device, policy="always") as session:
        session.reset()
        for text in batches:
            train(text)
            assert session.wait(BUILD_TIMEOUT_S)
        # How soon depends on where the allocator puts things, which differs by torch.
        shares = []
        while len(shares) < 12 and max(shares, default=0) <= 0.95:
            before = session.stats()
            found = []
            for text in batches[:50]:
                found.append(evaluate(text))
                assert session.wait(BUILD_TIMEOUT_S)
            during = session.stats().since(before)
            shares.append(during.followed / during.ops)
        told = str(session.explain())
    assert_same_bits(found, [evaluate(text) for text in batches[:50]])
    assert shares[-1] > 0.95, f"{shares}\n{told}"
