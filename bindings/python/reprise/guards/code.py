"""What code names: globals, attributes, modules that it imports."""

from __future__ import annotations

import copy
import dataclasses
import dis
import functools
import gc
import importlib.util
import inspect
import operator
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# By these, code reads or sets attributes whose names it does not say.
READ_ALL = frozenset(
    {
        *("getattr", "vars", "__dict__", "__getattribute__", "asdict", "astuple"),
        *("setattr", "delattr", "dir", "getattr_static", "format", "format_map"),
        *("vformat", "get_field"),
        *("eval", "exec", "dump", "dumps", "f_globals", "f_locals"),
        *("__setattr__", "__delattr__"),
        *("__getstate__", "__reduce__", "__reduce_ex__"),
        *("deepcopy", "getmembers", "getmembers_static"),
    }
)
# From Python 3.11 on.
_getmembers_static = getattr(inspect, "getmembers_static", inspect.getmembers)
# Likewise, whatever the program calls them; and what holds `copy`, a common name.
_READERS = frozenset(
    map(
        id,
        (
            *(getattr, setattr, delattr, vars, inspect.getmembers, copy),
            *(_getmembers_static, inspect.getattr_static),
            *(copy.copy, copy.deepcopy),
            *(dataclasses.asdict, dataclasses.astuple, dataclasses.replace),
        ),
    )
)
# Descriptors, and what they make of an object, that do so.
SETTERS = frozenset({"__setattr__", "__delattr__", "__getattribute__"})
# They take names as texts, which most code says.
BY_TEXT = frozenset(
    {
        *("hasattr", "getattr", "setattr", "delattr", "attrgetter", "methodcaller"),
        *("__dict__", "vars", "__getattribute__", "__setattr__", "__delattr__"),
    }
)
# So does a pattern with a class in it.
_TAKES_TEXTS = BY_TEXT | {"__match_args__"}
# They make whole numbers of one, perhaps, and tell nobody.
_MAKES_TENSORS = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})
_OF_INTEGERS = frozenset(
    {
        *("bool", "int", "long", "short", "uint8", "int8", "int16", "int32", "int64"),
        *("uint16", "uint32", "uint64"),
    }
)
_TENSORS_OF_INTEGERS = frozenset(
    {
        *("BoolTensor", "ByteTensor", "CharTensor", "ShortTensor"),
        *("IntTensor", "LongTensor"),
    }
)
# A place for a float, in a text with `%`. What is in parentheses is any key.
_FLOAT_IN_TEXT = re.compile(r"%(\(.*\))?[^%a-zA-Z]*[hlL]?[eEfFgG]", re.DOTALL)
# They take names of globals, or of modules, as texts.
_OF_MODULES = frozenset(
    {"globals", "eval", "exec", "vars", "__import__", "import_module", "modules"}
)
_LONG_TEXT = 4096
_MOST_FUNCTIONS = 16
_NAME = re.compile(r"[^\W\d]\w*")
_REMAINDERS = ("BINARY_MODULO", "INPLACE_MODULO")  # in older versions of Python
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER")
_WRITES = ("STORE_ATTR", "DELETE_ATTR")
# By the last one, what stands in a class and is evaluated later: bounds of types and the like.
_GLOBALS = (
    *("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"),
    "LOAD_FROM_DICT_OR_GLOBALS",
)


# Code, and its globals.
Code = dict[tuple[int, int], tuple[types.CodeType, dict[str, Any]]]


def key_of(code: types.CodeType, of: dict[str, Any]) -> tuple[int, int]:
    """Of code with these globals. Code of one text is equal, wherever it stands."""
    return id(code), id(of)


class Import(NamedTuple):
    """A module that code imports, and what it takes of it."""

    module: str
    level: int  # of a relative one: how many dots

    def absolute(self, package: Any) -> str:
        """Its name where it is imported in a module of that package."""
        if not self.level:
            return self.module
        try:
            return importlib.util.resolve_name("." * self.level + self.module, package)
        except (ImportError, TypeError, AttributeError):
            return ""


class Named(NamedTuple):
    """What code names."""

    globals: tuple[str, ...]
    # Each a global, and attributes: `torch.nn.functional`.
    chains: tuple[tuple[str, ...], ...]
    read: frozenset[str]  # attributes
    written: frozenset[str]
    imports: tuple[Import, ...]
    # What may be globals, or modules, that it reads by text. None: it reads none so.
    by_text: frozenset[str] | None
    # It takes the value of a number, perhaps, so that the number itself does not notice.
    computes: bool
    unseen: bool  # it does, not just by integers that it may make of the number
    has_remainder: bool  # of two numbers, or a text with something in it


@functools.lru_cache(maxsize=8192)
def named_by(code: types.CodeType) -> Named:
    """That of functions inside it, too."""
    names: dict[str, None] = {}
    chains: dict[tuple[str, ...], None] = {}
    read: set[str] = set()
    written: set[str] = set()
    imports: dict[Import, None] = {}
    has_remainder = False
    chain: tuple[str, ...] = ()
    before: list[Any] = [None, None]  # what the last two steps have loaded
    for step in dis.get_instructions(code):
        name = step.opname
        if name in ("CACHE", "EXTENDED_ARG", "PRECALL", "NOP"):
            continue
        links = chain if name.startswith(_READS) else ()
        chain = ()
        if name in _GLOBALS:
            names[str(step.argval)] = None
            chain = (str(step.argval),)
        elif name == "IMPORT_NAME":
            level = before[0] if isinstance(before[0], int) else 0
            imports[Import(str(step.argval), level)] = None
            read.update(str(step.argval).split("."))
        elif name == "IMPORT_FROM":
            read.add(str(step.argval))
        elif name in _WRITES:
            written.add(str(step.argval))
        elif name.startswith(_READS):
            read.add(str(step.argval))
            if links:
                chain = (*links, str(step.argval))
                chains[chain] = None
        elif name in _REMAINDERS or (name == "BINARY_OP" and step.argrepr[0] == "%"):
            has_remainder = True
        elif name == "MATCH_CLASS":
            read.update(_texts_in(code.co_consts))
            read.update(("__match_args__", *(["getattr"] if step.arg else [])))
        before = [before[1], step.argval]
    inner = [named_by(each) for each in code.co_consts if type(each) is types.CodeType]
    for each in inner:
        names.update(dict.fromkeys(each.globals))
        chains.update(dict.fromkeys(each.chains))
        read |= each.read
        written |= each.written
        imports.update(dict.fromkeys(each.imports))
        has_remainder |= each.has_remainder
    if not BY_TEXT.isdisjoint((*names, *read)):
        read.update(_texts_in(code.co_consts))
    unseen = _takes_values(code.co_consts, inner, chains, has_remainder)
    return Named(
        tuple(names),
        tuple(chains),
        frozenset(read),
        frozenset(written),
        tuple(imports),
        _globals_by_text(code, {*names, *read}, inner),
        unseen or _may_make_integers({*names, *read}),
        unseen,
        has_remainder,
    )


def _globals_by_text(
    code: types.CodeType, named: set[str], inner: Iterable[Named]
) -> frozenset[str] | None:
    texts = [each.by_text for each in inner if each.by_text is not None]
    if not _OF_MODULES.isdisjoint(named):
        own = (each for each in code.co_consts if isinstance(each, str))
        texts.append(frozenset([*own, *_texts_in(code.co_consts)]))
    return frozenset().union(*texts) if texts else None


def _may_make_integers(named: set[str]) -> bool:
    return not _TENSORS_OF_INTEGERS.isdisjoint(named) or not (
        _MAKES_TENSORS.isdisjoint(named) or _OF_INTEGERS.isdisjoint(named)
    )


def _takes_values(
    constants: tuple[Any, ...],
    inner: Iterable[Named],
    chains: Iterable[tuple[str, ...]],
    has_remainder: bool,
) -> bool:
    asks_float = any(each[0] in ("float", "complex") for each in chains)
    writes = has_remainder and any(map(takes_floats, _texts_of(constants)))
    takes = asks_float or writes or _holds_complex(constants)
    return takes or any(each.unseen for each in inner)


def _texts_of(constants: Iterable[Any]) -> Iterator[str | bytes]:
    for each in constants:
        if isinstance(each, (tuple, frozenset)):
            yield from _texts_of(each)
        elif isinstance(each, (str, bytes)):
            yield each


def _holds_complex(constants: Iterable[Any]) -> bool:
    """Complex numbers take the value of a float that they are compared or added with."""
    return any(
        _holds_complex(each)
        if isinstance(each, (tuple, frozenset))
        else type(each) is complex
        for each in constants
    )


def takes_floats(text: str | bytes) -> bool:
    """Return whether `%` writes a float into it; of a long one nobody asks."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return "%" in text and (
        len(text) > _LONG_TEXT or _FLOAT_IN_TEXT.search(text) is not None
    )


def reads_any(code: types.CodeType) -> bool:
    """Return whether it reads or sets attributes that it does not name."""
    named = named_by(code)
    return not READ_ALL.isdisjoint((*named.globals, *named.read))


def is_of_frozen(code: types.CodeType) -> bool:
    """Of a method that Python writes for a frozen dataclass: it hands on what it is given."""
    return (
        code.co_name in SETTERS
        and code.co_filename == "<string>"
        and "FrozenInstanceError" in (*code.co_names, *code.co_freevars)
    )


def is_format(value: Any) -> bool:
    """Return whether it is the method of a text that writes attributes into that."""
    return (
        type(value) is types.BuiltinFunctionType
        and type(value.__self__) is str
        and value.__name__ in ("format", "format_map")
    )


def texts_named(code: types.CodeType) -> frozenset[str]:
    """Return what may be names of attributes in its texts, where it takes names as such."""
    named = named_by(code)
    if not _TAKES_TEXTS.isdisjoint((*named.globals, *named.read)):
        return frozenset(_texts_in(code.co_consts))
    return frozenset()


def is_reader(value: Any) -> bool:
    """Code that names it reads or sets attributes whose names it does not say."""
    return id(value) in _READERS


def codes_in(code: types.CodeType) -> tuple[types.CodeType, ...]:
    """It, and that of functions inside it."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return code, *(each for one in inner for each in codes_in(one))


def functions_with(codes: list[types.CodeType]) -> list[types.FunctionType]:
    """Those that have such code: of their defaults and closures no code says where.

    Not such that are made in each call: there are many of one code. It asks all objects
    that there are, which takes long.
    """
    if not codes:
        return []
    found: dict[int, list[types.FunctionType]] = {}
    for each in gc.get_referrers(*codes):
        if type(each) is types.FunctionType:
            found.setdefault(id(each.__code__), []).append(each)
    few = (each for each in found.values() if len(each) <= _MOST_FUNCTIONS)
    return [fn for each in few for fn in each]


def _texts_in(constants: tuple[Any, ...]) -> Iterator[str]:
    """What may be names of attributes: in expressions and formats, too."""
    for each in constants:
        if isinstance(each, str):
            yield from _NAME.findall(each)
        elif isinstance(each, tuple):
            yield from _texts_in(each)


def named_by_getter(getter: Any) -> set[str]:
    """The attributes that an `attrgetter` or `methodcaller` reads."""
    _, given = getter.__reduce__()[:2]
    if type(getter) is operator.methodcaller:
        given = [each for each in given if isinstance(each, str)][:1]
    return {part for each in given for part in str(each).split(".")}
