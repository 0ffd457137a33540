"""What a sweep is known to find, with reasons."""

from __future__ import annotations

import re

# No random arguments for these: they need a process group, another device's library, or
# memory that only their own operators make.
NEVER_GUESSED = (
    "aten::adaptive_avg_pool3d.out",  # leaves results of no shape
    "c10d::", "_c10d_functional::", "_dtensor::", "symm_mem::", "rpc::", "fsdp::",
)  # fmt: skip

# These break torch's own memory, without Reprise too.
BREAK_TORCH = frozenset({"aten::cudnn_batch_norm.out"})

# No hook is between these and the operators that they call.
COMPOSITES = frozenset(
    {
        "aten::_fused_rms_norm",  # on the host
        "aten::native_channel_shuffle",  # on CUDA
    }
)

# Integers in another order stop the device.
ORDERED = frozenset({"aten::segment_reduce", "aten::segment_reduce.out"})

# Equal arguments do not give equal bits.
_UNREPEATABLE: tuple[tuple[str, str], ...] = (
    (r"^aten::(new_)?empty|_make_dep_token$", "memory without contents"),
    (r"^aten::_ctc_loss", "log_alpha beyond an input's length is not written"),
    (r"^aten::linalg_lstsq", "rows of the solution beyond the rank are not written"),
    (r"^aten::mkldnn_rnn_layer", "its workspace is not written in full"),
    (r"^aten::_compute_linear_combination", "adds to memory that it does not clear"),
    (r"^aten::(_weight_norm_interface|_masked_softmax_backward|_reshape_alias_copy)"
     r"|_nested_compute_contiguous_strides", "does not check its operands' sizes"),
    (r"_prepack|_pack_gemm_matrix", "packed weights with gaps"),
    (r"^aten::((reflection|replication)_pad|(cudnn_)?grid_sampler_|upsample_|_upsample_"
     r"|adaptive_max_pool|fractional_max_pool)\w*_backward", "adds atomically on CUDA"),
    (r"^aten::_embedding_bag(_forward_only)?(\.|$)", "results that its mode does not use"),
    (r"^aten::_flash_attention_forward", "a seed that is not drawn is not written"),
    (r"^aten::nll_loss2?d?_forward", "total_weight is not written without a reduction"),
    (r"^aten::_convert_indices_from_csr_to_coo", "does not check its operands' order"),
)  # fmt: skip

# Calls that builds refuse, rightly: an operator's and the reason's pattern.
_REFUSED: tuple[tuple[str, str], ...] = (
    # cuDNN points into a workspace that is larger than what its plan asked for.
    (r"^aten::convolution_backward", r"a device address that no operand, output or temp"),
    # Tables of pointers into solvers' own memory; tables that are not written in full.
    (r"^aten::(_linalg_solve_ex|linalg_inv_ex|lu_unpack|_foreach_powsum)",
     r"a device address that no operand, output or temporary explains"),
    # One launch writes several results, of which some have no elements or lie in one
    # buffer.
    (r"^aten::(_foreach_|convolution_backward)", r"its output took the middle of a temporary buffer"),
)  # fmt: skip

# Reasons for which some calls of an operator are cuts and others are not.
_REASONS = re.compile(
    r"draws random numbers"
    r"|explicit generator"
    r"|depends on data$"  # masks
    r"|host operand"
    r"|writes memory that its trace did not make"  # an operand that no clone could replace
    r"|raised an error or returned what cannot be kept"  # sparse results, resized ones
    r"|^custom operator$"  # lists of numbers, by boxed hooks
    r"|a copy between host and device|copies to the host"  # of results, of tables
    r"|a wait of the host for the device"
    r"|an event or a wait in the stream"  # cuDNN's streams of its own
)


def unrepeatable(name: str) -> bool:
    return any(re.search(pattern, name) for pattern, _ in _UNREPEATABLE)


def reason(text: str) -> bool:
    return _REASONS.search(text) is not None


def refused(name: str, reasons: list[str]) -> bool:
    return any(
        re.search(op, name) and any(re.search(why, reason) for reason in reasons)
        for op, why in _REFUSED
    )
