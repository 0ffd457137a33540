"""Models with random weights, and fresh random inputs for them.

Every entry makes a module on the device in evaluation mode and a function that
gives the arguments of one call. Sizes are those of the published models;
weights are random, so nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

Arguments = tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model and how to call it.

    ``make(device)`` gives ``(module, arguments)``; ``arguments()`` gives fresh
    random arguments for one call. ``needs`` names the package beside torch.
    """

    name: str
    make: Callable[[torch.device], tuple[nn.Module, Callable[[], Arguments]]]
    needs: str = ""


class Mlp(nn.Module):
    """Twenty residual linear layers: x = gelu(linear(x)) + x."""

    def __init__(self, width: int = 256, depth: int = 20) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, width) to (batch, width)."""
        for layer in self.layers:
            x = nn.functional.gelu(layer(x)) + x
        return x


class FirstOutput(nn.Module):
    """A transformers model whose call gives one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        """Give the logits, or the last hidden state."""
        out = self.model(*arguments)
        return out.logits if hasattr(out, "logits") else out[0]


def _images(device: torch.device, dtype: torch.dtype) -> Callable[[], Arguments]:
    return lambda: (torch.randn(1, 3, 224, 224, device=device, dtype=dtype),)


def _tokens(device: torch.device, length: int) -> Callable[[], Arguments]:
    return lambda: (torch.randint(0, 30000, (1, length), device=device),)


def _mlp(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    model = Mlp().to(device).eval()
    return model, lambda: (torch.randn(32, 256, device=device),)


def _torchvision(name: str):
    def make(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
        import torchvision

        model = getattr(torchvision.models, name)().to(device).eval().half()
        return model, _images(device, torch.float16)

    return make


def _timm(name: str):
    def make(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
        import timm

        model = timm.create_model(name).to(device).eval().half()
        return model, _images(device, torch.float16)

    return make


def _transformers(
    model_class: str, config_class: str, dtype: torch.dtype, length: int, **config
):
    def make(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
        import transformers

        settings = getattr(transformers, config_class)(**config)
        settings.use_cache = False
        model = getattr(transformers, model_class)(settings).to(device).eval().to(dtype)
        return FirstOutput(model), _tokens(device, length)

    return make


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("mlp20", _mlp),
        Workload("resnet50_fp16", _torchvision("resnet50"), "torchvision"),
        Workload("vit_s_fp16", _timm("vit_small_patch16_224"), "timm"),
        Workload(
            "gpt2_bf16",
            _transformers("GPT2LMHeadModel", "GPT2Config", torch.bfloat16, 64),
            "transformers",
        ),
        Workload(
            "bert_fp16",
            _transformers("BertModel", "BertConfig", torch.float16, 128),
            "transformers",
        ),
        Workload(
            "distilgpt2_fp16",
            _transformers(
                "GPT2LMHeadModel", "GPT2Config", torch.float16, 64, n_layer=6
            ),
            "transformers",
        ),
        Workload(
            "xlnet_fp16",
            _transformers("XLNetLMHeadModel", "XLNetConfig", torch.float16, 64),
            "transformers",
        ),
        Workload("densenet121_fp16", _torchvision("densenet121"), "torchvision"),
        Workload(
            "efficientnet_b0_fp16", _torchvision("efficientnet_b0"), "torchvision"
        ),
        Workload("alexnet_fp16", _torchvision("alexnet"), "torchvision"),
    )
}
