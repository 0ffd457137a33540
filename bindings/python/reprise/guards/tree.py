"""Arguments and results taken apart into tensors, numbers and what holds them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from reprise.guards import classes
from reprise.guards.tokens import bits_of, from_bits

# What two values of one form have in common: hashable, equal where both are alike.
Form = Any

_TENSORS = {torch.Tensor: 0, torch.nn.Parameter: 2, torch.nn.Buffer: 3}
_CONSTANTS = frozenset(
    {
        bool,
        int,
        str,
        bytes,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        torch.Size,
    }
)


LEAVES = frozenset({*_TENSORS, *_CONSTANTS, float})  # types that hold nothing
_MOST_DEEP = 64
_PLAIN = frozenset({tuple, list, dict})  # they have no attributes

# Code, and what torch's code changes in each call: the callable leads to one of these
# among its arguments as to one in its closure.
_LEADING = (
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
# What objects of these packages hold is not in their attributes.
_CLOSED = frozenset({"torch", "numpy", *sys.stdlib_module_names} - {"__main__"})


class Foreign(TypeError):
    """Something among them is of a type that nobody knows how to take apart."""


class Parts:
    """What a value was taken apart into, in order."""

    __slots__ = (
        *("args", "kinds", "known", "kwargs", "leading", "numbers", "objects"),
        "tensors",
    )

    def __init__(self, *, known: Parts | None = None) -> None:
        """`known`: of results, a call's parts, whose objects alone may be in them.

        Floats are part of the form, then.
        """
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[float] = []
        # Of types that nobody knows how to take apart.
        self.objects: list[Any] = []
        # Code among them, to which the callable leads; see `leads_on`.
        self.leading: Sequence[Any] = ()
        # Classes of the program's, of what was taken apart: they have methods.
        self.kinds: list[type] = []
        self.known = known
        # What the call was given, for results that are parts of it.
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}


def flatten(value: Any, parts: Parts) -> Form:
    """The form of `value`; what it holds is added to `parts`. Raises Foreign."""
    kind = type(value)
    if kind in _TENSORS:
        parts.tensors.append(value)
        return _TENSORS[kind]
    if kind is float and parts.known is None:
        parts.numbers.append(value)
        return 1
    if kind is complex:
        return kind, bits_of(value)
    if kind in _CONSTANTS:
        return kind, value
    if kind is float:
        return kind, bits_of(value)
    if kind is tuple or kind is list:
        return kind, tuple([flatten(each, parts) for each in value])
    if kind is dict or kind is OrderedDict:
        names = tuple([(type(key), key) for key in _keys(value)])
        return kind, names, _all(value.values(), parts)
    return _flatten_other(kind, value, parts)


def is_tensor(kind: type) -> bool:
    """Of a type that `flatten` takes for a tensor."""
    return kind in _TENSORS


def holds_any(
    value: Any, ids: Container[int], objects: Sequence[Any] = (), deep: int = 0
) -> bool:
    """Return whether an argument is, or holds, an object with one of these ids.

    Or one whose attributes stand in a dictionary with one of them, but for `objects`,
    which are told from others.
    """
    kind = type(value)
    if kind in LEAVES:
        return False
    if id(value) in ids or deep > _MOST_DEEP:
        return True
    is_taken_apart = kind not in _PLAIN and not any([each is value for each in objects])
    if is_taken_apart and id(classes.attributes_of(value)) in ids:
        return True
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = dict.values(value)
    elif isinstance(value, (tuple, list)):
        inner = value
    elif kind in _pytree.SUPPORTED_NODES:
        inner = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        inner = [getattr(value, name) for name in names if hasattr(value, name)]
    return any([holds_any(each, ids, objects, deep + 1) for each in inner])


def _flatten_other(kind: type, value: Any, parts: Parts) -> Form:
    if kind is GivenBack or kind is Shared:
        return value
    if isinstance(value, enum.Enum):
        hash(value)
        parts.kinds.append(kind)
        return kind, value
    if kind in _pytree.SUPPORTED_NODES:
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        return kind, Context(context), _all(children, parts)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if getattr(value, "__dict__", None):
            raise Foreign(f"{classes.name_of(kind)} with attributes")
        parts.kinds.append(kind)
        return kind, "fields", _all(value, parts)
    if dataclasses.is_dataclass(kind) and not issubclass(kind, (dict, tuple, list)):
        names = tuple(field.name for field in dataclasses.fields(kind))
        slots = {name for name, _ in classes.slots_of(kind)}
        if (
            slots <= set(names)
            and all(hasattr(value, name) for name in names)
            and (
                set(getattr(value, "__dict__", ())) <= set(names)
                and not classes.holds_more(kind, len(slots))
            )
        ):
            parts.kinds.append(kind)
            return kind, names, _all([getattr(value, name) for name in names], parts)
    if parts.known is None:
        if kind is types.MethodType:  # it is made anew wherever it is asked for
            return kind, "calls", _all((value.__func__, value.__self__), parts)
        if kind is functools.partial and not value.__dict__:
            held = value.func, value.args, value.keywords
            return kind, "calls", _all(held, parts)
    return kind, _place(value, parts)


def leads_on(value: Any) -> bool:
    """Whether it counts as what a closure leads to does: by what code names of it.

    An object that is not, among the arguments, counts by what it holds.
    """
    kind = type(value)
    if issubclass(kind, types.BuiltinFunctionType):  # else a method of something
        of = value.__self__
        return of is None or isinstance(of, (type, types.ModuleType))
    return issubclass(kind, _LEADING)


class GivenBack:
    """A container among the arguments, in a result: by the way that leads to it."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[bool, Any], ...]) -> None:
        """Each is an attribute's name, or a key or index; True: an attribute's."""
        self.steps = steps

    def of(self, arguments: Any) -> Any:
        """It, in these."""
        value = arguments
        for is_attribute, key in self.steps:
            value = getattr(value, key) if is_attribute else value[key]
        return value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GivenBack)
            and type(other) is type(self)
            and self.steps == other.steps
        )

    def __hash__(self) -> int:
        return hash(self.steps)


class Shared(GivenBack):
    """What a call sets, that is a part of its result, or what was set before.

    By the way that leads to it from both; see `set_to`.
    """

    __slots__ = ()


class Place:
    """Which of the objects it is, or of what leads on."""

    __slots__ = ("index", "leads")

    def __init__(self, index: int, leads: bool) -> None:
        self.index = index
        self.leads = leads

    def of(self, call: Parts) -> Any:
        """It, of that call."""
        return (call.leading if self.leads else call.objects)[self.index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Place)
            and self.index == other.index
            and self.leads == other.leads
        )

    def __hash__(self) -> int:
        return hash(self.index)


def _place(value: Any, parts: Parts) -> Place:
    """Of an object that can be looked into, and is not kept by that."""
    kind = type(value)
    of = parts if parts.known is None else parts.known
    for leads, among in ((False, of.objects), (True, of.leading)):
        for index, each in enumerate(among):
            if each is value:
                return Place(index, leads)
    if parts.known is not None or not classes.has_references(kind):
        raise Foreign(classes.name_of(kind))
    if leads_on(value):
        parts.leading = [*parts.leading, value]
        return Place(len(parts.leading) - 1, True)
    if (
        not isinstance(getattr(value, "__dict__", None), dict)
        or isinstance(value, (torch.Tensor, Iterator))
        or classes.root_of(kind) in _CLOSED
    ):
        raise Foreign(classes.name_of(kind))
    parts.objects.append(value)
    return Place(len(parts.objects) - 1, False)


def _keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    for key in value:
        if type(key) not in (str, int, bool):
            raise Foreign(f"a dict with a key of type {type(key).__qualname__}")
    return tuple(value)


def _all(values: Any, parts: Parts) -> tuple[Form, ...]:
    return tuple([flatten(each, parts) for each in values])


class Context:
    """What pytree keeps beside a node's children; hashed by what it prints."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and bool(self.context == other.context)

    def __hash__(self) -> int:
        return hash(repr(self.context))


Builder = Callable[[Iterator[torch.Tensor], Parts], Any]


def builder(form: Form) -> Builder:
    """What makes a result of that form, from tensors and the parts of a call."""
    if type(form) is int:
        return lambda tensors, _: next(tensors)
    if type(form) is GivenBack:
        return lambda _, call: form.of((call.args, call.kwargs))
    if type(form) is Shared:
        return lambda _, __: form
    kind: Any
    kind, *rest = form
    if len(rest) == 1 and kind in (tuple, list):
        parts = [builder(each) for each in rest[0]]
        return lambda tensors, call: kind([part(tensors, call) for part in parts])
    if len(rest) == 1 and isinstance(rest[0], Place):
        place = rest[0]
        return lambda _, call: place.of(call)
    if len(rest) == 1:
        value = from_bits(rest[0]) if kind in (float, complex) else rest[0]
        return lambda _, __: value
    how, children = rest
    parts = [builder(each) for each in children]
    if isinstance(how, Context):
        unflatten = _pytree.SUPPORTED_NODES[kind].unflatten_fn
        return lambda tensors, call: unflatten(
            [part(tensors, call) for part in parts], how.context
        )
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
    keys = [key for _, key in how]
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
