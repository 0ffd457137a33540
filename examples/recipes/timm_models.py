"""timm: image models whose calls run without their Python, as a region.

    python examples/recipes/timm_models.py

Not replayed: the first two calls of a model, which are recorded.
"""

from __future__ import annotations

import checks
import reprise
import timm
import torch
from torch import nn

CALLS = 40


def outputs(model: nn.Module) -> list[torch.Tensor]:
    """What it gives for random images, the same ones each time."""
    torch.manual_seed(1)
    images = [torch.randn(2, 3, 64, 64).to(checks.DEVICE) for _ in range(CALLS)]
    with torch.no_grad():
        return [model(image) for image in images]


torch.manual_seed(0)
models = {
    "resnet18": timm.create_model("resnet18", num_classes=10),
    "vit_tiny_patch16_224": timm.create_model(
        "vit_tiny_patch16_224", img_size=64, num_classes=10
    ),
}
for model in models.values():
    model.to(checks.DEVICE).eval()
expected = [outputs(model) for model in models.values()]
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = []
for model in models.values():
    fast = reprise.region(model)
    found.append(outputs(fast))
    print(fast.explain())
checks.finish(found, expected, least=0.4)
