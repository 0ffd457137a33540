"""What a sweep is known to find, with reasons.

A row that covers nothing on a device where it should is itself a problem of a whole sweep
(findings.py, `unneeded`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

# --- Calls that are not made: an operator, or how its name begins, and why ---------

_GROUP = "needs a process group"
NEVER_GUESSED = {
    "aten::adaptive_avg_pool3d.out": "random arguments leave results of no shape",
    "c10d::": _GROUP,
    "_c10d_functional::": _GROUP,
    "_dtensor::": _GROUP,
    "symm_mem::": "needs memory that only its own operators make",
    "rpc::": _GROUP,
    "fsdp::": _GROUP,
}
BREAK_TORCH = {
    "aten::cudnn_batch_norm.out": "breaks torch's own memory, without Reprise too",
}
ORDERED = {  # called, but not with the same integers in another order
    "aten::segment_reduce": "offsets in another order stop the device",
    "aten::segment_reduce.out": "offsets in another order stop the device",
}

# --- Findings that are no problems --------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Known:
    """What calls of some operators do, and why it does no harm."""

    operators: str  #: a pattern that their names have
    why: str
    found_on: tuple[str, ...]  #: devices on which each whole sweep finds it
    reason: str = ""  #: a pattern of what the report says about them

    def covers(self, name: str, reasons: Sequence[str]) -> bool:
        if not re.search(self.operators, name):
            return False
        return not self.reason or any(re.search(self.reason, text) for text in reasons)


_CPU, _CUDA, _BOTH = ("cpu",), ("cuda",), ("cpu", "cuda")
# What stands in memory decides, or a form of arguments that not every sweep draws.
_AT_TIMES: tuple[str, ...] = ()

#: No hook is between these and the operators that they call.
COMPOSITES = (
    Known(
        r"^aten::_fused_rms_norm$", "on the host it is made of other operators", _CPU
    ),
    Known(r"^aten::native_channel_shuffle$", "on CUDA it is made of others", _CUDA),
)

#: Equal arguments do not give equal bits.
UNREPEATABLE = (
    Known(r"^aten::(new_)?empty|_make_dep_token$", "memory without contents", _BOTH),
    Known(r"^aten::_ctc_loss", "log_alpha beyond an input's length is not written", _CPU),
    Known(r"^aten::linalg_lstsq", "rows of the solution beyond the rank are not written", _AT_TIMES),
    Known(r"^aten::mkldnn_rnn_layer", "its workspace is not written in full", _AT_TIMES),
    Known(r"^aten::_compute_linear_combination", "adds to memory that it does not clear", _AT_TIMES),
    Known(r"^aten::(_weight_norm_interface|_masked_softmax_backward|_reshape_alias_copy)"
          r"|_nested_compute_contiguous_strides", "does not check its operands' sizes", _BOTH),
    Known(r"_prepack|_pack_gemm_matrix", "packed weights with gaps", _AT_TIMES),
    Known(r"^aten::((reflection|replication)_pad|(cudnn_)?grid_sampler|upsample_|_upsample_"
          r"|adaptive_max_pool|fractional_max_pool)\w*_backward", "adds atomically on CUDA", _CUDA),
    Known(r"^aten::_embedding_bag(_forward_only)?(\.|$)", "results that its mode does not use", _AT_TIMES),
    Known(r"^aten::(_flash_attention_forward|_scaled_dot_product_(cudnn|efficient)_attention)",
          "a seed that is not drawn is not written", _AT_TIMES),
    Known(r"^aten::_cudnn_rnn(\.|$)", "its reserve is not written in full", _AT_TIMES),
    Known(r"^aten::(_adaptive_avg_pool3d_backward|embedding_dense_backward|(index|scatter)_add_?)"
          r"(\.|$)", "adds atomically on CUDA, in another order now and then", _AT_TIMES),
    Known(r"^aten::nll_loss2?d?_forward", "total_weight is not written without a reduction", _AT_TIMES),
    Known(r"^aten::_convert_indices_from_csr_to_coo", "does not check its operands' order", _CUDA),
)  # fmt: skip

#: Calls that builds refuse, rightly.
REFUSED = (
    Known(r"^aten::convolution_backward",
          "cuDNN points into a workspace that is larger than what its plan asked for",
          _AT_TIMES, r"a device address that no operand, output or temp"),
    Known(r"^aten::(_linalg_solve_ex|linalg_inv_ex|lu_unpack|_foreach_powsum)",
          "tables of pointers into solvers' own memory; tables that are not written in full",
          _AT_TIMES, r"a device address that no operand, output or temporary explains"),
    Known(r"^aten::(_foreach_|convolution_backward)",
          "one launch writes several results, some without elements or in one buffer",
          _AT_TIMES, r"its output took the middle of a temporary buffer"),
)  # fmt: skip

#: Reasons for which some calls of an operator are cuts and others are not.
SOMETIMES_CUT = (
    Known("", "where one is given", _BOTH, r"explicit generator"),
    Known("", "masks as indices", _AT_TIMES, r"depends on data$"),
    Known("", "numbers that lie in tensors of the host", _CUDA, r"host operand"),
    Known("", "an operand that no clone could replace", _AT_TIMES,
          r"writes memory that its trace did not make"),
    Known("", "a result that is resized", _AT_TIMES, r"^warned the program"),
    Known("", "sparse results, resized ones", _BOTH,
          r"raised an error or returned what cannot be kept"),
    Known("", "lists of numbers, by boxed hooks", _BOTH, r"^custom operator$"),
    Known("", "of results and of tables", _CUDA, r"a copy between host and device"),
    Known("", "of results", _AT_TIMES, r"copies to the host"),
    Known("", "solvers that look at what they found", _CUDA, r"a wait of the host for the device"),
    Known("", "refused by builds too often: see REFUSED", _AT_TIMES,
          r"a device address that no operand, output or temp"
          r"|its output took the middle of a temporary buffer"
          r"|two of its outputs took the memory of one temporary buffer"),
    Known("", "streams of a library's own", _AT_TIMES, r"an event or a wait in the stream"),
)  # fmt: skip


def _covered(rows: Sequence[Known], name: str, reasons: Sequence[str] = ()) -> bool:
    return any(row.covers(name, reasons) for row in rows)


def composite(name: str) -> bool:
    return _covered(COMPOSITES, name)


def unrepeatable(name: str) -> bool:
    return _covered(UNREPEATABLE, name)


def refused(name: str, reasons: Sequence[str]) -> bool:
    return _covered(REFUSED, name, reasons)


def sometimes_cut(name: str, reason: str) -> bool:
    return _covered(SOMETIMES_CUT, name, [reason])
