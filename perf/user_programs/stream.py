"""The operators of a program, pass by pass, in a file that needs no GPU to read.

``python perf/programs.py --record FOLDER`` writes FOLDER/<program>.jsonl. Its first line
says what was recorded:

    {"format": 1, "program": NAME, "size": SIZE, "device": DEVICE, "torch": VERSION,
     "seed": N, "passes": N}

Each further line is one of these, in the order of the program:

    {"pass": N}   pass N begins here
    {"op": "aten::add_.Tensor", "in": [T...], "writes": [0], "out": [T...],
     "rest": {"alpha": "0.5"}, "reads": "value", "random": true}
    {"read": "Tensor.tolist", "of": [T]}

- A tensor ``T`` is [storage, offset, sizes, strides, dtype, device]. ``storage`` is a
  number; tensors with the same number share memory, and a number is never used again
  once its memory was given back. Offset and strides are in elements. A tensor that has
  no such memory (sparse, mkldnn) has the name of its layout for ``storage``, and null
  for offset and strides.
- ``in`` has all operands that are tensors, in the order of the operator's schema, also
  those within lists. ``writes`` has the indices of those that the schema says are
  written. (`native_batch_norm` writes its running statistics, which its schema does not
  say.) ``out`` has the results. One that shares memory with an operand, a view or the
  operand itself, has that operand's storage.
- ``rest`` has the other arguments that were given, as Python writes them.
- ``reads``: the program waits for the operator. ``value``: it gets a value
  (`_local_scalar_dense`, `equal`). ``shape``: the shape of a result depends on values
  (`nonzero`). ``copy``: something goes from the device to the host.
- ``random``: the operator draws from a generator.
- ``read``: the program reads a tensor on the host, and no operator tells (a list or an
  array made of a tensor that was recorded on the host). Recorded on the host, a read of
  the device's memory looks the same as a read of the host's; recorded on a GPU, only
  the latter are told so.
- ``writes``, ``rest``, ``reads`` and ``random`` are left out if they are empty.

Operators are those below autograd: backward passes and optimizers are among them. On the
host torch's optimizers go from tensor to tensor by default, and read their count of steps
each time; on a GPU they take many tensors at once (foreach), and the count is on the host.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any, TextIO

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .program import Program, Setting

FORMAT = 1
READ_BY = ("tolist", "numpy", "cpu", "__array__")


class Storages:
    """Numbers of storages, none of which is used twice."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}
        self._count = 0

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage."""
        storage = tensor.untyped_storage()
        # A weak reference keeps the address from being used again.
        known = self._known.get(storage._cdata)
        if known is None or known[0].expired():
            known = StorageWeakRef(storage), self._count
            self._count += 1
            self._known[storage._cdata] = known
        return known[1]

    def tidy(self) -> None:
        """Forget storages that are gone."""
        gone = [key for key, (storage, _) in self._known.items() if storage.expired()]
        for key in gone:
            del self._known[key]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument or in results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


class Stream:
    """Writes the lines of a recording."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._storages = Storages()

    def line(self, **fields: Any) -> None:
        """Write a line."""
        self._file.write(json.dumps(fields, separators=(",", ":")) + "\n")

    def begin(self, number: int) -> None:
        """A pass begins."""
        self._storages.tidy()
        self.line(**{"pass": number})

    def tensor(self, of: torch.Tensor) -> list[Any]:
        """What is said of a tensor."""
        kind = [str(of.dtype).removeprefix("torch."), str(of.device)]
        if of.layout != torch.strided:
            return [str(of.layout), None, list(of.shape), None, *kind]
        place = [self._storages.number(of), of.storage_offset()]
        return [*place, list(of.shape), list(of.stride()), *kind]

    def operator(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """What is said of an operator before it runs."""
        operands: list[torch.Tensor] = []
        writes: list[int] = []
        rest: dict[str, str] = {}
        for index, argument in enumerate(function._schema.arguments):
            if index < len(args):
                value = args[index]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            else:
                continue
            found = list(tensors(value))
            if argument.alias_info is not None and argument.alias_info.is_write:
                writes += range(len(operands), len(operands) + len(found))
            operands += found
            if not found and value is not None:
                rest[argument.name] = repr(value)
        schema = function._schema
        name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
        said: dict[str, Any] = {
            "op": name,
            "in": [self.tensor(operand) for operand in operands],
        }
        said |= {"writes": writes} if writes else {}
        said |= {"rest": rest} if rest else {}
        return said


def reads(function: Any, operands: list[Any], results: list[Any]) -> str | None:
    """Why the program waits for an operator, if it does."""
    if torch.Tag.data_dependent_output in function.tags:
        return "value"
    if torch.Tag.dynamic_output_shape in function.tags:
        by_number = function._schema.name == "aten::index" and not any(
            operand[4] in ("bool", "uint8") for operand in operands[1:]
        )
        if not by_number:
            return "shape"
    devices = {operand[5] for operand in operands}
    to_host = any(result[5] == "cpu" for result in results)
    return "copy" if to_host and devices - {"cpu"} else None


class Operators(TorchDispatchMode):
    """Tells a stream of each operator."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Run the operator."""
        said = self._stream.operator(function, args, kwargs or {})
        result = function(*args, **(kwargs or {}))
        said["out"] = [self._stream.tensor(found) for found in tensors(result)]
        if why := reads(function, said["in"], said["out"]):
            said["reads"] = why
        if torch.Tag.nondeterministic_seeded in function.tags:
            said["random"] = True
        self._stream.line(**said)
        return result


class Reads(TorchFunctionMode):
    """Tells a stream of what the program reads on the host without an operator."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Call the function."""
        name = getattr(function, "__name__", "")
        if name in READ_BY and args and isinstance(args[0], torch.Tensor):
            of = args[0]
            if of.device.type == "cpu":
                self._stream.line(read=f"Tensor.{name}", of=[self._stream.tensor(of)])
        return function(*args, **(kwargs or {}))


def record(program: Program, setting: Setting, passes: int, path: pathlib.Path) -> None:
    """Build the program, and write the operators of so many passes to a file."""
    built = program.start(setting)
    with path.open("w") as file:
        stream = Stream(file)
        about = {"size": setting.size, "device": setting.device, "seed": setting.seed}
        stream.line(
            format=FORMAT,
            program=program.name,
            **about,
            torch=torch.__version__,
            passes=passes,
        )
        with Reads(stream), Operators(stream):
            for number in range(passes):
                stream.begin(number)
                built.step(number)
