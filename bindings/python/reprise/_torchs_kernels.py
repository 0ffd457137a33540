"""Kernels that torch itself registers from Python, for its own operators.

A kernel in Python may decide by anything what it launches. So a program's kernel is a cut.
Torch's own is no cut where its source was read, and what it launches depends on nothing but
the forms of its arguments. Its source is known by a hash: a torch with another source has
a cut there.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
import sys
from typing import Any, NamedTuple

import torch

_REGISTRY = "torch._native.registry"  # what registers them


class _Kernel(NamedTuple):
    """Of one operator, for one backend: the modules that were read, and their hash."""

    namespace: str
    operator: str
    backend: str
    modules: tuple[str, ...]
    sha256: tuple[str, ...]  # of all modules; one for each release that was read


_NATIVE = "torch._native"
_BMM = f"{_NATIVE}.ops.bmm_outer_product"
_READ = (
    # Products of a column and a row, by their shapes; all others are torch's compiled
    # kernel's. Each element is one product, however Triton compiles it.
    _Kernel(
        "aten",
        "bmm",
        "CUDA",
        (
            _REGISTRY,
            f"{_NATIVE}.aot_manifest",
            f"{_NATIVE}.const_tensor_wrapper",
            f"{_NATIVE}.instrumentation",
            f"{_NATIVE}.triton_utils",
            f"{_BMM}.triton_impl",
            f"{_BMM}.triton_kernels",
        ),
        ("d6f55f7af88118424db4b6c99b487dcd21748a3f9a7fa7e55088978c19876eea",),  # 2.15.0
    ),
)


def source_hash(modules: tuple[str, ...]) -> str | None:
    """Return a hash of the modules' sources.

    None: one was not found. A module that was not imported yet is looked for beside
    the first.
    """
    first = getattr(sys.modules.get(modules[0]), "__file__", None)
    if first is None:
        return None
    folder = pathlib.Path(first)
    for _ in modules[0].split("."):
        folder = folder.parent
    together = hashlib.sha256()
    for name in modules:
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        try:
            together.update(path.read_bytes())
        except OSError:
            return None
    return together.hexdigest()


def tell(ops: Any) -> list[str]:
    """Tell the library, `torch.ops.reprise`, of such kernels. Return their operators."""
    told = []
    for each in _READ:
        if source_hash(each.modules) not in each.sha256 or not _is_torchs(each):
            continue
        name = f"{each.namespace}::{each.operator}"
        if ops.take_kernel_for_torchs(name, "", each.backend):
            told.append(name)
    return told


def _is_torchs(kernel: _Kernel) -> bool:
    """Whether torch has registered it, alone and over its own, and nobody another one."""
    registry: Any = sys.modules[_REGISTRY]
    key = kernel.namespace, kernel.operator, kernel.backend
    nodes = registry._graphs.get(key, [])
    if len(nodes) != 1:
        return False
    functions = nodes[0].cond_fn, nodes[0].impl_fn
    if any(each.__module__ not in kernel.modules for each in functions):
        return False
    own = f"registered at {registry.__file__}:"
    compiled = f"/Register{kernel.backend}_"
    before = _registered(f"{kernel.namespace}::{kernel.operator}", kernel.backend)
    inner = _registered(f"_native::{nodes[0].node_id}", kernel.backend)
    return (
        len(before) == 2
        and before[0].startswith(own)
        and compiled in before[1]
        and len(inner) == 1
        and inner[0].startswith(own)
    )


def _registered(name: str, backend: str) -> list[str]:
    """Return where its kernels of that backend are from, the one that runs first."""
    found = re.findall(
        rf"^{backend}(?: \(inactive\))?: (.*)$",
        torch._C._dispatch_dump(name),
        flags=re.MULTILINE,
    )
    return list(map(str, found))
