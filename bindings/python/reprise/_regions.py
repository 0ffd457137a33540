"""`reprise.region`, for functions, methods and modules."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

import torch

from reprise import _dynamo
from reprise._region import ALL, Check, Region
from reprise._region_report import RegionReport

P = ParamSpec("P")
R = TypeVar("R")


@overload
def region(fn: Callable[P, R], *, check: Check = "sample") -> Callable[P, R]: ...
@overload
def region(
    fn: None = None, *, check: Check = "sample"
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def region(fn: Any = None, *, check: Check = "sample") -> Any:
    """Replay calls of `fn` without running its Python.

        fast = reprise.region(model)

        @reprise.region
        def step(x, t): ...              # forward, loss, backward, optimizer

    The first calls run `fn`, and Reprise writes down the operators that it calls. Once
    two recordings have the same operator calls, later calls make these without Python.
    Reprise treats them like any other ops: results, gradients, random numbers and
    errors are eager's. Outputs are ordinary tensors, valid as long as they are held.

    You promise that `fn` does nothing but call torch. You also promise that values which
    `fn` reads besides its arguments do not change which operators it calls. Each call
    checks structure, forms and numbers of the arguments; modules and optimizers that
    `fn` leads to (mode, parameters, attributes, hooks); and torch's modes and switches.
    Samples check the rest: one call in 256, and later one in up to 4,096, runs `fn`, which
    must call the same operators. A difference withdraws the region, and an error in the
    log of "reprise" names the operator and the line.

    Some functions run as without the region, in each call: those that read a value of a
    tensor (`.item()`) too late, change attributes that a replay cannot set, or take
    arguments of unknown types. `region.explain()` says why.
    docs/regions.md has the whole contract.

    Args:
        fn: a function, method or module. For a module the result is a module too, and
            shares everything with it.
        check: "sample"; "always" records every call; "never" takes no samples.

    Raises:
        TypeError, ValueError: `fn` or `check` is something else.
    """
    if fn is None:
        return functools.partial(region, check=check)
    if isinstance(fn, _RegionModule):
        fn = _module_of(fn)  # one region is enough
    made = Region(fn, check)
    return _as_module(fn, made) if isinstance(fn, torch.nn.Module) else made


def regions() -> list[RegionReport]:
    """Return the reports of all regions."""
    return [each.explain() for each in ALL]


class _RegionModule:
    """What is added to a module's class."""

    __slots__ = ("_reprise_module", "_reprise_region")
    _reprise_is_region = True
    _reprise_module: torch.nn.Module
    _reprise_region: Region

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        made = getattr(self, "_reprise_region", None)
        if made is None:  # its class was called for another one, as by slicing
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        return made(*args, **kwargs)

    def explain(self) -> RegionReport:
        """See `Region.explain`."""
        report: RegionReport = self._reprise_region.explain()
        return report

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return region(copy.deepcopy(self._reprise_module, memo))

    def __reduce_ex__(self, _: Any) -> Any:
        return region, (self._reprise_module,)


_classes: dict[Any, Any] = {}


def _class_of(kind: Any) -> Any:
    if kind not in _classes:
        _classes[kind] = type(
            f"Region[{kind.__name__}]", (_RegionModule, kind), {"__slots__": ()}
        )
    return _classes[kind]


def _module_of(wrapped: Any) -> torch.nn.Module:
    """The module that was wrapped. A slice of one has its class, and wraps none."""
    module: Any = getattr(wrapped, "_reprise_module", None)
    if module is None:
        module = object.__new__(type(wrapped).__bases__[1])
        object.__setattr__(module, "__dict__", wrapped.__dict__)
    return module


def _as_module(module: torch.nn.Module, made: Region) -> torch.nn.Module:
    """A module that shares all with that one, but for its calls."""
    wrapped: Any = object.__new__(_class_of(type(module)))
    object.__setattr__(wrapped, "__dict__", module.__dict__)
    object.__setattr__(wrapped, "_reprise_module", module)
    object.__setattr__(wrapped, "_reprise_region", made)
    module = wrapped
    return module
