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


class EncoderDecoder(nn.Module):
    """A transformers model that takes encoder and decoder inputs."""

    def __init__(self, model: nn.Module, encoder_input: str) -> None:
        super().__init__()
        self.model = model
        self.encoder_input = encoder_input

    def forward(self, encoder: torch.Tensor, decoder: torch.Tensor) -> torch.Tensor:
        """Give the decoder's last hidden state or the logits."""
        inputs = {self.encoder_input: encoder, "decoder_input_ids": decoder}
        out = self.model(**inputs)
        return out.logits if hasattr(out, "logits") else out.last_hidden_state


class ImageAndText(nn.Module):
    """CLIP: how well an image and a text go together."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Give the embeddings of both, side by side."""
        out = self.model(input_ids=tokens, pixel_values=image)
        return torch.cat([out.text_embeds, out.image_embeds], -1)


class Detections(nn.Module):
    """A torchvision detector whose call gives one tensor, as long as it finds things."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Give boxes, scores and mask sums, flat."""
        found = self.model([image])[0]
        masks = found["masks"].sum((1, 2, 3))
        return torch.cat([found["boxes"].flatten(), found["scores"], masks])


class RecurrentOutput(nn.Module):
    """A recurrent layer without its state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (time, batch, features)."""
        return self.layer(x)[0]


class UnetBlock(nn.Module):
    """A block of a diffusion U-Net: residual convolutions, self- and cross-attention."""

    def __init__(self, width: int = 320, text_width: int = 768, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(3))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=1) for _ in range(2)
        )
        self.time = nn.Linear(1280, width)
        self.layer_norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.queries = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.keys = nn.ModuleList(nn.Linear(w, width) for w in (width, text_width))
        self.values = nn.ModuleList(nn.Linear(w, width) for w in (width, text_width))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.wide = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)

    def attend(self, i: int, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Attention of `x` to `context`, both (batch, length, width)."""
        parts = [
            layer(source).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, source in (
                (self.queries[i], x),
                (self.keys[i], context),
                (self.values[i], context),
            )
        ]
        attended = nn.functional.scaled_dot_product_attention(*parts)
        return self.outs[i](attended.transpose(1, 2).flatten(2))

    def forward(
        self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor
    ) -> torch.Tensor:
        """Map (batch, width, height, width) with a time and a text embedding."""
        act = nn.functional.silu
        h = self.convolutions[0](act(self.norms[0](x)))
        h = h + self.time(act(time))[:, :, None, None]
        x = x + self.convolutions[1](act(self.norms[1](h)))
        tokens = self.norms[2](x).flatten(2).transpose(1, 2)
        normed = self.layer_norms[0](tokens)
        tokens = tokens + self.attend(0, normed, normed)
        tokens = tokens + self.attend(1, self.layer_norms[1](tokens), text)
        value, gate = self.wide(self.layer_norms[2](tokens)).chunk(2, -1)
        tokens = tokens + self.narrow(value * nn.functional.gelu(gate))
        return x + tokens.transpose(1, 2).unflatten(2, x.shape[2:])


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


def _encoder_decoder(
    model_class: str, config_class: str, dtype: torch.dtype, lengths: tuple[int, int]
):
    def make(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
        import transformers

        settings = getattr(transformers, config_class)(use_cache=False)
        model = getattr(transformers, model_class)(settings).to(device).eval().to(dtype)

        def arguments() -> Arguments:
            return tuple(
                torch.randint(3, 8000, (1, length), device=device) for length in lengths
            )

        return EncoderDecoder(model, "input_ids"), arguments

    return make


def _whisper(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    import transformers

    settings = transformers.WhisperConfig(use_cache=False)
    model = transformers.WhisperModel(settings).to(device).eval().half()

    def arguments() -> Arguments:
        sound = torch.randn(1, 80, 3000, device=device, dtype=torch.float16)
        return sound, torch.randint(0, 8000, (1, 16), device=device)

    return EncoderDecoder(model, "input_features"), arguments


def _clip(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    import transformers

    model = transformers.CLIPModel(transformers.CLIPConfig()).to(device).eval().half()

    def arguments() -> Arguments:
        image = torch.randn(1, 3, 224, 224, device=device, dtype=torch.float16)
        return torch.randint(0, 40000, (1, 64), device=device), image

    return ImageAndText(model), arguments


def _mask_rcnn(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    import torchvision

    model = torchvision.models.detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, box_score_thresh=0.0
    )
    model = Detections(model.to(device).eval())
    return model, lambda: (torch.rand(3, 256, 256, device=device),)


def _lstm(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    model = RecurrentOutput(nn.LSTM(256, 512, num_layers=2).to(device).eval().half())
    return model, lambda: (torch.randn(64, 1, 256, device=device, dtype=torch.float16),)


def _unet_block(device: torch.device) -> tuple[nn.Module, Callable[[], Arguments]]:
    model = UnetBlock().to(device).eval().half()

    def arguments() -> Arguments:
        shapes = (1, 320, 32, 32), (1, 1280), (1, 77, 768)
        return tuple(
            torch.randn(shape, device=device, dtype=torch.float16) for shape in shapes
        )

    return model, arguments


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
        Workload(
            "deberta_v2_fp16",
            _transformers(
                "DebertaV2Model",
                "DebertaV2Config",
                torch.float16,
                128,
                hidden_size=768,
                num_hidden_layers=12,
                num_attention_heads=12,
                intermediate_size=3072,
                relative_attention=True,
                pos_att_type=["p2c", "c2p"],
                position_buckets=256,
                share_att_key=True,
                norm_rel_ebd="layer_norm",
                position_biased_input=False,
                type_vocab_size=0,
            ),
            "transformers",
        ),
        Workload(
            "mobilebert_fp16",
            _transformers("MobileBertModel", "MobileBertConfig", torch.float16, 128),
            "transformers",
        ),
        Workload(
            "mt5_small_bf16",
            _encoder_decoder(
                "MT5ForConditionalGeneration", "MT5Config", torch.bfloat16, (64, 16)
            ),
            "transformers",
        ),
        Workload(
            "t5_small_bf16",
            _encoder_decoder(
                "T5ForConditionalGeneration", "T5Config", torch.bfloat16, (64, 16)
            ),
            "transformers",
        ),
        Workload(
            "blenderbot_small_fp16",
            _encoder_decoder(
                "BlenderbotSmallForConditionalGeneration",
                "BlenderbotSmallConfig",
                torch.float16,
                (64, 16),
            ),
            "transformers",
        ),
        Workload("whisper_tiny_fp16", _whisper, "transformers"),
        Workload("clip_vit_b32_fp16", _clip, "transformers"),
        Workload("mask_rcnn", _mask_rcnn, "torchvision"),
        Workload("lstm2_fp16", _lstm),
        Workload("unet_block_fp16", _unet_block),
    )
}
