"""transformers' `generate` with its default cache, which is longer at each token.

    python examples/recipes/transformers_generate.py

Not replayed: the ops that make the cache longer, as their shapes are new at each token.
What lies between them is.
"""

from __future__ import annotations

import checks
import reprise
import torch
import transformers

transformers.set_seed(0)
config = transformers.LlamaConfig(
    vocab_size=1000,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
model = transformers.LlamaForCausalLM(config).to(checks.DEVICE).eval()
prompts = [torch.randint(3, 1000, (1, 8), device=checks.DEVICE) for _ in range(12)]


def texts() -> list[tuple[torch.Tensor, ...]]:
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
        )
        for prompt in prompts
    ]
    return [(text.sequences, *text.logits) for text in made]


expected = texts()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = texts()
checks.finish(found, expected, least=0.4)
