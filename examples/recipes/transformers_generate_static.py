"""transformers' `generate` with a static cache: each token has the shapes of the last one.

    python examples/recipes/transformers_generate_static.py

Not replayed: the first tokens of each text, whose shapes are those of the prompt, and the
ops that append a token to the text.
"""

from __future__ import annotations

import checks
import reprise
import torch
import transformers

transformers.set_seed(0)
config = transformers.GPT2Config(vocab_size=1000, n_embd=64, n_layer=2, n_head=4)
model = transformers.GPT2LMHeadModel(config).to(checks.DEVICE).eval()
prompts = [torch.randint(3, 1000, (1, 8), device=checks.DEVICE) for _ in range(12)]


def texts() -> list[tuple[torch.Tensor, ...]]:
    """Of each prompt the tokens, and the logits that they were chosen by."""
    made = [
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=24,
            do_sample=False,
            cache_implementation="static",
            disable_compile=True,
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
