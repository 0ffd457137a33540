"""Calls of operators that no sample of torch's reaches, and whose arguments are no guess."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

Arguments = tuple[Any, ...]


def _batch_norm(t: _Tensors) -> Iterator[tuple[str, Arguments]]:
    x, grad = t.rand(4, 3, 5), t.rand(4, 3, 5)
    mean, var, count = t.rand(2, 3), t.rand(2, 3), t.rand(2) + 4
    yield "batch_norm_stats", (x, 1e-5)
    yield "batch_norm_update_stats", (x, t.rand(3), t.rand(3), 0.5)
    yield "batch_norm_gather_stats", (x, mean, var, t.rand(3), t.rand(3), 0.1, 1e-5, 6)
    yield (
        "batch_norm_gather_stats_with_counts",
        (x, mean, var, t.rand(3), t.rand(3), 0.1, 1e-5, count),
    )
    yield "batch_norm_elemt", (x, t.rand(3), t.rand(3), mean[0], var[0], 1e-5)
    yield (
        "batch_norm_backward_reduce",
        (grad, x, mean[0], var[0], t.rand(3), True, True, True),
    )
    yield (
        "batch_norm_backward_elemt",
        (grad, x, mean[0], var[0], t.rand(3), t.rand(3), t.rand(3), t.ints(2, low=1)),
    )
    for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"):
        weights = [t.rand(3) for _ in range(4)]
        yield name, (x, *weights, True, 0.1, 1e-5)
    yield (
        "_batch_norm_no_update",
        (x, t.rand(3), t.rand(3), t.rand(3), t.rand(3), 0.1, 1e-5),
    )
    yield (
        "_native_batch_norm_legit_no_training",
        (x, t.rand(3), t.rand(3), t.rand(3), t.rand(3), 0.1, 1e-5),
    )
    normed, rstd = torch.ops.aten._fused_rms_norm(x, [5], t.rand(5), 1e-5)
    del normed
    yield "_fused_rms_norm_backward", (grad, x, [5], rstd, t.rand(5), [True, True])


def _convolutions(t: _Tensors) -> Iterator[tuple[str, Arguments]]:
    image, kernel = t.rand(1, 2, 6, 6), t.rand(3, 2, 3, 3)
    volume, block = t.rand(1, 2, 5, 5, 5), t.rand(3, 2, 3, 3, 3)
    yield "_slow_conv2d_forward", (image, kernel, [3, 3], t.rand(3), [1, 1], [0, 0])
    yield (
        "_slow_conv2d_backward.output_mask",
        (t.rand(1, 3, 4, 4), image, kernel, [3, 3], [1, 1], [0, 0], [True] * 3),
    )
    yield "slow_conv3d_forward", (volume, block, [3] * 3, t.rand(3), [1] * 3, [0] * 3)
    yield (
        "slow_conv_dilated2d",
        (image, kernel, [3, 3], t.rand(3), [1, 1], [0, 0], [2, 2]),
    )
    yield (
        "slow_conv_dilated3d",
        (volume, block, [3] * 3, t.rand(3), [1] * 3, [0] * 3, [2] * 3),
    )
    yield "slow_conv_transpose2d", (image, t.rand(2, 3, 3, 3), [3, 3], t.rand(3))
    yield "slow_conv_transpose3d", (volume, t.rand(2, 3, 3, 3, 3), [3] * 3, t.rand(3))
    yield (
        "_conv_depthwise2d",
        (image, t.rand(2, 1, 3, 3), [3, 3], None, [1, 1], [0, 0], [1, 1]),
    )
    yield (
        "conv_depthwise3d",
        (volume, t.rand(2, 1, 3, 3, 3), [3] * 3, None, [1] * 3, [0] * 3, [1] * 3),
    )
    yield "conv_tbc", (t.rand(5, 2, 3), t.rand(3, 3, 4), t.rand(4), 1)
    yield (
        "_convolution",
        (
            image,
            kernel,
            None,
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            False,
            False,
            True,
            True,
        ),
    )
    yield "_nnpack_spatial_convolution", (image, kernel, t.rand(3), [0, 0], [1, 1])
    yield "mkldnn_convolution", (image, kernel, t.rand(3), [0, 0], [1, 1], [1, 1], 1)
    yield "affine_grid_generator", (t.rand(1, 2, 3), [1, 2, 4, 4], False)
    yield (
        "_upsample_bicubic2d_aa_backward",
        (t.rand(1, 2, 3, 3), [3, 3], [1, 2, 6, 6], False, None, None),
    )


def _recurrent(t: _Tensors) -> Iterator[tuple[str, Arguments]]:
    cell = (t.rand(2, 12), t.rand(2, 12), t.rand(2, 3))
    yield "_thnn_fused_lstm_cell", cell
    gru = (t.rand(2, 9), t.rand(2, 9), t.rand(2, 3))
    yield "_thnn_fused_gru_cell", gru
    yield "_pack_padded_sequence", (t.rand(4, 2, 3), torch.tensor([4, 2]), False)


def _optimizers(t: _Tensors) -> Iterator[tuple[str, Arguments]]:
    two = [t.rand(3, 4), t.rand(5)]
    others = [[torch.rand_like(x) for x in two] for _ in range(4)]
    yield "_foreach_addcdiv.Tensor", (two, others[0], others[1], torch.rand(2))
    yield "_foreach_addcmul.Tensor", (two, others[0], others[1], torch.rand(2))
    yield "_amp_update_scale_", (t.rand(1), t.ints(1), t.rand(1), 2.0, 0.5, 100)
    yield "_amp_foreach_non_finite_check_and_unscale_", (two, t.rand(1) * 0, t.rand(1))


def _others(t: _Tensors) -> Iterator[tuple[str, Arguments]]:
    x = t.rand(4, 4)
    yield "_is_all_true", (x > 0.5,)
    yield "_is_any_true", (x > 0.5,)
    yield "_fused_dropout", (x, 0.5)
    yield "_masked_scale", (x, (x > 0.5).to(torch.uint8), 2.0)
    yield "_int_mm", (t.ints(32, 32).to(torch.int8), t.ints(32, 32).to(torch.int8))
    yield "glu_backward_jvp", (x, x, t.rand(4, 8), x, t.rand(4, 8), 1)
    yield (
        "_embedding_bag_forward_only",
        (t.rand(5, 3), t.ints(6), torch.tensor([0, 3], device=t.device)),
    )
    yield "_transform_bias_rescale_qkv", (t.rand(2, 3, 24), t.rand(24), 2)
    if t.device == "cpu":  # it reads its operands' memory wherever that is
        yield (
            "_grid_sampler_2d_cpu_fallback",
            (t.rand(1, 2, 4, 4), t.rand(1, 3, 3, 2), 0, 0, True),
        )
    for dtype in (torch.float16, torch.bfloat16):
        low = t.rand(16, 16).to(dtype)
        batch = t.rand(2, 16, 16).to(dtype)
        yield "mm.dtype", (low, low, torch.float32)
        yield "addmm.dtype", (t.rand(16, 16), low, low, torch.float32)
        yield "bmm.dtype", (batch, batch, torch.float32)
        yield "baddbmm.dtype", (t.rand(2, 16, 16), batch, batch, torch.float32)


class _Tensors:
    """Random tensors of a device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def rand(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self.device) + 0.1

    def ints(self, *shape: int, low: int = 0) -> torch.Tensor:
        return torch.randint(low, 3, shape, device=self.device, dtype=torch.int32)


GROUPS: dict[str, Callable[[_Tensors], Iterator[tuple[str, Arguments]]]] = {
    "batch norm": _batch_norm,
    "convolutions": _convolutions,
    "recurrent": _recurrent,
    "optimizers": _optimizers,
    "others": _others,
}


def run(group: str, device: str) -> Iterator[Callable[[], Any]]:
    """The calls of a group, each to be tried."""
    for name, arguments in GROUPS[group](_Tensors(device)):
        base, _, which = name.partition(".")
        function = getattr(getattr(torch.ops.aten, base), which or "default")
        yield lambda function=function, arguments=arguments: function(*arguments)
