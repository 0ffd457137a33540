"""Lightning: a LightningModule, fitted by its Trainer, with nothing changed for Reprise.

    python examples/recipes/lightning_training.py

Not replayed: AdamW without `fused=True` reads its number of steps on the CPU, and the
DataLoader picks other rows at each step.
"""

from __future__ import annotations

import logging
from typing import Any

import checks
import pytorch_lightning as lightning
import reprise
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(64)
        layers = [nn.Linear(32, 64), norm, nn.GELU(), nn.Dropout(), nn.Linear(64, 4)]
        self.layers = nn.Sequential(*layers)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        x, label = batch
        loss = functional.cross_entropy(self.layers(x), label)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


def train() -> list[Any]:
    """Weights, the optimizer's state and the loss that was logged last."""
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(512, 32), torch.randint(4, (512,)))
    net = Net()
    trainer = lightning.Trainer(
        max_epochs=2,
        devices=1,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(net, DataLoader(data, batch_size=8, shuffle=True))
    optimizer = trainer.optimizers[0]
    return [net.state_dict(), optimizer.state_dict(), trainer.callback_metrics]


logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
expected = train()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = train()
checks.finish(found, expected, least=0.4)
