"""What the recipes with two processes share: how these begin, find each other and end."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable

import torch
from torch import distributed, multiprocessing

PROCESSES = 2
GPUS = torch.cuda.device_count() >= PROCESSES

Run = Callable[[int, torch.device], None]


def start(run: Run) -> None:
    """Calls `run(rank, device)` in each process, by NCCL or gloo; ends when all have.

    `run` is a function of the program's own module.
    """
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_begin, (f"{folder}/store", run), nprocs=PROCESSES)


def _begin(rank: int, store: str, run: Run) -> None:
    device = torch.device(f"cuda:{rank}" if GPUS else "cpu")
    if GPUS:
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if GPUS else "gloo", f"file://{store}", rank=rank, world_size=PROCESSES
    )
    run(rank, device)
    # A model that is wrapped keeps itself by a cycle, and uses the group till it goes. With
    # torch 2.15, a process ends by a signal where the group goes first.
    gc.collect()
    distributed.barrier()
    distributed.destroy_process_group()
