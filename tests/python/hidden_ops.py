"""Operators of random programs that take what no guard tells of, or fail inside.

Each is told the program, the values so far and a source of choices that is the same in
each call; `World` is what they take, and changes between calls.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

NAME = "REPRISE_TEST_WORLD"
CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("world", default=1)

Values = list[torch.Tensor]
Op = Callable[[Any, Values, random.Random], torch.Tensor]


class World:
    """What a program takes from outside; two of one seed are alike."""

    def __init__(self, seed: int, folder: pathlib.Path) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.state = np.random.RandomState(seed)
        self.ticks = itertools.count(seed % 7)
        self.count = 0
        self.counts: dict[str, int] = {"calls": 0}
        self.seen: list[int] = []
        self.file = folder / "factor"

    def holds(self) -> Any:
        """All of it that a call may have changed."""
        return (
            self.rng.getstate(),
            repr(self.numpy.bit_generator.state),
            self.state.get_state()[1].tobytes(),
            str(self.ticks),
            self.count,
            dict(self.counts),
            list(self.seen),
        )


def turn(world: World, draw: random.Random) -> None:
    """Between two calls: what both programs find is another one, now and then."""
    if draw.random() < 0.3:
        os.environ[NAME] = str(draw.randint(1, 3))
    if draw.random() < 0.3:
        CONTEXT.set(draw.randint(1, 3))
    if draw.random() < 0.3:
        world.file.write_text(str(draw.randint(1, 3)))


def begin(call: int) -> None:
    """Before each of two calls that are to be alike."""
    torch.manual_seed(call)
    random.seed(call)
    np.random.seed(call)


def count_attribute(world: World) -> int:
    world.count += 1
    return world.count


def count_entry(world: World) -> int:
    world.counts["calls"] += 1
    return world.counts["calls"]


def count_elements(world: World) -> int:
    world.seen.append(1)
    return len(world.seen)


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        del error


def factor(value: torch.Tensor) -> torch.Tensor:
    """Raises an error where the values are so."""
    square = torch.eye(3, device=value.device) * (value.detach().mean() + 0.1)
    return torch.linalg.cholesky(square)[0, 0]


def handled(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    try:
        return values[-1] * factor(values[-1])
    except RuntimeError:
        return values[-1] + 1


def forgiven(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    with forgiving():
        return values[-1] * factor(values[-1])
    return values[-1] + 2


def at_last(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    done = torch.zeros((), device=values[0].device)
    try:
        done = factor(values[-1])
    finally:
        program.state.add_(1)
    return values[-1] * done


def by_class(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    return values[-1] * (program.scale if type(program.scale) is float else 7)


RANDOM: dict[str, Op] = {
    "random": lambda p, v, d: v[-1] * (2 if random.random() < 0.3 else 1),
    "choice": lambda p, v, d: v[-1] * random.choice([1, 2, 3]),
    "own": lambda p, v, d: v[-1] * (2 if p.world.rng.random() < 0.3 else 1),
    "numpy": lambda p, v, d: v[-1] * (2 if np.random.rand() < 0.3 else 1),
    "numpys": lambda p, v, d: v[-1] * (2 if p.world.numpy.random() < 0.3 else 1),
    "state": lambda p, v, d: v[-1] * (2 if p.world.state.rand() < 0.3 else 1),
}
ITERATORS: dict[str, Op] = {
    "iterator": lambda p, v, d: v[-1] * (next(p.world.ticks) % 3),
}
COUNTERS: dict[str, Op] = {
    "attribute": lambda p, v, d: v[-1] * (count_attribute(p.world) % 3),
    "entry": lambda p, v, d: v[-1] * (count_entry(p.world) % 3),
    "elements": lambda p, v, d: v[-1] * (count_elements(p.world) % 3),
}
VALUES: dict[str, Op] = {
    "environment": lambda p, v, d: v[-1] * int(os.environ.get(NAME, "1")),
    "context": lambda p, v, d: v[-1] * CONTEXT.get(),
}
FILES: dict[str, Op] = {
    "file": lambda p, v, d: v[-1] * int(p.world.file.read_text()),
}
HANDLERS: dict[str, Op] = {
    "handled": handled,
    "forgiven": forgiven,
    "at_last": at_last,
    "raised": lambda p, v, d: v[-1] * factor(v[-1]),
}
ALL: dict[str, Op] = {
    **RANDOM,
    **ITERATORS,
    **COUNTERS,
    **VALUES,
    **FILES,
    **HANDLERS,
}
