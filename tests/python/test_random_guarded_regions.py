"""Random regions that read state of Python's which changes between calls, beside eager.

Containers, slots, attributes over a class's, modules, weak references, functions in the
place of others, among random operators. The same programs find faults of the walk that
are planted. REPRISE_RANDOM_OPS and REPRISE_RANDOM_SECONDS go on with others (watching.more).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import guarded_ops
import pytest
import reprise
import torch
import torch.nn.functional as F
from reprise.guards import (
    code,
    follow_code,
    follow_data,
    holders,
    names,
    object_holders,
)
from test_random_regions import OPS, WIDTH, Mixed
from watching import assert_same_bits, random_regions

PROGRAMS = 24
CALLS = 40
PURE = sorted(set(OPS) - {"read", "norm", "write"})


class Guarded(Mixed):
    """A random program, with one to four of such operators in it."""

    def __init__(self, seed: int, device: str, kinds: list[str]) -> None:
        super().__init__(seed, device, (PURE, 6), (kinds, 4), guarded_ops.READS)
        self.world = guarded_ops.World()


def compare(seed: int, device: str, kinds: list[str]) -> reprise.RegionReport:
    """One program by itself and, from the same state, as a region."""
    draw = random.Random(seed + 1)
    plain, ours = (Guarded(seed, device, kinds).eval() for _ in range(2))
    fast: Any = reprise.region(ours)
    for call in range(CALLS):
        guarded_ops.turn([plain.world, ours.world], draw)
        x = torch.rand(3, WIDTH, device=device)
        found = []
        for program in (plain, fast):
            torch.manual_seed(call)
            found.append([program(x), torch.rand(3)])
        assert_same_bits(found[1], found[0], f"seed {seed} call {call} {plain.steps}")
    report: reprise.RegionReport = fast.explain()
    return report


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with torch.no_grad():
        yield
    F.softsign = guarded_ops.SOFTSIGN


def test_random_guarded_regions(device: str) -> None:
    reads = sorted(guarded_ops.READS)
    totals = random_regions(PROGRAMS, lambda seed: compare(seed, device, reads))
    assert totals.replayed > totals.calls // 4


# --- Faults of the walk, planted ---


def plant_containers(patch: pytest.MonkeyPatch) -> None:
    """Containers in containers are not followed."""
    follow = follow_data.DataFollower._follow_container

    def shallow(self: Any, holder: Any, base: Any, domain: Any) -> None:
        if not isinstance(holder.of, dict) or "b" not in holder.of:
            follow(self, holder, base, domain)

    patch.setattr(follow_data.DataFollower, "_follow_container", shallow)


def plant_slots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(object_holders.Slots, "values", lambda *_: [])


def plant_comers(patch: pytest.MonkeyPatch) -> None:
    """Keys that were not there do not count."""
    difference = names.Names.difference

    def only_known(self: Any, *given: Any) -> Any:
        keys, self.keys = self.keys, frozenset(self.present)
        try:
            return difference(self, *given)
        finally:
            self.keys = keys

    patch.setattr(names.Names, "difference", only_known)


def plant_ran(patch: pytest.MonkeyPatch) -> None:
    """Code of packages that ran is not read."""
    patch.setattr(follow_code.CodeFollower, "follow_what_ran", lambda *_: None)


def plant_modules(patch: pytest.MonkeyPatch) -> None:
    plant_ran(patch)  # that function names itself
    patch.setattr(follow_code.CodeFollower, "follow_module", lambda *_: None)


def plant_matches(patch: pytest.MonkeyPatch) -> None:
    """What a pattern reads is not known."""
    named = code.named_by

    def blind(of: Any) -> Any:
        found = named(of)
        hidden = found.read - {"mode"} if of.co_name == "matched" else found.read
        return found._replace(read=hidden)

    patch.setattr(follow_code, "named_by", blind)


def plant_references(patch: pytest.MonkeyPatch) -> None:
    name = "_follow_reference"
    patch.setattr(follow_code.CodeFollower, name, lambda *_: None)


def plant_numbers(patch: pytest.MonkeyPatch) -> None:
    """Numbers of one type are equal."""
    same = names.same

    def alike(token: Any, value: Any) -> bool:
        return type(token) is type(value) is float or same(token, value)

    patch.setattr(holders, "same", alike)


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (plant_containers, ["deep"]),
        (plant_slots, ["slots"]),
        (plant_comers, ["over", "appears"]),
        (plant_ran, ["leaky", "normal"]),
        (plant_modules, ["patched"]),
        (plant_matches, ["matched"]),
        (plant_references, ["weakly"]),
        (plant_numbers, ["deep", "attributes"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_planted_faults_are_found(
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    kinds: Any,
) -> None:
    """With the fault some program goes wrong; without it none does."""
    for seed in range(8):
        compare(seed, device, list(kinds))
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(8):
            compare(seed, device, list(kinds))
