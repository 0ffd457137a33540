"""Regions that replay nothing leave their callable alone, and find out when that ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import reprise
import torch
from reprise import _region, _region_rest
from reprise._region_report import RegionReport
from reprise._region_rest import Rest


class Clock:
    """A time that goes on by so many seconds whenever it is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.step = 0.0, 0.0
        monkeypatch.setattr(_region_rest, "_clock", self.read)

    def read(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def calls(
    report: RegionReport, rest: Rest, clock: Clock, takes: float
) -> Iterator[bool]:
    """Calls that are never answered, looked at for 10 us. Yields whether each rested."""

    def callable_() -> None:
        clock.now += takes

    while True:
        report.calls += 1
        if rest.left and rest.takes():
            callable_()
            yield True
        else:
            clock.now += 10e-6
            rest.run(callable_, (), {})
            yield False


def test_looks_take_a_hundredth(clock: Clock) -> None:
    report = RegionReport("step")
    rest = Rest(report)
    rested = list(itertools.islice(calls(report, rest, clock, 50e-6), 2000))
    assert not any(rested[:257])
    behind = rested[257:]
    assert behind.count(False) in range(1743 // 22, 1743 // 20 + 2)  # one in 21
    assert rest.rested == rested.count(True)


def test_none_rests_where_looks_are_little(clock: Clock) -> None:
    report = RegionReport("step")
    rest = Rest(report)
    each = calls(report, rest, clock, 2e-3)
    assert not any(next(each) for _ in range(2000))


def test_an_answer_ends_it(clock: Clock) -> None:
    report = RegionReport("step")
    rest = Rest(report)
    each = calls(report, rest, clock, 50e-6)
    while not next(each):
        pass
    while rest.left > 0:
        next(each)
    report.replayed += 1  # the one that is looked at
    report.calls += 1
    assert rest.left < 0 and not rest.takes()
    assert not any(next(each) for _ in range(255))


def test_an_error_of_the_callable_ends_nothing(clock: Clock) -> None:
    report = RegionReport("step", calls=256)
    rest = Rest(report)
    rest.run(lambda: None, (), {})
    assert not rest.takes()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        rest.run(fails, (), {})
    clock.now += 1e-5
    rest.run(lambda: None, (), {})
    assert rest.left > 0


def test_a_region_is_looked_at_again(
    clock: Clock, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments that nobody can take apart, for long, and then such as can be."""
    looked_at = []
    taken_apart = _region.taken_apart

    def counting(*args: object) -> object:
        looked_at.append(1)
        return taken_apart(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(_region, "taken_apart", counting)
    clock.step = 1e-6  # looks take as long as the callable

    @reprise.region
    def step(x: torch.Tensor, how: object) -> torch.Tensor:
        return x * 2 + 1 if how is not None else x

    x = torch.rand(8, device=device)
    unknown = {object(): 1}  # a key that is neither text nor number
    with torch.no_grad(), reprise.session(device, policy="always") as session:
        session.reset()
        for _ in range(3000):
            assert torch.equal(step(x, unknown), x * 2 + 1)
        report = step.explain()  # type: ignore[attr-defined]
        assert report.replayed == 0
        assert len(looked_at) < 400
        rested = 3000 - len(looked_at)
        assert [
            times for why, (times, _) in report.reasons.items() if "few" in why
        ] == [rested]
        for _ in range(400):
            assert torch.equal(step(x, 1.0), x * 2 + 1)
        assert step.explain().replayed > 200  # type: ignore[attr-defined]


def test_an_error_has_no_context_of_ours(device: str) -> None:
    @reprise.region
    def step(x: torch.Tensor, how: object) -> torch.Tensor:
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program") as raised:
        step(torch.rand(2, device=device), {object(): 1})
    assert raised.value.__context__ is None
