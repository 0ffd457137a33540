"""Drops weak references of regions before `torch.utils.swap_tensors`.

That function refuses a tensor to which anybody has a weak reference. Regions have such
references to all tensors that they lead to. What a region knows of a swapped tensor is of
no use afterwards. So regions forget what they know first, and record their next calls.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch


class _Referring(Protocol):
    """Who has weak references to tensors of the program's."""

    def let_go(self) -> None:
        """Has none any longer."""


_ALL: weakref.WeakSet[Any] = weakref.WeakSet()


def refers(who: _Referring) -> None:
    """Have the object told before tensors are swapped, as long as it lives."""
    _listen()
    _ALL.add(who)


def _let_go() -> None:
    for each in list(_ALL):
        each.let_go()


@functools.cache
def _listen() -> Callable[[Any, Any], None]:
    """What `swap_tensors` has done so far.

    The function stays, whoever has imported it; its code is another one.
    """
    function = torch.utils.swap_tensors
    before = types.FunctionType(function.__code__, function.__globals__)

    def swap_tensors(t1: Any, t2: Any) -> None:
        import reprise._swapping

        reprise._swapping._swap(t1, t2)

    function.__code__ = swap_tensors.__code__
    return before


def _swap(t1: Any, t2: Any) -> None:
    _let_go()
    _listen()(t1, t2)
