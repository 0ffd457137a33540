"""transformers' Trainer: four epochs of a small BERT, with nothing changed for Reprise.

    python examples/recipes/transformers_trainer.py

Not replayed: what hands a number to the Trainer, which looks at losses and norms of
gradients. On a CPU, a dataset of tensors (`self.ids[index]`) would keep the forward and
backward pass from being replayed; docs/recipes.md says why.
"""

from __future__ import annotations

import tempfile
from typing import Any

import checks
import reprise
import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification


class Texts(torch.utils.data.Dataset[dict[str, Any]]):
    """Random token ids in four classes: lists of numbers, as a tokenizer gives them."""

    def __init__(self) -> None:
        self.ids = torch.randint(1000, (256, 16)).tolist()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.ids[index], "labels": index % 4}


def train() -> list[Any]:
    """Weights, the optimizer's state and the losses that were logged."""
    transformers.set_seed(0)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        num_labels=4,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=4,
            logging_steps=10,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        model = BertForSequenceClassification(config)
        trainer = transformers.Trainer(model, arguments, train_dataset=Texts())
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return [model.state_dict(), trainer.optimizer.state_dict(), logged]


expected = train()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = train()
checks.finish(found, expected, least=0.4)
