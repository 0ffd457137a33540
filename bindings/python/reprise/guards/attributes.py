"""Attributes of modules that a region's calls set to tensors."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch


class Attribute(NamedTuple):
    """Of a module, which it does not keep."""

    module: weakref.ref[torch.nn.Module]
    in_buffers: bool
    name: str

    def values(self) -> dict[str, Any] | None:
        """Where it stands; None: the module is gone."""
        module = self.module()
        if module is None:
            return None
        values: dict[str, Any] = module._buffers if self.in_buffers else module.__dict__
        return values


# What one holds before a call is as an argument, and what it holds behind it as a result,
# so it is nothing that the region leads to.
Written = tuple[Attribute, ...]


def keys_of(written: Written) -> set[tuple[int, str]]:
    """The ids of dictionaries, as long as modules live, and keys."""
    return {
        (id(values), each.name)
        for each in written
        if (values := each.values()) is not None
    }


def held_by(written: Written) -> tuple[Any, ...] | None:
    """What they hold: tensors, None, or `Ellipsis` where there is nothing.

    None: one of them holds something else.
    """
    found = []
    for each in written:
        values = each.values()
        value = ... if values is None else values.get(each.name, ...)
        if value is not None and value is not ... and not is_plain(value):
            return None
        found.append(value)
    return tuple(found)


def set_to(written: Written, before: tuple[Any, ...], behind: tuple[Any, ...]) -> None:
    """What a call has set them to, that was something else before it."""
    for each, old, new in zip(written, before, behind, strict=True):
        values = each.values()
        if new is not old and values is not None:
            values[each.name] = new


def is_plain(value: Any) -> bool:
    """A tensor without a history, of which nothing else is known."""
    return type(value) is torch.Tensor and not (value.requires_grad or value.__dict__)
