"""Texts made token by token: transformers' own loop, and loops by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .language import gpt2, llama, t5, texts
from .program import Built, Setting, program


def generating(setting: Setting, model: Any, rows: int = 1, **how: Any) -> Built:
    """`generate` on a new prompt at each pass; a text has its full length."""
    prompt, new = setting.pick((4, 6), (32, 32))
    ids = texts(setting, rows, prompt, model.config.vocab_size)
    fast = setting.region(model)

    def step(i: int) -> Any:
        x = ids(i)
        return fast.generate(
            x,
            attention_mask=torch.ones_like(x),
            min_new_tokens=new,
            max_new_tokens=new,
            pad_token_id=0,
            **how,
        )

    return Built(step, [model])


@program("transformers")
def generate_greedy(setting: Setting) -> Built:
    """transformers: GPT-2's `generate`, greedy, default cache."""
    return generating(setting, gpt2(setting).eval(), do_sample=False)


@program("transformers")
def generate_static(setting: Setting) -> Built:
    """transformers: Llama's `generate`, greedy, static cache, not compiled."""
    model = llama(setting).eval()
    how: dict[str, Any] = {"cache_implementation": "static", "disable_compile": True}
    return generating(setting, model, do_sample=False, **how)


@program("transformers")
def generate_sampled(setting: Setting) -> Built:
    """transformers: Llama's `generate` samples by temperature, top-k and top-p."""
    how: dict[str, Any] = {
        "do_sample": True,
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
    }
    return generating(setting, llama(setting).eval(), rows=2, **how)


@program("transformers")
def generate_beams(setting: Setting) -> Built:
    """transformers: GPT-2's `generate` with four beams."""
    how: dict[str, Any] = {"num_beams": 4, "early_stopping": True}
    return generating(setting, gpt2(setting).eval(), do_sample=False, **how)


@program("transformers")
def generate_translation(setting: Setting) -> Built:
    """transformers: T5's `generate`, an encoder once and a decoder for each token."""
    model = t5(setting).eval()
    return generating(setting, model, rows=4, do_sample=False)


class Decoder(nn.Module):
    """A decoder with a cache of keys and values, as tutorials write it."""

    def __init__(self, words: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.place = nn.Embedding(1024, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(depth)
        )

    def forward(self, ids: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        """Logits of the last token; `cache` grows by the tokens given."""
        past = cache[0][0].shape[2] if cache[0] is not None else 0
        places = torch.arange(past, past + ids.shape[1], device=ids.device)
        x = self.embed(ids) + self.place(places)
        for layer, qkv in enumerate(self.qkv):
            y = qkv(self.norms[2 * layer](x))
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in y.chunk(3, -1)
            )
            if cache[layer] is not None:
                k = torch.cat([cache[layer][0], k], 2)
                v = torch.cat([cache[layer][1], v], 2)
            cache[layer] = (k, v)
            seen = nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=past == 0
            )
            x = x + self.out[layer](seen.transpose(1, 2).flatten(2))
            x = x + self.mlp[layer](self.norms[2 * layer + 1](x))
        return x[:, -1] @ self.embed.weight.T


def decoder(setting: Setting) -> tuple[Decoder, int]:
    """The decoder on the device, and how many words it knows."""
    words, width, heads, depth = setting.pick((100, 32, 2, 2), (10000, 512, 8, 8))
    return Decoder(words, width, heads, depth).to(setting.device).eval(), words


@program()
def decoder_cache(setting: Setting) -> Built:
    """A decoder samples tokens; its cache of keys and values grows by `torch.cat`."""
    model, words = decoder(setting)
    prompt, new = setting.pick((4, 8), (16, 32))
    ids = texts(setting, 2, prompt, words)
    fast = setting.region(model)

    @torch.no_grad()
    def step(i: int) -> Any:
        cache: list[Any] = [None] * len(model.qkv)
        text = ids(i)
        token = text
        for _ in range(new):
            logits = fast(token, cache) / 0.8
            best = torch.topk(logits, 20).values[:, -1:]
            logits = logits.masked_fill(logits < best, float("-inf"))
            token = torch.multinomial(torch.softmax(logits, -1), 1)
            text = torch.cat([text, token], 1)
        return text

    return Built(step, [model])


@program()
def beam_search(setting: Setting) -> Built:
    """A beam search by hand: the best texts are gathered, and their caches with them."""
    model, words = decoder(setting)
    beams, prompt, new = setting.pick((3, 4, 6), (5, 16, 24))
    ids = texts(setting, 1, prompt, words)
    fast = setting.region(model)

    @torch.no_grad()
    def step(i: int) -> Any:
        cache: list[Any] = [None] * len(model.qkv)
        text = ids(i)
        scores, first = torch.log_softmax(fast(text, cache), -1)[0].topk(beams)
        text = torch.cat([text.repeat(beams, 1), first[:, None]], 1)
        cache = [(k.repeat(beams, 1, 1, 1), v.repeat(beams, 1, 1, 1)) for k, v in cache]
        for _ in range(new):
            logs = torch.log_softmax(fast(text[:, -1:], cache), -1)
            scores, chosen = (scores[:, None] + logs).flatten().topk(beams)
            beam, word = chosen // words, chosen % words
            text = torch.cat([text[beam], word[:, None]], 1)
            cache = [(k[beam], v[beam]) for k, v in cache]
            if bool((word == 0).all()):  # all beams are at their ends
                break
        return text[0].tolist(), scores

    return Built(step, [model])
