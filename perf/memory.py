"""What Reprise keeps in the host's memory of programs that never come to rest.

    python perf/memory.py --json FILE

Each program runs twice in a process of its own, on the host executor and without
Reprise; what counts is how much larger the resident memory grew with it. Of that, what
the C library keeps although it was freed is named apart: lasting small blocks between
large ones that come and go keep it from giving those back. Rows:

- new shapes: each pass has a shape that never came before, and never comes again;
- shapes three times: each shape is recorded and built, and never comes again, at a
  budget of 4 MiB for plans; read before builds are waited for, and after it;
- recorded once: each shape comes twice.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bindings" / "python"))

MIB = 1 << 20


def resident_mib() -> float:
    """What the process has in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / MIB


def new_shapes(passes: int) -> Iterator[Callable[[], Any]]:
    """Thirty-two small ops on another number of rows at each pass."""
    weight = torch.randn(8, 8)

    def step(rows: int) -> None:
        a = torch.ones(rows, 8)
        for _ in range(10):
            a = torch.relu(a[:64] @ weight) + 0.1
        a.sum().item()

    return ((lambda rows=rows: step(rows)) for rows in range(1, passes + 1))


def shapes_again(passes: int, times: int, elements: int) -> Iterator[Callable[[], Any]]:
    """Thirteen ops on vectors of `elements` or more, each length so many times."""

    def step(length: int) -> None:
        a = torch.ones(length)
        for _ in range(6):
            a = a * 1.5 + 0.1
        a.sum().item()

    return (
        (lambda length=elements + index // times: step(length))
        for index in range(passes * times)
    )


PROGRAMS: dict[str, tuple[dict[str, Any], Callable[[int], Iterator[Callable[[], Any]]]]]
PROGRAMS = {
    "new shapes": ({}, new_shapes),
    "shapes three times": (
        {"plan_budget_bytes": "4MiB"},
        lambda passes: shapes_again(passes, 3, 50_000),
    ),
    "recorded once": ({}, lambda passes: shapes_again(passes, 2, 1_000)),
}
PASSES = {"new shapes": 100_000, "shapes three times": 300, "recorded once": 5_000}


def run(name: str, passes: int, watched: bool) -> dict[str, Any]:
    """In this process: how far its memory grew, and what Reprise says of its own."""
    options, steps = PROGRAMS[name]
    result: dict[str, Any] = {}
    if watched:
        import reprise

        reprise.enable("cpu", **options)
    for step in steps(20):  # what is made once
        step()
    before = resident_mib()
    for step in steps(passes):
        step()
    gc.collect()
    result["grown_mib"] = round(resident_mib() - before, 1)
    if watched:
        reprise.wait()
        gc.collect()
        result["grown_after_wait_mib"] = round(resident_mib() - before, 1)
        ctypes.CDLL(None).malloc_trim(0)
        result["grown_in_use_mib"] = round(resident_mib() - before, 1)
        stats = reprise.stats()
        fields = ("ops", "signatures", "recorded", "builds", "evictions", "plan_bytes")
        result |= {field: getattr(stats, field) for field in fields}
        for field in ("forgotten", "trace_bytes"):
            result[field] = getattr(stats, field)
    return result


def measure(name: str, passes: int) -> dict[str, Any]:
    """Both runs, each in a process of its own."""
    found: dict[str, Any] = {"program": name, "passes": passes}
    for mode in ("off", "on"):
        command = [sys.executable, __file__, "--run", name, mode, str(passes)]
        output = subprocess.run(command, check=True, capture_output=True, text=True)
        found[mode] = json.loads(output.stdout.splitlines()[-1])
    extra = (
        max(found["on"]["grown_mib"], found["on"]["grown_after_wait_mib"])
        - found["off"]["grown_mib"]
    )
    found["extra_mib"] = round(extra, 1)
    in_use = found["on"]["grown_in_use_mib"] - found["off"]["grown_mib"]
    found["extra_in_use_mib"] = round(in_use, 1)
    return found


def main() -> None:
    """Measure all programs, or run one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="keep the record there")
    parser.add_argument("--share", type=float, default=1.0, help="of the passes")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, mode, passes = arguments.run
        print(json.dumps(run(name, int(passes), mode == "on")))
        return
    rows = [measure(name, int(PASSES[name] * arguments.share)) for name in PROGRAMS]
    for row in rows:
        extra = f"{row['extra_mib']} MiB more, {row['extra_in_use_mib']} of it in use"
        print(f"{row['program']}: {row['passes']} passes, {extra}")
    if arguments.json:
        commit = subprocess.run(
            ["git", "-C", str(REPOSITORY), "rev-parse", "--short=7", "HEAD"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        record = {
            "host": platform.machine(),
            "torch": torch.__version__,
            "commit": commit,
            "command": "python " + " ".join(["perf/memory.py", *sys.argv[1:]]),
            "rows": rows,
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
