"""diffusers: images from a DDIM pipeline with a small random UNet.

    python examples/recipes/diffusers_sampler.py

Replays come late: plans that begin among the scheduler's ops are tried and left first
(docs/recipes.md). Not replayed: what reads numbers of the scheduler's tables on the CPU.
"""

from __future__ import annotations

import checks
import diffusers
import reprise
import torch

PAIRS = 16

torch.manual_seed(0)
unet = diffusers.UNet2DModel(
    sample_size=16,
    block_out_channels=(32, 32),
    layers_per_block=1,
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
pipeline = diffusers.DDIMPipeline(unet, diffusers.DDIMScheduler()).to(checks.DEVICE)
pipeline.set_progress_bar_config(disable=True)


def images() -> list[torch.Tensor]:
    """Pairs of images, one pair after the other."""
    torch.manual_seed(1)
    made = []
    for _ in range(PAIRS):
        pair = pipeline(batch_size=2, num_inference_steps=20, output_type="np").images
        made.append(torch.from_numpy(pair))
    return made


expected = images()
reprise.enable(policy="always")  # replay whatever was validated, whatever it saves
found = images()
checks.finish(found, expected, least=0.2)
