"""accelerate: mini-batches from a DataLoader, accumulated and clipped gradients.

    python examples/recipes/accelerate_training.py

Not replayed: AdamW without `fused=True` reads its number of steps on the CPU, and the
DataLoader picks other rows at each step.
"""

from __future__ import annotations

from typing import Any

import accelerate
import checks
import reprise
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def train() -> list[Any]:
    """Weights, the optimizer's state and all losses of four epochs."""
    accelerate.utils.set_seed(0)
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(), nn.Linear(64, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    data = TensorDataset(torch.randn(512, 32), torch.randint(4, (512,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, loader, schedule
    )
    losses = []
    for _ in range(4):
        for x, label in loader:
            with accelerator.accumulate(model):
                loss = functional.cross_entropy(model(x), label)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                losses.append(loss.detach())
    return [model.state_dict(), optimizer.state_dict(), losses]


expected = train()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = train()
checks.finish(found, expected, least=0.15)
