"""Graphs that wait one behind the other on a stream, and what comes between them.

    python perf/graph_chains.py --output perf/results/h100-graph-chains.jsonl

So many graphs of three kernels each are launched while the stream is held, in ways that
take turns: nothing between them, or something small behind every so many. Each is an
executable graph of its own, made by `torch.cuda.graph`; Reprise has no part in it. The
stream is the default one, which waits for others and others for it, or one of its own.
Writes one JSON object for each: stream, graphs, between, every, device_us and host_us a
graph (medians of the rounds), gpu, driver, torch, commit, command.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import models
import progress
import torch
from cuda.bindings import driver

KERNELS = 3
ELEMENTS = 1 << 20
HOLD_CYCLES = 40_000_000
ROUNDS = 5
COUNTS = (16, 64, 128, 256, 512)
EVERY = (1, 4, 16, 64)


def check(result: tuple[Any, ...]) -> None:
    """Raise what the driver says."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))


class Between:
    """What is put on the stream between two graphs."""

    def __init__(self, stream: int) -> None:
        self._stream = driver.CUstream(stream)
        self._words = torch.zeros(16, dtype=torch.int32, device="cuda")
        self._event = torch.cuda.Event()

    def ways(self) -> dict[str, Callable[[], object]]:
        """By name."""
        word = self._words.data_ptr()

        def memset() -> None:
            check(driver.cuMemsetD32Async(word, 0, 1, self._stream))

        def write() -> None:
            check(driver.cuStreamWriteValue32(self._stream, word, 0, 0))

        return {
            "memset": memset,
            "write": write,
            "kernel": lambda: self._words.add_(1),
            "event": self._event.record,
        }


def graphs(count: int) -> list[torch.cuda.CUDAGraph]:
    """So many, each of as many kernels."""
    x = torch.zeros(ELEMENTS, device="cuda")
    made = []
    for _ in range(count):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(KERNELS):
                x.add_(1)
        made.append(graph)
    return made


def once(
    launched: list[torch.cuda.CUDAGraph], between: Callable[[], object], every: int
) -> tuple[float, float]:
    """Microseconds a graph of the device's and of the host's time."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(HOLD_CYCLES)
    begin.record()
    start = time.perf_counter()
    for index, graph in enumerate(launched):
        graph.replay()
        if every and (index + 1) % every == 0:
            between()
    host = time.perf_counter() - start
    end.record()
    torch.cuda.synchronize()
    count = len(launched)
    return 1e3 * begin.elapsed_time(end) / count, 1e6 * host / count


def measure(count: int, ways: dict[str, Any]) -> list[dict[str, Any]]:
    """Each way, in turn."""
    launched = graphs(count)
    cases = [("nothing", 0), *((name, every) for name in ways for every in EVERY)]
    found: dict[tuple[str, int], list[tuple[float, float]]] = {
        case: [] for case in cases
    }
    for index in range(ROUNDS):
        random.Random(index).shuffle(cases)
        for name, every in cases:
            between = ways.get(name, lambda: None)
            found[name, every].append(once(launched, between, every))
    return [
        {
            "graphs": count,
            "between": name,
            "every": every,
            "device_us": statistics.median(device for device, _ in times),
            "host_us": statistics.median(host for _, host in times),
        }
        for (name, every), times in found.items()
    ]


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--dirty", action="store_true")
    arguments = parser.parse_args()
    environment = models.environment(arguments)
    streams = {"default": torch.cuda.default_stream(), "own": torch.cuda.Stream()}
    with arguments.output.open("w") as output:
        for number, (name, stream) in enumerate(streams.items(), 1):
            with (
                progress.row(number, len(streams), f"stream {name}"),
                torch.cuda.stream(stream),
            ):
                ways = Between(stream.cuda_stream).ways()
                rows = [row for count in COUNTS for row in measure(count, ways)]
            for row in rows:
                line = {"stream": name} | row
                print(line, flush=True)
                print(json.dumps(line | environment), file=output, flush=True)


if __name__ == "__main__":
    main()
