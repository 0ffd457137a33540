"""What the recipes with `generate` share: the texts that a model makes, and their logits."""

from __future__ import annotations

from typing import Any

import checks
import torch


def prompts() -> list[torch.Tensor]:
    """A dozen of eight tokens each, [1, 8]."""
    return [torch.randint(3, 1000, (1, 8), device=checks.DEVICE) for _ in range(12)]


def made_by(
    model: Any, given: list[torch.Tensor], **options: Any
) -> list[tuple[torch.Tensor, ...]]:
    """Of each prompt the tokens, and the logits that they were chosen by."""
    made = [
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=True,
            **options,
        )
        for prompt in given
    ]
    return [(text.sequences, *text.logits) for text in made]
