"""Where Python keeps the functions of C that it calls for methods and attributes.

Such a function can be exchanged for one that observes it (`_observers`). What Reprise
itself asks of tensors goes past observers.
"""

from __future__ import annotations

import ctypes
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

PYTHONS_WORDS_BYTES = object.__basicsize__  # what every object begins with


class MethodDef(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class GetSetDef(ctypes.Structure):
    """`PyGetSetDef`. What gets an attribute is the function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


# Where in an object of Python's the pointer to its `PyMethodDef` or `PyGetSetDef` is:
# behind those to its type and its two names in a descriptor, at once in a function.
_DEF_AT = {
    types.MethodDescriptorType: PYTHONS_WORDS_BYTES + 3 * 8,
    types.ClassMethodDescriptorType: PYTHONS_WORDS_BYTES + 3 * 8,
    types.GetSetDescriptorType: PYTHONS_WORDS_BYTES + 3 * 8,
    types.BuiltinFunctionType: PYTHONS_WORDS_BYTES,
}


def def_at(attribute: Any) -> int | None:
    """The address of the pointer to what describes a function of C; None: it is none."""
    found = getattr(attribute, "__func__", attribute)  # pybind11's, and static ones
    place = _DEF_AT.get(type(found))
    return None if place is None else id(found) + place


def def_of(attribute: Any, pointer: ctypes.c_void_p) -> MethodDef | GetSetDef:
    is_got = type(attribute) is types.GetSetDescriptorType
    return (GetSetDef if is_got else MethodDef).from_address(pointer.value or 0)


# Of what a tensor tells by attributes that are observed.
_ASKED = ("_version", "_base", "grad_fn", "output_nr")


def version_of(tensor: torch.Tensor) -> int:
    """Return its `_version`."""
    version: int = plain_getters()["_version"](tensor)
    return version


def is_view(tensor: torch.Tensor) -> bool:
    """Return its `_is_view()`."""
    return plain_getters()["_base"](tensor) is not None


def history_of(tensor: torch.Tensor) -> Any:
    """Return its `grad_fn`."""
    return plain_getters()["grad_fn"](tensor)


def output_nr_of(tensor: torch.Tensor) -> int:
    """Return its `output_nr`."""
    number: int = plain_getters()["output_nr"](tensor)
    return number


@functools.cache
def plain_getters() -> dict[str, Callable[[torch.Tensor], Any]]:
    """Getters that nobody observes. To be called before anybody does."""
    return {name: _plain_getter(name) for name in _ASKED}


def _plain_getter(name: str) -> Callable[[torch.Tensor], Any]:
    attribute = vars(torch._C.TensorBase)[name]
    pointer = ctypes.c_void_p.from_address(def_at(attribute) or 0)
    plain = GetSetDef.from_buffer_copy(def_of(attribute, pointer))
    # The descriptor refers to it, beyond the end of this module.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(plain))
    make = ctypes.pythonapi.PyDescr_NewGetSet
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.py_object, ctypes.c_void_p)
    descriptor = make(torch._C.TensorBase, ctypes.addressof(plain))
    getter: Callable[[torch.Tensor], Any] = descriptor.__get__
    return getter
