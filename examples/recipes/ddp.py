"""DistributedDataParallel: two processes train one model, each with data of its own.

    python examples/recipes/ddp.py

By NCCL where there are two GPUs, else by gloo on the CPU. Each process enables Reprise
for itself. Not replayed: the sum of gradients over the processes, which has threads or
streams of its own, and AdamW's number of steps, which is read without `fused=True`.
"""

from __future__ import annotations

from typing import Any

import checks
import reprise
import torch
import two_processes
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def train(rank: int, device: torch.device) -> list[Any]:
    """Weights, the optimizer's state and all losses."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 64), nn.GELU(), nn.Dropout(), nn.Linear(64, 32)]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    draws = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(8, 32, generator=draws).to(device)
        loss = functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [model.state_dict(), optimizer.state_dict(), losses]


def run(rank: int, device: torch.device) -> None:
    """One of the processes."""
    expected = train(rank, device)
    reprise.enable(device.type, policy="always")  # replay whatever was validated
    found = train(rank, device)
    checks.finish(found, expected, least=0.4)


if __name__ == "__main__":
    two_processes.start(run)
