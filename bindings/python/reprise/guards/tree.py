"""Arguments and results taken apart into tensors, numbers and what holds them."""

from __future__ import annotations

import enum
import functools
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree

from reprise.guards import classes
from reprise.guards.constants import (
    PLAIN,
    Constant,
    Itself,
    constant,
    enums_in,
    is_found,
    is_made_alike,
)
from reprise.guards.kinds import (
    CLOSED,
    MAY_LEAD,
    NAMESPACES,
    fields_of,
    is_node,
    laid_out,
    leads_on,
    remedy_of,
)
from reprise.guards.layouts import Layout, layout_of, why_not_made
from reprise.guards.tokens import bits_of
from reprise.guards.ways import ARE_FORMS, AT

if TYPE_CHECKING:
    from reprise.guards.containers import Containers

# What two values of one form have in common: hashable, equal where both are alike.
Form = Any

_TENSORS = {id(torch.Tensor): 0, id(torch.nn.Parameter): 2, id(torch.nn.Buffer): 3}
_SIMPLE_KEYS = classes.ids_of(str, int, bool)

# Ids of types that hold nothing.
LEAVES = frozenset(_TENSORS) | PLAIN | classes.ids_of(float)
_CALLS = (
    "a collections.defaultdict whose default_factory is no class of Python's own (return "
    "a dict)"
)

# Forms are compared by the interpreter's own recursion, which ends somewhere, and where
# depends on its version and on how deep the program is.
MOST_DEEP = 100


class Foreign(TypeError):
    """Something among them is of a type that nobody knows how to take apart.

    The text is a noun with its article, and what helps.
    """


class Parts:
    """What a value was taken apart into, in order."""

    __slots__ = (
        *("args", "containers", "depth", "kinds", "known", "kwargs", "leading"),
        *("numbers", "objects", "tensors", "varies"),
    )

    makes = False  # objects anew, in results; see `layouts`

    def __init__(self, *, known: Parts | None = None) -> None:
        """`known`: of results, a call's parts, whose objects alone may be in them."""
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[float] = []
        # Of types that nobody knows how to take apart.
        self.objects: list[Any] = []
        # Code among them, to which the callable leads; see `leads_on`.
        self.leading: Sequence[Any] = ()
        # Classes of the program's, of what was taken apart: they have methods.
        self.kinds: list[type] = []
        self.known = known
        # Floats may be others in the next call; else they are part of the form.
        self.varies = known is None
        # See `Containers`. None: what lists and the like hold is part of the form.
        self.containers: Containers | None = (
            known.containers if known is not None else None
        )
        self.depth = 0  # of what is being taken apart
        # What the call was given, for results that are parts of it.
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}


class Made(Parts):
    """What the result of a region's call was taken apart into."""

    __slots__ = ()
    makes = True


def flatten(value: Any, parts: Parts) -> Form:
    """The form of `value`; what it holds is added to `parts`.

    Raises Foreign; and RecursionError if it is more than MOST_DEEP deep, or holds itself.
    """
    kind = type(value)
    if (which := _TENSORS.get(id(kind))) is not None:
        parts.tensors.append(value)
        return which
    if kind is float and parts.varies:
        parts.numbers.append(value)
        return 1
    if kind is complex:
        return kind, bits_of(value)
    if id(kind) in PLAIN:
        return kind, value
    if kind is float:
        return kind, bits_of(value)
    if kind is tuple:
        return kind, _all(value, parts)
    containers = parts.containers
    if containers is not None and (known := containers.find(value)) is not None:
        return kind, AT, known
    if kind is list:
        return kind, _all(value, parts)
    return flatten_inside(kind, value, parts)


def flatten_inside(kind: type, value: Any, parts: Parts) -> Form:
    """The form of what is no tensor, number, tuple or list; see `flatten`."""
    if kind is dict or (kind is OrderedDict and not value.__dict__):
        names = tuple([(type(key), key) for key in _keys(value, parts)])
        return kind, names, _all(value.values(), parts)
    return _flatten_other(kind, value, parts)


def is_tensor(kind: type) -> bool:
    """Of a type that `flatten` takes for a tensor."""
    return id(kind) in _TENSORS


def _flatten_other(kind: type, value: Any, parts: Parts) -> Form:
    if id(kind) in ARE_FORMS:
        return value
    if classes.compares(kind):
        raise Foreign(f"a {classes.name_of(kind)}, whose class says what equals it")
    if issubclass(kind, enum.Enum):  # it may say that it is of another class
        parts.kinds.append(kind)
        return kind, constant(value)
    if kind is OrderedDict:
        return _flatten_with_attributes(value, parts)
    if kind is defaultdict:
        keys = tuple([(type(key), key) for key in _keys(value, parts)])
        made_by = _flatten_factory(value.default_factory, parts)
        return kind, keys, (made_by, *_all(value.values(), parts))
    if is_node(kind):
        # Of a class that is written in Python, what it holds beside its children counts, too.
        if (
            classes.flags_of(kind) & classes.HEAP_TYPE
            and (parts.known is None or parts.makes)
            and (found := laid_out(value)) is not None
        ):
            return flatten_laid_out(value, found, parts)
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        return kind, Context(context), _all(children, parts)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if getattr(value, "__dict__", None):
            raise Foreign(f"a {classes.name_of(kind)} with attributes")
        parts.kinds.append(kind)
        return kind, "fields", _all(tuple.__iter__(value), parts)
    if (
        hasattr(kind, "__dataclass_fields__")
        and (names := fields_of(value)) is not None
    ):
        parts.kinds.append(kind)
        return kind, names, _all([getattr(value, name) for name in names], parts)
    if parts.known is None:
        if kind is types.MethodType:  # it is made anew wherever it is asked for
            return kind, "calls", _all((value.__func__, value.__self__), parts)
        if kind is functools.partial and not value.__dict__:
            held = value.func, value.args, value.keywords
            return kind, "calls", _all(held, parts)
    if (which := _given_object(value, parts)) is not None:
        return kind, which
    if (known := constant(value)) is not None:
        if kind is set and parts.known is not None:
            _check_made(value, parts)
        parts.kinds += enums_in(value)
        return kind, known
    return _flatten_attributes(kind, value, parts)


def _check_made(value: set[Any], parts: Parts) -> None:
    if not parts.makes:
        raise Foreign("a builtins.set")
    if weakref.getweakrefcount(value) or not is_made_alike(value):
        raise Foreign("a set that has held others, too (return a copy of it)")


def _flatten_attributes(kind: type, value: Any, parts: Parts) -> Form:
    """Of an object that nobody knows from another one which holds the same."""
    found = None
    is_object = classes.has_references(kind) and classes.has_attributes(kind)
    if parts.makes or (parts.known is None and not is_object):
        found = laid_out(value)
    if found is None:
        raise Foreign(f"a {classes.name_of(kind)}{_remedy(value, parts)}")
    return flatten_laid_out(value, found, parts)


def flatten_laid_out(value: Any, found: tuple[Layout, list[Any]], parts: Parts) -> Form:
    """The form of an object; see `laid_out`."""
    kind = type(value)
    if parts.known is not None and (why := why_not_made(value)) is not None:
        raise Foreign(f"a {classes.name_of(kind)} {why}{_remedy(value, parts)}")
    parts.kinds.append(kind)
    layout, values = found
    for key in layout.keys or ():
        parts.kinds += enums_in(key.value)
    return Layout, layout, _all(values, parts)


def _flatten_with_attributes(value: Any, parts: Parts) -> Form:
    found = layout_of(value)
    if found is None or (parts.known is not None and not parts.makes):
        verb = "give" if parts.known is None else "return"
        what = f"attributes ({verb} a dict of what it holds)"
        raise Foreign(f"a collections.OrderedDict with {what}")
    return flatten_laid_out(value, found, parts)


def _flatten_factory(factory: Any, parts: Parts) -> Form:
    """Of what a defaultdict calls: a class that is written in C is what it is."""
    kind = type(factory)
    if kind is type and not classes.flags_of(factory) & classes.HEAP_TYPE:
        return kind, Constant((Itself(factory),), factory)
    if parts.known is not None and factory is not None:
        if (which := _given_object(factory, parts)) is None:
            raise Foreign(_CALLS)
        return kind, which
    return flatten(factory, parts)


class GivenObject:
    """An object among the arguments: which of them it is, or of what leads on."""

    __slots__ = ("index", "leads")

    def __init__(self, index: int, leads: bool) -> None:
        self.index = index
        self.leads = leads

    def of(self, call: Parts) -> Any:
        """It, of that call."""
        return (call.leading if self.leads else call.objects)[self.index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GivenObject)
            and self.index == other.index
            and self.leads == other.leads
        )

    def __hash__(self) -> int:
        return hash(self.index)


def _given_object(value: Any, parts: Parts) -> GivenObject | None:
    """Of an object that can be looked into, and is not kept by that. None: of others."""
    kind = type(value)
    of = parts if parts.known is None else parts.known
    for index, each in enumerate(of.objects):
        if each is value:
            return GivenObject(index, False)
    for index, each in enumerate(of.leading):
        if each is value:
            return GivenObject(index, True)
    if parts.known is not None or not classes.has_references(kind):
        return None
    if issubclass(kind, MAY_LEAD) and leads_on(value):
        parts.leading = [*parts.leading, value]
        return GivenObject(len(parts.leading) - 1, True)
    if (
        not isinstance(getattr(value, "__dict__", None), dict)
        or isinstance(value, (torch.Tensor, Iterator))
        or (classes.root_of(kind) in CLOSED and kind not in NAMESPACES)
    ):
        return None
    parts.objects.append(value)
    return GivenObject(len(parts.objects) - 1, False)


def _remedy(value: Any, parts: Parts) -> str:
    """What helps where such a value is among arguments, or is returned."""
    if parts.known is not None:
        what = " (return tensors, constants, and containers that the call makes)"
        return what if parts.makes else ""
    return remedy_of(value)


def _keys(value: dict[Any, Any], parts: Parts) -> tuple[Any, ...]:
    for key in value:
        if id(type(key)) not in _SIMPLE_KEYS:
            return tuple([_key(each, parts) for each in value])
    return tuple(value)


def _key(key: Any, parts: Parts) -> Any:
    if id(type(key)) in _SIMPLE_KEYS:
        return key
    known = constant(key)
    if known is None or not is_found(key):
        raise Foreign(
            f"a dict with a key that is a {classes.name_of(type(key))} (take texts, "
            "numbers, members of an enum, or tuples of them)"
        )
    parts.kinds += enums_in(key)
    return known


def _all(values: Any, parts: Parts) -> tuple[Form, ...]:
    parts.depth += 1
    if parts.depth > MOST_DEEP:
        raise RecursionError(f"it is more than {MOST_DEEP} deep")
    forms = tuple([flatten(each, parts) for each in values])
    parts.depth -= 1
    return forms


class Context:
    """What pytree keeps beside a node's children; hashed by what it prints."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and bool(self.context == other.context)

    def __hash__(self) -> int:
        return hash(repr(self.context))
