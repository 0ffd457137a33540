"""Makes what a recorded call has returned anew, by its form."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

from reprise.guards.constants import Constant
from reprise.guards.layouts import Layout
from reprise.guards.tokens import from_bits
from reprise.guards.tree import Context, Form, GivenObject, Parts
from reprise.guards.ways import AT, Before, GivenBack, Setting, Shared

Builder = Callable[[Iterator[torch.Tensor], Parts], Any]


def builder(form: Form) -> Builder:
    """What makes a result of that form, from tensors and the parts of a call."""
    if type(form) is int:
        return lambda tensors, _: next(tensors)
    if type(form) is GivenBack:
        return lambda _, call: form.of((call.args, call.kwargs))
    if type(form) is Shared or type(form) is Setting:
        return lambda _, __: form
    if type(form) is Before:
        return lambda _, call: form.of(call)
    kind: Any
    kind, *rest = form
    if len(rest) == 1 and kind in (tuple, list):
        parts = [builder(each) for each in rest[0]]
        return lambda tensors, call: kind([part(tensors, call) for part in parts])
    if len(rest) == 1 and isinstance(rest[0], GivenObject):
        which = rest[0]
        return lambda _, call: which.of(call)
    if len(rest) == 1:
        value = from_bits(rest[0]) if kind in (float, complex) else rest[0]
        if isinstance(value, Constant):
            value = value.value
        if kind is set:
            elements: Any = value
            return lambda _, __: set(elements)
        return lambda _, __: value
    how, children = rest
    if how is AT:
        return lambda _, call: container_of(call, children)
    parts = [builder(each) for each in children]
    if isinstance(how, Context):
        unflatten = _pytree.SUPPORTED_NODES[kind].unflatten_fn
        return lambda tensors, call: unflatten(
            [part(tensors, call) for part in parts], how.context
        )
    if isinstance(how, Layout):
        return lambda tensors, call: how.make([part(tensors, call) for part in parts])
    if how == "calls":
        return lambda tensors, call: _calling(
            kind, [part(tensors, call) for part in parts]
        )
    if how == "fields":
        return lambda tensors, call: tuple.__new__(
            kind, [part(tensors, call) for part in parts]
        )
    if dataclasses.is_dataclass(kind):
        return lambda tensors, call: _dataclass(
            kind, how, [part(tensors, call) for part in parts]
        )
    keys = [key.value if type(key) is Constant else key for _, key in how]
    if kind is defaultdict:
        made_by, *parts = parts
        return lambda tensors, call: defaultdict(
            made_by(tensors, call),
            zip(keys, [part(tensors, call) for part in parts], strict=True),
        )
    return lambda tensors, call: kind(
        zip(keys, [part(tensors, call) for part in parts], strict=True)
    )


def _calling(kind: Any, parts: list[Any]) -> Any:
    """A method or a `partial`, of what it calls."""
    if kind is types.MethodType:
        return types.MethodType(*parts)
    function, args, keywords = parts
    return functools.partial(function, *args, **keywords)


def _dataclass(kind: Any, names: tuple[str, ...], parts: list[Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def container_of(call: Parts, number: int) -> Any:
    """Return that of a call's containers."""
    assert call.containers is not None
    return call.containers.values[number]
