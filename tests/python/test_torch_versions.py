"""What differs between the versions of torch that there are libraries for.

A name of torch's that is observed, and that a version does not have, is no error: it is
passed over. So each version's are listed here. One that is gone and not listed may have
got another name, under which nobody observes it.
"""

from __future__ import annotations

import sysconfig
from typing import Any

import pytest
import reprise
import torch
from reprise import _observers
from watching import assert_same_bits

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
    assert _observers.lacking() == LACKING[VERSION]


def test_a_free_threaded_python_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = sysconfig.get_config_var
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or own(name)
    )
    with pytest.raises(RuntimeError, match=r"free-threaded .*: use the ordinary one"):
        _observers.check_layout()


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
