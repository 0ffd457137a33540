"""What a callable reads besides its arguments, as far as that can be found."""

from __future__ import annotations

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
_DEPTH = 3  # how far objects of the program's are followed to modules


class Reached:
    """The modules and optimizers that a callable leads to.

    Found once, through closures, defaults, `self`, the globals that its code names,
    and attributes and containers of these. Of None nothing is.
    """

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self.modules: list[torch.nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self._seen: set[int] = set()
        self._follow(fn, 0)

    def _follow(self, value: Any, depth: int) -> None:
        if isinstance(value, _SIMPLE) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            for module in value.modules():
                if id(module) not in self._seen or module is value:
                    self._seen.add(id(module))
                    self.modules.append(module)
        elif isinstance(value, torch.optim.Optimizer):
            self.optimizers.append(value)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._follow(part, depth)
        elif isinstance(value, types.MethodType):
            self._follow(value.__self__, depth)
            self._follow(value.__func__, depth)
        elif isinstance(value, types.FunctionType):
            self._follow_function(value, depth)
        elif depth < _DEPTH:
            self._follow_object(value, depth + 1)

    def _follow_function(self, fn: types.FunctionType, depth: int) -> None:
        for cell in fn.__closure__ or ():
            try:
                self._follow(cell.cell_contents, depth)
            except ValueError:  # nothing is in it yet
                continue
        for default in (fn.__defaults__ or ()) + tuple(
            (fn.__kwdefaults__ or {}).values()
        ):
            self._follow(default, depth)
        for name in _names(fn.__code__):
            value = fn.__globals__.get(name)
            # Of functions those of the same file are followed, too.
            if not isinstance(value, types.FunctionType) or (
                value.__globals__ is fn.__globals__
            ):
                self._follow(value, depth)

    def _follow_object(self, value: Any, depth: int) -> None:
        if isinstance(value, torch.Tensor | type | types.ModuleType):
            return
        if isinstance(value, list | tuple | set):
            parts: list[Any] = list(value)
        elif isinstance(value, dict):
            parts = list(value.values())
        elif type(value).__module__.partition(".")[0] in ("torch", "builtins"):
            return
        else:
            parts = list(getattr(value, "__dict__", {}).values())
        for part in parts:
            self._follow(part, depth)

    def tensors(self) -> list[torch.Tensor]:
        """Parameters, whose gradients the callable may set."""
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

    def dicts(self) -> list[tuple[str, dict[Any, Any]]]:
        """What a change of tells that the callable may do something else."""
        found: dict[int, tuple[str, dict[Any, Any]]] = {}

        def add(name: str, each: Any) -> None:
            if isinstance(each, dict):
                found.setdefault(id(each), (name, each))

        for module in self.modules:
            name = type(module).__name__
            add(name, module.__dict__)
            for hooks in _HOOKS:
                add(f"{name}.{hooks}", module.__dict__.get(hooks))
            for attribute, value in list(module.__dict__.items()):
                if attribute in _HOOKS or isinstance(
                    value, torch.nn.Module | torch.Tensor | type | types.FunctionType
                ):
                    continue
                where = f"{name}.{attribute}"
                add(where, value if isinstance(value, dict) else _attributes(value))
        for name, value in vars(torch.nn.modules.module).items():
            if name.startswith("_global_"):
                add(name, value)
        return list(found.values())


def _attributes(value: Any) -> Any:
    return (
        None
        if isinstance(value, types.ModuleType)
        else getattr(value, "__dict__", None)
    )


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


class State:
    """What the dictionaries held when it was made."""

    def __init__(self, dicts: list[tuple[str, dict[Any, Any]]]) -> None:
        self._held = [
            (name, each, {key: _token(value) for key, value in each.items()})
            for name, each in dicts
        ]

    def dicts(self) -> list[dict[Any, Any]]:
        """Those that it is of."""
        return [each for _, each, _ in self._held]

    def difference(self) -> str | None:
        """What is another one now, as the program names it; None: nothing."""
        for name, each, tokens in self._held:
            if len(each) != len(tokens):
                changed = set(each).symmetric_difference(tokens)
                return f"{name}.{next(iter(changed))}"
            for key, value in each.items():
                token = tokens.get(key, _MISSING)
                if token is _MISSING or not _same(token, value):
                    return f"{name}.{key}"
        return None


_MISSING = object()


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
    if isinstance(value, _SIMPLE):
        return type(token) is kind and bool(token == value)
    return token is value


def watchable() -> bool:
    """Dictionaries can be watched without looking into them."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return sys.version_info[:3] != (3, 13, 0)
