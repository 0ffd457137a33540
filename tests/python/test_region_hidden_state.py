"""What no guard tells of is noticed in recorded calls: the callable runs, or is guarded."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import cProfile
import datetime
import io
import itertools
import os
import pathlib
import random
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from watching import assert_same_bits, in_threads

CALLS = 12

Fn = Callable[[torch.Tensor], torch.Tensor]
Make = Callable[[], Fn]
np = pytest.importorskip("numpy")


def calls(fn: Fn, device: str, between: Callable[[int], object]) -> list[torch.Tensor]:
    found = []
    for call in range(CALLS):
        between(call)
        found.append(fn(torch.full((3,), 1.0 + call, device=device)))
    return found


def check(
    device: str, make: Make, between: Callable[[int], object] = lambda _: None
) -> reprise.RegionReport:
    """Each of its calls is as eager's, with the same seeds."""
    made = []
    fast: Any = None
    for ours in (False, True):
        random.seed(1)
        np.random.seed(1)
        fn = make()
        if ours:
            fn = fast = reprise.region(fn)
        made.append(calls(fn, device, between))
    assert_same_bits(made[1], made[0])
    report: reprise.RegionReport = fast.explain()
    return report


def check_refused(
    device: str, make: Make, *said: str, line: str = ""
) -> reprise.RegionReport:
    """It is never replayed, for that reason, and at a line with that text."""
    report = check(device, make)
    assert report.replayed == 0, str(report)
    reason, (_, place) = next(iter(report.reasons.items()))
    assert all(each in reason for each in said), str(report)
    if line:
        file, number = place.rsplit(":", 1)
        assert line in pathlib.Path(file).read_text().splitlines()[int(number) - 1]
    return report


# --- Iterators and the like ---


def stepping(step: Callable[[], int]) -> Fn:
    return lambda x: x * (2 if step() % 4 == 3 else 3)


def of_iterator() -> Fn:
    numbers = itertools.count()
    return lambda x: x * (next(numbers) % 4)


def of_generator() -> Fn:
    numbers = (each for each in range(1000))
    return lambda x: x * (next(numbers) % 4)


def of_iterator_in_a_list() -> Fn:
    held = [iter(range(1000))]
    return lambda x: x * (next(held[0]) % 4)


def of_deque() -> Fn:
    numbers = collections.deque(range(1000))
    return lambda x: x * (numbers.popleft() % 4)


def of_file() -> Fn:
    text = io.StringIO("".join(map(str, range(1000))))
    return lambda x: x * int(text.read(1))


def of_a_default() -> Fn:
    def fn(
        x: torch.Tensor,
        numbers: Iterator[int] = iter(range(1000)),  # noqa: B008
    ) -> torch.Tensor:
        return x * (next(numbers) % 4)

    # A new one each time that it is made.
    made: Any = types.FunctionType(fn.__code__, globals(), "fn", (iter(range(1000)),))
    return made  # type: ignore[no-any-return]


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = iter(range(1000))
        self.log = io.StringIO()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (next(self.numbers) % 4)

    def say(self) -> None:
        self.log.write("not called")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (of_iterator, "numbers, an iterator (itertools.count)"),
        (of_generator, "numbers, a generator"),
        (of_iterator_in_a_list, "held, an iterator"),
        (of_deque, "numbers, a deque"),
        (of_file, "text, a file"),
        (of_a_default, "a default of fn, an iterator"),
        (Holder, "Holder.numbers, an iterator"),
    ],
)
def test_iterators_are_refused(device: str, make: Make, said: str) -> None:
    report = check_refused(device, make, said)
    assert report.recorded == 0, str(report)


def test_iterators_that_are_not_named_are_no_matter(device: str) -> None:
    def make() -> Fn:
        held = types.SimpleNamespace(factor=2, numbers=iter(range(4)))
        return lambda x: x * held.factor

    assert check(device, make).replayed > 0


# --- Random numbers ---


def drawing(draw: Callable[[], float]) -> Make:
    def make() -> Fn:
        return lambda x: x * 2 if draw() < 0.3 else x + 1

    return make


def of_python() -> Fn:
    return lambda x: x * 2 if random.random() < 0.3 else x + 1


def of_choice() -> Fn:
    return lambda x: x * random.choice([2, 3])


def of_generator_object() -> Fn:
    rng = random.Random(0)
    return lambda x: x * 2 if rng.gauss(0, 1) < 0.3 else x + 1


class Noise:
    def __init__(self) -> None:
        self.rng = random.Random(0)

    def factor(self) -> int:
        return 2 if self.rng.random() < 0.3 else 3


def of_an_attribute() -> Fn:
    noise = Noise()
    return lambda x: x * noise.factor()


def of_numpy() -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if np.random.rand() < 0.3 else x + 1

    return fn


def of_numpys_generator() -> Fn:
    rng = np.random.default_rng(0)
    return lambda x: x * 2 if rng.random() < 0.3 else x + 1


def of_numpys_state() -> Fn:
    rng = np.random.RandomState(0)
    return lambda x: x * 2 if rng.rand() < 0.3 else x + 1


@pytest.mark.parametrize(
    ("make", "name", "line"),
    [
        (of_python, "Python's random", "random.random()"),
        (of_choice, "Python's random", "random.choice("),
        (of_generator_object, "rng", "rng.gauss("),
        (of_an_attribute, "Noise.rng", "self.rng.random()"),
        (of_numpy, "numpy.random", "def fn("),
        (of_numpys_generator, "rng", "rng.random()"),
        (of_numpys_state, "rng", "rng.rand()"),
    ],
)
def test_random_numbers_are_refused(
    device: str, make: Make, name: str, line: str
) -> None:
    report = check_refused(device, make, f"random numbers from {name},", line=line)
    assert next(iter(report.reasons.values()))[0] == 2


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    state, of_numpy = random.getstate(), np.random.get_state()
    random.seed(3)
    np.random.seed(3)
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(of_numpy)


def test_a_state_that_is_put_back(device: str) -> None:
    def make() -> Fn:
        def fn(x: torch.Tensor) -> torch.Tensor:
            with seeded():
                return x * random.random() + float(np.random.rand())

        return fn

    assert check(device, make).replayed > 0


def test_another_thread_draws_once(device: str) -> None:
    """A move that does not come again is none of the callable's."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    drawn: list[float] = []

    def draw(frame: types.FrameType, *_: Any) -> None:
        if frame.f_code is doubled.__code__ and not drawn:
            in_threads(lambda _: drawn.append(random.random()), 1)

    fast: Any = reprise.region(doubled)
    x = torch.ones(3, device=device)
    sys.setprofile(draw)
    try:
        fast(x)
    finally:
        sys.setprofile(None)
    for _ in range(4):
        assert_same_bits([fast(x)], [x * 2])
    report = fast.explain()
    assert drawn
    assert report.replayed == 2, str(report)
    assert sum(times for times, _ in report.reasons.values()) == 1


def test_random_numbers_in_training_only(device: str) -> None:
    """Each state of a module is judged by itself."""

    class Drops(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training and random.random() < 0.5:
                return x * 2
            return x * 3

    fast: Any = reprise.region(Drops())
    x = torch.ones(3, device=device)
    for _ in range(6):
        fast(x)
    assert fast.explain().replayed == 0
    fast.eval()
    for _ in range(6):
        assert_same_bits([fast(x)], [x * 3])
    assert fast.explain().replayed == 4, str(fast.explain())


# --- Clocks, files, the system ---


def of_clock() -> Fn:
    return lambda x: x * (2 if time.time() > 0 else 3)


clock = time.perf_counter


def of_clock_by_another_name() -> Fn:
    return lambda x: x * (2 if clock() > 0 else 3)


def of_date() -> Fn:
    return lambda x: x * (2 if datetime.datetime.now().year > 2000 else 3)


def of_local_time() -> Fn:
    return lambda x: x * (2 if time.localtime().tm_year > 2000 else 3)


def of_open() -> Fn:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with open(__file__) as file:
            return x * len(file.readline())

    return fn


def of_path() -> Fn:
    path = pathlib.Path(__file__)
    return lambda x: x * len(path.read_text())


def of_presence() -> Fn:
    return lambda x: x * (2 if os.path.exists(__file__) else 3)


@pytest.mark.parametrize(
    ("make", "said", "line"),
    [
        (of_clock, "the clock, by time()", "time.time()"),
        (of_clock_by_another_name, "the clock, by perf_counter()", "clock()"),
        (of_date, "the clock, by now()", "datetime.now()"),
        (of_local_time, "the clock, by localtime()", "time.localtime()"),
        (of_open, "files, by open()", "open(__file__)"),
        (of_path, "files, by open()", "path.read_text()"),
        (of_presence, "files, by stat()", "os.path.exists"),
    ],
)
def test_clocks_and_files_are_refused(
    device: str, make: Make, said: str, line: str
) -> None:
    check_refused(device, make, said, line=line)


class Systems:
    rng = random.SystemRandom()

    def random(self) -> float:
        return self.rng.random()


@pytest.mark.parametrize("make", [Systems, random.Random])
def test_the_systems_random_numbers(device: str, make: Callable[[], Any]) -> None:
    fast: Any = reprise.region(lambda x: x * make().random())
    for _ in range(4):
        fast(torch.ones(3, device=device))
    report = fast.explain()
    assert report.replayed == 0
    assert "the system for random numbers" in next(iter(report.reasons))


def test_what_is_told_to_people_is_no_matter(
    device: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A log record has the time in it."""
    import logging

    log = logging.getLogger("test_region_hidden_state")

    def make() -> Fn:
        def fn(x: torch.Tensor) -> torch.Tensor:
            log.warning("called")
            return x * 2

        return fn

    assert check(device, make).replayed > 0
    assert caplog.records


# --- Environment and context variables ---

NAME = "REPRISE_TEST_FACTOR"
context: contextvars.ContextVar[int] = contextvars.ContextVar("context", default=2)
held: contextvars.ContextVar[Any] = contextvars.ContextVar("held")


def of_environment() -> Fn:
    return lambda x: x * int(os.environ[NAME])


def of_getenv() -> Fn:
    return lambda x: x * int(os.getenv(NAME, "2"))


def of_presence_there() -> Fn:
    return lambda x: x * (2 if NAME in os.environ else 3)


def of_bytes() -> Fn:
    return lambda x: x * int(os.environb.get(NAME.encode(), b"7"))


def of_all() -> Fn:
    return lambda x: x * len([each for each in os.environ if each == NAME])


def of_context() -> Fn:
    return lambda x: x * context.get()


@pytest.mark.parametrize(
    "make", [of_environment, of_getenv, of_bytes, of_presence_there, of_all, of_context]
)
def test_values_are_guarded(
    device: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another value is another variant, and the first one is not forgotten."""

    def between(call: int) -> None:
        value = 5 if 4 <= call < 8 else 3
        monkeypatch.setenv(NAME, str(value))
        if make is not of_environment and value == 5:
            monkeypatch.delenv(NAME)
        context.set(value)

    report = check(device, make, between)
    assert report.replayed >= CALLS - 6, str(report)
    assert report.variants == 2, str(report)


def test_the_working_directory(
    device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()

    def between(call: int) -> None:
        monkeypatch.chdir(inside if 4 <= call < 8 else tmp_path)

    report = check(device, lambda: lambda x: x * len(os.getcwd()), between)
    assert report.replayed >= CALLS - 6, str(report)
    assert report.variants == 2, str(report)


def test_an_object_in_a_context_variable(device: str) -> None:
    held.set([2])
    check_refused(
        device,
        lambda: lambda x: x * held.get()[0],
        "context variable 'held', which holds an object",
        line="held.get()",
    )


def test_an_environment_variable_that_is_set(device: str) -> None:
    def make() -> Fn:
        def fn(x: torch.Tensor) -> torch.Tensor:
            os.environ[NAME] = "1"
            return x * 2

        return fn

    check_refused(device, make, "changes an environment variable", line="os.environ")
    os.environ.pop(NAME, None)


# --- State of the program's own objects ---


class Counting:
    def __init__(self) -> None:
        self.calls = 0
        self.by_name: collections.Counter[str] = collections.Counter()
        self.of: dict[str, list[int]] = collections.defaultdict(list)
        self.seen: set[int] = set()


def by_attribute(of: Counting) -> int:
    of.calls += 1
    return of.calls


def by_counter(of: Counting) -> int:
    of.by_name["calls"] += 1
    return of.by_name["calls"]


def by_list_in_a_dict(of: Counting) -> int:
    of.of["calls"].append(1)
    return len(of.of["calls"])


def by_set(of: Counting) -> int:
    of.seen.add(len(of.seen))
    return len(of.seen)


@pytest.mark.parametrize("count", [by_attribute, by_counter, by_list_in_a_dict, by_set])
def test_counters_are_noticed(device: str, count: Callable[[Counting], int]) -> None:
    def make() -> Fn:
        of = Counting()
        return lambda x: x * (count(of) % 4)

    says = "to another constant" if count is by_attribute else "it changes "
    check_refused(device, make, says)


# --- Profilers ---


def test_a_profiler_of_pythons_goes_on(device: str) -> None:
    """It is told of all calls, recorded ones included, and hidden state is found."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append((event, frame.f_code.co_name)))
    try:
        check_refused(device, of_clock, "the clock, by time()")
    finally:
        sys.setprofile(None)
    assert seen.count(("c_call", "<lambda>")) >= CALLS


def test_beside_a_profiler_that_tells_nothing(device: str) -> None:
    profile = cProfile.Profile()
    with profile:
        # From Python 3.12 on, cProfile leaves the hook for profilers free.
        alone = sys.getprofile() is None
        reason = "it reads the clock" if alone else "a profiler is at work"
        check_refused(device, of_clock, reason, "time")
        assert check(device, lambda: lambda x: x * 2).replayed > 0
