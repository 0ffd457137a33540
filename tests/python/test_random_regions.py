"""Random callables as regions, beside themselves; and some that break their promise.

REPRISE_RANDOM_OPS and REPRISE_RANDOM_SECONDS go on with others (watching.more).
"""

from __future__ import annotations

import copy
import ctypes
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits, random_regions

PROGRAMS = 30
CALLS = 60
ROWS = (3, 5, 8)
WIDTH = 8

Op = Callable[["Program", list[torch.Tensor]], torch.Tensor]


def last(values: list[torch.Tensor], of: random.Random) -> torch.Tensor:
    """One of those that came last."""
    return values[-of.randint(1, min(3, len(values)))]


class Program(nn.Module):
    """A list of operators, drawn from a seed; what it does is the same in each call."""

    def __init__(self, seed: int, device: str) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("state", torch.zeros(WIDTH))
        self.length = draw.randint(4, 16)
        self.seed = draw.random()
        self.names = [draw.choice(sorted(OPS)) for _ in range(self.length)]
        self.to(device)

    def forward(
        self, x: torch.Tensor, scale: float | None, flags: dict[str, Any]
    ) -> Any:
        draw = random.Random(self.seed)
        values = [x, x * (3.0 if scale is None else scale)]
        for name in self.names:
            values.append(OPS[name](self, values, draw))
        if flags["all"]:
            return values[2:]
        if scale is None:  # in training each of these is a node
            inner = values[len(values) // 2]
            first = values[-1] + inner
            if flags["several"]:
                return first, inner * 1, first.exp().mean()
            return (first,)
        return {"last": values[-1], "sum": sum(v.sum() for v in values[2:])}


def read(program: Program, values: list[torch.Tensor], draw: random.Random) -> Any:
    value = last(values, draw)
    return value.neg() if bool((value.sum() > 0).item()) else value + 1


def write(program: Program, values: list[torch.Tensor], draw: random.Random) -> Any:
    with torch.no_grad():
        program.state.add_(last(values, draw).detach().mean(0))
    return last(values, draw) + program.state


def in_place(program: Program, values: list[torch.Tensor], draw: random.Random) -> Any:
    made = last(values, draw).clone()
    made[1:].mul_(2)
    return made.add_(last(values, draw))


OPS: dict[str, Callable[[Program, list[torch.Tensor], random.Random], Any]] = {
    "relu": lambda p, v, d: last(v, d).relu(),
    "add": lambda p, v, d: last(v, d) + last(v, d),
    "mul": lambda p, v, d: last(v, d) * last(v, d),
    "linear": lambda p, v, d: p.layers[d.randint(0, 1)](last(v, d)),
    "norm": lambda p, v, d: p.norm(last(v, d)),
    "dropout": lambda p, v, d: nn.functional.dropout(last(v, d), 0.5, p.training),
    "noise": lambda p, v, d: last(v, d) + torch.randn_like(last(v, d)),
    "view": lambda p, v, d: last(v, d).t().reshape(-1).view(v[0].shape),
    "split": lambda p, v, d: torch.cat(last(v, d).chunk(2, 1)[::-1], 1),
    "select": lambda p, v, d: last(v, d)[0].expand_as(v[0]).contiguous(),
    "softmax": lambda p, v, d: last(v, d).softmax(-1),
    "table": lambda p, v, d: last(v, d) * torch.arange(WIDTH, device=v[0].device),
    "where": lambda p, v, d: torch.where(last(v, d) > 0, last(v, d), 0.5),
    "flip": lambda p, v, d: last(v, d).flip(0).cumsum(0),
    "in_place": in_place,
    "read": read,
    "write": write,
}


class Mixed(Program):
    """A random program of pure operators, with others of some kinds among them."""

    def __init__(
        self,
        seed: int,
        device: str,
        pure: tuple[list[str], int],
        kinds: tuple[list[str], int],
        made: Mapping[str, Callable[..., Any]],
    ) -> None:
        """Names, and how many at most, of both. `made`: what the kinds' names stand for."""
        super().__init__(seed, device)
        draw = random.Random(seed)
        self.steps = [draw.choice(pure[0]) for _ in range(draw.randint(2, pure[1]))]
        for _ in range(draw.randint(1, kinds[1])):
            self.steps.insert(draw.randint(0, len(self.steps)), draw.choice(kinds[0]))
        # Its code names all operators, so its own ones alone are led to.
        self.own = {name: made.get(name) or OPS[name] for name in self.steps}

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        draw = random.Random(self.seed)
        values = [x, x + 1]
        for name in self.steps:
            values.append(self.own[name](self, values, draw).tanh())
        return values[-1]


def flat(value: Any) -> list[torch.Tensor]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def compare(seed: int, device: str, session: reprise.Session) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region."""
    draw = random.Random(seed + 1)
    plain = Program(seed, device)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(ours)
    one = draw.random() < 0.5
    kinds = [
        (
            draw.choice(ROWS),
            draw.random() < 0.7,
            draw.random() < 0.4,
            {
                "all": not one and draw.random() < 0.3,
                "several": one and draw.random() < 0.5,
            },
        )
        for _ in range(2)
    ]
    for call in range(CALLS):
        rows, training, grad, flags = draw.choice(kinds)
        for program in (plain, ours):
            program.train(training)
            program.zero_grad()
        scale = None if one else draw.choice([1.5, draw.random()])
        again = one and draw.random() < 0.1
        turned = one and draw.random() < 0.2
        x = torch.randn(rows, WIDTH, device=device)
        found = []
        for program, module in ((plain, plain), (fast, ours)):
            torch.manual_seed(call)
            given = x.clone().requires_grad_(grad)
            with torch.set_grad_enabled(grad):
                out = flat(program(given, scale, flags))
                if grad and out[-1].requires_grad:
                    if turned and len(out) == 1:
                        weights = torch.linspace(0, 1, out[0].numel(), device=device)
                        gradient = weights.view(out[0].shape[::-1]).t()
                        out[0].backward(gradient, retain_graph=again)
                    elif turned:  # not all of them
                        out[-1].sum().backward(retain_graph=again)
                    else:
                        sum(o.sum() for o in out).backward(retain_graph=again)
                    if again:
                        out[0].sum().backward()
            grads = [
                p.grad for p in (given, *module.parameters()) if p.grad is not None
            ]
            state = [given, *module.state_dict().values(), torch.rand(3)]
            found.append([*[o.detach() for o in out], *grads, *state])
        assert_same_bits(found[1], found[0], f"seed {seed} call {call}")
        if draw.random() < 0.7:
            session.wait(60)
    report: reprise.RegionReport = fast.explain()
    return report


def test_random_programs_as_regions(device: str) -> None:
    with reprise.session(device, policy="always") as session:
        session.reset()
        totals = random_regions(PROGRAMS, lambda seed: compare(seed, device, session))
        stats = session.stats()
    print(f"{stats.followed} ops followed, {stats.unshown} of them at once")
    assert totals.replayed > totals.calls // 4
    assert totals.backward > totals.calls // 50
    assert stats.unshown > 0


@pytest.mark.parametrize("seed", range(4))
def test_random_lies_are_found(device: str, seed: int) -> None:
    """What cannot be looked at changes: a sample tells within the bound."""
    program = Program(seed, device).eval()
    program.names = [n for n in program.names if n not in ("read", "write", "noise")]
    factor = ctypes.c_double(1.0)  # nobody looks into it
    fast: Any = reprise.region(
        lambda x: (
            program(x, 1.5, {"all": False, "several": False})["last"] * factor.value
        )
    )
    with torch.no_grad():
        for call in range(400):
            if call == 40:
                factor.value = 2.0
            fast(torch.randn(3, WIDTH, device=device))
    assert "withdrawn" in str(fast.explain()), str(fast.explain())
