"""What a callable reads besides its arguments, as far as that can be found."""

from __future__ import annotations

import dis
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_parameters",
    "_buffers",
    "_modules",
)
_SIMPLE = (bool, int, float, str, bytes, complex, type(None))
_FASTPATH = frozenset({"_is_fastpath_enabled"})
_DEPTH = 3  # how far objects of the program's are followed to modules


_MISSING = object()


class Bound:
    """A method that does not keep its object."""

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self.function = function
        self.owner = weakref.ref(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner(), *args, **kwargs)


# A name for people, a dictionary, and its keys that count; None: all do.
Watched = tuple[str, dict[Any, Any], "frozenset[str] | None"]


class Reached:
    """What a callable leads to: modules, optimizers, and what they are found in.

    Found once, through closures, defaults, `self`, the globals that its code names, that
    of its modules' `forward`, and attributes and containers of these. Of None nothing is.
    """

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self.modules: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.cells: list[types.CellType] = []
        self._dicts: list[tuple[str, dict[Any, Any]]] = []
        # Attributes of objects, and globals: dictionaries that change all the time, of
        # which the code reads and writes little.
        self._objects: list[tuple[str, dict[str, Any]]] = []
        self._globals: list[tuple[str, dict[str, Any], str]] = []
        self._read: set[str] = set()
        self._written: set[str] = set()
        self._lists: dict[int, tuple[str, list[Any]]] = {}
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # whose ids were seen
        self._follow(fn, 0)
        if not isinstance(fn, torch.nn.Module):
            self._follow(vars(type(fn)).get("__call__"), 0)

    def _follow(self, value: Any, depth: int) -> None:
        if isinstance(value, _SIMPLE) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            self._follow_modules(value)
        elif isinstance(value, torch.optim.Optimizer):
            self.optimizers.append(value)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._follow(part, depth)
        elif isinstance(value, types.MethodType):
            self._follow(value.__self__, depth)
            self._follow(value.__func__, depth)
        elif hasattr(value, "_reprise_region"):  # a region's method
            self._follow(value._reprise_region, depth)
        elif hasattr(value, "_reprise_fn"):  # a region
            self._follow(value._reprise_fn, depth)
        elif isinstance(value, Bound):
            self._follow(value.owner(), depth)
            self._follow(value.function, depth)
        elif isinstance(value, types.FunctionType):
            self._follow_function(value, depth)
        elif depth < _DEPTH:
            self._follow_object(value, depth + 1)

    def _follow_modules(self, root: torch.nn.Module) -> None:
        for module in root.modules():
            if id(module) in self._seen and module is not root:
                continue
            self._seen.add(id(module))
            self.modules.append(module)
        for module in list(self.modules):
            kind = type(module)
            if not kind.__module__.startswith("torch.nn."):
                self._follow(kind.forward, 0)
            for name, value in list(module.__dict__.items()):
                if name not in _HOOKS and isinstance(value, (list, tuple, dict)):
                    self._follow(value, 1)

    def _follow_function(self, fn: types.FunctionType, depth: int) -> None:
        self._kept.append(fn)
        for cell in fn.__closure__ or ():
            self.cells.append(cell)
            try:
                self._follow(cell.cell_contents, depth)
            except ValueError:  # nothing is in it yet
                continue
        defaults = (fn.__defaults__ or ()) + tuple((fn.__kwdefaults__ or {}).values())
        for default in defaults:
            self._follow(default, depth)
        if (fn.__module__ or "").partition(".")[0] == "torch":
            return
        where = fn.__module__ or fn.__name__
        for name in self._names(fn.__code__):
            if name not in fn.__globals__:
                continue
            value = fn.__globals__[name]
            if not isinstance(value, (types.FunctionType, types.ModuleType, type)):
                self._globals.append((where, fn.__globals__, name))
            # Of functions those of the same file are followed, too.
            if not isinstance(value, types.FunctionType) or (
                value.__globals__ is fn.__globals__
            ):
                self._follow(value, depth)

    def _follow_object(self, value: Any, depth: int) -> None:
        if isinstance(value, (torch.Tensor, type, types.ModuleType)):
            return
        self._kept.append(value)
        if isinstance(value, (list, tuple, set)):
            parts: list[Any] = list(value)
            if isinstance(value, list):
                self._lists[id(value)] = "a list", value
        elif isinstance(value, dict):
            parts = list(value.values())
            self._dicts.append(("a dict", value))
        elif type(value).__module__.partition(".")[0] in ("torch", "builtins"):
            return
        else:
            attributes = getattr(value, "__dict__", None)
            if not isinstance(attributes, dict):
                return
            self._kept.pop()  # its attributes are enough, and do not keep it
            parts = list(attributes.values())
            self._objects.append((type(value).__name__, attributes))
        for part in parts:
            self._follow(part, depth)

    def _names(self, code: types.CodeType) -> Iterator[str]:
        """Names of globals that the code reads; notes those of attributes."""
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield str(step.argval)
            elif step.opname == "STORE_ATTR":
                self._written.add(str(step.argval))
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                self._read.add(str(step.argval))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._names(constant)

    def tensors(self) -> list[torch.Tensor]:
        """Parameters, whose gradients the callable may read or drop."""
        found: dict[int, torch.Tensor] = {}
        for module in self.modules:
            for parameter in module._parameters.values():
                if parameter is not None:
                    found[id(parameter)] = parameter
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    found[id(parameter)] = parameter
        return list(found.values())

    def own(self) -> list[torch.Tensor]:
        """Tensors that it leads to."""
        found = self.tensors()
        for module in self.modules:
            found += [each for each in module._buffers.values() if each is not None]
        named = [values.get(key) for _, values, key in self.names()]
        for _, each in self._dicts:
            named += each.values()
        found += [each for each in named if isinstance(each, torch.Tensor)]
        for cell in self.cells:
            if isinstance(_content(cell), torch.Tensor):
                found.append(_content(cell))
        return found

    def names(self) -> list[tuple[str, dict[str, Any], str]]:
        """Globals, and attributes of objects, that its code reads or writes."""
        found = list(self._globals)
        for name, attributes in self._objects:
            keys = self._written | (self._read & attributes.keys())
            found += [(name, attributes, key) for key in keys]
        return found

    def dicts(self) -> list[Watched]:
        """What a change of tells that the callable may do something else."""
        found: dict[tuple[int, Any], Watched] = {}

        def add(name: str, each: Any, keys: frozenset[str] | None = None) -> None:
            if isinstance(each, dict):
                found.setdefault((id(each), keys), (name, each, keys))

        for module in self.modules:
            self._add_attributes(type(module).__name__, module.__dict__, add, 0)
        for optimizer in self.optimizers:
            name = type(optimizer).__name__
            self._add_attributes(name, optimizer.__dict__, add, 0)
            for values in optimizer.state.values():
                add(f"{name}.state", values)
        for each in self._dicts:
            add(*each)
        hooks = torch.nn.modules.module.__dict__
        for name, value in hooks.items():
            if name.startswith("_global_"):
                add(name, value)
        add("torch.backends.mha", torch.backends.mha.__dict__, _FASTPATH)
        return list(found.values())

    def _add_attributes(
        self,
        name: str,
        attributes: dict[Any, Any],
        add: Callable[..., None],
        depth: int,
    ) -> None:
        add(name, attributes)
        for attribute, value in list(attributes.items()):
            where = f"{name}.{attribute}"
            if isinstance(value, list):
                if attribute != "param_groups":
                    self._lists[id(value)] = where, value
            elif isinstance(value, dict):
                add(where, value)
                if depth < _DEPTH and attribute not in _HOOKS and attribute != "state":
                    self._add_attributes(where, value, add, depth + 1)
            elif not isinstance(
                value,
                (
                    torch.nn.Module,
                    torch.Tensor,
                    type,
                    types.FunctionType,
                    types.ModuleType,
                ),
            ):
                add(where, getattr(value, "__dict__", None))

    def lists(self) -> list[tuple[str, list[Any]]]:
        """Lists among these, which tell nobody when they change; behind `dicts`."""
        return list(self._lists.values())


class State:
    """What all of that held when it was made."""

    def __init__(self, reached: Reached, number: int) -> None:
        self.number = number
        self._held = [
            (
                name,
                each,
                keys,
                {key: _token(value) for key, value in _items(each, keys)},
            )
            for name, each, keys in reached.dicts()
        ]
        self._lists = [(name, each, _token(each)) for name, each in reached.lists()]
        self._cells = [(cell, _content(cell)) for cell in reached.cells]
        self._names = [
            (name, values, key, _token(values.get(key, _MISSING)))
            for name, values, key in reached.names()
        ]

    def dicts(self) -> list[dict[Any, Any]]:
        """Those that it is of."""
        return [each for _, each, _, _ in self._held]

    def quick_difference(self) -> str | None:
        """As `difference`, of what cannot be watched."""
        for cell, content in self._cells:
            if _content(cell) is not content:
                return "a variable of its closure"
        for name, values, key, token in self._names:
            value = values.get(key, _MISSING)
            if value is not token and not _same(token, value):
                return f"{name}.{key}"
        for name, each, token in self._lists:
            if not _same(token, each):
                return name
        return None

    def difference(self) -> str | None:
        """What is another one now, as the program names it; None: nothing."""
        for name, each, keys, tokens in self._held:
            if keys is None and len(each) != len(tokens):
                changed = set(each).symmetric_difference(tokens)
                return f"{name}.{_name(next(iter(changed), ''))}"
            for key, value in _items(each, keys):
                token = tokens.get(key, _MISSING)
                if token is _MISSING or not _same(token, value):
                    return f"{name}.{_name(key)}"
        return self.quick_difference()


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"[{type(key).__name__}]"


def _items(each: dict[Any, Any], keys: frozenset[str] | None) -> list[tuple[Any, Any]]:
    if keys is None:
        return list(each.items())
    return [(key, each[key]) for key in keys if key in each]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _token(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return weakref.ref(value)
    if type(value) is list or type(value) is tuple:
        return type(value), [_token(each) for each in value]
    return value


def _same(token: Any, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return isinstance(token, weakref.ref) and token() is value
    kind = type(value)
    if kind is list or kind is tuple:
        return (
            type(token) is tuple
            and len(token) == 2
            and token[0] is kind
            and len(token[1]) == len(value)
            and all(map(_same, token[1], value))
        )
    if kind is float:
        return type(token) is float and token.hex() == value.hex()
    if isinstance(value, _SIMPLE):
        return type(token) is kind and bool(token == value)
    return token is value


def watchable() -> bool:
    """Dictionaries can be watched without looking into them."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return sys.version_info[:3] != (3, 13, 0)
