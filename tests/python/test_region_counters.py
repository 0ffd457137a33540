"""Attributes in which a callable counts: replays count, too, and nothing else may read them."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import operator
import pathlib
import string
import threading
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


# --- Ways in which a counter is read, or set, that its increments do not show ---


class Patience:
    """Numbers that are chosen, and not only added to."""

    def __init__(self) -> None:
        self.bad = self.chosen = self.either = 0

    def step(self, x: torch.Tensor, better: bool) -> torch.Tensor:
        self.bad = 0 if better else self.bad + 1
        self.chosen = (0 if better else self.chosen) + 1
        self.either = (better or self.either) + 1
        return x * 2


def test_numbers_that_are_chosen(device: str) -> None:
    fast, plain = Patience(), Patience()
    step = reprise.region(fast.step)
    with torch.no_grad():
        for call in range(80):
            x = torch.rand(2, device=device)
            better = call % (4 if call < 40 else 7) == 0
            assert torch.equal(step(x, better), plain.step(x, better))
            assert vars(fast) == vars(plain), call


def test_several_threads_count(device: str) -> None:
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x @ x

    counting = Counting()
    step = reprise.region(counting)
    x = torch.rand(64, 64, device=device)
    with torch.no_grad():
        for _ in range(10):
            step(x)
        assert replayed(step) > 0

        def work() -> None:
            with torch.no_grad():
                for _ in range(100):
                    step(x)

        workers = [threading.Thread(target=work) for _ in range(2)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    # As eager's, the sum of two threads that count at once may miss some.
    assert counting.count > 110


steps_done = 0


def test_a_global_of_that_name(device: str) -> None:
    class Holder:
        def __init__(self) -> None:
            self.steps_done = 0

    holder = Holder()

    def step(x: torch.Tensor) -> torch.Tensor:
        global steps_done
        steps_done += 1
        holder.steps_done += 1
        return x * 2 if steps_done % 10 == 0 else x

    global steps_done
    steps_done = 0
    fast = reprise.region(step)
    with torch.no_grad():
        for call in range(40):
            x = torch.rand(2, device=device)
            expected = x * 2 if (call + 1) % 10 == 0 else x
            assert torch.equal(fast(x), expected)
    assert steps_done == holder.steps_done == 40


PACKAGE = """
def total(of):
    return sum(each for each in vars(of).values() if isinstance(each, int))

def grab(of, key):
    return getattr(of, key)

class Mixin:
    def largest(self):
        return max(value for _, value in self.__dict__.items())
"""


def test_code_of_a_package_that_reads_all(
    device: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "reads_all_of_it.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder))
    package: Any = importlib.import_module("reads_all_of_it")

    class Counting(package.Mixin):  # type: ignore[misc]
        def __init__(self) -> None:
            self.count = 0

    key = "".join(["co", "unt"])
    for read in (package.total, lambda of: package.grab(of, key), Counting.largest):
        fast, plain = Counting(), Counting()

        def step(
            of: Any, x: torch.Tensor, read: Callable[[Any], Any] = read
        ) -> torch.Tensor:
            of.count += 1
            return x * 2 if read(of) % 10 == 0 else x

        region = reprise.region(lambda x, fast=fast, step=step: step(fast, x))
        with torch.no_grad():
            for _ in range(40):
                x = torch.rand(2, device=device)
                assert torch.equal(region(x), step(plain, x))
                assert fast.count == plain.count


class Snapshot:
    def __init__(self, of: Any) -> None:
        self.of = dict(of.__dict__)


FORMAT = "{0.count}".format


class Shown:
    """Whose attributes are read by another way than by their names."""

    def __init__(self) -> None:
        self.count = 0
        self.state = self.__dict__

    def by_constructor(self) -> Any:
        return Snapshot(self).of["count"]

    def by_state(self) -> Any:
        return self.state["count"]

    def by_format(self) -> Any:
        return int(FORMAT(self))

    def by_formatter(self) -> Any:
        return int(string.Formatter().vformat("{0.count}", (self,), {}))


@pytest.mark.parametrize(
    "way", [each for each in vars(Shown) if each.startswith("by_")]
)
def test_other_ways_to_an_attribute(way: str, device: str) -> None:
    fast, plain = Shown(), Shown()

    def step(of: Shown, x: torch.Tensor) -> torch.Tensor:
        of.count += 1
        return x * 2 if getattr(Shown, way)(of) % 10 == 0 else x

    region = reprise.region(lambda x: step(fast, x))
    with torch.no_grad():
        for _ in range(40):
            x = torch.rand(2, device=device)
            assert torch.equal(region(x), step(plain, x))
            assert fast.count == plain.count


def test_a_copy_of_what_holds_a_region(device: str) -> None:
    """It calls its own method, and counts in itself."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.layer(x)

    net = Net().to(device)
    net.forward = reprise.region(net.forward)  # type: ignore[method-assign]
    x = torch.rand(3, 4, device=device)
    with torch.no_grad():
        for _ in range(8):
            net(x)
        assert replayed(net.forward) > 0
        other = copy.deepcopy(net)
        other.layer.weight.zero_()
        other.layer.bias.zero_()
        for _ in range(8):
            assert not other(x).any()
        assert (net.calls, other.calls) == (8, 16)
    fast = reprise.region(torch.relu)
    assert copy.deepcopy(fast) is fast
