"""Uses of a tensor's memory that are no operations, so that no hook sees them.

What runs ahead of the program may have overwritten in place what the program is about
to read, or have read what it is about to write: it has to be taken back first.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

# What else torch's Python offers (`__array__`, `__cuda_array_interface__`, `storage`,
# `torch.save`) calls these; Triton's launcher calls `data_ptr`.
_OF_TENSORS = ("data_ptr", "numpy", "tolist", "untyped_storage", "__dlpack__")
_OF_STORAGES = ("data_ptr", "resize_")

_NOTHING_OPEN = ctypes.c_bool(False)

_device: str | None = None  # the type of the watched device
_opened = _NOTHING_OPEN  # false while there is nothing to interrupt


def watch(device: str | None, opened_address: int) -> None:
    """Which uses are seen from now on, and where it is told that they matter."""
    global _device, _opened
    _device = device
    _opened = (
        ctypes.c_bool.from_address(opened_address) if opened_address else _NOTHING_OPEN
    )


def wrap(interrupt: Callable[[], None]) -> None:
    """Call `interrupt` before each use of the watched device. Once a process."""

    def of_memory(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _opened.value and self.device.type == _device:
                interrupt()
            return method(self, *args, **kwargs)

        return wrapper

    def of_streams(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _opened.value and _device == "cuda":
                interrupt()
            return method(self, *args, **kwargs)

        return wrapper

    def of_cache(function: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(function)
        def wrapper() -> None:
            if _opened.value and _device == "cuda":
                interrupt()
            function()

        return wrapper

    for cls, methods in (
        (torch.Tensor, _OF_TENSORS),
        (torch.UntypedStorage, _OF_STORAGES),
    ):
        for name in methods:
            setattr(cls, name, of_memory(getattr(cls, name)))
    # A graph of the program's own reads and writes what it was captured with; a
    # stream that is asked whether it is done orders the host behind it.
    for cls, name in ((torch.cuda.CUDAGraph, "replay"), (torch.cuda.Stream, "query")):
        setattr(cls, name, of_streams(getattr(cls, name)))

    # What has run ahead may have to be rebuilt from memory that is free by now.
    torch._C._cuda_emptyCache = of_cache(torch._C._cuda_emptyCache)

    # Torch cannot empty a pool while another one is open, as ours is in a recording.
    def before_end(self: Any) -> None:
        if _opened.value and _device == "cuda":
            interrupt()

    torch.cuda.MemPool.__del__ = before_end


def pass_trace_on(activate: Callable[[], None]) -> None:
    """Let torch's own tracer of streams, if it is switched on, hear what we hear."""
    torch._C._activate_gpu_trace = activate
