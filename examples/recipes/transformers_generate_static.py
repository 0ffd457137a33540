"""transformers' `generate` with a static cache: each token has the shapes of the last one.

    python examples/recipes/transformers_generate_static.py

Not replayed: the first tokens of each text, whose shapes are those of the prompt, and the
ops that append a token to the text.
"""

from __future__ import annotations

from typing import Any

import checks
import reprise
import texts
import transformers

transformers.set_seed(0)
config = transformers.GPT2Config(vocab_size=1000, n_embd=64, n_layer=2, n_head=4)
model = transformers.GPT2LMHeadModel(config).to(checks.DEVICE).eval()
prompts = texts.prompts()
static: Any = {"cache_implementation": "static", "disable_compile": True}

expected = texts.made_by(model, prompts, **static)
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = texts.made_by(model, prompts, **static)
checks.finish(found, expected, least=0.4)
