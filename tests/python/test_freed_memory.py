"""Memory that a replay was to read is freed in the middle of a pass, and is gone."""

from __future__ import annotations

import dataclasses
import mmap
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from watching import BUILD_TIMEOUT_S, SETTLING_CALLS, assert_same_bits, watched

OPS = 240  # several segments on every executor
KEPT, FREES, USES = 60, 120, 200  # the ops at which it is made, freed and read
WIDTH = 64
LARGE = 3 << 20  # elements: on a GPU, a segment of the allocator's own

_UNARY: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.tanh,
    torch.sigmoid,
    torch.cos,
    torch.sin,
    torch.erf,
    torch.neg,
    torch.abs,
    torch.sigmoid_,
    torch.neg_,
]
# In an order that does not repeat, so that the pass is one trace.
_ORDER = random.Random(5).choices(_UNARY, k=OPS)


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def _apart(
    device: str, values: torch.Tensor, *, resizable: bool = False
) -> torch.Tensor:
    """The values, in memory that leaves the process when it is freed."""
    if device == "cuda" or resizable:
        tensor = torch.empty(LARGE, device=device)
        tensor[:WIDTH].copy_(values)
        return tensor
    pages = mmap.mmap(-1, 16 * mmap.PAGESIZE)
    numpy.frombuffer(pages, dtype=numpy.float32)[:WIDTH] = values.numpy()
    return torch.frombuffer(pages, dtype=torch.float32)


def _give_back(device: str) -> None:
    """To the device, in a way that the package's Python does not see."""
    if device == "cuda":
        empty = torch._C._cuda_emptyCache
        getattr(empty, "__wrapped__", empty)()


@dataclasses.dataclass
class Program:
    """A chain of ops on an input, a weight and a value of its own."""

    device: str
    weight: torch.Tensor | None
    kept: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def run(
        self,
        values: torch.Tensor,
        free: Callable[[Program, dict[str, Any]], None] | None = None,
    ) -> list[torch.Tensor]:
        """One pass. Without the weight or the input it does without them."""
        x: torch.Tensor = _apart(self.device, values)
        names: dict[str, Any] = {"x": x}
        h = torch.atan(x[:WIDTH])
        del x
        for index in range(1, OPS):
            if index == FREES and free is not None:
                free(self, names)
                _give_back(self.device)
            if index == KEPT:
                h = names["value"] = torch.tanh(h)
            elif index == USES and self.weight is not None:
                h = h * self.weight[:WIDTH]
            elif index == USES + 1 and "x" in names:
                h = h - names["x"][:WIDTH]
            elif index == USES + 2 and "value" in names:
                h = h + names["value"]
            else:
                h = _ORDER[index](h)
        self.kept = [names.pop("value")] if "value" in names else []
        return [h, *[value.clone() for value in self.kept]]


def _free_weight(program: Program, names: dict[str, Any]) -> None:
    program.weight = None


def _free_input(program: Program, names: dict[str, Any]) -> None:
    del names["x"]


def _free_value(program: Program, names: dict[str, Any]) -> None:
    """It was alive when the next pass began, so it lies in memory of its own."""
    program.kept.clear()
    del names["value"]


def _free_all(program: Program, names: dict[str, Any]) -> None:
    program.weight = None
    program.kept.clear()
    names.clear()


def _resize_weight(program: Program, names: dict[str, Any]) -> None:
    assert program.weight is not None
    names["storage"].resize_(0)
    program.weight = None


def _keep_storage_only(program: Program, names: dict[str, Any]) -> None:
    program.weight = None  # its memory lives on in `names`


@pytest.mark.parametrize(
    "free",
    [
        _free_weight,
        _free_input,
        _free_value,
        _free_all,
        _resize_weight,
        _keep_storage_only,
    ],
)
def test_a_pass_ends_before_it_reads_what_is_gone(
    device: str, free: Callable[[Program, dict[str, Any]], None]
) -> None:
    inputs = [torch.randn(WIDTH) for _ in range(3 * SETTLING_CALLS)]
    weights = [torch.randn(WIDTH) for _ in range(2)]
    storages: list[torch.UntypedStorage] = []

    def deed(program: Program, names: dict[str, Any]) -> None:
        storage = storages.pop()
        if free in (_resize_weight, _keep_storage_only):
            names["storage"] = storage
        free(program, names)

    def run(wait: Callable[[], object], check: Callable[[], object]) -> list[Any]:
        """Passes; one in whose middle memory is freed; and passes as before."""
        resizable = free is _resize_weight
        program = Program(device, _apart(device, weights[0], resizable=resizable))
        made = []
        for number, values in enumerate(inputs):
            if number == 2 * SETTLING_CALLS:
                assert program.weight is not None
                storages.append(program.weight.untyped_storage())
                made.append(program.run(values, deed))
                check()
                program.weight = _apart(device, weights[1], resizable=resizable)
            else:
                made.append(program.run(values))
            wait()
        return made

    with watched(device) as session:
        before = []

        def check() -> None:
            assert session.stats().squashes > 0, str(session.explain())
            before.append(session.stats())

        # Memory goes at one pass, by which replays must have begun.
        found = run(lambda: session.wait(BUILD_TIMEOUT_S), check)
        assert before[0].replays > 0, str(session.explain())
        assert session.stats().since(before[0]).replays > 0, str(session.explain())
    expected = run(lambda: None, lambda: None)
    for number, (left, right) in enumerate(zip(found, expected, strict=True)):
        assert_same_bits(left, right, f"pass {number}")


def test_memory_that_is_given_back_after_each_pass_is_no_hindrance(
    device: str,
) -> None:
    """The driver makes no graph of fills and copies of memory that was given back."""
    inputs = [torch.randn(WIDTH) for _ in range(SETTLING_CALLS)]

    def one_pass(values: torch.Tensor) -> torch.Tensor:
        x = _apart(device, values)
        filled = torch.zeros_like(x)
        copied = torch.tanh(x).clone()
        return torch.add(filled, copied)[:WIDTH].clone()

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        made = []
        for values in inputs:
            made.append(one_pass(values))
            _give_back(device)
            wait()
        return made

    with watched(device) as session:
        found = run(lambda: session.wait(BUILD_TIMEOUT_S))
        assert session.stats().replays > 0, str(session.explain())
    assert_same_bits(found, run(lambda: None))
