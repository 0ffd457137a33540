"""The first `enable` of a process, while other threads are within ops."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import hazards
import reprise
import torch
from hazards import LATE, PASSES, same_as_eager
from watching import settle, watched

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]
PROCESSES = 4  # each enables for the first time: hooks are registered once

_PROGRAM = """
import sys, threading, warnings
warnings.simplefilter("ignore")
import torch
import reprise

torch.set_num_threads(1)
PASSES = 40  # of each thread, before it and after it
before, after = (threading.Barrier(4) for _ in range(2))
wrong = []

def issue():
    weight = torch.ones(8, 8)
    for number in range(2 * PASSES):
        if number == PASSES:
            before.wait()  # the main thread enables from here on, beside them
        x = torch.empty(8, 8).fill_(0.5) + torch.zeros(8, 8)
        x = x @ weight + torch.arange(8.0) + torch.full((8, 8), 2.0)
        x = torch.cat([x, torch.ones_like(x)], 1).relu_()
        if x.sum().item() != 8 * 8 * 6 + 8 * 28 + 64:
            wrong.append(number)
    after.wait()

threads = [threading.Thread(target=issue) for _ in range(3)]
for thread in threads:
    thread.start()
before.wait()
reprise.enable("cpu", policy="always")
after.wait()
for thread in threads:
    thread.join()
assert not wrong, wrong
for _ in range(12):  # and what repeats is replayed
    x = torch.ones(4, 4)
    for _ in range(6):
        x = x * 1.5 + 0.25
    x.sum().item()
    reprise.wait()
assert reprise.stats().replays > 0, str(reprise.explain())
"""


def test_hooks_are_registered_beside_threads_that_issue_ops() -> None:
    for _ in range(PROCESSES):
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_PROGRAM)],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "OMP_NUM_THREADS": "1"}


SWITCHED_PASSES = 4000


def test_switching_off_beside_a_pass_loses_no_write(device: str) -> None:
    """What was run ahead is taken back before an op runs without Reprise."""
    x, v = torch.randn(12, 48, device=device), torch.ones(48, device=device)

    def step() -> torch.Tensor:
        y = x.abs()
        for i in range(12):
            y[i].copy_(v)
            y.mul_(1.25)
            y[i].neg_()
        return y

    expected = step()
    wrong: list[int] = []
    with watched(device) as session:
        settle(session, step)
        runtime = reprise._native.active()
        ended = threading.Event()

        def switch() -> None:
            pauses = random.Random(7)
            while not ended.is_set():
                reprise.disable()
                reprise._native.activate(runtime)
                time.sleep(pauses.random() * 5e-3)

        beside = threading.Thread(target=switch)
        beside.start()
        try:
            for number in range(SWITCHED_PASSES):
                y = step()
                if not torch.equal(y, expected):
                    wrong.append(number)
        finally:
            ended.set()
            beside.join()
    assert not wrong, wrong


def test_a_part_that_is_left_out_stays_out_where_blocks_overlap() -> None:
    """A library writes memory there by an address, while another thread's block ends."""

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        w = torch.randn(8, 8)
        array, kept = w.numpy(), []
        for number in range(PASSES):
            blocks = []
            if number >= LATE:
                blocks = [reprise.session("cpu", enabled=False) for _ in range(2)]
                for block in blocks:
                    block.__enter__()
                blocks[0].__exit__(None, None, None)
            h = torch.randn(8, 8)
            for _ in range(4):
                h = (h + 0.5).relu_()
            if number >= LATE:
                array[number % 8] = number / 7
            kept.append(torch.tanh(h @ w))
            if blocks:
                blocks[1].__exit__(None, None, None)
                kept.append((h @ w).relu_() + 1)  # and Reprise goes on behind it
            wait()
        return kept

    with hazards.quiet():
        same_as_eager("cpu", run)
