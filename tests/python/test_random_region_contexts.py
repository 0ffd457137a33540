"""Random regions in training with what begins inside them, beside the callable.

Hooks of saved tensors, checkpointing, functions of autograd's, transforms, sequences of
other lengths in each call; by callers that Dynamo has compiled, too. REPRISE_RANDOM_OPS
and REPRISE_RANDOM_SECONDS go on with others (watching.more).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import reprise
import torch
from test_region_nodes import Tripled
from torch import nn
from torch.autograd import graph
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint
from watching import assert_same_bits, random_regions

PROGRAMS = 16
CALLS = 24
ROWS = 6
WIDTH = 8
LENGTHS = ([6, 3, 3, 1], [6, 4, 2, 1], [1, 6, 3, 3])
COMPILED_EACH = 8  # programs

Op = Callable[["Program", torch.Tensor, torch.Tensor], torch.Tensor]


class Program(nn.Module):
    """A row of operators, drawn from a seed; what it does is the same in each call."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.recurrent = draw.choice((nn.GRU, nn.LSTM, nn.RNN))(2, 2)
        length = draw.randint(2, 6)
        self.names = [draw.choice(sorted(PLAIN)) for _ in range(length)]
        if draw.random() < 0.6:
            place = draw.randrange(length)
            self.names[place] = draw.choice(sorted(BEGINS))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = {**PLAIN, **BEGINS}[name](self, x, lengths)
        return x

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x))


def packed(p: Program, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(ROWS, 4, 2)
    inner = pack_padded_sequence(rows, lengths, enforce_sorted=False)
    padded, _ = pad_packed_sequence(p.recurrent(inner)[0], total_length=ROWS)
    return padded.reshape(ROWS, WIDTH) + x


def split(p: Program, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    first, second = torch.tensor_split(x, (lengths[:1] + 1) // 2)
    return torch.cat([second * 2, first])


def hooked(p: Program, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    y = p.inner(x)
    if y.requires_grad:
        y.register_hook(lambda given: given * 2)
    return y.sin()


def saving(p: Program, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    with graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x * 2):
        return p.inner(x)


def on_the_host(p: Program, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    with graph.save_on_cpu():
        return p.inner(x)


PLAIN: dict[str, Op] = {
    "inner": lambda p, x, _: p.inner(x),
    "mul": lambda p, x, _: x * p.layer.bias,
    "exp": lambda p, x, _: x.sigmoid().exp(),
    "dropout": lambda p, x, _: nn.functional.dropout(x, 0.5, p.training),
    "packed": packed,
    "split": split,
}
BEGINS: dict[str, Op] = {
    "checkpoint": lambda p, x, _: checkpoint(p.inner, x, use_reentrant=False),
    "drops": lambda p, x, _: checkpoint(
        lambda x: nn.functional.dropout(p.inner(x), 0.5), x, use_reentrant=False
    ),
    "function": lambda p, x, _: Tripled.apply(x),
    "hooked": hooked,
    "on_the_host": on_the_host,
    "reentrant": lambda p, x, _: checkpoint(p.inner, x, use_reentrant=True),
    "saving": saving,
    "transformed": lambda p, x, _: torch.func.grad(lambda x: p.inner(x).sum())(x),
}


def calling(program: Any) -> Callable[..., torch.Tensor]:
    """A step that Dynamo may compile round the program's forward pass."""
    forward: Any = torch.compiler.disable(lambda x, lengths: program(x, lengths))

    def step(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = forward(x, lengths)
        if result.requires_grad:
            result.square().sum().backward()
        return result.detach()

    return step


def compare(seed: int, session: reprise.Session) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region."""
    draw = random.Random(seed + 1)
    plain = Program(seed)
    ours = copy.deepcopy(plain)
    fast: Any = reprise.region(ours)
    eager, region = calling(plain), calling(fast)
    if seed % COMPILED_EACH == 0:
        torch.compiler.reset()
        region = torch.compile(region, backend="eager")
    for call in range(CALLS):
        training = draw.random() < 0.8
        lengths = draw.choice(LENGTHS)
        x = torch.randn(ROWS, WIDTH)
        found = []
        for step, module in ((eager, plain), (region, ours)):
            module.train(training)
            module.zero_grad()
            torch.manual_seed(call)
            given = x.clone().requires_grad_(training)
            with torch.set_grad_enabled(training):
                result = step(given, torch.tensor(lengths))
            grads = [given.grad, *(each.grad for each in module.parameters())]
            kept = [each for each in grads if each is not None]
            found.append([result, *kept, torch.rand(3)])
        where = f"seed {seed} call {call} {plain.names}"
        assert_same_bits(found[1], found[0], where)
        if draw.random() < 0.5:
            session.wait(60)
    report: reprise.RegionReport = fast.explain()
    return report


def test_random_programs_with_what_begins_inside() -> None:
    with reprise.session("cpu", policy="always") as session:
        session.reset()
        totals = random_regions(PROGRAMS, lambda seed: compare(seed, session))
    assert totals.replayed > totals.calls // 6
    assert totals.backward > totals.calls // 50
