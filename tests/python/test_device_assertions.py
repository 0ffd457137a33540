"""Every assertion in torch's kernels has been read, and what may fail it is gated."""

from __future__ import annotations

import pytest
import skips
from registry import device_assertions

# What each assertion looks at, and what keeps an op from failing it ahead of the
# program: parts of the assertions' texts. A text may have several.
INDICES = (  # arguments of these names: kIndexArguments in trapping_ops.cc
    "index out of bounds",
    "index out of range",
    "value out of range [0, numBags)",
    "idx >= -self_dim_size",
    "idx_dim >= 0",
    "idx < numel",
    "srcIndex < srcSelectDimSize",
    "dstIndex < dstAddDimSize",
    "cur_target",
    "t < n_classes",
    "t >= 0",
    "target_k >= 0",
    "maxind >= 0",
    "index >= 0 && index < outputImageSize",
    "input_index >= 0",
    "index >= 0",
    "end >= begin",  # offsets of embedding_bag
)
GROUPS = (  # `offs` of the products of groups of matrices
    "expected offset to be less than tensor size",
    "expected gemm dimension to be greater or equal 0",
    "dynamic dimension byte size to be non-negative multiple of 16",
    "for 2d-2d grouped gemm",
    "for 2d-3d grouped gemm",
    "offsets must be set for 2d-2d and 2d-3d grouped GEMMs",
)
REPEATS = ("repeat >= 0", "result_size == cumsum_ptr", "In `repeat_interleave`")
SPARSE = ("is not satisfied.", "are sorted and distinct")  # compressed_idx, plain_idx
OPERATORS = (  # kMayTrap and kOverloadsThatMayTrap in trapping_ops.cc
    "input_val >= zero && input_val <= one",  # binary_cross_entropy
    "target_val >= zero && target_val <= one",
    "totalElements <= srcSize",  # masked_scatter
    "lengths_data[",  # segment_reduce
    "0 <= p",  # bernoulli
    "lambda >= 0",  # poisson
    "!(val < zero)",  # multinomial
    "!_isinf(val)",
    "!at::_isnan(val)",
    "cumdist[size - 1]",
    "sum > accZero",
)
CUTS = (
    "cond && message",  # _assert_async, and what calls it: normal, multinomial, ctc_loss
    "isnan(data[",  # NanCheck of torch.distributed, whose operators are cuts
    "isnan(tailPtr[",
    "HasNanFP8x8",
    "_byte_offset & 15) == 0",  # collectives
    "(reinterpret_cast<uintptr_t>(dst_peer_base) & 15) == 0",
)
# What does not follow from data, but from shapes, types, the device or the kernel.
NO_DATA = (
    "final_output",
    "noutputs == 1",
    "output_vec_size == 1",
    "blockDim",
    "threadIdx.x == 0",
    "ScalarType::Q",
    "Attempting to use",
    "Trying to use",
    "Using TMA Descriptor modification",
    "ERROR : Arch conditional MMA instruction",
    "inputH < gradInput.size(2)",
    "inputT < gradInput.size(2)",
    "outputSliceSize",  # topk has found as many as it has counted
    "xq_offset + K_group_size",
)
READ = INDICES + GROUPS + REPEATS + SPARSE + OPERATORS + CUTS + NO_DATA


def has_been_read(text: str) -> bool:
    unconditional = text.split(" && ")[0] == "false"  # code that is not to be reached
    return unconditional or any(part in text for part in READ)


def test_every_assertion_of_torchs_kernels_has_been_read() -> None:
    """One that a new version brings may look at data that nothing gates."""
    tool, libraries = device_assertions.cuobjdump(), device_assertions.libraries()
    if tool is None or not libraries:
        pytest.skip(skips.NO_TOOL.format("cuobjdump"))
    texts = set().union(*(device_assertions.texts(tool, each) for each in libraries))
    assert len(texts) > 80
    assert {text for text in texts if not has_been_read(text)} == set()
    # What is read is there: the parts are of texts, not of anything.
    for part in (*OPERATORS, *REPEATS, "index out of bounds", "cond && message"):
        assert any(part in text for text in texts), part
