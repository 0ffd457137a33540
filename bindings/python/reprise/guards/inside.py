"""What is inside of arguments, as far as it is neither led to nor counts by itself."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Container, Sequence
from typing import Any

from torch.utils import _pytree

from reprise.guards import classes
from reprise.guards.kinds import MAY_LEAD, fields_of, is_node, laid_out, leads_on
from reprise.guards.tree import LEAVES

_MOST_DEEP = 64


def holds_any(value: Any, ids: Container[int], objects: Sequence[Any] = ()) -> bool:
    """Return whether an argument is, or holds, an object with one of these ids.

    Or one whose attributes stand in a dictionary with one of them, but for `objects`,
    which are told from others. Not what the callable leads to, and what counts by what
    it holds (`Parts.objects`).
    """
    return _holds_any(value, ids, objects, {}, 0)


def _holds_any(
    value: Any,
    ids: Container[int],
    objects: Sequence[Any],
    seen: dict[int, Any],
    deep: int,
) -> bool:
    """`seen`: by id, what is known to hold none, or is being looked at."""
    kind = type(value)
    if id(kind) in LEAVES or id(value) in seen:
        return False
    if id(value) in ids or deep > _MOST_DEEP:
        return True
    seen[id(value)] = value
    is_taken_apart = id(kind) not in classes.CONTAINERS and not any(
        [each is value for each in objects]
    )
    if is_taken_apart and id(classes.attributes_of(value)) in ids:
        return True
    inner = _held_by(kind, value)
    return any(_holds_any(each, ids, objects, seen, deep + 1) for each in inner)


def _held_by(kind: type, value: Any) -> list[Any]:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*dict.values(value)]
        if kind is OrderedDict:
            inner += value.__dict__.values()
    elif isinstance(value, (tuple, list)):
        base: Any = tuple if isinstance(value, tuple) else list
        inner = [*base.__iter__(value)]
    elif kind is types.MethodType:
        return [value.__func__, value.__self__]
    elif kind is functools.partial:
        inner = [value.func, value.args, value.keywords]
    elif issubclass(kind, MAY_LEAD) and leads_on(value):
        return []
    if is_node(kind):
        inner += _pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]
    if (names := fields_of(value)) is not None:
        return inner + [getattr(value, name) for name in names]
    if not classes.has_references(kind) and (found := laid_out(value)) is not None:
        inner += found[1]
    return inner
