"""Extensions of torch: libraries of Python's that name one of torch's as their own.

Their functions take tensors, and look at their memory past Python.
"""

from __future__ import annotations

import gc
import mmap
import os
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch


def modules() -> Iterator[types.ModuleType]:
    """Yield all loaded modules but lazy ones, some more than once."""
    found: list[Any] = list(sys.modules.values())
    compiler = sys.modules.get("torch.utils.cpp_extension")
    if compiler is not None and compiler.JIT_EXTENSION_VERSIONER.entries:
        found += gc.get_objects()  # what torch compiles is in no list of Python's
    for module in found:
        if type(module) is types.ModuleType:
            yield module


def is_extension_of_torch(path: str) -> bool:
    """Return whether a library that is no part of torch names one of torch's as its own."""
    torchs = [os.path.dirname(torch.__file__)]
    if inductor := sys.modules.get("torch._inductor.runtime.cache_dir_utils"):
        torchs.append(inductor.cache_dir())  # kernels without number
    path = os.path.realpath(path)
    if any(path.startswith(os.path.realpath(folder) + os.sep) for folder in torchs):
        return False
    try:
        return any(name.startswith((b"libtorch", b"libc10")) for name in _needed(path))
    except (OSError, ValueError, struct.error):
        return False  # no library of this machine


_LOAD, _DYNAMIC = 1, 2  # of segments: PT_LOAD, PT_DYNAMIC
_NEEDED, _STRINGS = 1, 5  # of entries of the dynamic segment: DT_NEEDED, DT_STRTAB


def _needed(path: str) -> list[bytes]:
    """The libraries that a 64-bit ELF library names as its own."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data[:5] != b"\x7fELF\x02":
            return []
        (headers,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        segments = [
            struct.unpack_from("<IIQQQQ", data, headers + index * size)
            for index in range(count)
        ]
        entries = [
            entry
            for kind, _, offset, _, _, length in segments
            if kind == _DYNAMIC
            for entry in struct.iter_unpack("<qQ", data[offset : offset + length])
        ]
        strings = [
            value - virtual + offset
            for tag, value in entries
            if tag == _STRINGS
            for kind, _, offset, virtual, _, length in segments
            if kind == _LOAD and virtual <= value < virtual + length
        ]
        return [
            data[strings[0] + value : data.find(b"\0", strings[0] + value)]
            for tag, value in entries
            if tag == _NEEDED and strings
        ]
