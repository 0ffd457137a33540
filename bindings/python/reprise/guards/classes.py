"""What objects and classes are made of, without asking the classes.

A class of the program's may answer as it likes to its name, its bases or its attributes,
and so may its class.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

from reprise._frames import Owner, owner_of
from reprise.guards.code import reads_any

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
names_of: Callable[[type], types.MappingProxyType[str, Any]]
names_of = type.__dict__["__dict__"].__get__
size_of: Callable[[type], int] = type.__dict__["__basicsize__"].__get__
_item_of: Callable[[type], int] = type.__dict__["__itemsize__"].__get__
_place_of_dict: Callable[[type], int] = type.__dict__["__dictoffset__"].__get__
_weakrefs_of: Callable[[type], int] = type.__dict__["__weakrefoffset__"].__get__
flags_of: Callable[[type], int] = type.__dict__["__flags__"].__get__
_module_of = type.__dict__["__module__"].__get__
HEAP_TYPE = 1 << 9
# Of those in which threads and processes meet, all but locks hold something.
SHARING = frozenset(
    {"weakref", "threading", "_thread", "queue", "_queue", "asyncio", "multiprocessing"}
)
# Objects of these packages are not looked into.
CLOSED = SHARING | {
    *("_io", "concurrent", "contextvars", "io", "logging", "pathlib", "re", "warnings")
}
# Of these nobody is asked who holds what is made already.
MAKING = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__"})

# Operators by which objects of packages are compared, and looked through.
_COMPARES = frozenset(
    {
        *("__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__iter__", "__len__", "__bool__", "__getitem__", "__hash__"),
    }
)
# Methods that operators, `with`, `for` and the like call; one may come.
SPECIAL = (
    frozenset(
        name
        for kind in (int, dict, list, object, type, types.GeneratorType)
        for name in vars(kind)
        if name.startswith("__") and callable(vars(kind)[name])
    ).union(
        *(("__bool__", "__enter__", "__exit__", "__getattr__", "__get__", "__set__"),),
        *(("__delete__", "__missing__", "__call__", "__torch_function__"),),
    )
    - MAKING
)


def ids_of(*kinds: type) -> frozenset[int]:
    """To be asked whether a class is among them: it may compare as it likes."""
    return frozenset(map(id, kinds))


CONTAINERS = ids_of(tuple, list, dict)  # they have no attributes


def compares(kind: type) -> bool:
    """Whether it says itself which classes equal it: it may be any, or raise."""
    of: Any = type(kind)
    return of.__eq__ is not type.__eq__ or of.__hash__ is not type.__hash__


_DICTS = ids_of(types.GetSetDescriptorType, types.MemberDescriptorType)
_CALLABLE = ids_of(types.FunctionType, classmethod, staticmethod)


def is_written_in_python(kind: type) -> bool:
    """Its attributes may be set."""
    return bool(flags_of(kind) & HEAP_TYPE)


def dict_of(kind: type) -> dict[str, Any]:
    """Of a class, which shows a view of it."""
    return cast(dict[str, Any], gc.get_referents(names_of(kind))[0])


def module_of(kind: type) -> str:
    """The module that it says it is of."""
    try:
        return str(_module_of(kind))
    except Exception:  # a class that says none
        return ""


def root_of(kind: type) -> str:
    """The package that it says it is of."""
    return module_of(kind).partition(".")[0]


def name_of(kind: type) -> str:
    """With its module, for people."""
    try:
        return f"{_module_of(kind)}.{type.__dict__['__qualname__'].__get__(kind)}"
    except Exception:
        return short_name_of(kind)


def short_name_of(kind: type) -> str:
    """The name alone."""
    return str(type.__dict__["__name__"].__get__(kind))


def owner_of_module(name: str) -> int:
    """Whose module it is; see `Owner`."""
    module = sys.modules.get(name)
    names = {} if module is None else attributes_of(module) or {}
    file = names.get("__file__")
    if isinstance(file, str) and os.path.isabs(file):
        return owner_of(file)
    root = name.partition(".")[0]
    if root != name:
        return owner_of_module(root)
    is_librarys = name in sys.builtin_module_names or name in sys.stdlib_module_names
    return Owner.LIBRARY if is_librarys and name != "__main__" else Owner.PROGRAM


def owner_of_class(kind: type) -> int:
    """Whose class it is."""
    try:
        return owner_of_module(str(_module_of(kind)))
    except Exception:
        return Owner.PROGRAM


def open_bases(kind: type) -> list[type]:
    """Those of a class whose attributes may be others some day."""
    return [
        base
        for base in mro_of(kind)
        if is_written_in_python(base)
        and root_of(base) not in CLOSED
        and owner_of_class(base) in (Owner.PROGRAM, Owner.PACKAGE)
    ]


def is_of_library(kind: type) -> bool:
    """A class of the standard library that is written in Python."""
    return is_written_in_python(kind) and owner_of_class(kind) == Owner.LIBRARY


def codes_of(kind: type) -> Iterator[types.CodeType]:
    """Those of its own functions."""
    for each in list(names_of(kind).values()):
        if type(each) is types.FunctionType:
            yield each.__code__


def is_read_whole(kind: type) -> bool:
    """Its objects are: by code that is written in C, or of a package, or calls what they hold.

    `"x" in namespace` and `config == other` read all attributes, and name none.
    """
    return (
        root_of(kind) == "functools"
        or issubclass(kind, types.SimpleNamespace)
        or any(map(_has_reader, mro_of(kind)))
    )


def _has_reader(kind: type) -> bool:
    if not is_written_in_python(kind):
        return False
    owner = owner_of_class(kind)
    if owner == Owner.PROGRAM:  # its code is read where it is called
        return False
    return any(
        reads_any(each.__code__)
        for name, each in names_of(kind).items()
        if type(each) is types.FunctionType
        and (name in _COMPARES or (owner == Owner.LIBRARY and name not in MAKING))
    )


def reader_of_attributes(kind: type) -> Callable[[Any], Any]:
    """What reads the dictionary of an object; of some it is none, or has no place."""
    for base in mro_of(kind):
        found = names_of(base).get("__dict__")
        if found is not None:
            return found.__get__ if id(type(found)) in _DICTS else _nothing
    return _nothing


def _nothing(_: Any) -> None:
    return None


def attributes_of(value: Any) -> dict[str, Any] | None:
    """The dictionary of an object. None: it has none that anybody can look at."""
    attributes = reader_of_attributes(type(value))(value)
    return attributes if issubclass(type(attributes), dict) else None


def slots_of(kind: type) -> list[tuple[str, Any]]:
    """What reads attributes of its objects that stand in no dictionary, by name."""
    return [
        (name, each)
        for base in mro_of(kind)
        if is_written_in_python(base)
        for name, each in list(names_of(base).items())
        if type(each) is types.MemberDescriptorType and name != "__dict__"
    ]


def holds_more(kind: type, attributes: int = 0) -> bool:
    """Whether its objects hold more than a dictionary and so many slots.

    So do those of classes with bases that are written in C.
    """
    return _item_of(kind) != 0 or adds_to(kind, object) > attributes


def adds_to(kind: type, base: type) -> float:
    """How many words its objects hold beside those of `base`, a dict and weak references.

    Some dicts and weak references stand before the object.
    """
    size = size_of(kind) - size_of(base)
    if _place_of_dict(kind) and not _place_of_dict(base) and not dict_is_before(kind):
        size -= tuple.__itemsize__
    if _weakrefs_of(kind) > 0 and not _weakrefs_of(base):
        size -= tuple.__itemsize__
    return size / tuple.__itemsize__


def called_unnamed(kind: type) -> frozenset[str]:
    """Methods that operators, `with`, `for` and the like call."""
    return frozenset(
        name
        for name, value in list(names_of(kind).items())
        if name.startswith("__")
        and name.endswith("__")
        and name not in MAKING
        and id(type(value)) in _CALLABLE
    )


def found_in(kind: type, name: str) -> Any:
    """What a class has under that name, itself or by its bases. None: nothing."""
    for base in mro_of(kind):
        if (found := names_of(base).get(name)) is not None:
            return found
    return None


@functools.cache
def managed_dict() -> int:
    """The flag of classes whose objects have their dictionary before them."""
    return 1 << 4 if sys.version_info >= (3, 11) else 0


def has_attributes(kind: type) -> bool:
    """Its objects have a dictionary, whether or not the class shows it."""
    return _place_of_dict(kind) != 0


def dict_is_before(kind: type) -> bool:
    """See `managed_dict`."""
    return bool(flags_of(kind) & managed_dict())


def held_by(value: Any) -> list[Any]:
    """What an object that is written in C refers to."""
    return gc.get_referents(value)


def has_references(kind: type) -> bool:
    """Of its objects there are weak references."""
    return bool(_weakrefs_of(kind))


def name_of_module(value: types.ModuleType) -> str:
    """What it says that it is called."""
    return str((attributes_of(value) or {}).get("__name__"))


def namespaces_of(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Where attributes of a package's module, class or object stand."""
    kind = type(value)
    if issubclass(kind, type):
        return [(short_name_of(base), dict_of(base)) for base in open_bases(value)]
    attributes = attributes_of(value)
    if attributes is None:
        return []
    if issubclass(kind, types.ModuleType):
        name = name_of_module(value)
        known = owner_of_module(name) in (Owner.PROGRAM, Owner.PACKAGE)
        return [(name, attributes)] if known else []
    known = bool(open_bases(kind))
    return [(short_name_of(kind), attributes)] if known else []
