"""Random training steps that take states of random generators, set them, and compute again.

Checkpoints within checkpoints, forks, draws, writes and reads between them: results,
gradients, buffers and generators are eager's.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from watching import assert_same_bits, random_regions

WIDTH = 6
ROWS = 4
CALLS = 10
PROGRAMS = 12
DEEPEST = 1
KINDS = ["layer", "dropped", "noise", "fork", "back", "again", "all_again", "norm"]


class Part(nn.Module):
    """Some layers, with parts inside of some of them."""

    def __init__(self, draw: random.Random, depth: int = 0) -> None:
        super().__init__()
        kinds = [*KINDS, "reads"] if depth == 0 else KINDS
        self.kinds = [draw.choice(kinds) for _ in range(draw.randint(1, 4))]
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in self.kinds)
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in self.kinds)
        self.parts = nn.ModuleList(
            Part(draw, depth + 1) if depth < DEEPEST else nn.Tanh() for _ in self.kinds
        )
        self.drops = draw.choice([0.0, 0.3])
        self.preserves = draw.random() < 0.7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, kind in enumerate(self.kinds):
            x = getattr(self, kind)(index, x)
        return x

    def layer(self, index: int, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layers[index](x))

    def norm(self, index: int, x: torch.Tensor) -> Any:
        return self.norms[index](x)

    def dropped(self, index: int, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(self.layers[index](x), self.drops)

    def noise(self, _: int, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * torch.randn_like(x)

    def reads(self, _: int, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.detach().sum() > 0) else x

    def fork(self, index: int, x: torch.Tensor) -> Any:
        with torch.random.fork_rng(devices=[]):
            y = self.parts[index](x)
        return x + y

    def back(self, _: int, x: torch.Tensor) -> torch.Tensor:
        state = torch.get_rng_state()
        first = torch.rand_like(x)
        torch.set_rng_state(state)
        return x * first + functional.dropout(x, 0.2)

    def again(self, index: int, x: torch.Tensor) -> Any:
        return checkpoint(
            *(self.parts[index], self.layers[index](x)),
            use_reentrant=False,
            preserve_rng_state=self.preserves,
        )

    def all_again(self, index: int, x: torch.Tensor) -> Any:
        return checkpoint(self.parts[index], x, use_reentrant=False, early_stop=False)


def compare(seed: int) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    plain = Part(draw)
    nets = [plain, copy.deepcopy(plain)]
    to_none, kind = (
        draw.random() < 0.7,
        draw.choice([torch.optim.SGD, torch.optim.Adam]),
    )
    optimizers = [kind(net.parameters(), lr=0.05) for net in nets]

    def step(x: torch.Tensor, which: int) -> torch.Tensor:
        optimizers[which].zero_grad(set_to_none=to_none)
        loss = nets[which](x).square().mean()
        if loss.requires_grad:
            loss.backward()
            optimizers[which].step()
        return loss.detach()  # type: ignore[no-any-return]

    fast: Any = reprise.region(lambda x: step(x, 1))
    for call in range(CALLS):
        x = torch.randn(ROWS, WIDTH)
        found = []
        for which, fn in enumerate((lambda x: step(x, 0), fast)):
            torch.manual_seed(seed + call)
            result = fn(x)
            kept = [*nets[which].parameters(), *nets[which].buffers()]
            grads = [each.grad for each in kept if each.grad is not None]
            found.append([result, *kept, *grads, torch.get_rng_state()])
        assert_same_bits(found[1], found[0], f"seed {seed} call {call}")
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("ahead", [False, True])
def test_random_states_of_generators(ahead: bool) -> None:
    with reprise.session("cpu", policy="always", enabled=ahead) as session:
        session.reset()
        totals = random_regions(PROGRAMS, compare)
    assert totals.replayed > totals.calls // 4
