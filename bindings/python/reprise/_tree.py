"""Arguments and results taken apart into tensors, numbers and what holds them."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

# What two values of one form have in common: hashable, equal where both are alike.
Form = Any

_TENSORS = {torch.Tensor: 0, torch.nn.Parameter: 2, torch.nn.Buffer: 3}
_CONSTANTS = frozenset(
    {
        bool,
        int,
        str,
        bytes,
        complex,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        torch.Size,
    }
)


class Foreign(TypeError):
    """Something among them is of a type that nobody knows how to take apart."""


def flatten(
    value: Any, tensors: list[torch.Tensor], numbers: list[float] | None
) -> Form:
    """The form of `value`; its tensors and floats are appended, in order.

    Without `numbers` floats are part of the form. Raises Foreign.
    """
    kind = type(value)
    if kind in _TENSORS:
        tensors.append(value)
        return _TENSORS[kind]
    if kind is float and numbers is not None:
        numbers.append(value)
        return 1
    if kind in _CONSTANTS:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is tuple or kind is list:
        return kind, tuple([flatten(each, tensors, numbers) for each in value])
    if kind is dict or kind is OrderedDict:
        names = tuple([(type(key), key) for key in _keys(value)])
        return kind, names, _all(value.values(), tensors, numbers)
    return _flatten_other(kind, value, tensors, numbers)


def _flatten_other(
    kind: type, value: Any, tensors: list[torch.Tensor], numbers: list[float] | None
) -> Form:
    if isinstance(value, enum.Enum):
        return kind, value
    if kind in _pytree.SUPPORTED_NODES:
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        return kind, Context(context), _all(children, tensors, numbers)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind, "fields", _all(value, tensors, numbers)
    if dataclasses.is_dataclass(kind) and not issubclass(kind, (dict, tuple, list)):
        names = tuple(field.name for field in dataclasses.fields(kind))
        if all(hasattr(value, name) for name in names) and (
            set(getattr(value, "__dict__", ())) <= set(names)
        ):
            parts = [getattr(value, name) for name in names]
            return kind, names, _all(parts, tensors, numbers)
    raise Foreign(f"{kind.__module__}.{kind.__qualname__}")


def _keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    for key in value:
        if type(key) not in (str, int, bool):
            raise Foreign(f"a dict with a key of type {type(key).__qualname__}")
    return tuple(value)


def _all(
    values: Any, tensors: list[torch.Tensor], numbers: list[float] | None
) -> tuple[Form, ...]:
    return tuple([flatten(each, tensors, numbers) for each in values])


class Context:
    """What pytree keeps beside a node's children; hashed by what it prints."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and bool(self.context == other.context)

    def __hash__(self) -> int:
        return hash(repr(self.context))


Builder = Callable[[Iterator[torch.Tensor]], Any]


def builder(form: Form) -> Builder:
    """What makes a value of that form, taken apart without numbers, from tensors."""
    if type(form) is int:
        return next
    kind: Any
    kind, *rest = form
    if len(rest) == 1 and kind in (tuple, list):
        parts = [builder(each) for each in rest[0]]
        return lambda tensors: kind(part(tensors) for part in parts)
    if len(rest) == 1:
        value = float.fromhex(rest[0]) if kind is float else rest[0]
        return lambda _: value
    how, children = rest
    parts = [builder(each) for each in children]
    if isinstance(how, Context):
        unflatten = _pytree.SUPPORTED_NODES[kind].unflatten_fn
        return lambda tensors: unflatten([part(tensors) for part in parts], how.context)
    if how == "fields":
        return lambda tensors: tuple.__new__(kind, [part(tensors) for part in parts])
    if dataclasses.is_dataclass(kind):
        return lambda tensors: _dataclass(kind, how, [part(tensors) for part in parts])
    keys = [key for _, key in how]
    return lambda tensors: kind(
        zip(keys, [part(tensors) for part in parts], strict=True)
    )


def _dataclass(kind: Any, names: tuple[str, ...], parts: list[Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(made, name, part)
    return made
