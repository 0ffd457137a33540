"""The first `enable` of a process, while other threads are within ops."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import reprise

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]
PROCESSES = 20

# Each child of the process enables for the first time, as hooks are registered once.
_PROGRAM = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import torch
import reprise

torch.set_num_threads(1)

def issue(stop, counts, index):
    weight = torch.ones(8, 8)
    while not stop.is_set():
        x = torch.empty(8, 8).fill_(0.5) + torch.zeros(8, 8)
        x = x @ weight + torch.arange(8.0) + torch.full((8, 8), 2.0)
        x = torch.cat([x, torch.ones_like(x)], 1).relu_()
        assert x.sum().item() == 8 * 8 * 6.5 + 8 * 28 + 64, x
        counts[index] += 1

def enable_beside_threads():
    stop, counts = threading.Event(), [0] * 4
    threads = [
        threading.Thread(target=issue, args=(stop, counts, index)) for index in range(4)
    ]
    for thread in threads:
        thread.start()
    while min(counts) == 0:
        pass
    reprise.enable("cpu", policy="always")
    before = list(counts)
    while any(now < then + 20 for now, then in zip(counts, before)):
        assert all(thread.is_alive() for thread in threads)
    stop.set()
    for thread in threads:
        thread.join()
    assert reprise.stats().ops > 0

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            enable_beside_threads()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
print("done")
"""


def test_hooks_are_registered_while_threads_are_within_ops() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(PROCESSES)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=PACKAGE_ROOT,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stdout + done.stderr
