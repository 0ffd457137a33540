"""Kernels that torch itself registers from Python, for its own operators.

A kernel in Python may decide by anything what it launches. So a program's kernel is a cut.
Torch's own is no cut where its source was read, and what it launches depends on nothing but
the forms of its arguments. Its source is known by a hash: a torch with another source has
a cut there.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
from typing import Any, NamedTuple

_REGISTRY = "torch._native.registry"  # what registers them


class _Kernel(NamedTuple):
    """Of one operator, for one backend: the modules that were read, and their hash."""

    namespace: str
    operator: str
    backend: str
    modules: tuple[str, ...]
    sha256: tuple[str, ...]  # of all modules; one for each release that was read


_BMM = "torch._native.ops.bmm_outer_product"
_READ = (
    # Products of a column and a row, by their shapes; all others are torch's compiled
    # kernel's. Each element is one product, however Triton compiles it.
    _Kernel(
        "aten",
        "bmm",
        "CUDA",
        (_REGISTRY, f"{_BMM}.triton_impl", f"{_BMM}.triton_kernels"),
        ("771807292e788ffb476ae88566c3a8a7c622ac56316e1a3e62b14e8af48cd5d6",),  # 2.15.0
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
        if not _is_registered(each) or source_hash(each.modules) not in each.sha256:
            continue
        name = f"{each.namespace}::{each.operator}"
        if ops.take_kernel_for_torchs(name, "", each.backend):
            told.append(name)
    return told


def _is_registered(kernel: _Kernel) -> bool:
    """Whether torch has registered it alone, and nobody another one in its place."""
    registry: Any = sys.modules.get(_REGISTRY)
    graphs = getattr(registry, "_graphs", {})
    nodes = graphs.get((kernel.namespace, kernel.operator, kernel.backend), [])
    if len(nodes) != 1 or nodes[0].cond_fn.__module__ not in kernel.modules:
        return False
    import torch

    name = f"{kernel.namespace}::{kernel.operator}"
    of_backend = f"{kernel.backend}: registered at {registry.__file__}:"
    return any(
        line.startswith(of_backend)
        for line in torch._C._dispatch_dump(name).splitlines()
    )
