"""Attributes in which a callable counts: replays count, too, and nothing else may read them."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from reprise.guards.counters import counted_by
from torch import nn

CALLS = 24


@pytest.fixture(autouse=True)
def _session(device: str) -> Iterator[None]:
    with reprise.session(device, policy="always"):
        yield


class Trainer:
    """As many are: it holds what it trains, and counts its steps."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(4, 4).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.global_step = 0
        self.samples_seen = 10
        self.left = 100

    def step(self, x: torch.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.global_step += 1
        self.samples_seen = self.samples_seen + 4
        self.left -= 1
        return loss.detach()

    def counts(self) -> tuple[Any, ...]:
        return self.global_step, self.samples_seen, self.left


def replayed(fast: Any) -> int:
    return int(fast.explain().replayed)


def test_a_trainer_that_counts(device: str) -> None:
    fast, plain = Trainer(device), Trainer(device)
    step = reprise.region(fast.step)
    for call in range(CALLS):
        x = torch.randn(3, 4, device=device)
        assert torch.equal(step(x), plain.step(x))
        assert fast.counts() == plain.counts()
        if call == 12:
            fast.global_step = plain.global_step = 1000
        if call == 16:
            fast.samples_seen = plain.samples_seen = 10**30
    assert replayed(step) >= CALLS - 8


def test_a_module_that_counts(device: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.forward_calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.forward_calls += 1
            return x * 2 + 1

    net = Net()
    fast = reprise.region(net)
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.rand(4, device=device)
            assert torch.equal(fast(x), x * 2 + 1)
            assert net.forward_calls == call + 1
    assert replayed(fast) >= CALLS - 6


def test_as_often_as_it_is_called(device: str) -> None:
    """A variant for each form of arguments, which counts as often as that does."""

    class Counting:
        rounds = 0

        def __call__(self, x: torch.Tensor, times: int) -> torch.Tensor:
            for _ in range(times):
                x = x + 1
                self.rounds += 2
            return x

    counting = Counting()
    counting.rounds = 0
    fast = reprise.region(counting)
    with torch.no_grad():
        for call in range(3 * CALLS):
            before, times = counting.rounds, 1 + call % 3
            assert torch.equal(
                fast(torch.zeros(2, device=device), times)[:1].cpu(),
                torch.tensor([float(times)]),
            )
            assert counting.rounds == before + 2 * times
    assert replayed(fast) >= CALLS


class Counts:
    """Code that reads a counter in some way, besides counting in it."""

    def __init__(self) -> None:
        self.count = 0
        self.every = 2
        self.table = [1.0, 2.0, 3.0, 4.0] * 64

    def branch(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x * 2 if self.count % 5 == 0 else x

    def index(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x * self.table[self.count]

    def text(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x, f"{self.count}"

    def given(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + self.count

    def by_text(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + getattr(self, "count")  # noqa: B009

    def by_dict(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + self.__dict__["count"]

    def by_vars(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + sum(each for each in vars(self).values() if isinstance(each, int))

    def by_getter(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + GETTER(self)

    def by_chain(self, x: torch.Tensor) -> Any:
        kept = self.count = self.count + 1
        return x + kept

    def by_function(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + read(self)

    def by_match(self, x: torch.Tensor) -> Any:
        self.count += 1
        match self:
            case Counts(count=found):
                return x + found
        return x

    def by_copy(self, x: torch.Tensor) -> Any:
        self.count += 1
        return x + copy.copy(self).table[len(self.__dict__)]

    def by_multiplication(self, x: torch.Tensor) -> Any:
        self.count *= 2
        self.count += 1
        return x

    def by_another_number(self, x: torch.Tensor) -> Any:
        self.count += self.every
        return x

    def by_lambda(self, x: torch.Tensor) -> Any:
        self.count += 1
        return (lambda: x + self.count)()

    def by_truth(self, x: torch.Tensor) -> Any:
        self.count -= 1
        return x if self.count else x + 1


GETTER = operator.attrgetter("count")


def read(of: Any) -> Any:
    return of.count


WAYS = [name for name in vars(Counts) if not name.startswith("_")]


@pytest.mark.parametrize("way", WAYS)
def test_whoever_reads_a_counter(way: str, device: str) -> None:
    fast, plain = Counts(), Counts()
    fast.count = plain.count = 7
    step = reprise.region(getattr(fast, way))
    with torch.no_grad():
        for call in range(CALLS):
            x = torch.rand(2, device=device)
            found, expected = step(x), getattr(plain, way)(x)
            assert str(found) == str(expected)
            assert fast.count == plain.count, (way, call)


class Late:
    def __init__(self) -> None:
        self.count = 0
        self.then: Callable[..., torch.Tensor] = twice

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.then(self, x)


def twice(_: Late, x: torch.Tensor) -> torch.Tensor:
    return x * 2


def counted(of: Late, x: torch.Tensor) -> torch.Tensor:
    return x * of.count


def test_one_who_begins_to_read(device: str) -> None:
    """Code that comes later reads what the first one counts in."""
    fast, plain = Late(), Late()
    step = reprise.region(fast)
    with torch.no_grad():
        for call in range(3 * CALLS):
            if call == CALLS:
                assert replayed(step) >= CALLS - 8
                fast.then = plain.then = counted
            x = torch.rand(2, device=device)
            assert torch.equal(step(x), plain(x)), call
            assert fast.count == plain.count


def test_what_is_no_integer_any_more(device: str) -> None:
    fast, plain = Trainer(device), Trainer(device)
    step = reprise.region(fast.step)
    for call in range(2 * CALLS):
        if call == CALLS:
            fast.global_step = plain.global_step = 0.5  # type: ignore[assignment]
        if call == CALLS + 6:
            fast.global_step = plain.global_step = True
        x = torch.randn(3, 4, device=device)
        assert torch.equal(step(x), plain.step(x))
        assert fast.counts() == plain.counts()
        assert type(fast.global_step) is type(plain.global_step)


def test_a_property_and_a_setter(device: str) -> None:
    class Setter:
        def __init__(self) -> None:
            self._count = 0
            self.log: list[int] = []

        @property
        def count(self) -> int:
            return self._count

        @count.setter
        def count(self, value: int) -> None:
            self.log.append(value)
            self._count = value

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + 1

    class Watched:
        def __init__(self) -> None:
            self.count = 0

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, 2 * value)

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + 1

    for kind in (Setter, Watched):
        fast, plain = kind(), kind()
        step = reprise.region(fast)
        with torch.no_grad():
            for _ in range(CALLS):
                x = torch.rand(2, device=device)
                assert torch.equal(step(x), plain(x))
                assert vars(fast) == vars(plain)


def test_an_object_that_compares_its_fields(device: str) -> None:
    @dataclasses.dataclass
    class State:
        count: int = 0
        other: Any = None

    def made() -> tuple[State, Callable[..., Any]]:
        state, same = State(7), State(12)

        def step(x: torch.Tensor) -> torch.Tensor:
            state.count += 1
            return x * 2 if state == same else x

        return state, step

    (fast, of_fast), (plain, of_plain) = made(), made()
    step = reprise.region(of_fast)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.rand(2, device=device)
            assert torch.equal(step(x), of_plain(x))
            assert fast.count == plain.count


def test_what_code_counts_in() -> None:
    def counts(of: Any, other: Any) -> None:
        of.a += 1
        other.b = other.b - 2
        of.c += 1
        of.d += 1.0
        of.e = of.inner.e + 1
        other.i = of.i + 1
        of.inner.f += 3
        of.g += of.a

        def inner() -> None:
            of.c -= 1
            of.h += 1

        inner()

    found = counted_by(counts.__code__)
    assert found.counted - found.otherwise == {"b", "c", "f", "h"}
    assert {"a", "d", "e", "g", "i", "inner"} <= found.otherwise
