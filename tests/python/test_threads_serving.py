"""Threads that serve models beside each other, and one that waits for long."""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
import torch.distributed as dist
from torch import nn
from watching import BUILD_TIMEOUT_S, assert_same_bits, in_threads, watched

PASSES = 80
TIMEOUT = datetime.timedelta(seconds=60)  # of a collective


def model(device: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16)]
    return nn.Sequential(*layers).eval().to(device)


@contextlib.contextmanager
def own_stream(device: str) -> Iterator[None]:
    """As a server gives each of its threads one."""
    if device == "cpu":
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream()):
        yield
        torch.cuda.current_stream().synchronize()


def serve(
    served: nn.Module, x: torch.Tensor, wait: Callable[[], object] = lambda: None
) -> torch.Tensor:
    """Some passes, each answered before the next one; the last answer."""
    with torch.no_grad():
        for number in range(PASSES):
            y: torch.Tensor = served(x + number % 3)
            y.sum().item()
            wait()
    return y


def serve_replayed(
    session: reprise.Session, served: nn.Module, x: torch.Tensor
) -> torch.Tensor:
    """The same; behind half of its passes most ops are answered by replays."""
    stats = []

    def wait() -> None:
        session.wait(BUILD_TIMEOUT_S)
        stats.append(session.stats())

    y = serve(served, x, wait)
    late = stats[-1].since(stats[PASSES // 2 - 1])
    assert late.followed > 0.5 * late.ops, str(session.explain())
    return y


@pytest.mark.parametrize("at_once", [False, True])
def test_two_threads_serve_two_models(device: str, at_once: bool) -> None:
    """With a lock round each pass, as servers have it, they are replayed."""
    models = [model(device, seed) for seed in (1, 2)]
    x = torch.randn(4, 16, device=device)
    expected = [serve(each, x) for each in models]
    found: list[torch.Tensor] = [x, x]
    lock = contextlib.nullcontext() if at_once else threading.Lock()

    def work(number: int) -> None:
        served = models[number]
        with own_stream(device), torch.no_grad():
            # Which thread comes next is chance: some passes more are met alone.
            for i in range(PASSES if at_once else 4 * PASSES):
                with lock:
                    y = served(x + i % 3)
                    y.sum().item()
                    if not at_once:
                        session.wait(BUILD_TIMEOUT_S)
            found[number] = y

    with watched(device, replays=not at_once) as session:
        in_threads(work, 2)
        now = session.stats()
    if not at_once:
        assert now.followed > 0.5 * now.ops, str(reprise.explain())
    assert_same_bits(found, expected)


def test_eight_threads_with_small_ops(device: str) -> None:
    """None waits for another for ever, and each has its own results."""
    x = torch.randn(4, 16, device=device)

    def work(number: int) -> None:
        with own_stream(device), torch.no_grad():
            y = x
            for i in range(PASSES):
                y = (x * float(number + 1) + y.tanh()).sin()
                if i % 8 == number:
                    y.sum().item()
            found[number] = y

    found: list[torch.Tensor] = [x] * 8
    for number in range(8):
        work(number)
    expected, found = found, [x] * 8
    with watched(device, replays=False):
        in_threads(work, 8)
    assert_same_bits(found, expected)


def test_beside_a_thread_that_waits_in_a_read(device: str) -> None:
    """It is inside of no op, so the other thread's passes are replayed."""
    served = model(device, 3)
    x = torch.randn(4, 16, device=device)
    expected = serve(served, x)
    reading, writing = os.pipe()
    got = []

    def wait() -> None:
        y = x * 2
        got.append(os.read(reading, 1))
        got.append(y + 1)

    thread = threading.Thread(target=wait)
    try:
        with watched(device) as session:
            thread.start()
            y = serve_replayed(session, served, x)
            os.write(writing, b"!")
            thread.join()
    finally:
        os.close(writing)
        os.close(reading)
    assert got[0] == b"!"
    assert_same_bits([y, got[1]], [expected, x * 2 + 1])


def test_beside_a_thread_that_waits_in_a_collective() -> None:
    """The other rank comes late; what its thread does until then is replayed."""
    served = model("cpu", 4)
    x = torch.randn(4, 16)
    expected = serve(served, x)
    store = dist.HashStore()
    groups: dict[int, Any] = {}

    def join(rank: int) -> None:
        groups[rank] = dist.ProcessGroupGloo(store, rank, 2, TIMEOUT)

    in_threads(join, 2)
    totals = [torch.full((4,), float(rank + 1)) for rank in range(2)]

    def collect() -> None:
        groups[0].allreduce([totals[0]]).wait()

    thread = threading.Thread(target=collect)
    with watched("cpu") as session:
        thread.start()
        y = serve_replayed(session, served, x)
        assert thread.is_alive()
        groups[1].allreduce([totals[1]]).wait()
        thread.join()
    assert_same_bits([y, *totals], [expected, *[torch.full((4,), 3.0)] * 2])
