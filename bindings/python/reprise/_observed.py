"""Functions of torch's that use memory of a device, or streams, without an op: a table.

Versions of torch have different ones. A function that a version lacks is left out, and
`lacking` tells which these are.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any

import torch

from reprise._enums import Use
from reprise._functions_of_c import def_at

# By dotted name in `torch._C`, with the names of attributes: both as regular expressions,
# with spaces between. What else torch's Python offers (`__array__`, `storage`,
# `__cuda_array_interface__`, `__dlpack__`, `share_memory_`, pickling) calls these; Triton's
# launcher calls `data_ptr`.
_OBSERVED: tuple[tuple[Use, str, str], ...] = (
    (
        Use.TENSOR,
        "TensorBase",
        "tolist untyped_storage apply_ map_ map2_",
    ),
    # Who has the address may write there at any time.
    (Use.TENSORS_ADDRESS, "TensorBase", "data_ptr const_data_ptr numpy"),
    (Use.STORAGES_ADDRESS, "StorageBase", "data_ptr"),
    (Use.EXPORTS, "", "_to_dlpack.* _(storage|data)_address"),
    # What a tensor's form does not tell: a recorded call may depend on it.
    (Use.OFFSET, "TensorBase", "storage_offset"),
    (Use.ORIGIN, "TensorBase", "_base _is_view _version"),
    (Use.HISTORY, "TensorBase", "_?grad_fn output_nr"),
    (
        Use.STORAGE,
        "StorageBase",
        "resize_ _resize_with_addr_ _swap_data_ptr_ fill_ copy_ _byteswap "
        "_write_file _set_from_file _share_.*_",
    ),
    (
        Use.SEEDS,
        "Generator",
        "manual_seed seed set_offset graphsafe_set_state philox_state __setstate__",
    ),
    (Use.TAKES_STATE, "Generator", "get_state"),
    (Use.SETS_STATE, "Generator", "set_state"),
    (Use.SAVED_TENSORS, "_autograd.SavedTensor", "register_hooks"),
    (Use.NO_HOOKS, "_autograd.", "_saved_tensors_hooks_disable"),
    (Use.MODES, "", "_push_on_torch_dispatch_stack _set_dispatch_mode"),
    (Use.MEMORY, "", "_gds_(load|save)_storage"),
    (Use.MEMORY, "", "_pickle_save _save_jit_module.* _save_mobile_module.*"),
    (Use.MEMORY, "PyTorchFileWriter", "write_record"),
    # Who is told that something elsewhere is done has been ordered behind it. That a
    # wait for a stream or an event begins is told by torch's tracer (gpu_trace.h).
    (Use.STREAMS, "_CudaStreamBase Stream", "query"),
    (Use.STREAMS, "_CudaEventBase Event", "query elapsed_time"),
    (Use.WAITS, "_CudaStreamBase _CudaEventBase Stream Event", "synchronize"),
    (Use.WAITS, "", "_cuda_synchronize _accelerator_synchronizeDevice"),
    (Use.MEMORY, "Future", "wait value done"),
    (
        Use.MEMORY,
        "_distributed_c10d.Work",
        "wait is_completed is_success exception synchronize result "
        "block_current_stream",
    ),
    # What has run ahead may have to be rebuilt from memory that is free by then.
    (Use.STREAMS, "", "_cuda_emptyCache _accelerator_emptyCache"),
    # A plan of cuFFT's holds its kernels, and memory that they read.
    (
        Use.PLANS,
        "_VariableFunctionsClass",
        "_cufft_clear_plan_cache _cufft_set_plan_cache_max_size",
    ),
    # Code that was compiled elsewhere, and graphs of the program's own: they work on
    # what they are given and on what they were captured with.
    (Use.GRAPH, "_CUDAGraph _acceleratorGraph", "replay"),
    (Use.SCRIPTS, "ScriptFunction ScriptMethod", "__call__"),  # they may be fused
    (Use.LAUNCHES, "", "_cuda_jiterator_compile_and_launch_kernel"),
    (Use.LAUNCHES, "", "_nccl_(all_.*|broadcast|reduce|reduce_scatter)"),
    (Use.LAUNCHES, "", "_broadcast _broadcast_coalesced _broadcast_out"),
    (Use.LAUNCHES, "_StaticCudaLauncher", "_launch_kernel"),
    (Use.LAUNCHES, "_aoti.AOTIModel.*", "(?!__).*"),
    (Use.LAUNCHES, "_nativert.PyModelRunner", "__call__ (?!__).*"),
    (Use.LAUNCHES, "_te.TensorExprKernel", "run fallback"),
    (Use.LAUNCHES, "_te.CodeGen.*", "call.*"),
    (Use.LAUNCHES, "StaticModule", "__call__ runAsync benchmark.*"),
    (Use.KERNELS, "_DispatchModule", "(?!__|_pybind11_).*"),
    (Use.KERNELS, "", "_set_warnAlways"),
    # Collectives that go round the dispatcher.
    (
        Use.LAUNCHES,
        "_distributed_c10d.Backend",
        "_?all.* broadcast.* _?reduce.* gather.* scatter.* send.* recv.* barrier.* "
        "monitored.*",
    ),
    (Use.LAUNCHES, "_distributed_c10d._SymmetricMemory", "(?!__).*"),
    (Use.LAUNCHES, "_distributed_c10d.Window", "(?!__|_pybind11_).*"),
)

# What Python asks a tensor, which may be an attribute.
ASKS = (Use.OFFSET, Use.ORIGIN, Use.HISTORY)


def named(owner: Any, names: str) -> list[tuple[str, Any]]:
    """Return what a class or a module itself has of names that match this pattern."""
    return [each for each in vars(owner).items() if re.fullmatch(names, each[0])]


def owners(path: str) -> Iterator[Any]:
    """Yield classes and modules of `torch._C`; the last of the dotted names is a pattern."""
    owner: Any = torch._C
    *modules, pattern = path.split(".", 1) if path else [""]
    for name in modules:
        owner = getattr(owner, name, None)
    if not pattern:
        yield owner
    elif owner is not None:
        for name, found in list(vars(owner).items()):
            if isinstance(found, type) and re.fullmatch(pattern, name):
                yield found


def observed() -> Iterator[tuple[Use, str, str]]:
    """Yield each use, with one pattern of owners and one of names."""
    for use, paths, names in _OBSERVED:
        for path in paths.split() or [""]:
            for name in names.split():
                yield use, path, name


def lacking() -> list[str]:
    """Return what is in the table and missing in this torch, as owner and name."""
    return [
        f"{path or '.'} {names}"
        for _, path, names in observed()
        if not any(
            def_at(attribute) is not None or type(attribute) is types.FunctionType
            for owner in owners(path)
            for _, attribute in named(owner, names)
        )
    ]
