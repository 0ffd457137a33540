"""What Reprise keeps in memory of programs that never come to rest.

    python perf/memory.py --json FILE [--device cuda] [program...]

Each program runs in two processes of its own, with Reprise and without, side by side;
what counts is how much larger the resident memory grew with it. Of that, what the C library keeps
although it was freed is named apart: lasting small blocks between large ones that come
and go keep it from giving those back. With ``--device cuda`` also what the device's
allocator has reserved in the end. Rows:

- new shapes: each pass has a shape that never came before, and never comes again;
- shapes three times: each shape is recorded and built, and never comes again, at a
  budget of 4 MiB for plans; read before builds are waited for, and after it;
- recorded once: each shape comes twice;
- signatures in turn: 2,000 shapes one after the other, again and again, for so many
  seconds, where plans have 16 MiB.

``course_mib`` is how much the memory had grown after each fifth of a run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import progress
import torch

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bindings" / "python"))

MIB = 1 << 20


def resident_mib() -> float:
    """What the process has in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / MIB


Steps = Iterator[Callable[[], Any]]


def new_shapes(passes: int, device: str) -> Steps:
    """Thirty-two small ops on another number of rows at each pass."""
    weight = torch.randn(8, 8, device=device)

    def step(rows: int) -> None:
        a = torch.ones(rows, 8, device=device)
        for _ in range(10):
            a = torch.relu(a[:64] @ weight) + 0.1
        a.sum().item()

    return ((lambda rows=rows: step(rows)) for rows in range(1, passes + 1))


def vector(length: int, device: str) -> None:
    """Thirteen ops on a vector."""
    a = torch.ones(length, device=device)
    for _ in range(6):
        a = a * 1.5 + 0.1
    a.sum().item()


def shapes_again(passes: int, times: int, elements: int, device: str) -> Steps:
    """Vectors of `elements` or more, each length so many times."""
    return (
        (lambda length=elements + index // times: vector(length, device))
        for index in range(passes)
    )


def shapes_in_turn(shapes: int, seconds: float, device: str) -> Steps:
    """Vectors of so many lengths, in turn."""
    until = time.monotonic() + seconds
    lengths = itertools.cycle(range(1_000, 1_000 + shapes))
    while time.monotonic() < until:
        yield lambda: vector(next(lengths), device)


PROGRAMS: dict[str, tuple[dict[str, Any], Callable[[int, str], Steps]]]
PROGRAMS = {
    "new shapes": ({}, new_shapes),
    "shapes three times": (
        {"plan_budget_bytes": "4MiB"},
        lambda passes, device: shapes_again(passes, 3, 50_000, device),
    ),
    "recorded once": (
        {},
        lambda passes, device: shapes_again(passes, 2, 1_000, device),
    ),
    "signatures in turn": (
        {"plan_budget_bytes": "16MiB"},
        lambda seconds, device: shapes_in_turn(2_000, seconds, device),
    ),
}
# Or seconds.
PASSES = {
    "new shapes": 100_000,
    "shapes three times": 900,
    "recorded once": 10_000,
    "signatures in turn": 300,
}
TIMED = {"signatures in turn"}
SAMPLES = 5


def run(name: str, passes: int, watched: bool, device: str) -> dict[str, Any]:
    """In this process: how far its memory grew, and what Reprise says of its own."""
    options, steps = PROGRAMS[name]
    result: dict[str, Any] = {}
    if watched:
        import reprise

        reprise.enable(device, **options)
    for step in steps(20 if name not in TIMED else 1, device):  # what is made once
        step()
    before = resident_mib()
    begun = time.monotonic()
    course: list[float] = []
    count = 0
    for count, step in enumerate(steps(passes, device), 1):
        step()
        done = time.monotonic() - begun if name in TIMED else count
        if done * SAMPLES >= passes * (len(course) + 1):
            course.append(round(resident_mib() - before, 1))
    gc.collect()
    result["count"] = count
    result["course_mib"] = course
    result["grown_mib"] = round(resident_mib() - before, 1)
    if watched:
        reprise.wait()
        gc.collect()
        result["grown_after_wait_mib"] = round(resident_mib() - before, 1)
        ctypes.CDLL(None).malloc_trim(0)
        result["grown_in_use_mib"] = round(resident_mib() - before, 1)
        stats = reprise.stats()
        fields = ["ops", "signatures", "recorded", "builds", "replays", "evictions"]
        fields += ["plan_bytes", "forgotten", "trace_bytes"]
        result |= {field: getattr(stats, field) for field in fields}
    if device == "cuda":
        result["reserved_mib"] = torch.cuda.memory_reserved() / MIB
    return result


def measure(name: str, passes: int, device: str) -> dict[str, Any]:
    """Both runs, side by side, each in a process of its own."""
    unit = "seconds" if name in TIMED else "passes"
    found: dict[str, Any] = {"program": name, unit: passes}
    command = [sys.executable, __file__, "--device", device, "--run", name]
    runs = {
        mode: subprocess.Popen(
            [*command, mode, str(passes)], stdout=subprocess.PIPE, text=True
        )
        for mode in ("off", "on")
    }
    for mode, process in runs.items():
        output, _ = process.communicate()
        if process.returncode:
            sys.exit(f"{name}, {mode}: ended with {process.returncode}")
        found[mode] = json.loads(output.splitlines()[-1])
    extra = (
        max(found["on"]["grown_mib"], found["on"]["grown_after_wait_mib"])
        - found["off"]["grown_mib"]
    )
    found["extra_mib"] = round(extra, 1)
    in_use = found["on"]["grown_in_use_mib"] - found["off"]["grown_mib"]
    found["extra_in_use_mib"] = round(in_use, 1)
    return found


def gpu(device: str) -> dict[str, Any]:
    """What the record says of it."""
    if device == "cpu":
        return {}
    import models

    where = models.environment(argparse.Namespace(commit="", dirty=False))
    return {what: where[what] for what in ("gpu", "driver")}


def main() -> None:
    """Measure all programs, or run one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="keep the record there")
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS])
    parser.add_argument("--share", type=float, default=1.0, help="of the passes")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--commit", default="", help="where there is no repository")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, mode, passes = arguments.run
        watched = mode == "on"
        print(json.dumps(run(name, int(passes), watched, arguments.device)))
        return
    rows = []
    names = arguments.programs or list(PROGRAMS)
    for number, name in enumerate(names, 1):
        passes = int(PASSES[name] * arguments.share)
        with progress.row(number, len(names), name):
            row = measure(name, passes, arguments.device)
        extra = f"{row['extra_mib']} MiB more, {row['extra_in_use_mib']} of it in use"
        print(f"{name}: {row['on']['count']} passes, {extra}", flush=True)
        rows.append(row)
    if arguments.json:
        commit = (
            arguments.commit
            or subprocess.run(
                ["git", "-C", str(REPOSITORY), "rev-parse", "--short=7", "HEAD"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
        )
        record = {
            "host": platform.machine(),
            **gpu(arguments.device),
            "torch": torch.__version__,
            "commit": commit,
            "command": "python " + " ".join(["perf/memory.py", *sys.argv[1:]]),
            "rows": rows,
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
