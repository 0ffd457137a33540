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
    _native._ops().set_saving_functions(_functions_that_save())
    return ""


def _functions_that_save() -> list[str]:
    """Return names of autograd's functions that save tensors.

    Behind a backward pass they have none left, and a second one raises an error there.
    """
    return [
        name
        for name, kind in vars(torch._C._functions).items()
        if isinstance(kind, type)
        and any(each.startswith("_raw_saved_") for each in vars(kind))
    ]


@functools.cache
def warn_once(reason: str) -> None:
    """Warn that regions run their Python. A program's errors stay its own."""
    _native.warn(f"regions run their Python, because nothing can be replayed: {reason}")


def name_of(fn: Any) -> str:
    """Return what a program calls it: of a part of a function, the function's name."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


def under_modes() -> tuple[Run, str | None]:
    """Return `run_region` under modes of torch's functions, and the default device then.

    None: there are other modes than `torch.set_default_device`.
    """
    stack = torch.overrides._get_current_function_mode_stack()
    if any(type(each) is not torch.utils._device.DeviceContext for each in stack):
        return functions()[0], None
    return _without_modes, str(stack[-1].device)


def _without_modes(*call: Any) -> tuple[int, int, tuple[torch.Tensor, ...]]:
    """`run_region`, by which no function of torch's is called."""
    with torch._C.DisableTorchFunction():
        return functions()[0](*call)
