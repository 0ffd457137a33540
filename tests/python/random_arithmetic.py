"""Random callables that compute with numbers of the host, beside the same ones by eager.

    python tests/python/random_arithmetic.py [--device cuda] [--programs 1000] [--seed 0]

Each has counters on the host, which it adds to and reads, and two floats as arguments. It
computes with them in Python, compares some, and gives what comes out to operators, alone
and in lists. To Reprise it is code of `torch.optim.adam`, where numbers are followed. Between calls the counters are set anew at times. Prints how many calls were
replayed; the first difference is an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import linecache
import pathlib
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parents[2]
    sys.path.append(str(here / "bindings" / "python"))

import reprise
import torch
from reprise._arithmetic import FOLDER

CALLS = 48
COUNTERS = 4
STATEMENTS = 14
CONSTANTS = (1, 2, -1, 0.5, 0.9, 0.999, 1.0, 1e-8, 3.0, 0.25)


class Source:
    """Writes one callable, from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.numbers = ["a", "b"]

    def operand(self) -> str:
        if self.draw.random() < 0.3:
            return repr(self.draw.choice(CONSTANTS))
        return self.draw.choice(self.numbers)

    def expression(self) -> str:
        draw, left, right = self.draw, self.operand(), self.operand()
        kind = draw.randrange(10)
        if kind < 6:
            return f"({left} {draw.choice('+-**')[:1]} {right})"
        if kind == 6:
            return f"({left} / (abs({right}) + 1))"
        if kind == 7:
            return f"((abs({left}) + 0.5) ** {draw.choice((0.5, 2, -1, 0.75))})"
        if kind == 8:
            return f"-{left}" if left[0] != "-" else left
        return f"{draw.choice(('min', 'max'))}({left}, {right})"

    def say(self, line: str, indent: int = 1) -> None:
        self.lines.append("    " * indent + line)

    def compute(self) -> None:
        name = f"n{len(self.numbers)}"
        # It stays between bounds, so that no power leaves the floats.
        self.say(f"{name} = {self.expression()}")
        self.say(f"{name} = {name} / (1 + abs({name}) / 8)")
        self.numbers.append(name)

    def use(self, indent: int = 1) -> None:
        draw, number = self.draw, self.draw.choice(self.numbers)
        self.say(
            draw.choice(
                (
                    f"x = x * {number}",
                    f"x = torch.add(x, y, alpha={number})",
                    f"x = x / (abs({number}) + 1)",
                    f"state.mul_(0.5).add_(x, alpha={number})",
                    f"state.add_({number}).mul_(0.5)",
                    "torch._foreach_mul_([state, more], "
                    f"[{number} / 16, {draw.choice(self.numbers)} / 16])",
                    f"x = torch.addcmul(x, x, y, value={number})",
                )
            ),
            indent,
        )

    def statement(self) -> None:
        draw = self.draw
        kind, counter = draw.randrange(9), draw.randrange(COUNTERS)
        if kind == 0:
            added = draw.choice(("1", "0.5", "torch.tensor(1.0)", "2"))
            self.say(f"counters[{counter}] += {added}")
        elif kind == 1:
            self.say("torch._foreach_add_(counters, 1)")
        elif kind in (2, 3):
            name = f"n{len(self.numbers)}"
            self.say(f"{name} = _get_value(counters[{counter}])")
            self.numbers.append(name)
        elif kind in (4, 5):
            self.compute()
        elif kind == 6:
            self.say(f"if {self.operand()} {draw.choice('<>')} {self.operand()}:")
            self.use(2)
            self.say("else:")
            self.use(2)
        else:
            self.use()

    def text(self) -> str:
        self.lines = ["def call(x, a, b, counters, state, more):"]
        self.say("y = torch.tanh(x)")
        self.say("state.add_(x)")  # numbers are read behind what changes something
        for _ in range(STATEMENTS):
            self.statement()
        self.say("return torch.tanh(x) + state + more")
        return "\n".join(self.lines) + "\n"


@dataclasses.dataclass
class World:
    """A callable, and what it changes."""

    counters: list[torch.Tensor]
    state: torch.Tensor
    more: torch.Tensor
    function: Callable[..., torch.Tensor]

    def run(self, x: torch.Tensor, a: float, b: float) -> torch.Tensor:
        """Call it."""
        return self.function(x, a, b, self.counters, self.state, self.more)


def world(seed: int, device: str) -> World:
    draw = random.Random(seed + 1)
    torch.manual_seed(seed)
    state, more = torch.randn(2, 5, device=device)
    counters = [
        torch.tensor(
            float(draw.choice((0, 0, 1, 3))),
            dtype=draw.choice((torch.float32, torch.float32, torch.float64)),
        )
        for _ in range(COUNTERS)
    ]
    text, file = Source(seed).text(), f"{FOLDER}<arithmetic {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    made: dict[str, Any] = {}  # in place of the module's own names
    exec(compile(text, file, "exec"), vars(sys.modules["torch.optim.adam"]), made)
    return World(counters, state, more, made["call"])


def bits(tensors: list[torch.Tensor]) -> list[list[int]]:
    return [
        each.detach()
        .cpu()
        .view(torch.int32 if each.dtype == torch.float32 else torch.int64)
        .flatten()
        .tolist()
        for each in tensors
    ]


def compare(seed: int, device: str) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region. Raises AssertionError."""
    draw = random.Random(seed + 2)
    plain, ours = world(seed, device), world(seed, device)
    fast: Any = reprise.region(lambda x, a, b: ours.run(x, a, b))
    a, b = 0.5, 0.125
    with torch.no_grad():
        for call in range(CALLS):
            if draw.random() < 0.3:
                a = draw.choice((0.5, 0.25, 1.0, 0.3))
            if draw.random() < 0.1:
                value, which = float(draw.choice((0, 1, 7, 500))), draw.randrange(4)
                for each in (plain, ours):
                    each.counters[which].fill_(value)
            x = torch.randn(5, device=device)
            found = []
            for each, function in ((plain, plain.run), (ours, fast)):
                result = function(x.clone(), a, b)
                found.append([result, each.state, each.more, *each.counters])
            if bits(found[1]) != bits(found[0]):
                raise AssertionError(
                    f"seed {seed}, call {call}, a {a}\n{found}\n{Source(seed).text()}"
                    f"{fast.explain()}"
                )
    report: reprise.RegionReport = fast.explain()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    calls = replayed = 0
    for seed in range(given.seed, given.seed + given.programs):
        report = compare(seed, given.device)
        calls, replayed = calls + report.calls, replayed + report.replayed
    print(f"{given.programs} programs, {calls} calls, {replayed} replayed, 0 wrong")


if __name__ == "__main__":
    main()
