"""Random arguments that fit an operator's schema, for those that no sample reaches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from registry.effects import seed_generators
from registry.hooks import Call, check_device, overload

TRIES = 60  # of an operator
_SHAPES: tuple[tuple[int, ...], ...] = (
    (4, 4), (3,), (2, 3, 4), (2, 3, 4, 4), (1, 2, 4, 4, 4), (), (4, 8), (1,),
)  # fmt: skip
_FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16)


class _Guess:
    """One try at arguments: shapes and dtypes that go together more often than not."""

    def __init__(self, device: str, seed: str) -> None:
        self._random = random.Random(seed)
        self._device = device
        self._shape = self._random.choice(_SHAPES)
        self._dtype = self._random.choice(_FLOATS)
        self._mixed = self._random.random() < 0.3

    def tensor(self, name: str) -> torch.Tensor:
        shape = self._random.choice(_SHAPES) if self._mixed else self._shape
        if any(part in name for part in ("index", "indices", "target", "ids")):
            return torch.randint(0, 2, shape, device=self._device)
        if "mask" in name or "condition" in name:
            return torch.rand(shape, device=self._device) < 0.5
        if self._random.random() < 0.1:
            return torch.randint(1, 4, shape, device=self._device)
        return torch.rand(shape, device=self._device).to(self._dtype) + 0.1

    def value(self, argument: Any) -> Any:
        kind, name = str(argument.type), argument.name
        if kind.startswith("Optional["):
            return None if self._random.random() < 0.6 else self.of(kind[9:-1], name)
        return self.of(kind, name)

    def of(self, kind: str, name: str) -> Any:
        pick = self._random.choice
        rank = len(self._shape)
        if kind == "Tensor":
            return self.tensor(name)
        if kind == "List[Tensor]":
            return [self.tensor(name) for _ in range(2)]
        if kind == "List[Optional[Tensor]]":
            return [torch.randint(0, 2, (2,), device=self._device)]
        if kind in ("int", "SymInt"):
            return pick([0, 1, 1, 2])
        if kind in ("List[int]", "List[SymInt]"):
            return pick([[1] * rank, [1, 1], [0], [2, 2], list(self._shape), [0, 1]])
        if kind == "number":
            return pick([1, 2, 0.5])
        if kind == "float":
            return pick([0.5, 1.0, 1e-3])
        if kind == "List[float]":
            return [0.5, 0.5]
        if kind == "List[number]":
            return [1.0, 2.0]
        if kind == "bool":
            return pick([True, False])
        if kind == "List[bool]":
            return [True] * pick([1, 2, 3, 4])
        if kind == "str":
            return pick(["sum", "none", "mean", "right", "L", "reflect"])
        if kind == "Device":
            return torch.device(self._device)
        if kind == "Generator":
            return torch.Generator(self._device)
        return None


def calls_of_schema(name: str, device: str, limit: int) -> Iterator[Call]:
    """Calls of random arguments that the operator accepts."""
    schema = overload(name)._schema
    found = 0
    for number in range(TRIES):
        seed = f"{name} {number}"
        seed_generators(device, number)
        guess = _Guess(device, seed)
        args, kwargs = [], {}
        for argument in schema.arguments:
            given = guess.value(argument)
            if argument.kwarg_only:
                if given is None and argument.default_value is None:
                    if argument.name == "device":
                        kwargs["device"] = torch.device(device)
                    continue
                if argument.name in ("dtype", "layout", "pin_memory"):
                    continue
                kwargs[argument.name] = given
            else:
                args.append(given)
        call = Call(name, tuple(args), kwargs, f"schema:{name}")
        try:
            call.copy().run()
        except Exception:
            check_device()
            continue
        yield call
        found += 1
        if found >= limit:
            return
