"""Runs a program under Reprise and by eager alone, and compares every bit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import reprise
import torch

if TYPE_CHECKING:  # programs that are no tests need no pytest
    import pytest

BUILD_TIMEOUT_S = 120.0
SETTLING_CALLS = 10  # calls of one program after which replays may be expected
PATIENCE_CALLS = 300  # after which a plan must have come back from its rest
RUSHED_CALLS = 8  # at the end of a check, without waiting for builds
MOST_UNAWAITED = 3  # passes in a row, where programs wait at random


class _Waiting:
    """Whether programs wait for builds between passes."""

    draw: random.Random | None = None  # always, if there is none
    unawaited = 0


@contextlib.contextmanager
def waiting_at_random(seed: str | None) -> Iterator[None]:
    """Programs wait for builds after some of their passes only, as a seed tells."""
    _Waiting.draw = None if seed is None else random.Random(seed)
    yield
    _Waiting.draw = None


def in_threads(work: Callable[[int], object], count: int) -> None:
    """Do it, with a number each, on so many threads at once; none may raise."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed, failed


def rest(session: reprise.Session) -> None:
    """Between two passes: builds finish, unless programs wait at random only."""
    draw = _Waiting.draw
    if draw and _Waiting.unawaited < MOST_UNAWAITED and draw.random() < 0.6:
        _Waiting.unawaited += 1
        return
    _Waiting.unawaited = 0
    assert session.wait(BUILD_TIMEOUT_S)


def more(began: float, ops: int) -> bool:
    """Whether random programs go on that began then and ran so many operators.

    REPRISE_RANDOM_OPS=N asks for N, in REPRISE_RANDOM_SECONDS at most, if that is set.
    """
    within = float(os.environ.get("REPRISE_RANDOM_SECONDS", "inf"))
    wanted = int(os.environ.get("REPRISE_RANDOM_OPS", "0"))
    return ops < wanted and time.monotonic() - began < within


@dataclasses.dataclass
class Totals:
    """What random programs did as regions."""

    programs: int = 0
    calls: int = 0
    replayed: int = 0
    backward: int = 0  # passes that a replay answered
    ops: int = 0


def random_regions(programs: int, compare: Callable[[int], Any]) -> Totals:
    """Runs so many random programs, or as many as `more` asks for.

    `compare` runs the program of a seed and returns its report. The first seed is
    REPRISE_RANDOM_SEED. Prints the totals.
    """
    began = time.monotonic()
    seed = int(os.environ.get("REPRISE_RANDOM_SEED", "0"))
    totals = Totals()
    while totals.programs < programs or more(began, totals.ops):
        report = compare(seed + totals.programs)
        totals.programs += 1
        totals.calls += report.calls
        totals.replayed += report.replayed
        totals.backward += getattr(report, "backward", 0)
        totals.ops += report.calls * max(report.operators, 1)
    print(totals)
    return totals


def counted(patch: pytest.MonkeyPatch, owner: type, method: str) -> list[Any]:
    """The arguments of each call of a class's method, as they come."""
    calls: list[Any] = []
    own = getattr(owner, method)

    def noted(*args: Any) -> Any:
        calls.append(args)
        return own(*args)

    patch.setattr(owner, method, noted)
    return calls


@contextlib.contextmanager
def watched(device: str, *, replays: bool = True) -> Iterator[reprise.Session]:
    """A session that replays whatever was validated, and knows nothing yet.

    Fails a program that has not been replayed at its end. With `replays` false it is
    the caller who says what must have been: of a program that resets the session, or
    none of whose traces can be replayed.
    """
    with reprise.session(device, policy="always") as session:
        session.reset()
        if replays:
            with replaying(session):
                yield session
        else:
            yield session


@contextlib.contextmanager
def replaying(session: reprise.Session) -> Iterator[None]:
    """What is within must be replayed, and ops of it followed."""
    before = session.stats()
    yield
    during = session.stats().since(before)
    assert during.replays > 0, str(session.explain())
    assert during.followed > 0, str(session.explain())


def followed_share(
    session: reprise.Session, before: reprise.Stats, cuts: int = 0
) -> float:
    """Of the ops since `before`, those that replays answered; `cuts` do not count."""
    during = session.stats().since(before)
    return during.followed / max(during.ops - cuts, 1)


def settle(
    session: reprise.Session, call: Callable[..., Any], inputs: Sequence[Any] = ()
) -> None:
    """Call until replays may be expected; results are dropped.

    With `inputs`, each call is given the next of them: what is the same at each pass is
    taken for a weight.
    """
    for number in range(SETTLING_CALLS):
        call(*([inputs[number % len(inputs)]] if inputs else []))
        assert session.wait(BUILD_TIMEOUT_S)


def until_replayed(session: reprise.Session, call: Callable[[], Any]) -> None:
    """Whole passes, until one is answered by a replay that is followed to its end.

    A plan that was squashed rests for some passes.
    """
    for _ in range(PATIENCE_CALLS):
        before = session.stats()
        call()
        assert session.wait(BUILD_TIMEOUT_S)
        during = session.stats().since(before)
        if during.replays > 0 and during.squashes == 0:
            return
    raise AssertionError(str(session.explain()))


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a nest of tuples, lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors(item)]
    return []


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's elements, so that nan equals itself and -0 not 0."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def assert_same_bits(found: Any, expected: Any, where: str = "") -> None:
    """Equal in number, kind, layout and every bit of every element."""
    pairs = list(zip(tensors(found), tensors(expected), strict=True))
    assert pairs, "nothing to compare"
    for index, (left, right) in enumerate(pairs):
        place = f"{where} tensor {index}"
        assert left.dtype == right.dtype, place
        assert left.shape == right.shape, place
        assert left.stride() == right.stride(), place
        assert left.device == right.device, place
        assert left.is_inference() == right.is_inference(), place
        assert left.requires_grad == right.requires_grad, place
        same = torch.equal(bits(left), bits(right))
        assert same, f"{place}: {(left != right).sum().item()} elements differ"


def check(
    device: str, step: Callable[..., Any], inputs: Sequence[Any]
) -> reprise.Stats:
    """Call `step` on each input, keep all results, and compare them with eager's.

    `step` must depend on nothing but its argument and what it does not change.
    """
    kept: list[Any] = []
    with watched(device) as session:
        for number, value in enumerate(inputs):
            kept.append(step(value))
            if number < len(inputs) - RUSHED_CALLS:
                rest(session)
        stats = session.stats()
    for number, (value, found) in enumerate(zip(inputs, kept, strict=True)):
        assert_same_bits(found, step(value), f"call {number}")
    return stats


def randoms(
    device: str, *shape: int, calls: int = 24, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """Fresh inputs, each in memory of its own."""
    return [torch.randn(*shape, device=device).to(dtype) for _ in range(calls)]


def cycle(values: Iterable[Any], calls: int) -> list[Any]:
    """`calls` items, round and round."""
    items = list(values)
    return [items[number % len(items)] for number in range(calls)]
