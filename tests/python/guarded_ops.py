"""Operators of random programs that read state of Python's, which changes between calls.

Each is told the program, the values so far and a source of choices that is the same in
each call; `World` is what they read, by all that may lead to it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import random
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Values = list[torch.Tensor]
Op = Callable[[Any, Values, random.Random], torch.Tensor]
Change = Callable[["World", random.Random], None]


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    shift: float = 0.0


class Slotted:
    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 1.0


class WithDefault:
    mode = 1.0


class Leaky(nn.LeakyReLU):
    """Whose attributes torch's code reads."""


class AttributeDict(dict[str, Any]):
    __getattr__ = dict.__getitem__


class World:
    """What a program reads; two that are turned alike are alike."""

    def __init__(self) -> None:
        self.tables: Any = [{"a": ({"b": [1.0]},)}]
        self.config = Config()
        self.slotted = Slotted()
        self.over = WithDefault()
        self.leaky = Leaky(0.5)
        self.attributes = AttributeDict(scale=1.0)
        self.long = [1.0] * 100
        self.normal = torch.distributions.Normal(0.0, 1.0, validate_args=False)
        self.parent = Config()
        self.by_weakref = weakref.ref(self.parent)
        self.hooks: list[Any] = []
        self.read = self.attributes.get
        self.getter = operator.attrgetter("config.shift")
        self.module = types.ModuleType("guarded_module")
        exec("FACTOR = 1.0\ndef scaled(x): return x * FACTOR", vars(self.module))
        self.partial = functools.partial(torch.mul, other=1.0)
        self.noise = 0


def deep(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    return values[-1] * program.world.tables[0]["a"][0]["b"][0]


def matched(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    match program.world.over:
        case WithDefault(mode=found):
            return values[-1] * found
    raise AssertionError


def fields(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    scale, shift = dataclasses.astuple(program.world.config)
    return values[-1] * scale + shift


def hooked(program: Any, values: Values, draw: random.Random) -> torch.Tensor:
    value = values[-1]
    for each in program.world.hooks:
        value = each(value)
    return value + 1


READS: dict[str, Op] = {
    "deep": deep,
    "slots": lambda p, v, d: v[-1] * p.world.slotted.scale,
    "over": lambda p, v, d: v[-1] * p.world.over.mode,
    "appears": lambda p, v, d: v[-1] * (2 if hasattr(p.world.over, "extra") else 1),
    "leaky": lambda p, v, d: p.world.leaky(-v[-1]),
    "attributes": lambda p, v, d: v[-1] * p.world.attributes.scale,
    "long": lambda p, v, d: v[-1] * p.world.long[90],
    "normal": lambda p, v, d: p.world.normal.log_prob(v[-1]),
    "weakly": lambda p, v, d: v[-1] * p.world.by_weakref().scale,
    "bound": lambda p, v, d: v[-1] * p.world.read("scale"),
    "getter": lambda p, v, d: v[-1] + p.world.getter(p.world),
    "module": lambda p, v, d: p.world.module.scaled(v[-1]),
    "partial": lambda p, v, d: p.world.partial(v[-1]),
    "patched": lambda p, v, d: F.softsign(v[-1]),
    "matched": matched,
    "fields": fields,
    "hooked": hooked,
}


def _softsign(old: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return old(x) * 2


SOFTSIGN = F.softsign


def patch(world: World, draw: random.Random) -> None:
    patched = functools.partial(_softsign, SOFTSIGN)
    F.softsign = patched if draw.random() < 0.5 else SOFTSIGN  # type: ignore[assignment]


def appear(world: World, draw: random.Random) -> None:
    if draw.random() < 0.5:
        world.over.extra = 1  # type: ignore[attr-defined]
    else:
        vars(world.over).pop("extra", None)


def default(world: World, draw: random.Random) -> None:
    if draw.random() < 0.5:
        world.over.mode = draw.choice([2.0, 3.0])
    else:
        vars(world.over).pop("mode", None)


def _factor(draw: random.Random) -> float:
    return draw.choice([1.0, 2.0, 3.0])


def _twice(value: torch.Tensor) -> torch.Tensor:
    return value * 2


def _keep(*_: Any) -> None:
    return None


CHANGES: dict[str, Change] = {
    "deep": lambda w, d: w.tables[0]["a"][0]["b"].__setitem__(0, _factor(d)),
    "replaced": lambda w, d: w.tables.__setitem__(0, {"a": ({"b": [_factor(d)]},)}),
    "slots": lambda w, d: setattr(w.slotted, "scale", _factor(d)),
    "over": default,
    "appears": appear,
    "leaky": lambda w, d: setattr(w.leaky, "negative_slope", _factor(d)),
    "attributes": lambda w, d: w.attributes.update(scale=_factor(d)),
    "long": lambda w, d: w.long.__setitem__(90, _factor(d)),
    "normal": lambda w, d: setattr(w.normal, "loc", torch.tensor(_factor(d))),
    "weakly": lambda w, d: setattr(w.parent, "scale", _factor(d)),
    "config": lambda w, d: setattr(w.config, "scale", _factor(d)),
    "shift": lambda w, d: setattr(w.config, "shift", _factor(d)),
    "other": lambda w, d: setattr(w, "config", Config(_factor(d), _factor(d))),
    "module": lambda w, d: setattr(w.module, "FACTOR", _factor(d)),
    "partial": lambda w, d: w.partial.keywords.update(other=_factor(d)),
    "hooks": lambda w, d: (
        w.hooks.append(_twice) if len(w.hooks) < 2 else w.hooks.clear()
    ),
    "patched": patch,
    "noise": lambda w, d: setattr(w, "noise", d.random()),
}


def turn(worlds: list[World], draw: random.Random) -> None:
    """Between two calls: some of what all programs find is another one, alike."""
    for name in sorted(CHANGES):
        if draw.random() < 0.04:
            seed = draw.random()
            for world in worlds:
                CHANGES[name](world, random.Random(seed))
