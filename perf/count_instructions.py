"""How many instructions an op takes, by function, without a GPU and without a clock.

The benchmark of an op's cost (`perf/bindings/torch/hook_benchmark.cc`) runs under callgrind,
with a CUDA runtime that does nothing. So the numbers are the same on a busy machine, and two
commits can be compared by a handful of instructions. What they do not tell is how long an
instruction waits.

    python perf/count_instructions.py build/release [--against OTHER_BUILD] [--benchmark Following]

A build is a folder that was configured with `-DREPRISE_BENCHMARKS=ON`. Needs valgrind and gcc;
takes about a minute a build.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import torch

SOURCES = pathlib.Path(__file__).parent / "bindings" / "torch" / "idle_cuda"
BENCHMARK = "perf/bindings/torch/bindings_torch_hook_benchmark"
# Each op of the benchmark is one of these calls, and all that it leads to.
OP = "at::_ops::add_Tensor::call("
SECONDS = 4  # of the slow clock under callgrind: some thousand passes
MOST_ROWS = 30

Counts = dict[str, float]


def idle_cuda(folder: pathlib.Path) -> dict[str, str]:
    """The environment of a process that finds a GPU which does nothing."""
    packages = pathlib.Path(torch.__file__).parents[1]
    headers = next(packages.glob("nvidia/cu*/include/cuda_runtime_api.h")).parent
    for source, library in (("runtime", "libidle.so"), ("driver", "libcuda.so.1")):
        options = ["-O1", "-shared", "-fPIC", f"-Wl,-soname,{library}", f"-I{headers}"]
        files = [str(SOURCES / f"{source}.c"), "-o", str(folder / library)]
        subprocess.run(["gcc", *options, *files], check=True)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "LD_PRELOAD": str(folder / "libidle.so"),
        "OMP_NUM_THREADS": "1",
    }


def count(build: pathlib.Path, benchmark: str) -> Counts:
    """Instructions an op, by function."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = folder / "callgrind.out"
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={found}",
            "--collect-atstart=no",
            f"--toggle-collect={OP}*",
            str(build / BENCHMARK),
            f"--benchmark_filter=BM_{benchmark}/cuda:1",
            f"--benchmark_min_time={SECONDS}",
        ]
        done = subprocess.run(
            command, env=idle_cuda(folder), capture_output=True, text=True
        )
        if done.returncode != 0 or "per_op" not in done.stdout:
            raise SystemExit(
                f"{build}: the benchmark {benchmark} did not run:\n{done.stderr[-2000:]}"
            )
        return by_function(found.read_text().splitlines())


def by_function(lines: list[str]) -> Counts:
    """Of a profile as callgrind writes it."""
    instructions: collections.Counter[str] = collections.Counter()
    shown = run = 0  # ops: to a session, by the kernel
    function = ""
    for kind, name, number in _rows(lines):
        if kind == "function":
            function = name
        elif kind == "cost":
            instructions[function] += number
        elif "::WatchedOp::Enter(" in name:
            shown += number
        elif "::DoNothing<" in name:
            run += number
    ops = shown or run
    if ops == 0:
        raise SystemExit(
            "the profile has no op: was the benchmark stripped of its names?"
        )
    # A function and its clones, which the compiler has made of parts of it, are one.
    counts: collections.Counter[str] = collections.Counter()
    for name, total in instructions.items():
        counts[re.sub(r" \[clone .*", "", name)] += total
    return {name: total / ops for name, total in counts.items()}


def _rows(lines: list[str]) -> Iterator[tuple[str, str, int]]:
    """Functions, what each costs by itself, and calls of others."""
    names: dict[str, str] = {}
    called = ""
    is_of_call = False
    for line in lines:
        if found := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            calls, number, name = found.groups()
            if name:
                names[number] = name
            if calls:
                called = names[number]
            else:
                yield "function", names[number], 0
        elif line.startswith("calls="):
            yield "call", called, int(line[len("calls=") :].split()[0])
            is_of_call = True
        elif line[:1] in "+-*0123456789" and line:
            if not is_of_call:
                yield "cost", "", int(line.split()[1])
            is_of_call = False


def main() -> None:
    """Print one build's instructions, or two builds' and their differences."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path, help="an older build")
    parser.add_argument("--benchmark", default="Following")
    given = parser.parse_args()
    now = count(given.build, given.benchmark)
    if given.against is None:
        print(f"{sum(now.values()):.0f} instructions an op")
        for name, number in sorted(now.items(), key=lambda row: -row[1])[:MOST_ROWS]:
            print(f"{number:7.1f}  {name[:110]}")
        return
    before = count(given.against, given.benchmark)
    print(
        f"{sum(now.values()):.0f} instructions an op, {sum(before.values()):.0f} before"
    )
    names = sorted(
        {*now, *before}, key=lambda name: -abs(now.get(name, 0) - before.get(name, 0))
    )
    for name in names[:MOST_ROWS]:
        here, there = now.get(name, 0.0), before.get(name, 0.0)
        print(f"{here - there:+7.1f} {here:7.1f} {there:7.1f}  {name[:100]}")


if __name__ == "__main__":
    sys.exit(main())
