"""Small models, each with something that is easy to get wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


def mlp(width: int = 32, layers: int = 6) -> nn.Module:
    """Views of weights (transposes) at every layer."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 8)).eval()


class SmallCnn(nn.Module):
    """Batch norm whose result is overwritten at once, and a residual in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.first(x)).relu_()
        h = self.second(h).add_(h).relu_()
        h = functional.max_pool2d(h, 2)
        return self.head(functional.adaptive_avg_pool2d(h, 1).flatten(1))


class SmallTransformer(nn.Module):
    """Embedding, attention by SDPA, split and merged heads, a tied head."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(50, width)
        self.places = nn.Parameter(torch.randn(64, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "norm2": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch, length = ids.shape
        h = self.tokens(ids) + self.places[:length]
        for block in self.blocks:
            q, k, v = (
                part.view(batch, length, self.heads, -1).transpose(1, 2)
                for part in block["qkv"](block["norm1"](h)).chunk(3, dim=-1)
            )
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + block["out"](mixed.transpose(1, 2).reshape(batch, length, -1))
            h = h + block["down"](functional.gelu(block["up"](block["norm2"](h))))
        return self.norm(h) @ self.tokens.weight.t()


def encoder() -> nn.Module:
    """torch's own layers, which are one fused op each where no grad is recorded."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(layers, nn.Linear(32, 8), nn.ReLU()).eval()


class Doubled(torch.autograd.Function):
    """Whose gradient is another one than autograd would say."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 5
