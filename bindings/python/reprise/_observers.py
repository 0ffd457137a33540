"""Looks into a CPU tensor's memory that are no operations, so that no hook sees them.

The host executor runs ops ahead of the program. One of them may have overwritten in
place what the program is about to read: it has to be taken back first. (On a GPU the
program reads by operations.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# What else torch's Python offers (`__array__`, `storage`, `torch.save`) calls these.
_WAYS = ("data_ptr", "numpy", "tolist", "untyped_storage", "__dlpack__")

watching = False  #: whether the host executor serves the hooks


def wrap(observe: Callable[[], None]) -> None:
    """Call `observe` before each look while `watching`. Once a process."""
    tensor: Any = torch.Tensor

    def before(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if watching and self.device.type == "cpu":
                observe()
            return method(self, *args, **kwargs)

        return wrapper

    for way in _WAYS:
        setattr(tensor, way, before(getattr(tensor, way)))
