"""Threads, forks, workers, exceptions and the end of the interpreter."""

from __future__ import annotations

import os
import pathlib
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import models
import pytest
import reprise
import torch
from hazards import Case, Point, cases, check_case, same_as_eager
from torch import nn
from torch.utils.data import DataLoader, Dataset
from watching import (
    BUILD_TIMEOUT_S,
    assert_same_bits,
    randoms,
    replaying,
    settle,
    until_replayed,
    watched,
)

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _python(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    """A program in an interpreter of its own, which has to end well."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), *args],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


# --- Threads ------------------------------------------------------------------


def _in_a_thread(call: Callable[[], Any]) -> Any:
    results: list[Any] = []

    def work() -> None:
        with torch.no_grad():
            results.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def _op_of_another_thread(point: Point) -> Any:
    return _in_a_thread(lambda: (point.h * 2).relu() + 1)


def _write_by_another_thread(point: Point) -> Any:
    _in_a_thread(lambda: point.h.mul_(1.5))


def _drop_in_another_thread(point: Point) -> Any:
    values = list(point.seen)
    point.seen.clear()
    _in_a_thread(values.clear)


def _session_from_another_thread(point: Point) -> Any:
    def call() -> None:
        reprise.stats()
        str(reprise.explain())
        reprise.wait(0)

    _in_a_thread(call)


@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _op_of_another_thread,
        _write_by_another_thread,
        _drop_in_another_thread,
        _session_from_another_thread,
    ],
)
def test_another_thread_between_two_ops(
    device: str, hazard: hazards.Hazard, case: Case
) -> None:
    check_case(device, hazard, case)


def test_short_lived_threads_one_after_another(device: str) -> None:
    model = models.mlp().to(device)

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        kept = []
        for _ in range(40):
            x = torch.randn(4, 32, device=device)
            kept.append(_in_a_thread(lambda x=x: model(x)))
            wait()
        return kept

    same_as_eager(device, run)


def test_short_lived_threads_all_at_once(device: str) -> None:
    model = models.mlp().to(device)
    rounds = [randoms(device, 4, 32, calls=4) for _ in range(10)]
    found: dict[tuple[int, int], torch.Tensor] = {}

    def work(turn: int, index: int) -> None:
        with torch.no_grad():
            found[turn, index] = model(rounds[turn][index])

    with watched(device) as session:
        settle(session, model, rounds[0])
        with replaying(session):
            half = model[:5](rounds[0][1])
        for turn in range(len(rounds)):
            threads = [threading.Thread(target=work, args=(turn, n)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        whole = model[5:](half)
        until_replayed(session, lambda: model(rounds[0][0]))
    assert len(found) == 40
    assert_same_bits(whole, model(rounds[0][1]))
    for (turn, index), value in found.items():
        assert_same_bits(value, model(rounds[turn][index]), f"{turn}, {index}")


def test_a_pipeline_of_threads(device: str) -> None:
    """One thread makes, the next one uses; a third one only drops."""
    first, second = models.mlp().to(device), nn.Linear(8, 32).to(device)
    inputs = randoms(device, 4, 32, calls=40)
    middle: queue.Queue[Any] = queue.Queue(2)
    done: queue.Queue[Any] = queue.Queue(2)
    found: list[torch.Tensor] = []
    begun = threading.Event()

    def make() -> None:
        with torch.no_grad():
            for x in inputs:
                middle.put(first(x))
                begun.set()
        middle.put(None)

    def use() -> None:
        begun.wait()  # so that the first pass at least begins as a replay
        with torch.no_grad():
            while (value := middle.get()) is not None:
                found.append(second(value).relu())
                done.put(value)
        done.put(None)

    def drop() -> None:
        while done.get() is not None:
            pass

    with watched(device) as session:
        settle(session, lambda: second(first(inputs[0])).relu())
        threads = [threading.Thread(target=work) for work in (make, use, drop)]
        with replaying(session):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        until_replayed(session, lambda: second(first(inputs[0])).relu())
    assert_same_bits(found, [second(first(x)).relu() for x in inputs])


def test_backward_on_the_engines_threads_while_forward_goes_on(device: str) -> None:
    model = models.mlp().to(device)
    other = models.mlp(layers=2).to(device)
    inputs = randoms(device, 4, 32, calls=30)
    found: list[Any] = []
    begun = threading.Event()

    def forward() -> None:
        with torch.no_grad():
            for x in inputs:
                found.append(other(x))
                begun.set()

    def train(keep: list[Any]) -> None:
        for x in inputs:
            with torch.enable_grad():
                loss = model(x).square().mean()
                keep.append(torch.autograd.grad(loss, list(model.parameters())))

    gradients: list[Any] = []
    with watched(device) as session:
        settle(session, lambda: other(inputs[0]))
        thread = threading.Thread(target=forward)
        with replaying(session):
            thread.start()
            begun.wait()  # so that its first pass at least is a replay
            train(gradients)
            thread.join()
        until_replayed(session, lambda: other(inputs[0]))
    expected: list[Any] = []
    train(expected)
    assert_same_bits(gradients, expected)
    assert_same_bits(found, [other(x) for x in inputs])


def test_switching_on_and_off_while_another_thread_runs(device: str) -> None:
    model = models.mlp().to(device)
    inputs = randoms(device, 4, 32, calls=8)
    expected = [model(x) for x in inputs]
    found: list[list[torch.Tensor]] = []
    stop = threading.Event()
    rounds = queue.Queue[None]()
    replays = 0

    def work() -> None:
        with torch.no_grad():
            while not stop.is_set():
                found.append([model(x) for x in inputs])
                rounds.put(None)

    with watched(device) as session:
        settle(session, lambda: model(inputs[0]))
    thread = threading.Thread(target=work)
    thread.start()
    for number in range(60):
        with reprise.session(device, policy="always") as session:
            if number % 4 == 0:  # stays until a whole round has been under it
                before = len(found)
                while len(found) < before + 2:
                    rounds.get()
            replays += session.stats().replays
            if number % 10 == 9:
                session.reset()
        str(session.explain())
    stop.set()
    thread.join()
    assert replays > 0, str(session.explain())
    for values in found:
        assert_same_bits(values, expected)


# --- Forks and workers --------------------------------------------------------


def _fork(point: Point) -> Any:
    """The child computes on with what the pass has made so far, and leaves."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            reprise.enable("cpu")  # does nothing there
            value = (point.h @ point.w).relu_() + point.seen[0].sum()
            code = 0 if torch.isfinite(value).all() else 4
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("place", [4, 10])
def test_a_fork_between_two_ops(place: int) -> None:
    check_case("cpu", _fork, Case("", lambda number: number % 9 == 8, place))


def test_a_forked_childs_results_are_eagers(tmp_path: pathlib.Path) -> None:
    """Forked in the middle of a replayed pass; both sides finish it."""
    model = models.mlp()
    inputs = randoms("cpu", 4, 32, calls=6)
    file = tmp_path / "of_the_child"
    with watched("cpu") as session:
        settle(session, lambda: model(inputs[0]))
        with replaying(session):
            half = model[:7](inputs[1])
        child = os.fork()
        if child == 0:
            code = 3
            try:
                torch.save([model[7:](half), *(model(x) for x in inputs)], file)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with replaying(session):
            found = [model[7:](half), *(model(x) for x in inputs)]
    expected = [model[7:](model[:7](inputs[1])), *(model(x) for x in inputs)]
    assert_same_bits(found, expected)
    assert_same_bits(torch.load(file), expected)


def test_regions_in_a_forked_child(tmp_path: pathlib.Path) -> None:
    """Another thread may hold a session's lock then, which nobody gives back there."""
    weight = randoms("cpu", 32, 32, calls=1)[0]
    inputs = randoms("cpu", 8, 32, calls=2)

    def plain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.relu(x @ weight) * 0.5 + x
        return x

    fast = reprise.region(plain)
    done = threading.Event()

    def work() -> None:
        x = torch.ones(8)
        while not done.is_set():
            x.add(1).mul(2)

    file = tmp_path / "of_the_child"
    with torch.no_grad(), watched("cpu") as session:
        for _ in range(30):
            fast(inputs[0])
            session.wait(BUILD_TIMEOUT_S)
        assert session.stats().replays > 0, str(session.explain())
        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)  # the child's end, should it hang
                    code = 3
                    try:
                        torch.save(fast(inputs[1]), file)
                        told = str(fast.explain())  # type: ignore[attr-defined]
                        code = 0 if "the process was forked" in told else 4
                    finally:
                        os._exit(code)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert_same_bits(torch.load(file), plain(inputs[1]))
        finally:
            done.set()
            thread.join()


class _Rows(Dataset[torch.Tensor]):
    """Computes in the workers, with tensors that the parent made."""

    def __init__(self) -> None:
        self.weight = torch.arange(32.0).reshape(1, 32)

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        return (self.weight * index / 7).sin_() + index


@pytest.mark.parametrize("persistent", [False, True])
def test_data_loaders_with_workers(device: str, persistent: bool) -> None:
    model = models.mlp().to(device)
    loader = DataLoader(
        _Rows(), batch_size=4, num_workers=1, persistent_workers=persistent
    )

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        kept = []
        for _ in range(2):
            for batch in loader:
                kept.append(model(batch.squeeze(1).to(device)))
                wait()
        return kept

    same_as_eager(device, run)


# --- The end ------------------------------------------------------------------

_PROGRAM = """
import atexit, os, sys, threading
import torch, reprise
torch.set_num_threads(1)
torch.set_grad_enabled(False)
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(30)])
reprise.enable("cpu", policy="always")
def passes(count, rows=2):
    for _ in range(count):
        kept = model(torch.randn(rows, 32))
    return kept
def settle():
    for _ in range(20):
        passes(1)
        reprise.wait()
    assert reprise.stats().replays > 0, reprise.explain()
def recorded(before):
    assert reprise.stats().recorded > before, reprise.explain()
settle()
"""


@pytest.mark.parametrize(
    "leave",
    [
        "threading.Thread(target=passes, args=(20, 3)).start()",
        "atexit.register(passes, 8, 3); passes(5, 3)",
    ],
)
def test_the_interpreter_leaves_with_builds_in_flight(leave: str) -> None:
    """Threads that go on, exit handlers that compute, an error: nothing else is said."""
    last = "atexit.register(recorded, reprise.stats().recorded)\n"
    result = _python(_PROGRAM + last + leave)
    assert result.stderr == ""


def test_leaving_by_a_signal_in_the_middle_of_a_pass() -> None:
    """Ctrl-C is heard between ops, and the program may go on."""
    _python(
        _PROGRAM
        + textwrap.dedent(
            """
            import signal
            x = torch.randn(2, 32)
            expected, before = None, reprise.stats()
            def interrupt(*_):
                raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, interrupt)
            heard = 0
            for number in range(20):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + number % 3))
                    while True:
                        model(x)
                except KeyboardInterrupt:
                    heard += 1
                found = model(x)
                assert expected is None or torch.equal(found, expected)
                expected = found
            assert reprise.stats().since(before).replays > 0, reprise.explain()
            reprise.disable()
            assert heard == 20
            assert torch.equal(model(x), expected)
            """
        )
    )
