"""transformers' `generate` with its default cache, which is longer at each token.

    python examples/recipes/transformers_generate.py

Not replayed: the ops that make the cache longer, as their shapes are new at each token.
What lies between them is.
"""

from __future__ import annotations

import checks
import reprise
import texts
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
prompts = texts.prompts()

expected = texts.made_by(model, prompts)
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = texts.made_by(model, prompts)
checks.finish(found, expected, least=0.4)
