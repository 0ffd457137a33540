"""Ops of one thread that are under way while another thread's pass begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import hazards
import pytest
import reprise
import torch
from watching import assert_same_bits, watched

LEARNED = 20  # passes in which the other thread is done before the pass begins
PASSES = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


class _Gate:
    """A kernel of the program's for `cosh` that waits inside of the op until let go."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.go = threading.Event()
        self.library = torch.library.Library("aten", "IMPL")
        self.library.impl("cosh", self.wait, "CPU", allow_override=True)

    def wait(self, x: torch.Tensor) -> torch.Tensor:
        self.inside.set()
        assert self.go.wait(60)
        return x.exp()

    def close(self) -> None:
        self.go.set()
        self.library._destroy()


def _mask(big: torch.Tensor, mask: torch.Tensor, value: float) -> None:
    big[mask] = value


def _draw(big: torch.Tensor, generator: torch.Generator) -> None:
    big.normal_(generator=generator)


def _overlapped(
    write: Callable[[torch.Tensor, int], None], tick: Callable[[], object]
) -> list[torch.Tensor]:
    """Another thread writes; the pass begins meanwhile, and reads once it is joined."""
    big, w = torch.zeros(3_000_000), torch.arange(64.0)
    out = []
    for i in range(PASSES):
        started = threading.Event()

        def work(i: int = i, started: threading.Event = started) -> None:
            started.set()
            write(big, i)

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        if i < LEARNED:
            thread.join()
        a = w * 2 + 1
        thread.join()
        out.append(big[-64:] * 1.0 + a)
        tick()
    return out


def _writes(kind: str) -> Callable[[torch.Tensor, int], None]:
    if kind == "mask":
        mask = torch.ones(3_000_000, dtype=torch.bool)
        return lambda big, i: _mask(big, mask, float(i))
    generator = torch.Generator().manual_seed(5)
    return lambda big, i: _draw(big, generator)


@pytest.mark.parametrize("kind", ["mask", "draw"])
def test_a_pass_that_begins_inside_another_threads_op(kind: str) -> None:
    expected = _overlapped(_writes(kind), lambda: None)
    with watched("cpu") as session:
        found = _overlapped(_writes(kind), reprise.wait)
        assert session.stats().replays > 0
    assert_same_bits(found, expected)


def test_an_op_that_blocks_keeps_no_other_thread() -> None:
    """A thread is inside of an op for long; the other one goes on, right, by eager."""
    w = torch.arange(64.0)

    def one(i: int) -> torch.Tensor:
        return (w * float(i) + 1).sin() * 2

    gate = _Gate()
    found = []
    try:
        with watched("cpu") as session:
            for i in range(LEARNED):
                one(i)
                reprise.wait()
            before = session.stats().replays
            assert before > 0
            thread = threading.Thread(target=lambda: found.append(torch.cosh(w)))
            thread.start()
            assert gate.inside.wait(60)
            beside = [one(i) for i in range(5)]
            assert session.stats().replays == before
            gate.go.set()
            thread.join()
            for i in range(LEARNED):
                one(i)
                reprise.wait()
            assert session.stats().replays > before
    finally:
        gate.close()
    assert_same_bits(beside, [one(i) for i in range(5)])
    assert_same_bits(found, [w.exp()])


def _halves(tick: Callable[[], object]) -> list[torch.Tensor]:
    """The other thread writes one part of a buffer; the pass reads the other one first.

    Another buffer each time: a replay knows it only when the first part is read.
    """
    w = torch.arange(64.0)
    bufs = [torch.full((3_000_064,), float(i)) for i in range(4)]
    generator = torch.Generator().manual_seed(5)
    out = []
    for i in range(PASSES):
        x = bufs[i % len(bufs)]
        started = threading.Event()

        def work(x: torch.Tensor = x, started: threading.Event = started) -> None:
            started.set()
            _draw(x[64:], generator)

        thread = threading.Thread(target=work)
        tick()
        thread.start()
        started.wait()
        time.sleep(0.003)  # it is inside of the op then, as a rule
        if i < LEARNED:
            thread.join()
        a = w * 2 + 1
        s = x[:64] * a
        thread.join()
        out.append(x[-64:] * a + s)
        tick()
    return out


def test_a_part_that_another_thread_writes_is_not_read_with_the_first_one() -> None:
    expected = _halves(lambda: None)
    with watched("cpu") as session:
        found = _halves(reprise.wait)
        assert session.stats().replays > 0
    assert_same_bits(found, expected)


def _kernel_inside(tick: Callable[[], object], where: str) -> list[torch.Tensor]:
    """A kernel of the program's, called by an op of torch's, writes no operand of it.

    The other thread is inside of the op when the pass begins: of the program's kernel,
    or of one of torch's "before" it, where nothing tells that it will come. "looked":
    besides, this thread has ended what the session had recorded of the op.
    """
    late = where != "inside"
    w, x = torch.arange(64.0), torch.ones(64)
    inside, go = threading.Event(), threading.Event()

    def divide(total: torch.Tensor, by: float) -> torch.Tensor:
        w.add_(1.0)
        return torch.mul(total, 1 / by, out=total)

    def wait(total: torch.Tensor, by: float) -> torch.Tensor:
        inside.set()
        assert go.wait(60)
        return divide(total, by)

    library = torch.library.Library("aten", "IMPL")
    library.impl("div_.Tensor", divide if late else wait, "CPU", allow_override=True)
    big = torch.ones(30_000_000 if late else 64)
    out = []
    try:
        for i in range(PASSES):
            inside.clear()
            go.clear()

            def work() -> None:
                if late:
                    inside.set()
                torch.mean(big, dim=0)

            thread = threading.Thread(target=work)
            thread.start()
            assert inside.wait(60)
            if i < LEARNED:
                go.set()
                thread.join()
            if where == "looked":
                x.numpy()
            a = x * 2 + 1
            go.set()
            thread.join()
            out.append(w * a + 1)
            tick()
    finally:
        library._destroy()
    return out


@pytest.mark.parametrize("where", ["inside", "before", "looked"])
def test_a_kernel_of_the_programs_inside_of_an_op_may_write_anything(
    where: str,
) -> None:
    expected = _kernel_inside(lambda: None, where)
    with watched("cpu") as session:
        found = _kernel_inside(reprise.wait, where)
        assert session.stats().replays > 0
    assert_same_bits(found, expected)
