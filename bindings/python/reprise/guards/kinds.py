"""What kinds of objects are among arguments and results, by how they are taken apart."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree

from reprise.guards import classes
from reprise.guards.layouts import Layout, layout_of

# Code, and what torch's code changes in each call: the callable leads to one of these
# among its arguments as to one in its closure.
LEADING = (
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.amp.GradScaler,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    types.FunctionType,
    types.ModuleType,
    type,
)
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
# What leads on is of one of these; see `leads_on`.
MAY_LEAD = (*LEADING, types.BuiltinFunctionType)
_VIEWS = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
# What objects of these packages hold is not in their attributes.
CLOSED = frozenset({"torch", "numpy", *sys.stdlib_module_names} - {"__main__"})


def is_node(kind: type) -> bool:
    """Of a class that torch's trees take apart."""
    return not classes.compares(kind) and kind in _pytree.SUPPORTED_NODES


def fields_of(value: Any) -> tuple[str, ...] | None:
    """The names of a dataclass's fields. None: it is none, or holds more."""
    kind = type(value)
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    if issubclass(kind, (dict, tuple, list)):
        return None
    names = tuple(field.name for field in dataclasses.fields(kind))
    slots = {name for name, _ in classes.slots_of(kind)}
    is_whole = (
        slots <= set(names)
        and all(hasattr(value, name) for name in names)
        and set(getattr(value, "__dict__", ())) <= set(names)
        and not classes.holds_more(kind, len(slots))
    )
    return names if is_whole else None


def laid_out(value: Any) -> tuple[Layout, list[Any]] | None:
    """See `layout_of`. None, too, if it is more than what it holds."""
    kind = type(value)
    root = classes.root_of(kind)
    if root in CLOSED and root != "torch" and kind not in NAMESPACES:
        return None
    return None if issubclass(kind, enum.Enum) or leads_on(value) else layout_of(value)


def leads_on(value: Any) -> bool:
    """Whether it counts as what a closure leads to does: by what code names of it.

    An object that is not, among the arguments, counts by what it holds.
    """
    kind = type(value)
    if issubclass(kind, types.BuiltinFunctionType):  # else a method of something
        of = value.__self__
        return of is None or isinstance(of, (type, types.ModuleType))
    return issubclass(kind, LEADING)


def remedy_of(value: Any) -> str:
    """What helps where it is an argument that nobody knows how to take apart."""
    kind = type(value)
    if issubclass(kind, weakref.ProxyTypes):
        return " (give what it stands for)"
    if isinstance(value, (Iterator, *_VIEWS)):
        return " (give a list of what it yields)"
    if any(classes.name_of(base) == "numpy.ndarray" for base in classes.mro_of(kind)):
        return " (give it as a tensor, by torch.from_numpy)"
    if isinstance(value, (bytearray, memoryview)):
        return " (give it as a tensor, by torch.frombuffer)"
    if kind is torch.Generator:  # it cannot be referred to weakly
        return " (let the callable's closure hold it)"
    if isinstance(value, types.BuiltinFunctionType):
        return " of an object (give the object, and name the method inside)"
    return " (give what is taken of it, as tensors, numbers and texts)"
