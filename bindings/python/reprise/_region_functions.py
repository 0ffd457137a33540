"""Functions of the library that regions need, and whether they can be had."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from reprise import _native

Run = Callable[..., tuple[int, int, tuple[torch.Tensor, ...]]]


@functools.cache
def functions() -> tuple[Run, Callable[[tuple[Any, ...], int, int, int], int]]:
    """`run_region` and `are_these`; see bindings/torch/region_library.h."""
    address = _native._ops().region_functions()
    if not address:
        raise RuntimeError("reprise: regions need functions that this torch lacks")
    made: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(address)()
    return made  # type: ignore[no-any-return]


@functools.cache
def why_unusable() -> str:
    """Return why no region can be replayed in this process; empty if they can be."""
    try:
        functions()
    except RuntimeError as error:
        return str(error)
    return ""


@functools.cache
def warn_once(reason: str) -> None:
    """Warn that regions run their Python. A program's errors stay its own."""
    _native.warn(f"regions run their Python, because nothing can be replayed: {reason}")
