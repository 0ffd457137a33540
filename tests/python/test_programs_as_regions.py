"""Random programs (programs/generate.py) whose passes are regions, beside themselves.

What a pass does to variables that are views of each other, written in place, returned
as they came and kept. REPRISE_RANDOM_OPS and REPRISE_RANDOM_SECONDS go on with others
(watching.more).
"""

from __future__ import annotations

import os
import random
import re
import time
import types
from typing import Any

import reprise
import torch
from programs.generate import random_program
from programs.program import State, compiled
from watching import assert_same_bits, more

PROGRAMS = 12
CALLS = 30
OF_STATE = re.compile(r"\bs\.(\w+\(|held|arrays|on\b|off\b)")  # what is no operator's

Variables = dict[str, torch.Tensor]


class Passes:
    """Of one program: its variables, and functions that do what its passes do."""

    def __init__(self, seed: int, device: str) -> None:
        program = random_program(seed, 4)
        kept = []
        for lines in program.passes:
            pure = [line for line in lines if not OF_STATE.search(line)]
            if len(pure) > 3 and pure not in kept:
                kept.append(pure)
        self.device = device
        self.seed = seed
        texts = [line for lines in kept for line in lines]
        whole = type(program)(
            seed, {}, False, [*program.setup], [*kept, texts[:0]], False
        )
        made = compiled(whole)
        self.setup = made.setup
        self.functions = [self._function(steps) for steps in made.passes if steps]

    def start(self) -> State:
        """The variables before the first pass; always the same."""
        torch.manual_seed(self.seed)
        state = State(self.device, None)
        for step in self.setup:
            step(state)
        return state

    def _function(self, steps: list[Any]) -> Any:
        device = self.device

        def run(given: Variables, inputs: list[torch.Tensor]) -> Variables:
            s: Any = types.SimpleNamespace(device=device, inputs=inputs, **given)
            s.indices, s.hosts = [s.x2] * 8, inputs
            for step in steps:
                step(s)
            mine = vars(s).items()
            return {name: t for name, t in mine if isinstance(t, torch.Tensor)}

        return run


def variables(state: State) -> Variables:
    """Those that are tensors."""
    return {n: t for n, t in vars(state).items() if type(t) is torch.Tensor}


def alike(one: Variables, other: Variables) -> list[Any]:
    """Who shares memory with whom, and where; who is whom."""
    pairs = []
    for of in (one, other):
        first: dict[int, str] = {}
        same: dict[int, str] = {}
        pairs.append(
            [
                (
                    name,
                    first.setdefault(t.untyped_storage()._cdata, name),
                    same.setdefault(id(t), name),
                    t.storage_offset() if t.numel() else 0,
                )
                for name, t in sorted(of.items())
            ]
        )
    return [a for a, b in zip(*pairs, strict=True) if a != b]


def compare(seed: int, device: str, session: reprise.Session) -> tuple[int, int, int]:
    """Calls, those without Python, and operators."""
    draw = random.Random(seed)
    passes = Passes(seed, device)
    regions: list[Any] = [reprise.region(fn) for fn in passes.functions]
    if not regions:
        return 0, 0, 0
    states = [variables(passes.start()) for _ in range(2)]
    begin = [dict(state) for state in states]
    clears = draw.random() < 0.8
    for call in range(CALLS):
        which = draw.choice([0, 0, 0, draw.randrange(len(regions))])
        torch.manual_seed(call)
        given = [torch.randn(8, 32) for _ in range(8)]
        versions = [{n: t._version for n, t in state.items()} for state in states]
        before = states
        errors = []
        drawn = []
        made = []
        for ours in (False, True):
            torch.manual_seed(seed + call)
            inputs = [each.to(device, copy=True) for each in given]
            fn = regions[which] if ours else passes.functions[which]
            try:
                with reprise.session(device, policy="always", enabled=ours):
                    made.append(fn(states[ours], inputs))
            except (IndexError, RuntimeError) as error:
                errors.append(str(error))
                made.append(states[ours])
            drawn.append(torch.rand(2))
        where = f"seed {seed} call {call}"
        assert errors[:1] == errors[1:] or len(errors) == 2, (where, errors)
        with reprise.session(device, enabled=False):
            assert made[0].keys() == made[1].keys(), where
            for name in made[0]:
                assert_same_bits(made[1][name], made[0][name], f"{where} {name}")
            assert_same_bits(drawn[1], drawn[0], where)
        assert not alike(made[0], made[1]), where
        for name in versions[0]:
            written = [
                state[name]._version - count[name]
                for state, count in zip(before, versions, strict=True)
            ]
            assert written[0] == written[1], (where, name, written)
        states = made
        if clears:
            states = [{**m, **b} for m, b in zip(made, begin, strict=True)]
        if draw.random() < 0.7:
            session.wait(60)
    reports = [each.explain() for each in regions]
    return (
        sum(r.calls for r in reports),
        sum(r.replayed for r in reports),
        sum(r.calls * r.operators for r in reports),
    )


def test_passes_of_random_programs(device: str) -> None:
    began = time.monotonic()
    seed = int(os.environ.get("REPRISE_RANDOM_SEED", "0"))
    programs = 0
    totals = [0, 0, 0]
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        while programs < PROGRAMS or more(began, totals[2]):
            found = compare(seed + programs, device, session)
            totals = [a + b for a, b in zip(totals, found, strict=True)]
            programs += 1
        stats = session.stats()
    print(f"{programs} programs; calls, replayed, operators: {totals}")
    print(f"{stats.followed} ops followed, {stats.unshown} of them at once")
    assert totals[1] > totals[0] // 4
    assert stats.unshown > 0
