"""What a callable reads besides its arguments, as far as that can be found."""

from __future__ import annotations

import collections
import dis
import enum
import functools
import gc
import itertools
import operator
import sysconfig
import types
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from reprise._tree import Foreign, holds_more, is_tensor, slots

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_parameters",
    "_buffers",
    "_modules",
)
# Hooks that only these two run: a quarter of the dictionaries of modules.
_SAVES = frozenset({"state_dict", "load_state_dict"})
_SAVING = frozenset(
    {
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    }
)
_SIMPLE = (bool, int, float, str, bytes, complex, type(None))
_BY_VALUE = frozenset({bool, int, str, bytes, type(None)})
_NO_OBJECTS = (
    torch.nn.Module,
    torch.Tensor,
    type,
    types.FunctionType,
    types.MethodType,
    types.ModuleType,
)
_MOST_LISTED = 64  # elements of a list, in each call
_MOST_ELEMENTS = 1024  # of a container, that are looked at
_MOST_WRITTEN = 256  # attributes that calls set
_FASTPATH = frozenset({"_is_fastpath_enabled"})
_DEPTH = 3  # how far objects of the program's are followed to modules


_MISSING = object()
_WRITTEN = object()  # by calls, whatever it is

_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_CONTAINERS = (list, tuple, set, frozenset, *_DICTS)
# What `Reached` knows to follow, whoever holds it.
_KNOWN_OBJECTS = (
    *(torch.nn.Module, torch.optim.Optimizer, type, functools.partial),
    *(
        types.FunctionType,
        types.MethodType,
        types.ModuleType,
        types.BuiltinFunctionType,
    ),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator),
)


class Bound:
    """A method that does not keep its object."""

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self.function = function
        self.owner = weakref.ref(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner(), *args, **kwargs)


# A name for people, a dictionary, and its keys that count; None: all do.
Watched = tuple[str, dict[Any, Any], "frozenset[str] | None"]


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


# Attributes of modules that a region's calls set to tensors. What one holds before a
# call is as an argument, and what it holds behind it as a result, so it is nothing that
# the region leads to.
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
        if value is not None and value is not ... and not _is_plain(value):
            return None
        found.append(value)
    return tuple(found)


def set_to(written: Written, before: tuple[Any, ...], behind: tuple[Any, ...]) -> None:
    """What a call has set them to, that was something else before it."""
    for each, old, new in zip(written, before, behind, strict=True):
        values = each.values()
        if new is not old and values is not None:
            values[each.name] = new


def _is_plain(value: Any) -> bool:
    """A tensor without a history, of which nothing else is known."""
    return type(value) is torch.Tensor and not (value.requires_grad or value.__dict__)


# By these, code reads or sets attributes whose names it does not say.
_READ_ALL = frozenset(
    {
        *("getattr", "vars", "__dict__", "__getattribute__", "asdict"),
        *("setattr", "delattr"),
    }
)
# Their functions tell nobody that they look at a number.
_MATH = frozenset({"math", "cmath", "numpy", "statistics", "decimal", "fractions"})
_CALLED = ("__call__", "forward")
# Of these nobody is asked who holds what is made already.
_MAKING = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__"})
# Those of which an object may hold what torch is asked for.
_LIBRARIES = frozenset({"torch", "builtins", "numpy", "typing", "collections"})
# Of those in which threads and processes meet, all but locks hold something.
_SHARING = frozenset(
    {"weakref", "threading", "_thread", "queue", "_queue", "asyncio", "multiprocessing"}
)
# Objects of these packages are not looked into.
_FOREIGN = (
    _LIBRARIES
    | _SHARING
    | {"_io", "concurrent", "contextvars", "io", "logging", "pathlib", "re", "warnings"}
)
_LOCKS = ("lock", "RLock")
_METHODS = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
_CONSTANTS = (object, slice, type(NotImplemented), type(...))
# They are what they say.
_VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_paths()["stdlib"])


class _Named(NamedTuple):
    """What code names."""

    globals: tuple[str, ...]  # that it reads
    read: frozenset[str]  # attributes
    written: frozenset[str]
    computes: bool  # it imports what does mathematics


@functools.lru_cache(maxsize=4096)
def _named(code: types.CodeType) -> _Named:
    """That of functions inside it, too."""
    found: list[str] = []
    read: set[str] = set()
    written: set[str] = set()
    computes = False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
            computes |= step.opname == "IMPORT_NAME" and step.argval in _MATH
            found.append(str(step.argval))
        elif step.opname == "STORE_ATTR":
            written.add(str(step.argval))
        elif step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER")):
            read.add(str(step.argval))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _named(constant)
            found += inner.globals
            read |= inner.read
            written |= inner.written
            computes |= inner.computes
    if "hasattr" in found:
        texts = (each for each in code.co_consts if isinstance(each, str))
        read.update(filter(str.isidentifier, texts))
    names = tuple(dict.fromkeys(found))
    return _Named(names, frozenset(read), frozenset(written), computes)


# What torch asks a module for when it is called.
_OF_CALLS = frozenset[str]().union(
    *(
        _named(getattr(torch.nn.Module, name).__code__).read
        for name in ("_wrapped_call_impl", "_call_impl", "_slow_forward")
    )
)


class Is:
    """In a form: that very object, which it does not keep.

    Raises TypeError: of some types there are no weak references.
    """

    __slots__ = ("_hash", "_of")

    def __init__(self, of: Any) -> None:
        self._hash = id(of)
        self._of = weakref.ref(of)

    def __eq__(self, other: object) -> bool:
        of = self._of()
        return self is other or (
            isinstance(other, Is) and of is not None and of is other._of()
        )

    def __hash__(self) -> int:
        return self._hash


# What people call it, it, its type and its attributes.
Given = tuple[str, "weakref.ref[Any]", type, dict[str, Any]]


class Reached:
    """What a callable leads to: modules, optimizers, and what they are found in.

    Found once, through closures, defaults, `self`, the globals and attributes that its
    code names, functions and methods of those names, `forward` and hooks of modules, and
    what objects and containers hold. Code of installed packages is not read. Of None
    nothing is found.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        given: Iterable[Any] = (),
        kinds: Iterable[type] = (),
    ) -> None:
        """`given`: objects among the arguments, of which all counts.

        `kinds`: classes of such objects, without them.
        """
        # Their dictionaries are enough, and do not keep them: who has a region of a
        # method, or is its argument, goes when the program lets it go.
        self._modules: list[weakref.ref[torch.nn.Module]] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.functions: list[types.FunctionType] = []
        self.cells: list[types.CellType] = []
        self.computes = False  # its code may do mathematics with a number
        self._dicts: list[tuple[str, dict[Any, Any]]] = []
        self._lists: dict[int, tuple[str, Any]] = {}
        # Attributes of objects, and globals: dictionaries that change all the time, of
        # which the code reads and writes little.
        self._objects: list[tuple[str, dict[str, Any]]] = []
        self._globals: list[tuple[str, dict[str, Any], str]] = []
        self._files: dict[str, dict[str, Any]] = {}  # modules of the program's
        self._kinds: dict[int, type] = {}  # by id: a class may be no key
        self._read: set[str] = set()
        self._written: set[str] = set()
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # whose ids were seen
        # Objects that are given, and what they hold: all of it counts.
        self._given: list[Given] = []
        self._given_dicts: dict[int, tuple[str, dict[Any, Any]]] = {}
        self._walked: dict[int, int] = {}  # by id, the how-many-eth
        # What they hold, value by value; see `Held`.
        self._form: list[Any] = []
        self._given_tensors: dict[int, tuple[int, weakref.ref[torch.Tensor]]] = {}
        self._odd = False  # of the form is not all that they hold
        self._met: list[weakref.ref[torch.Tensor]] = []  # tensors
        self._instances: set[int] = set()  # ids of types of what was found
        self.written: Written = ()
        for each in given:
            self._follow_given(type(each).__name__, each, 0)
        for kind in kinds:
            self._add_kind(kind)
            if any("__getattr__" in vars(base) for base in kind.__mro__):
                self._read.add("getattr")
        self._follow(fn, 0)
        if fn is not None:
            self._add_kind(type(fn))
        for hooks in _global_hooks().values():
            self._follow_all(hooks.values())
        self._follow_methods()

    def modules(self) -> list[torch.nn.Module]:
        """Those that are there."""
        return [each for ref in self._modules if (each := ref()) is not None]

    @property
    def _reads_all(self) -> bool:
        return not _READ_ALL.isdisjoint(self._read)

    @property
    def _saves(self) -> bool:
        return self._reads_all or not _SAVES.isdisjoint(self._read)

    def _add_kind(self, kind: type) -> None:
        self._kinds[id(kind)] = kind

    def _follow_all(self, values: Iterable[Any], depth: int = 0) -> None:
        for value in itertools.islice(list(values), _MOST_ELEMENTS):
            self._follow(value, depth)

    def _follow(self, value: Any, depth: int) -> None:
        if isinstance(value, _SIMPLE) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._instances.add(id(type(value)))
        if isinstance(value, torch.nn.Module):
            self._follow_modules(value)
        elif isinstance(value, torch.optim.Optimizer):
            self.optimizers.append(value)
        elif isinstance(value, functools.partial):
            self._met += map(weakref.ref, _tensors_in(value.args))
            self._dicts.append((type(value).__name__, value.keywords))
            self._follow_all((value.func, *value.args, *value.keywords.values()), depth)
        elif isinstance(value, types.MethodType):
            self._follow_all((value.__self__, value.__func__), depth)
        elif isinstance(value, Bound):
            self._follow_all((value.owner(), value.function), depth)
        elif isinstance(value, types.FunctionType):
            self._follow_function(value, depth)
        elif isinstance(value, types.ModuleType):
            if not _is_installed(
                getattr(value, "__file__", None) or "/" + _INSTALLED[0]
            ):
                self._files[value.__name__] = value.__dict__
        elif _is_region(value):  # a method's, or one itself
            region = getattr(value, "_reprise_region", value)
            if not hasattr(region, "_reprise_eager"):  # that is run each time
                self._follow(region._reprise_fn, depth)
        elif isinstance(value, type):
            self._add_kind(value)
        elif depth <= _DEPTH:
            self._follow_object(value, depth + 1)

    def _follow_modules(self, root: torch.nn.Module) -> None:
        found = [
            each
            for each in root.modules()
            if each is root or id(each) not in self._seen
        ]
        self._seen.update(map(id, found))
        self._modules += map(weakref.ref, found)
        for module in found:
            self._add_kind(type(module))
            for name, value in list(module.__dict__.items()):
                if name.endswith("_hooks"):
                    self._follow_all(value.values())
                elif name not in _HOOKS and not isinstance(value, torch.Tensor):
                    self._follow(value, 1)

    def _follow_function(self, fn: types.FunctionType, depth: int) -> None:
        installed = _is_installed(fn.__code__.co_filename)
        if not installed:
            self.functions.append(fn)
            depth = 0  # what it reads is its own, wherever it was found
        self._kept.append(fn)
        for cell in fn.__closure__ or ():
            self.cells.append(cell)
            self._follow(_content(cell), depth)
        self._follow_all(fn.__defaults__ or (), depth)
        self._met += map(weakref.ref, _tensors_in(fn.__defaults__ or ()))
        if fn.__kwdefaults__:
            self._dicts.append((fn.__name__, fn.__kwdefaults__))
            self._follow_all(fn.__kwdefaults__.values(), depth)
        if installed:
            return
        where = fn.__module__ or fn.__name__
        named = _named(fn.__code__)
        self.computes |= named.computes
        self._read |= named.read
        self._written |= named.written
        for name in named.globals:
            if name not in fn.__globals__:
                self._read.add(name)  # a builtin
                continue
            value = fn.__globals__[name]
            if not isinstance(value, (types.FunctionType, types.ModuleType, type)):
                self._globals.append((where, fn.__globals__, name))
            self.computes |= (
                getattr(value, "__name__", None) in _MATH
                if isinstance(value, types.ModuleType)
                else getattr(value, "__module__", None) in _MATH
            )
            self._follow(value, depth)

    def _classes(self) -> list[type]:
        """Those of the objects, and their bases."""
        found = {
            id(kind): kind
            for base in self._kinds.values()
            for kind in base.__mro__
            if kind.__module__.partition(".")[0] not in _FOREIGN
        }
        return list(found.values())

    def _follow_methods(self) -> None:
        """Those of the objects' classes that the code names, and what these name."""
        done: set[tuple[int, str]] = set()
        while True:
            named = {*self._read, *self._written, *_CALLED}
            todo = [
                (kind, name)
                for kind in self._classes()
                for name in (named & vars(kind).keys()) | _called_unnamed(kind)
                if (id(kind), name) not in done
            ]
            if not todo:
                return
            for kind, name in todo:
                done.add((id(kind), name))
                value = vars(kind)[name]
                if isinstance(value, property):
                    self._follow_all((value.fget, value.fset))
                else:
                    self._follow(getattr(value, "__func__", value), 0)

    def _follow_object(self, value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor):
            return
        if isinstance(value, (list, tuple, set, dict)):
            self._kept.append(value)
            few = len(value) <= _MOST_ELEMENTS
            if isinstance(value, (list, set)) and few and depth == 1:
                self._lists[id(value)] = f"a {type(value).__name__}", value
            elif isinstance(value, dict) and depth == 1:
                self._dicts.append(("a dict", value))
            if isinstance(value, collections.defaultdict):
                self._follow(value.default_factory, depth)
            if isinstance(value, dict):
                self._instances.update(map(id, map(type, value)))
            parts = value.values() if isinstance(value, dict) else value
            self._follow_all(parts, depth)
            return
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        if str(kind.__module__).partition(".")[0] in _FOREIGN:
            return
        if not isinstance(attributes, dict):
            return
        # Its attributes are enough, and do not keep it.
        self._objects.append((kind.__name__, attributes))
        self._kept.append(attributes)
        self._add_kind(kind)
        if "__getattr__" in vars(kind):
            self._read.add("getattr")
        self._follow_all(attributes.values(), max(depth, 1))

    def _follow_given(self, name: str, value: Any, depth: int) -> None:
        """What an argument holds, whoever reads it. Raises Foreign."""
        kind = type(value)
        if _is_any(kind, _SIMPLE):
            by_bits = kind is float or kind is complex  # zeros and NaNs differ
            self._form.append((kind, repr(value) if by_bits else value))
            return
        if id(value) in self._walked:
            self._form.append(("again", self._walked[id(value)]))
            return
        if isinstance(value, torch.Tensor):
            self._met.append(weakref.ref(value))
            new = len(self._given_tensors), weakref.ref(value)
            place, _ = self._given_tensors.setdefault(id(value), new)
            self._form.append((kind, "tensor", place, len(value.__dict__)))
            self._odd |= not is_tensor(kind)
            if id(value.__dict__) not in self._given_dicts:
                self._follow_given_dict(name, value.__dict__, depth, ".")
            return
        self._walked[id(value)] = len(self._walked)
        if _is_any(kind, _VALUES):
            self._form.append((kind, value))
            return
        if _is_any(kind, _CONTAINERS):
            self._kept.append(value)
            self._form.append((kind, len(value)))
        elif isinstance(value, enum.Enum):
            self._form.append((kind, value.name))
        elif isinstance(value, tuple):
            self._form.append((kind, len(value)))
        else:
            try:
                self._form.append(Is(value))
            except TypeError:
                self._odd = True
        if isinstance(value, (enum.Enum, *_SIMPLE, tuple)) and kind is not tuple:
            self._add_kind(kind)
        if isinstance(value, enum.Enum):
            return
        if isinstance(value, type):
            self._add_kind(value)
            return
        if isinstance(value, (*_SIMPLE, tuple)):  # of a type of the program's
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict):
                self._follow_given_dict(name, attributes, depth)
            if not isinstance(value, tuple):
                return
        if _is_any(kind, (set, frozenset)) and _by_value(map(type, value)):
            self._form.append(tuple((type(each), each) for each in value))
            if kind is set:
                self._lists[id(value)] = name, value
            return
        if kind is list or (isinstance(value, tuple) and _is_plain_tuple(kind)):
            if kind is list:
                self._lists[id(value)] = name, value
            if len(value) > _MOST_ELEMENTS or depth > _DEPTH:
                raise Foreign(f"{name} of so many, or so deep")
            for each in value:
                self._follow_given(name, each, depth + 1)
            return
        if _is_any(kind, _DICTS):
            self._follow_given_dict(name, value, depth)
            return
        if kind is functools.partial:
            for each in (value.func, *value.args):
                self._follow_given(name, each, depth + 1)
            self._follow_given_dict(name, value.keywords, depth)
            self._follow_given_dict(name, vars(value), depth)
            return
        if _is_any(kind, _METHODS):
            self._follow(value, 0)
            if not isinstance(value.__self__, (types.ModuleType, type(None))):
                self._follow_given(name, value.__self__, depth + 1)
            return
        if isinstance(value, _KNOWN_OBJECTS) or _is_region(value):
            self._follow(value, 0)
            return
        root = str(kind.__module__).partition(".")[0]
        attributes = getattr(value, "__dict__", None)
        if root in _FOREIGN - _LIBRARIES and not (
            root in _SHARING and kind.__name__ not in _LOCKS
        ):
            return  # it holds nothing that torch is asked for
        if root in _LIBRARIES and not isinstance(attributes, dict):
            if isinstance(value, frozenset) or not _never_changes(kind):
                raise Foreign(f"{name}, a {kind.__module__}.{kind.__qualname__}")
            return
        if (
            depth > _DEPTH
            or not isinstance(attributes, dict)
            or not kind.__weakrefoffset__
            or root in _SHARING
            or slots(kind)
            or holds_more(kind)
        ):
            raise Foreign(f"{name}, a {kind.__module__}.{kind.__qualname__}")
        self._add_kind(kind)
        # Its attributes are all of it.
        self._form[-1] = (kind, len(attributes))
        self._given.append((kind.__name__, weakref.ref(value), kind, attributes))
        self._follow_given_dict(kind.__name__, attributes, depth, ".")

    def _follow_given_dict(
        self, name: str, values: dict[Any, Any], depth: int, joint: str = ""
    ) -> None:
        """Its values, and keys; `joint`: between the name and a key's."""
        if len(values) > _MOST_ELEMENTS or depth > _DEPTH:
            raise Foreign(f"{name} of so many, or so deep")
        self._given_dicts[id(values)] = name, values
        if isinstance(values, collections.defaultdict):
            factory = values.default_factory
            if factory is not None:
                self._form.append(Is(factory))
            self._follow(values.default_factory, 0)
        for key, each in list(values.items()):
            where = f"{name}{joint}{key}" if joint else name
            self._follow_given(where, key, depth + 1)
            self._follow_given(where, each, depth + 1)

    # --- What is looked at ---

    def tensors(self, dicts: Iterable[Watched]) -> list[torch.Tensor]:
        """Those that it leads to, by these and by what is no dictionary."""
        apart = keys_of(self.written)
        held = [
            [value for key, value in _items(each, keys) if (id(each), key) not in apart]
            for _, each, keys in dicts
        ]
        held += [[values.get(key) for _, values, key in self.names()]]
        held += [each for _, each in self._lists.values()]
        held += [list(map(_content, self.cells)), [ref() for ref in self._met]]
        for optimizer in self.optimizers:
            held += [group["params"] for group in optimizer.param_groups]
        found = {id(each): each for values in held for each in _tensors_in(values)}
        return list(found.values())

    def names(self) -> list[tuple[str, dict[str, Any], str]]:
        """Globals, and attributes of objects, that its code reads or writes."""
        found = list(self._globals)
        for name, attributes in self._objects:
            keys = self._keys(attributes) if not self._reads_all else set(attributes)
            found += [(name, attributes, key) for key in keys]
        for name, attributes in self._files.items():
            for key in self._read & attributes.keys():
                value = attributes[key]
                if not isinstance(value, (types.FunctionType, types.ModuleType, type)):
                    found.append((name, attributes, key))
        return found

    def _keys(self, attributes: dict[str, Any]) -> set[str]:
        return self._written | (self._read & attributes.keys())

    def dicts(self) -> list[Watched]:
        """What a change of tells that the callable may do something else."""
        found: dict[tuple[int, Any], Watched] = {}
        # Those that are not there, too: they may come.
        named = frozenset({"training", *_OF_CALLS, *self._read, *self._written})
        counts = None if self._reads_all else named
        joined: dict[frozenset[str], frozenset[str]] = {}

        def add(name: str, each: Any, keys: frozenset[str] | None = None) -> None:
            if isinstance(each, dict) and len(each) <= _MOST_ELEMENTS:
                found.setdefault((id(each), keys), (name, each, keys))

        for module in self.modules():
            keys = counts
            if type(module).__module__.partition(".")[0] == "torch":
                keys = None  # its code is not read
            elif keys is not None:
                own = frozenset(key for key in module.__dict__ if key.startswith("_"))
                keys = joined.setdefault(own, named | own)
            self._add_attributes(type(module).__name__, module.__dict__, keys, add, 0)
        for optimizer in self.optimizers:
            name = type(optimizer).__name__
            self._add_attributes(name, optimizer.__dict__, None, add, 0)
            for values in optimizer.state.values():
                add(f"{name}.state", values)
        for kind in self._classes():
            keys = None if counts is None else counts | _called_unnamed(kind)
            add(kind.__name__, _dict_of(kind), keys)
        for fn in self.functions:
            self._add_attributes(fn.__name__, fn.__dict__, counts, add, 0)
        for name, values in self._dicts:
            self._add_contents(name, values, add, 0)
        for each in self._given_dicts.values():
            add(*each)
        for name, values, key in self.names():
            value = values.get(key)
            if isinstance(value, dict):
                self._add_attributes(f"{name}.{key}", value, None, add, 1)
            elif isinstance(value, list):
                self._lists[id(value)] = f"{name}.{key}", value
        for name, value in _global_hooks().items():
            add(name, value)
        add("torch.backends.mha", torch.backends.mha.__dict__, _FASTPATH)
        for tensor in self.tensors(list(found.values())):
            self._add_attributes("a tensor", tensor.__dict__, counts, add, 0)
        return list(found.values())

    def _add_contents(
        self, name: str, values: dict[Any, Any], add: Callable[..., None], depth: int
    ) -> None:
        """A dictionary, and those and lists in it; no objects, which are met by name."""
        add(name, values)
        if depth > _DEPTH or len(values) > _MOST_ELEMENTS:
            return
        for key, value in list(values.items()):
            where = f"{name}.{_name(key)}"
            if isinstance(value, list):
                self._lists[id(value)] = where, value
            elif isinstance(value, dict):
                self._add_contents(where, value, add, depth + 1)

    def _add_attributes(
        self,
        name: str,
        attributes: dict[Any, Any],
        keys: frozenset[str] | None,
        add: Callable[..., None],
        depth: int,
    ) -> None:
        add(name, attributes, keys)
        if depth > _DEPTH or len(attributes) > _MOST_ELEMENTS:
            return
        for attribute, value in _items(attributes, keys):
            where = f"{name}.{_name(attribute)}"
            if isinstance(value, list):
                if attribute != "param_groups":
                    self._lists[id(value)] = where, value
            elif isinstance(value, dict):
                if attribute in _HOOKS or attribute == "state":
                    add(where, value)
                elif attribute not in _SAVING or self._saves:
                    self._add_attributes(where, value, None, add, depth + 1)
            elif not isinstance(value, _NO_OBJECTS) and not _is_region(value):
                inside = getattr(value, "__dict__", None)
                if isinstance(inside, dict):
                    self._add_attributes(where, inside, None, add, depth + 1)

    def instances(self) -> set[int]:
        """The ids of the types of all that was found."""
        return self._instances

    def given(self) -> list[Given]:
        """Objects among the arguments, their types and attributes."""
        return self._given

    def lists(self) -> list[tuple[str, Any]]:
        """Lists among these, which tell nobody when they change; behind `dicts`."""
        return list(self._lists.values())


class Held(Reached):
    """What objects among the arguments hold, while it is nothing but data.

    Their classes are the business of who reads them.
    """

    def __init__(self, objects: Iterable[Any]) -> None:
        """Raises TypeError where more than data counts."""
        super().__init__(None, objects)
        code = (self._modules, self.optimizers, self.functions, self.cells)
        elsewhere = (self._objects, self._globals, self._files, self._dicts)
        if self._odd or any(code) or any(elsewhere):
            raise TypeError("an object that does more than hold")

    def form(self) -> tuple[Any, ...]:
        """Equal where others hold the same, but for tensors. A key, or TypeError."""
        return tuple(self._form)

    def given_tensors(self) -> list[weakref.ref[torch.Tensor]]:
        """Of the form, in order."""
        return [ref for _, ref in self._given_tensors.values()]

    def kinds(self) -> list[type]:
        """The classes of the objects."""
        return list(self._kinds.values())

    def places(self) -> list[int]:
        """The ids of all that they hold, in order."""
        return list(self._walked)

    def _follow_methods(self) -> None:
        pass

    def _classes(self) -> list[type]:
        return []


def _global_hooks() -> dict[str, dict[Any, Any]]:
    hooks = vars(torch.nn.modules.module)
    return {
        name: value
        for name, value in hooks.items()
        if name.startswith("_global_") and isinstance(value, dict)
    }


def _is_region(value: Any) -> bool:
    """Asks the type: an object may answer to every name."""
    return hasattr(type(value), "_reprise_is_region")


def _is_any(kind: type, kinds: tuple[type, ...]) -> bool:
    """A metaclass may compare as it likes."""
    return any(kind is each for each in kinds)


def _never_changes(kind: type) -> bool:
    """As keys of dictionaries: arrays, queues and iterators do."""
    hashes: Any = kind.__hash__
    return _is_any(kind, _CONSTANTS) or not (
        hashes is None or hashes is object.__hash__ or kind is memoryview
    )


def _by_value(kinds: Iterable[type]) -> bool:
    try:
        return _BY_VALUE.issuperset(kinds)
    except TypeError:  # a class that is no key
        return False


def _is_plain_tuple(kind: type) -> bool:
    return kind is tuple or hasattr(kind, "_fields")


def _is_installed(file: str) -> bool:
    return file.startswith("<frozen") or any(part in file for part in _INSTALLED)


class State:
    """What all of that held when it was made."""

    def __init__(self, reached: Reached, number: int) -> None:
        self.number = number
        dicts = reached.dicts()
        self._tensors = [weakref.ref(each) for each in reached.tensors(dicts)]
        self._instances = reached.instances()
        self._optimizers = reached.optimizers
        self._modules = list(reached._modules)
        self.written = reached.written
        apart = keys_of(self.written)
        self._held = [
            (
                name,
                each,
                keys,
                {
                    key: _WRITTEN if (id(each), key) in apart else _token(value)
                    for key, value in _items(each, keys)
                },
            )
            for name, each, keys in dicts
        ]
        self._functions = [(fn, _of_function(fn)) for fn in reached.functions]
        self._factories = [
            (name, each, each.default_factory)
            for name, each, _, _ in self._held
            if isinstance(each, collections.defaultdict)
        ]
        self._given = reached.given()
        # No watcher is told that one of these was put in another order.
        self._orders = [
            (name, each, list(each))
            for name, each, _, _ in self._held
            if isinstance(each, collections.OrderedDict) and len(each) > 1
        ]
        most = _MOST_ELEMENTS if isinstance(reached, Held) else _MOST_LISTED
        self._lists = [
            (name, each, _token(each, most=most)) for name, each in reached.lists()
        ]
        # Equal ones that were put in the place of others.
        self._instead: list[tuple[str, Any, Any]] = []
        self._cells = [(cell, _content(cell)) for cell in reached.cells]
        listed = {id(each) for _, each, _ in self._lists}
        self._names = [
            (name, values, key, *_known(values.get(key, _MISSING), listed))
            for name, values, key in reached.names()
        ]

    def dicts(self) -> list[dict[Any, Any]]:
        """Those that it is of."""
        return [each for _, each, _, _ in self._held]

    def tensors(self) -> list[torch.Tensor]:
        """Those that it is of; the library looks at them in each call.

        And what optimizers and long lists hold now, of which no difference is found.
        """
        held = [each for ref in self._tensors if (each := ref()) is not None]
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                held += _tensors_in(group["params"])
        for _, each, _ in self._lists:
            if len(each) > _MOST_LISTED:
                held += _tensors_in(each)
        return list({id(each): each for each in held}.values())

    def watched(self) -> list[Any]:
        """All that need not be looked at while none of these changes; see `Watch`."""
        functions = [fn for fn, _ in self._functions]
        return [*self.dicts(), *functions, *(cell for cell, _ in self._cells)]

    def meets(self, kinds: Iterable[type], tensors: Iterable[torch.Tensor]) -> bool:
        """Objects of these classes, or these tensors, are part of it."""
        if not self._instances.isdisjoint(map(id, kinds)):
            return True
        own = set(map(id, self.tensors()))
        return not own.isdisjoint(map(id, tensors))

    def looks(self) -> int:
        """At how many things `quick_difference` looks, in each call."""
        by_identity = len(self._given) + len(self._orders)
        return by_identity + len(self._names) + len(self._lists) + len(self._instead)

    def quick_difference(self) -> str | None:
        """As `difference`, of what cannot be watched."""
        for name, ref, kind, attributes in self._given:
            value = ref()
            if type(value) is not kind or value.__dict__ is not attributes:
                return name
        for name, ordered, keys in self._orders:
            if list(ordered) != keys:
                return f"{name}.order"
        for name, values, key, known, token in self._names:
            value = values.get(key, _MISSING)
            if value is not known and not _same(token, value):
                return f"{name}.{key}"
        for name, each, token in itertools.chain(self._lists, self._instead):
            if not _same(token, each):
                return name
        return None

    def rewritten(self) -> Written:
        """Those, and what are other tensors now, if nothing else is another one.

        Empty: there are none of these, or too many.
        """
        places = {
            id(values): (module, in_buffers)
            for ref in self._modules
            if (module := ref()) is not None
            and type(module).__setattr__ is torch.nn.Module.__setattr__
            for in_buffers, values in (
                (False, module.__dict__),
                (True, module._buffers),
            )
        }
        found: dict[tuple[int, Any], Attribute] = {}
        for _, each, keys, tokens in self._held:
            for key, value in _items(each, keys):
                token = tokens.get(key, _MISSING)
                if token is _WRITTEN or id(each) not in places or not _is_plain(value):
                    continue
                if token is None or (
                    isinstance(token, weakref.ref) and not _same(token, value)
                ):
                    module, in_buffers = places[id(each)]
                    found[id(each), key] = Attribute(
                        weakref.ref(module), in_buffers, key
                    )
        alive = [each for each in self.written if each.module() is not None]
        if self.difference(found) is not None or (
            len(alive) + len(found) > _MOST_WRITTEN
        ):
            return ()
        return (*alive, *found.values()) if found else ()

    def difference(self, beside: Container[tuple[int, Any]] = ()) -> str | None:
        """What is another one now, as the program names it; None: nothing.

        `beside` these: ids of dictionaries, and keys.
        """
        for cell, content in self._cells:
            if _content(cell) is not content:
                return "a variable of its closure"
        for fn, parts in self._functions:
            if any(map(operator.is_not, _of_function(fn), parts)):
                return f"{fn.__name__}, its code or defaults"
        for name, factory_of, factory in self._factories:
            if factory_of.default_factory is not factory:
                return f"{name}.default_factory"
        listed = {id(each) for _, each, _ in self._lists}
        instead: list[tuple[str, Any, Any]] = []
        for name, each, keys, tokens in self._held:
            if keys is None and not _same_keys(tokens, each):
                changed = set(each).symmetric_difference(tokens)
                return f"{name}.{_name(next(iter(changed), 'order'))}"
            items = _items(each, keys)
            if len(items) < len(tokens):
                gone = tokens.keys() - each.keys()
                return f"{name}.{_name(next(iter(gone), 'order'))}"
            for key, value in items:
                token = tokens.get(key, _MISSING)
                if token is _WRITTEN or (id(each), key) in beside:
                    continue
                if token is _MISSING or not _same(token, value):
                    return f"{name}.{_name(key)}"
                if _may_change(value, token) and id(value) not in listed:
                    instead.append((f"{name}.{_name(key)}", value, token))
        self._instead = instead
        return self.quick_difference()


def _may_change(value: Any, token: Any) -> bool:
    """One that is not what the token is of, as far as that is known."""
    kind = type(token)
    if kind is _Plain or kind is _Set:
        return token.of is not value and type(value) is not tuple
    return kind is _Listed


def _same_keys(tokens: dict[Any, Any], values: dict[Any, Any]) -> bool:
    return len(tokens) == len(values) and all(map(_same_key, tokens, values))


def _same_key(token: Any, key: Any) -> bool:
    if token is key:
        return True
    try:
        return type(token) is type(key) and bool(token == key)
    except Exception:  # the program's
        return False


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"[{type(key).__name__}]"


def _items(each: dict[Any, Any], keys: frozenset[str] | None) -> list[tuple[Any, Any]]:
    if keys is None:
        return list(each.items())
    return [(key, value) for key, value in list(each.items()) if key in keys]


def _tensors_in(values: Iterable[Any], depth: int = 0) -> Iterator[torch.Tensor]:
    most = _MOST_ELEMENTS if depth == 0 else _MOST_LISTED
    for each in itertools.islice(list(values), most):
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)) and depth < _DEPTH:
            yield from _tensors_in(each, depth + 1)


def _called_unnamed(kind: type) -> frozenset[str]:
    """Methods that operators, `with`, `for` and the like call."""
    return frozenset(
        name
        for name, value in vars(kind).items()
        if name.startswith("__")
        and name.endswith("__")
        and name not in _MAKING
        and isinstance(value, (types.FunctionType, classmethod, staticmethod))
    )


def _dict_of(kind: type) -> Any:
    """Of a class, which shows a view of it."""
    return gc.get_referents(type.__dict__["__dict__"].__get__(kind))[0]


def _of_function(fn: types.FunctionType) -> tuple[Any, Any, Any]:
    return fn.__code__, fn.__defaults__, fn.__kwdefaults__


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


class _Listed(NamedTuple):
    """A list or tuple: how long, and its first elements."""

    kind: type
    length: int
    tokens: list[Any]


class _Plain(NamedTuple):
    """The same of elements that are compared by value, all at once."""

    kind: type
    length: int
    values: tuple[Any, ...]
    kinds: tuple[type, ...]
    of: Any  # the list itself: another one may be equal


class _Set(NamedTuple):
    values: frozenset[tuple[int, Any]]  # with the ids of their types
    plain: frozenset[Any] | None  # where all are of one type: these ...
    kinds: set[type]  # ... and it
    of: Any


def _token(value: Any, depth: int = 0, most: int = _MOST_LISTED) -> Any:
    if isinstance(value, torch.Tensor):
        return weakref.ref(value)
    kind = type(value)
    if kind is set:
        kinds_of = set(map(type, value))
        plain = frozenset(value) if len(kinds_of) < 2 and _by_value(kinds_of) else None
        values = frozenset((id(type(each)), each) for each in value)
        return _Set(values, plain, kinds_of, value)
    if kind is list or kind is tuple:
        first = tuple(value[:most])
        kinds = tuple(map(type, first))
        if _by_value(kinds):
            return _Plain(kind, len(value), first, kinds, value)
        if depth > _DEPTH:
            return value
        return _Listed(kind, len(value), [_token(each, depth + 1) for each in first])
    return value


def _known(value: Any, listed: set[int]) -> tuple[Any, Any]:
    """What is the same as long as it is this one, and what tells it otherwise.

    Of what is listed, the elements are looked at there.
    """
    token = _token(value)
    of_itself = id(value) in listed and isinstance(token, (_Set, _Plain))
    return value if of_itself else token, token


def _same(token: Any, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return isinstance(token, weakref.ref) and token() is value
    kind = type(value)
    if kind is set:
        if type(token) is not _Set or len(token.values) != len(value):
            return False
        if token.plain is not None:
            return token.plain == value and token.kinds == set(map(type, value))
        return all((id(type(each)), each) in token.values for each in value)
    if kind is list or kind is tuple:
        if type(token) is _Plain:
            first = tuple(value[: len(token.values)])
            return (
                token.kind is kind
                and token.length == len(value)
                and token.values == first
                and token.kinds == tuple(map(type, first))
            )
        return token is value or (
            type(token) is _Listed
            and token.kind is kind
            and token.length == len(value)
            and all(map(_same, token.tokens, value))
        )
    if kind is float:
        return type(token) is float and token.hex() == value.hex()
    if isinstance(value, (float, complex)):  # of other types; NaNs and zeros differ
        return type(token) is kind and repr(token) == repr(value)
    if kind is str or kind is int or kind is bool or kind is bytes:
        return type(token) is kind and bool(token == value)
    return token is value
