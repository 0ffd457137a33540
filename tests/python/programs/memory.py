"""Memory of tensors, made and written past torch's operators, as other libraries do."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

import numpy
import torch

_FLOAT_BYTES = 4


@functools.cache
def _driver() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    library.cuMemsetD32Async.argtypes = (
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    return library


def _fill(address: int, count: int, value: float, device: str) -> None:
    """So many floats at an address; on a GPU, by the current stream."""
    bits = struct.pack("f", value)
    if device == "cpu":
        ctypes.memmove(address, bits * count, _FLOAT_BYTES * count)
        return
    stream = torch.cuda.current_stream().cuda_stream
    (word,) = struct.unpack("I", bits)
    failed = _driver().cuMemsetD32Async(address, word, count, stream)
    assert failed == 0, f"cuMemsetD32Async returned {failed}"


def write(tensor: torch.Tensor, value: float, way: str) -> None:
    """Fill a tensor of floats; the first of them only, where others lie in between."""
    device = tensor.device.type
    count = tensor.numel() if tensor.is_contiguous() else 1
    match way:
        case "address":
            _fill(tensor.data_ptr(), count, value, device)
        case "storage":
            begin = tensor.untyped_storage().data_ptr()
            offset = _FLOAT_BYTES * tensor.storage_offset()
            _fill(begin + offset, count, value, device)
        case "array" if device == "cpu":
            tensor.numpy().fill(value)
        case "array":
            address, _ = tensor.__cuda_array_interface__["data"]
            _fill(address, count, value, device)
        case "dlpack":
            torch.from_dlpack(tensor).fill_(value)
        case _:
            raise ValueError(way)


def filled(shape: torch.Size, value: float, device: str, way: str) -> torch.Tensor:
    """A new tensor of floats: of torch's memory, or on the host of another library's."""
    if way == "array" and device == "cpu":
        return torch.from_numpy(numpy.full(shape, value, numpy.float32))
    if way == "array":
        made = torch.empty(shape, device=device)
        write(made, value, "address")
        return made
    return torch.full(shape, value, device=device)
