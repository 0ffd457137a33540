"""What the first passes of a program cost, pass by pass.

    python perf/first_passes.py --program gan
    python perf/first_passes.py --program gan --seconds 2 --timeline gan.json
    python perf/first_passes.py --program gan --device cpu --size small   # no GPU

The program is one of user_programs/. Libraries load what they load once in two passes of
another copy. Then eager's time is taken (the median of ``--eager`` passes), Reprise is
enabled, and each pass is waited for. A row of the table is a pass:

- ms: what it took; lost: that beyond eager's median, summed over all passes so far;
- ops and followed; recorded, validated, builds, squashes: how many there were in it;
- recording, validating: milliseconds by the session's own counters (`reprise.stats()`). What
  is recorded may begin in the pass before.

Passes that follow the one before in all but their times are left out; ``lost`` has them.
Behind the table stand the report's first line and, with ``--timeline``, a file for a trace
viewer. Bits are not compared: programs.py does that.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import time

import program_runs
import progress
import reprise
import user_programs
from user_programs import program as program_module

COUNTED = ("recorded", "validated", "builds", "squashes")
TIMES = ("recording_us", "validating_us")
HEAD = ("pass", "ms", "lost", "ops", "followed", *COUNTED, "recording", "validating")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", required=True, choices=sorted(user_programs.ALL))
    parser.add_argument(
        "--policy", help="of reprise.enable; the default if it is left out"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of passes")
    parser.add_argument("--eager", type=int, default=10, help="passes before")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeline", metavar="FILE")
    return parser.parse_args()


def learn(
    run: program_runs.Run, eager: float, seconds: float
) -> list[tuple[object, ...]]:
    """Return a row for each pass that differs from the one before."""
    rows: list[tuple[object, ...]] = []
    before, lost, last = reprise.stats(), 0.0, None
    end = time.perf_counter() + seconds
    for number in itertools.count():
        took = run.timed()
        now = reprise.stats()
        during = now.since(before)
        before = now
        lost += took - eager
        counts = [getattr(during, name) for name in ("ops", "followed", *COUNTED)]
        spent = [getattr(during, name) / 1e3 for name in TIMES]
        if counts != last or any(spent):
            times = (f"{ms:.1f}" for ms in (took * 1e3, lost * 1e3, *spent))
            ms, sum_ms, *learning = times
            rows.append((number, ms, sum_ms, *counts, *learning))
        last = counts
        if time.perf_counter() >= end:
            return rows


def main() -> int:
    """Measure one program."""
    arguments = parsed()
    program_module.settle_numerics()
    program = user_programs.ALL[arguments.program]
    if why := user_programs.missing(program):
        print(f"{arguments.program}: {why}", file=sys.stderr)
        return 1
    setting = user_programs.Setting(arguments.device, arguments.size, arguments.seed)
    with progress.row(1, 1, arguments.program):
        run = program_runs.Run("eager", arguments.program, setting)
        run.warm()
        eager = statistics.median(run.timed() for _ in range(arguments.eager))
    print(f"eager: {eager * 1e3:.2f} ms a pass")
    options = {} if arguments.policy is None else {"policy": arguments.policy}
    reprise.enable(arguments.device, **options)
    with (
        reprise.timeline() if arguments.timeline else contextlib.nullcontext() as noted
    ):
        rows = learn(run, eager, arguments.seconds)
    if noted is not None:
        noted.export_chrome_trace(arguments.timeline)
    for row in (HEAD, *rows):
        print(*(f"{cell:>10}" for cell in row))
    print(str(reprise.explain()).partition("\n")[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
