"""Random programs that change their arguments: regions of them against their Python.

A program is given a dictionary, a list and an object, which may hold one another. Each call
changes some of what they hold, and asks what they are; between calls the program does.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import linecache
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch

PROGRAMS = 60
CALLS = 40
HEAD = """
def first(value, deep=0):
    if isinstance(value, torch.Tensor):
        return value.reshape(-1)[:4] if value.numel() >= 4 else None
    inner = []
    if type(value) in (list, tuple):
        inner = value
    elif type(value) is dict:
        inner = value.values()
    elif isinstance(value, Object):
        inner = vars(value).values()
    for each in inner:
        if deep < 4 and (found := first(each, deep + 1)) is not None:
            return found
    return None


def t(x, *values):
    for each in values:
        if (found := first(each)) is not None:
            x = torch.tanh(x + found)
    return x


def step(x, d, l, o):
"""
CHANGES = [
    "d[{key}] = {value}",
    "d.setdefault({key}, {value})",
    "d.pop({key}, None)",
    "d.update(p={value}, q={value})",
    "kept = d.pop({key}, None); d[{key}] = kept",
    "d.clear()",
    "l.append({value})",
    "l.insert(0, {value})",
    "l.pop() if l else None",
    "l[:] = l[-2:]",
    "l.reverse()",
    "l.clear()",
    "l[len(l) // 2:] = [{value}]",
    "l[0] = {value}",
    "l[0], l[-1] = l[-1], l[0]",
    "o.{name} = {value}",
    "o.{name}, d[{key}] = d.get({key}), getattr(o, {text}, None)",
    "o.__dict__.pop({text}, None)",
    "o.n = getattr(o, 'n', 0) + 1",
    "d['n'] = d.get('n', 0) + 1; d['n'] %= 3",
    "o.{name} = Object({value})",
    "first(l).add_(x) if first(l) is not None else None",
    "first(d).mul_(0.5) if first(d) is not None else None",
]
VALUES = [
    "t(x, l)",
    "t(x, d)",
    "t(x, o)",
    "x * 2",
    "x",
    "x.view(2, 2)",
    "(x * 3).view(2, 2)[0]",
    "torch.cat([x, t(x, l)])[:6]",
    "(t(x, d), x + 1)",
    "[t(x, o)]",
    "{'u': x - 1, 'v': [x]}",
    "None",
    "len(l)",
    "'text'",
    "l",
    "o",
    "d.get({key})",
    "(l, x)",
    "{1, len(l)}",
    "({2, 3}, x)",
    "d.get({key}, {4})",
    "collections.deque([x + 3])",
    "getattr(o, {text}, {5})",
    "first(l)",
    "first(d)",
]
ASKS = [
    "{key} in d",
    "len(l) > 2",
    "d.get({key}) is l",
    "hasattr(o, {text})",
    "getattr(o, {text}, None) is d.get({key})",
    "l and l[0] is d.get({key})",
    "isinstance(d.get({key}), torch.Tensor)",
    "getattr(o, 'n', 0) % 2",
    "list(d)[:1] == ['p']",
    "l and first(l) is not None and first(l).requires_grad",
]
RESULTS = [
    "t(x, l, d, o)",
    "(l, t(x, d))",
    "d",
    "{'o': o, 'x': x + 1}",
    "[t(x, o)]",
    "(x, d.get('p'), l[-1:])",
    "[l[0], x * 2] if l else x",
]
# What the program does between calls; `w` holds what is given.
BETWEEN = [
    "w['d'], w['l'], w['o'] = {'p': x + 0, 'l': w['l']}, w['l'], w['o']",
    "w['l'] = [x + 0, x * 2]",
    "w['o'] = Object(x * 1)",
    "w['d'] = {'p': x * 1}",
    "w.update(copy.deepcopy(w))",
    "w['l'].append(w['o'])",
    "w['o'].a = w['l']",
    "w['d']['q'] = w['o']",
    "w['d']['q'] = w['l']",
    "w['d'].pop('q', None)",
    "w['o'].n = 0",
    "w['l'][:1] = [x * 4]",
    "w['d']['p'] = {6, 7}",
    "w['l'].append({8}); w['o'].a = w['l'][-1]",
    "w['l'].append(({8}, x * 5))",
]


class Object:
    def __init__(self, value: Any) -> None:
        self.a = value


class Source:
    """The text of a random program."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        lines = [each for _ in range(self.draw.randint(1, 5)) for each in self.lines()]
        lines.append(f"return {self.draw.choice(RESULTS)}")
        self.text = HEAD + "\n".join("    " + each for each in lines) + "\n"
        self.between = [self.draw.choice(BETWEEN) for _ in range(4)]

    def filled(self, text: str) -> str:
        name = self.draw.choice("ab")
        return (
            text.replace("{value}", self.draw.choice(VALUES), 1)
            .replace("{value}", self.draw.choice(VALUES))
            .replace("{key}", repr(self.draw.choice("pq")))
            .replace("{name}", name)
            .replace("{text}", repr(name))
        )

    def lines(self) -> list[str]:
        change = self.filled(self.draw.choice(CHANGES))
        if self.draw.random() < 0.3:
            return [f"if {self.filled(self.draw.choice(ASKS))}:", "    " + change]
        return [change]


def compiled(text: str, name: str) -> Callable[..., Any]:
    names: dict[str, Any] = {
        "torch": torch,
        "Object": Object,
        "collections": collections,
    }
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), names)
    found: Callable[..., Any] = names["step"]
    return found


def picture(value: Any) -> list[Any]:
    """What can be told of it: what is one and the same, also of memory, and all bits."""
    seen: dict[int, int] = {}
    memory: dict[int, int] = {}
    found: list[Any] = []

    def look(value: Any) -> None:
        kind = type(value)
        found.append(kind)
        if kind is tuple:
            found.append(len(value))
            for each in value:
                look(each)
        elif kind in (int, str, type(None)):
            found.append(value)
        elif id(value) in seen:
            found.append(seen[id(value)])
        else:
            seen[id(value)] = len(seen)
            inside(value)

    def inside(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            at = value.untyped_storage().data_ptr()
            found.append(memory.setdefault(at, len(memory)))
            found.append((value.shape, value.stride(), value.storage_offset()))
            found.append(value.detach().cpu().contiguous().view(torch.int32).tolist())
        elif isinstance(value, set):
            found.append([*value])
        elif isinstance(value, (list, collections.deque)):
            found.append(len(value))
            for each in value:
                look(each)
        else:
            names = value if isinstance(value, dict) else vars(value)
            found.append([*names])
            for each in names.values():
                look(each)

    look(value)
    return found


def worlds(device: str, count: int) -> list[dict[str, Any]]:
    ones = torch.ones(4).to(device)
    return [
        {"d": {"p": ones * 1}, "l": [ones * 2, ones * 3], "o": Object(ones * 4)}
        for _ in range(count)
    ]


def called(step: Callable[..., Any], x: torch.Tensor, world: dict[str, Any]) -> Any:
    """The result, or the error: a program may look for what is not there."""
    try:
        return step(x, world["d"], world["l"], world["o"])
    except (IndexError, RuntimeError, RecursionError) as error:
        return type(error).__name__


def run(seed: int, device: str, calls: int = CALLS) -> int:
    """Return how many calls were replayed. Raises AssertionError: one was wrong."""
    source = Source(seed)
    step = compiled(source.text, f"<changes {seed}>")
    fast: Any = reprise.region(step)
    # Before an argument is changed, nobody asks which of two sets it is.
    fast._standing.following.begin()
    ours, theirs = worlds(device, 2)
    draw = random.Random(seed)
    for call in range(calls):
        if call % 2 or draw.random() < 0.2:
            change = source.between[draw.randrange(2 if call < calls // 2 else 4)]
            if draw.random() < 0.5:
                ours, theirs = worlds(device, 2)
            for world in (ours, theirs):
                x = torch.full((4,), call / 8, device=device)
                exec(change, {"copy": copy, "Object": Object}, {"w": world, "x": x})
        x, y = [torch.full((4,), call / 16, device=device) for _ in "ab"]
        mine = called(fast, x, ours)
        with reprise.session(device, enabled=False):
            other = called(step, y, theirs)
        one, two = picture([mine, ours]), picture([other, theirs])
        assert one == two, f"seed {seed}, call {call}:\n{source.text}\n{fast.explain()}"
    replayed: int = fast.explain().replayed
    return replayed


@pytest.fixture(autouse=True)
def replaying(device: str) -> Iterator[None]:
    with torch.no_grad(), reprise.session(device, policy="always"):
        yield


def test_programs_that_change_their_arguments(device: str) -> None:
    replayed = [run(seed, device) for seed in range(PROGRAMS)]
    assert sum(replayed) > PROGRAMS * CALLS // 10
    assert sum(each > 0 for each in replayed) > PROGRAMS // 3


# --- With gradients ---


def tensors_in(value: Any, seen: set[int]) -> list[torch.Tensor]:
    if id(value) in seen or isinstance(value, (int, str)):
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    inner = vars(value) if isinstance(value, Object) else value
    inner = inner.values() if isinstance(inner, dict) else inner or ()
    return [found for each in inner for found in tensors_in(each, seen)]


def history_of(tensor: torch.Tensor) -> Any:
    try:
        return tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is None
    except (
        RuntimeError
    ) as error:  # a view that was made without gradients, and written since
        return type(error)


def gradient_of(value: Any, leaf: torch.Tensor) -> Any:
    tracked = [each for each in tensors_in(value, set()) if each.requires_grad]
    if not tracked:
        return None
    try:
        total = torch.stack([(each * each).sum() for each in tracked]).sum()
        (found,) = torch.autograd.grad(total, leaf, allow_unused=True)
    except RuntimeError as error:
        return type(error)
    return None if found is None else found.tolist()


def tracked_world(device: str) -> tuple[torch.Tensor, dict[str, Any]]:
    leaf = torch.full((4,), 0.5, device=device, requires_grad=True)
    given = {"d": {"p": leaf * 1}, "l": [leaf * 2, leaf.detach()], "o": Object(leaf)}
    return leaf, given


def run_with_gradients(seed: int, device: str, calls: int = CALLS) -> int:
    """Return how many calls were replayed. Raises AssertionError: one was wrong."""
    source = Source(seed)
    step = compiled(source.text, f"<gradients {seed}>")
    fast: Any = reprise.region(step)
    fast._standing.following.begin()
    draw = random.Random(seed)
    for call in range(calls):
        if call == 0 or draw.random() < 0.6:
            worlds = tracked_world(device), tracked_world(device)
        tracks, asks = draw.random() < 0.8, draw.random() < 0.5
        shown, gradients = [], []
        for of, (leaf, world) in zip((fast, step), worlds, strict=True):
            x = torch.full((4,), call / 16, device=device, requires_grad=call % 3 == 0)
            alone = reprise.session(device, enabled=False)
            with (
                torch.set_grad_enabled(tracks),
                contextlib.nullcontext() if of is fast else alone,
            ):
                result = called(of, x, world)
            found = tensors_in([result, world], set())
            shown.append([picture([result, world]), [*map(history_of, found)]])
            gradients.append(gradient_of([result, world], leaf) if asks else None)
        assert shown[0] == shown[1], f"seed {seed}, call {call}:\n{source.text}"
        assert gradients[0] == gradients[1], f"seed {seed}, call {call}:\n{source.text}"
        if asks:
            worlds = tracked_world(device), tracked_world(device)
    replayed: int = fast.explain().replayed
    return replayed


def test_programs_with_gradients(device: str) -> None:
    with torch.enable_grad():
        replayed = [run_with_gradients(seed, device) for seed in range(PROGRAMS // 2)]
    assert sum(each > 0 for each in replayed) > PROGRAMS // 4
