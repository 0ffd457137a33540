"""What differs between the versions of torch that there are libraries for.

A name of torch's that is observed, and that a version does not have, is no error: it is
passed over. So each version's are listed here. One that is gone and not listed may have
got another name, under which nobody observes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import pytest
import reprise
import torch
from reprise import _native, _observed, _observers, _torchs_kernels
from reprise._enums import Use
from reprise._functions_of_c import def_at, def_of
from watching import (
    assert_same_bits,
    followed_share,
    randoms,
    replaying,
    settle,
    watched,
)

VERSION = ".".join(torch.__version__.split(".")[:2])

# By version; those of a version are in the order of `_observers`.
LACKING = {
    "2.11": [
        "TensorBase const_data_ptr",
        "StorageBase _resize_with_addr_",
        "StorageBase _swap_data_ptr_",
        "Generator philox_state",
        "_acceleratorGraph replay",
        "_distributed_c10d.Window (?!__|_pybind11_).*",
    ],
    "2.12": [
        "TensorBase const_data_ptr",
        "StorageBase _resize_with_addr_",
        "Generator philox_state",
        "_nativert.PyModelRunner __call__",
        "_distributed_c10d.Window (?!__|_pybind11_).*",
    ],
    "2.13": [
        "Generator philox_state",
        "_nativert.PyModelRunner __call__",
        "_distributed_c10d.Window (?!__|_pybind11_).*",
    ],
    "2.14": ["_nativert.PyModelRunner __call__"],
    "2.15": ["_nativert.PyModelRunner __call__"],
}


def test_all_that_is_observed_is_there() -> None:
    assert _observed.lacking() == LACKING[VERSION]


def test_functions_that_give_addresses_away_are_given_tensors_in_a_known_way() -> None:
    exports = [each for each in _observed.observed() if each[0] is Use.EXPORTS]
    found = [
        attribute
        for _, path, names in exports
        for owner in _observed.owners(path)
        for _, attribute in _observed.named(owner, names)
    ]
    assert len(found) >= len(exports)
    for attribute in found:
        pointer = ctypes.c_void_p.from_address(def_at(attribute) or 0)
        flags = def_of(attribute, pointer).flags
        assert _observers.export_by(flags) is not Use.MEMORY, attribute
    takes_one_object = 0x8
    assert _observers.export_by(takes_one_object) is Use.MEMORY


def test_a_free_threaded_python_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = sysconfig.get_config_var
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or own(name)
    )
    with pytest.raises(RuntimeError, match=r"free-threaded .*: use the ordinary one"):
        _observers.check_layout()


# Torch's own kernels in Python that are no cuts, by version.
FROM_PYTHON = {"2.15": ["aten::bmm"]}


def test_kernels_that_torch_registers_from_python() -> None:
    assert _torchs_kernels.tell(_native._ops()) == FROM_PYTHON.get(VERSION, [])
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("bmm", lambda a, b: a @ b, "CUDA", allow_override=True)
        assert _torchs_kernels.tell(_native._ops()) == []
    finally:
        library._destroy()


def _replaced_by_the_program() -> contextlib.AbstractContextManager[object]:
    library = torch.library.Library("aten", "IMPL")
    library.impl("bmm", lambda a, b: a @ b, "CUDA", allow_override=True)
    return contextlib.closing(types.SimpleNamespace(close=library._destroy))


def _switched_off() -> contextlib.AbstractContextManager[object]:
    switches: Any = torch.backends
    off: contextlib.AbstractContextManager[object] = (
        switches.python_native.triton.disabled()
    )
    return off


@pytest.mark.parametrize("change", [_replaced_by_the_program, _switched_off])
def test_kernels_from_python_are_told_apart(
    change: Callable[[], contextlib.AbstractContextManager[object]],
) -> None:
    """What was recorded with other kernels is not replayed, whoever registers them."""
    if change is _switched_off and VERSION not in FROM_PYTHON:
        return

    def step(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).relu().sin()

    inputs = randoms("cpu", 4, 4, calls=6)
    with watched("cpu") as session:
        settle(session, step, inputs)
        with replaying(session):
            step(inputs[0])
        with change():
            before = session.stats()
            step(inputs[0])
            assert session.stats().since(before).followed == 0


def test_torchs_sources_are_hashed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A source that is missing, or that is another one, is nobody's who read it."""
    package = tmp_path / "torch" / "_native"
    package.mkdir(parents=True)
    module = types.ModuleType("torch._native.registry")
    module.__file__ = str(package / "registry.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = (module.__name__, "torch._native.more")
    hashes = set()
    for text in (None, "a = 1", "a = 2"):
        for name in ("registry.py", "more.py"):
            if text is not None:
                (package / name).write_text(text)
        hashes.add(_torchs_kernels.source_hash(names))
    assert None in hashes and len(hashes) == 3


def test_products_of_batches_are_replayed(device: str) -> None:
    """In some versions torch chooses their kernel in Python, by their shapes."""

    def step(x: torch.Tensor) -> torch.Tensor:
        outer = torch.bmm(x[:, :, :1].contiguous(), x[:, :1].contiguous())
        return torch.bmm(outer, x).relu() + 1

    inputs = randoms(device, 3, 8, 8, calls=6)
    with watched(device) as session:
        settle(session, step, inputs)
        before = session.stats()
        found = [step(x) for x in inputs]
        assert followed_share(session, before) > 0.9, str(session.explain())
    assert_same_bits(found, [step(x) for x in inputs])


CALLS = 6


@pytest.mark.parametrize("inside", [False, True])
def test_hooks_of_new_nodes(device: str, inside: bool) -> None:
    """They see each node of autograd as it is made: no replay makes those."""
    hook: Any = getattr(torch.autograd.graph, "node_creation_hook", None)
    if hook is None:
        assert VERSION in ("2.11", "2.12", "2.13", "2.14")
        return
    seen: list[str] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        if not inside:
            return (x * 2).sin()
        with hook(lambda node: seen.append(node.name())):
            return (x * 2).sin()

    fast: Any = reprise.region(fn)
    x = torch.randn(4, device=device, requires_grad=True)
    for _ in range(CALLS):
        assert_same_bits(fast(x), fn(x))
    assert (fast.explain().replayed > 0) != inside, str(fast.explain())
    found = []
    for each in (fast, fn):
        seen.clear()
        with hook(lambda node: seen.append(node.name())):
            each(x)
        found.append([*seen])
    assert found[0] == found[1]
    assert found[0].count("SinBackward0") == (2 if inside else 1)
