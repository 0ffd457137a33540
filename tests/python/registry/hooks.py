"""What the hooks know of each operator, and the operators themselves."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from reprise import _native

from registry.memory import Copier, replaced


@dataclasses.dataclass(frozen=True)
class Hook:
    """A row of the hooks' table. Arguments are counted in the schema's order."""

    name: str  #: "aten::add.Tensor"
    cut: str  #: why no call of it can be part of a trace; "" if some can
    written: frozenset[int]  #: arguments that the schema says are written
    hidden: frozenset[int]  #: and those that it does not say are
    training: int  #: the bool argument that must be true for that, or -1
    generator: bool  #: it may draw from the default generator
    factory: bool
    by_storages: bool = False  #: it goes by the storages that its operands lie in

    def writes(self, call: Call) -> frozenset[int]:
        """The arguments that this call may write."""
        if self.training >= 0 and call.arguments()[self.training] is not True:
            return self.written
        return self.written | self.hidden


def _bits(text: str) -> frozenset[int]:
    return frozenset(i for i in range(64) if int(text) >> i & 1)


@functools.cache
def hooks() -> dict[str, Hook]:
    """Every hooked operator by its name; registers the hooks."""
    return {
        name: Hook(
            name,
            cut,
            _bits(written),
            _bits(hidden),
            int(training),
            *(flag == "1" for flag in flags),
        )
        for name, cut, written, hidden, training, *flags in _native._ops().hook_table()
    }


@functools.cache
def overload(name: str) -> Any:
    """The callable of "aten::add.Tensor"."""
    operator, _, which = name.partition(".")
    namespace, _, base = operator.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), base), which or "default")


def check_device() -> None:
    """Raise where a call has ended the device for this process: all later ones fail."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@dataclasses.dataclass
class Call:
    """An overload and its arguments, which belong to nobody else."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: str  #: where the arguments come from

    def copy(self, around: int = 0) -> Call:
        """The same call of copies of its tensors and generators.

        Their storages are longer by so many bytes at both ends.
        """
        copy = Copier(around)
        return Call(
            self.name,
            replaced(self.args, copy),
            replaced(self.kwargs, copy),
            self.source,
        )

    def run(self) -> Any:
        return overload(self.name)(*self.args, **self.kwargs)

    def arguments(self) -> list[Any]:
        """In the schema's order; defaults where none is given."""
        found = []
        for i, argument in enumerate(overload(self.name)._schema.arguments):
            if i < len(self.args) and not argument.kwarg_only:
                found.append(self.args[i])
            else:
                default = argument.default_value
                found.append(self.kwargs.get(argument.name, default))
        return found

    def with_arguments(self, values: list[Any]) -> Call:
        """The same call of other arguments, in the schema's order."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for i, argument in enumerate(overload(self.name)._schema.arguments):
            if i < len(self.args) and not argument.kwarg_only:
                args.append(values[i])
            elif argument.name in self.kwargs:
                kwargs[argument.name] = values[i]
        return Call(self.name, tuple(args), kwargs, self.source)
