"""What takes the value of a number, and asks the number nothing.

A float that notes what is done with it is asked by Python's own operators. Code that is written
in C may read its value past that. Of Python's library it is known which code does; of what
others have written in C nobody knows.
"""

from __future__ import annotations

import functools
import importlib.machinery
import operator
import sys
import types
from typing import Any

from reprise._frames import Owner, is_torchs, owner_of
from reprise.guards import classes
from reprise.guards.code import BY_TEXT, Named, takes_floats
from reprise.guards.constants import Constant

# Their functions and classes do.
MATH = frozenset(
    {
        *("math", "cmath", "numpy", "statistics", "decimal", "fractions"),
        *("json", "struct", "array", "datetime", "ctypes", "marshal", "pickle"),
        *("audioop", "locale", "sqlite3"),
    }
)
# Of these, recorded calls see each function that is called (`_values_taken.py`).
_SEEN = frozenset(
    {
        *("math", "cmath", "statistics", "json", "struct", "marshal", "pickle"),
        *("audioop", "locale", "sqlite3", "fractions"),
    }
)
# Functions of another module that do, if they are given a text.
_REMAINDERS = frozenset({"mod", "imod"})
# Methods of ordinary numbers and texts (`(1.0).__gt__(x)`), and such as say of which class
# a number is.
_OPERATIONS = ("add", "sub", "mul", "mod", "divmod", "pow", "truediv", "floordiv")
_METHODS = frozenset(
    {
        *("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"),
        *map("__{}__".format, _OPERATIONS),
        *map("__r{}__".format, _OPERATIONS),
        *("__reduce__", "__reduce_ex__"),
    }
)
# What code names that takes it.
_NAMES = _METHODS | {"memoryview"}
# Methods of the class of floats, which may be called with any (`float.hex(x)`).
_OF_FLOATS = frozenset(vars(float)).union(("__get__",)) - {
    *("__new__", "__doc__", "__getattribute__", "__getformat__", "fromhex"),
    *("real", "imag"),  # code names these of tensors, too
}
_COMPLEX = classes.ids_of(complex, memoryview)
# They get attributes by texts.
GETTERS = classes.ids_of(operator.attrgetter, operator.methodcaller)
_TAKES = classes.ids_of(float, complex, memoryview)
_OF_CLASSES = classes.ids_of(
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_SEEN_TO_BE_CALLED = classes.ids_of(
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType
)
_EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)


class Takers:
    """What the program's code leads to that may take the value of a number."""

    def __init__(self) -> None:
        self._takes = False  # something does, whatever code names
        self._has_floats = False  # it leads to the class of floats
        # It leads to a text that a float may be written into, and names what may do so.
        self._has_formats = self._has_remainder = False
        self._has_getter = False  # of attributes, by texts
        self._texts: set[str] = set()  # names of methods that take it

    def note(self, value: Any) -> None:
        """A function, a class or an object."""
        if issubclass(type(value), (str, bytes)):
            self.note_constant(_plain_text(value))
        self._takes = self._takes or takes_value(value)
        self._has_floats |= value is float
        self._has_getter |= id(value) in GETTERS

    def note_constant(self, value: Any) -> None:
        """A number or a text."""
        if type(value) is complex:  # it asks no float for its value
            self._takes = True
        elif isinstance(value, (str, bytes)):
            self._has_formats = self._has_formats or takes_floats(value)
            if value in _METHODS or value in _OF_FLOATS:
                self._texts.add(str(value))

    def note_code(self, named: Named, of: dict[str, Any]) -> None:
        """Code, and its globals."""
        self._takes = self._takes or named.computes or _names_remainder(named, of)
        self._has_remainder |= named.has_remainder
        builtin = [each for each in named.globals if each not in of]
        self._has_floats |= "float" in builtin
        self._takes |= "complex" in builtin

    def note_module(self, name: str) -> None:
        """Code names or imports a module."""
        self._takes = self._takes or is_of_math(name)

    def note_of_package(self, value: Any) -> None:
        """What code of a package names: what nobody sees it call."""
        kind = type(value)
        if issubclass(kind, types.ModuleType):
            self._note_imported(classes.name_of_module(value))
        elif id(kind) in _SEEN_TO_BE_CALLED or kind is float:
            return
        elif issubclass(kind, type) or classes.found_in(kind, "__call__") is not None:
            self._takes = self._takes or takes_value(value)

    def note_code_of_package(self, named: Named, of: dict[str, Any]) -> None:
        """Code of a package that a recorded call has run, and its globals."""
        self._takes |= named.unseen or not _METHODS.isdisjoint(named.read)
        for name in named.globals:
            if name in of:
                self.note_of_package(of[name])
        for each in named.imports:
            self._note_imported(each.module)

    def _note_imported(self, name: str) -> None:
        root = name.partition(".")[0].lstrip("_")
        seen = root in _SEEN or not is_of_math(name)
        self._takes = self._takes or not seen

    def may_take(self, named: set[str], form: Any) -> bool:
        """Return whether anything may.

        `named`: what the program's code names. `form`: of its arguments.
        """
        given = Takers()
        given._note_form(form)
        if self._has_getter or not BY_TEXT.isdisjoint(named):
            named = named | self._texts | given._texts
        of_floats = self._has_floats and not _OF_FLOATS.isdisjoint(named)
        has_formats = self._has_formats or given._has_formats
        formats = has_formats and self._has_remainder
        takes = self._takes or given._takes or not _NAMES.isdisjoint(named)
        return takes or of_floats or formats

    def _note_form(self, form: Any) -> None:
        """What is said of arguments: constants, and their classes."""
        left = [form]
        while left:
            each = left.pop()
            if type(each) is Constant:
                each = each.token
            if isinstance(each, tuple):
                left += each
            elif each is complex:
                self._takes = True
            elif isinstance(each, (str, bytes)):
                self.note_constant(each)


def is_of_math(module: Any) -> bool:
    """Return whether what a module of that name has may take the value of a number."""
    name = str(module)
    root = name.partition(".")[0]
    return (root.lstrip("_") or root) in MATH or _is_extension(name)


def takes_value(value: Any) -> bool:
    """Return whether it, or what it is an object of, may take the value of a number."""
    kind = type(value)  # A class may compare as it likes.
    if issubclass(kind, type):
        return id(value) in _COMPLEX or (value is not float and _class_takes(value))
    if id(kind) in _OF_CLASSES:
        of = value.__objclass__
        in_c = kind is types.WrapperDescriptorType
        return (
            id(of) in _TAKES
            or (in_c and value.__name__ in _METHODS)
            or _class_takes(of)
        )
    if kind is types.MethodWrapperType:
        return value.__name__ in _METHODS or _class_takes(type(value.__self__))
    if kind is types.FunctionType:
        return is_of_math(value.__module__)
    if kind is types.BuiltinFunctionType:
        return _function_takes(value)
    return kind is memoryview or (kind is not float and _class_takes(kind))


def _function_takes(function: types.BuiltinFunctionType) -> bool:
    """Of one that is written in C, or a method with its object."""
    of: Any = function.__self__
    if of is None or issubclass(type(of), types.ModuleType):
        name = str(function.__module__)
        is_remainder = name == "_operator" and function.__name__ in _REMAINDERS
        return is_remainder or is_of_math(name)
    kind = of if issubclass(type(of), type) else type(of)
    return kind is memoryview or _class_takes(kind)


def _class_takes(kind: type) -> bool:
    """A class of floats, one of these modules', or one that others have written in C.

    Or one that is made of such a class, or by one.
    """
    made_by = type(kind)
    return (
        issubclass(kind, (float, complex))
        or any(map(_is_takers, classes.mro_of(kind)))
        or (made_by is not type and any(map(_is_takers, classes.mro_of(made_by))))
    )


def _is_takers(kind: type) -> bool:
    module = classes.module_of(kind)
    if is_of_math(module):
        return True
    if classes.is_written_in_python(kind):
        return False
    root = module.partition(".")[0]
    return root != "torch" and root not in sys.stdlib_module_names


def _names_remainder(named: Named, of: dict[str, Any]) -> bool:
    """Return whether code may name what `%` does, as a function."""
    if _REMAINDERS.isdisjoint((*named.read, *named.globals)):
        return False
    return any(of.get(each) is operator for each in named.globals) or any(
        each.module in ("operator", "_operator") for each in named.imports
    )


def _plain_text(value: Any) -> str | bytes:
    """The text that an object of a class of texts is."""
    if issubclass(type(value), str):
        return str.__str__(value)
    return bytes.__getitem__(value, slice(None))


def _is_extension(name: str) -> bool:
    """A module that others have written in C. It may come, where code imports it."""
    module = sys.modules.get(name)
    names = {} if module is None else classes.attributes_of(module) or {}
    file = names.get("__file__")
    return isinstance(file, str) and _is_of_others(file)


@functools.lru_cache(maxsize=4096)
def _is_of_others(file: str) -> bool:
    return (
        file.endswith(_EXTENSIONS)
        and not is_torchs(file)
        and owner_of(file) in (Owner.PROGRAM, Owner.PACKAGE)
    )
