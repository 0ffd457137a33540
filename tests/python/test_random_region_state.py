"""Random programs that keep state in places: regions of them against their Python.

A program has variables of a closure, items of a dictionary and a list, and attributes. Each
call sets some of them, and asks what they are; between calls the program sets others.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch

PROGRAMS = 40
CALLS = 45
PLACES = ["a", "b", "c", "d['p']", "d['q']", "d['r']", "l[0]", "l[1]", "o.u", "o.v"]
HEAD = """
def make(Object, ones):
    a, b, c = ones * 1, ones * 2, None
    d = {"p": ones * 3, "q": ones * 5, "r": None}
    l = [ones * 6, ones * 7]
    o = Object()
    o.u, o.v = ones * 8, ones * 9

    def first(value):
        for _ in range(9):
            if type(value) is dict:
                value = next(iter(value.values()))
            elif type(value) in (list, tuple):
                value = value[0]
        return ones / 4 if value is None else value
"""


class Object:
    pass


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


class Source:
    """The text of a random program."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        lines = [
            line for _ in range(self.draw.randint(2, 6)) for line in self.statement()
        ]
        between = [self.change() for _ in range(self.draw.randint(1, 3))]
        self.text = "\n".join(
            [
                HEAD,
                "    def step(x, mode):",
                "        nonlocal a, b, c",
                "        y = x.sin()",
                *(f"        {line}" for line in lines),
                f"        return {self.result()}",
                "    def between(i):",
                "        nonlocal a, b, c",
                *(f"        {line}" for line in between),
                "    return step, between, lambda: [a, b, c, d, l, vars(o)]",
            ]
        )

    def place(self) -> str:
        return self.draw.choice(PLACES)

    def value(self) -> str:
        """What a call sets a place to: a tensor more often than not."""
        some, other = (f"first({self.place()})" for _ in range(2))
        plain = [f"{some} * 0.5 + x", f"x * {self.draw.randint(2, 5)}"]
        return self.draw.choice(
            [
                *plain * 4,
                *(
                    self.place(),
                    "x",
                    "None",
                    f"{some}.clone()",
                    f"{some}[:4].repeat(2)",
                ),
                *(f"({some} + x, {other} * 2)", f"[{some} + x, x * 2]"),
                f"{{'k': {some} + x, 'm': x}}",
            ]
        )

    def statement(self) -> list[str]:
        place, other = self.place(), self.place()
        return self.draw.choice(
            [
                *[[f"{place} = {self.value()}"]] * 6,
                [f"{place}, {other} = {self.value()}, {self.value()}"],
                [f"if {place} is None:", f"    {place} = {self.value()}"],
                [f"if {place} is {other}:", "    y = y + 1"],
                [f"if type({place}) is list:", f"    {place}[0] = {self.value()}"],
                [f"if type({place}) is dict:", f"    {place}['k'] = x * 3"],
                ["if mode:", f"    {place} = {self.value()}"],
                ["d['n'] = d.pop('n', x) if mode else x * 2"],
                [f"y = y + first({place})"],
            ]
        )

    def change(self) -> str:
        """What the program does between two calls, now and then."""
        place, other = self.place(), self.place()
        value = self.draw.choice(
            [
                *(other, "ones * i", "None", "[ones, ones * 2]", "(ones, None)"),
                *("l", "list(l)", "{'k': ones}"),
            ]
        )
        what = self.draw.choice(
            [*[f"{place} = {value}"] * 4, "d['q'] = d.pop('q')", "d.pop('n', None)"]
        )
        return f"if i % {self.draw.randint(5, 11)} == {self.draw.randint(0, 4)}: {what}"

    def result(self) -> str:
        some = f"first({self.place()})"
        return self.draw.choice(["y", f"(y, {some})", f"[y, {self.place()}]"])


def described(value: Any, seen: dict[int, int], deep: int = 0) -> Any:
    """Equal for values of the same bits of which the same ones are one object."""
    if deep > 2 * len(PLACES):
        return "too deep"
    if isinstance(value, tuple):
        return "tuple", [described(each, seen, deep + 1) for each in value]
    if not isinstance(value, (torch.Tensor, list, dict)):
        return value
    if id(value) in seen:
        return "again", seen[id(value)]
    number = seen[id(value)] = len(seen)
    if isinstance(value, torch.Tensor):
        return number, value.shape, value.cpu().contiguous().numpy().tobytes()
    keys = [*value] if isinstance(value, dict) else len(value)
    inner = value.values() if isinstance(value, dict) else value
    return number, keys, [described(each, seen, deep + 1) for each in inner]


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (TypeError, RuntimeError) as error:  # of a list that takes a tensor's place
        return type(error).__name__


def test_random_programs(device: str) -> None:
    replayed = 0
    ones = torch.ones(8).to(device)
    for seed in range(PROGRAMS):
        source, name = Source(seed).text, f"{__file__}.{seed}.py"
        linecache.cache[name] = len(source), None, source.splitlines(True), name
        made = []
        for _ in range(2):
            names: dict[str, Any] = {"__name__": "random_state", "__file__": name}
            exec(compile(source, name, "exec"), names)
            made.append(names["make"](Object, ones))
        (fn, change, state), (twin, twins_change, twins_state) = made
        fast: Any = reprise.region(fn)
        for call in range(CALLS):
            change(call)
            twins_change(call)
            x, mode = torch.randn(8).to(device), call > 20 and call % 3 == 0
            found = outcome(fast, x, mode)
            with reprise.session(device, enabled=False):
                y = x.clone()
                expected = outcome(twin, y, mode)
            mine = described([x, found, state()], {})
            other = described([y, expected, twins_state()], {})
            assert mine == other, f"program {seed}, call {call}\n{source}"
        replayed += fast.explain().replayed
    assert replayed > PROGRAMS * CALLS // 8
