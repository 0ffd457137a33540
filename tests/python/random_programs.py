"""Runs random programs of torch ops under Reprise and by eager alone, bit for bit.

    python tests/python/random_programs.py --device cuda --ops 1000000 --seed 1
        [--processes 10] [--within 150] [--json FILE]

Prints how many ops and programs were run, how many tensors were wrong, and how often
each state was reached. A program with a wrong bit is made smaller and printed as a
script that runs it again; the exit status is then 1. Program number n has the seed
`--seed` + n, whatever the number of processes: `--seed S --programs 1` runs one again.

How a program is drawn: programs/generate.py, of the lines in programs/ops.py; what is
compared: programs/check.py.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.append(str(here.parents[1] / "bindings" / "python"))

import torch  # noqa: E402
from programs.check import Counts, Outcome, ProgramError, check  # noqa: E402
from programs.generate import random_program  # noqa: E402
from programs.interference import HAZARDS  # noqa: E402
from programs.program import Compiled, Program, Step, compiled  # noqa: E402
from programs.shrink import shrink  # noqa: E402

PASSES = 100
SHRINK_S = 60.0  # for making a failing program smaller
GRACE_S = 60.0  # for the program that is running, or shrunk, when the time is over
TRIES = 3  # of a program that may fail now and then

Found = dict[str, Any]


# --- One program ------------------------------------------------------------------


def fails(program: Program, device: str, tries: int = 1) -> bool:
    """Whether one of so many runs is wrong."""
    for _ in range(tries):
        try:
            if check(compiled(program), device).wrong:
                return True
        except ProgramError:  # what is left is no program
            return False
    return False


def explain(program: Program, outcome: Outcome, device: str, until_s: float) -> str:
    """What is wrong with a program, and the smallest one that is still wrong.

    Builds end when they do, so that some faults show now and then only.
    """
    always = all(fails(program, device) for _ in range(TRIES))
    tries = 1 if always else TRIES

    def still_fails(smaller: Program) -> bool:
        return time.time() < until_s and fails(smaller, device, tries)

    smaller = shrink(program, still_fails)
    lines = [f"seed {program.seed}, {len(outcome.wrong)} differences:"]
    lines += outcome.wrong[:5]
    if not always:
        lines.append("not at every run")
    lines = [f"# {line}" for line in lines]
    return "\n".join(["", *lines, smaller.script(device)])


def repeat(
    setup: Step,
    passes: list[Step],
    device: str,
    *,
    seed: int,
    options: dict[str, Any],
    own_stream: bool,
    steady: bool,
) -> None:
    """For printed scripts: say what is wrong."""
    torch.set_num_threads(1)
    steps = [[step] for step in passes]
    program = Compiled(seed, options, own_stream, [setup], steps, steady)
    for _ in range(TRIES):
        print("\n".join(check(program, device).wrong) or "nothing is wrong")


# --- In a process -----------------------------------------------------------------


def run(
    device: str,
    *,
    seed: int,
    stride: int = 1,
    ops: int = 0,
    programs: int = 0,
    passes: int = PASSES,
    hazards: Sequence[str] = (),
    until_s: float = float("inf"),
    shrink_s: float = SHRINK_S,
    note: Callable[[int], object] = lambda seed: None,
) -> Found:
    """Programs from `seed` on, until so many ops or programs were run.

    `note` is told each seed before its program begins. Ends at the first program that
    fails; `until_s` is a time.time(). A program that is not the same without Reprise
    either is invalid.

    Raises where the device is lost.
    """
    counts: Counts = collections.Counter()
    failures: list[Found] = []
    invalid: list[Found] = []
    while counts["ops"] < ops or counts["programs"] < programs:
        if time.time() > until_s:
            break
        note(seed)
        program = random_program(seed, passes, hazards)
        try:
            outcome = check(compiled(program), device)
        except ProgramError as error:
            counts["programs"] += 1
            invalid.append({"seed": seed, "reason": str(error)})
            print(f"seed {seed}: {error}", flush=True)
        except BaseException:
            print(f"seed {seed} did not come to an end", flush=True)
            raise
        else:
            counts.update(outcome.counts)
            counts["wrong"] += len(outcome.wrong)
            if outcome.wrong:
                text = explain(program, outcome, device, time.time() + shrink_s)
                print(text, flush=True)
                failures.append(
                    {"seed": seed, "wrong": outcome.wrong[:20], "program": text}
                )
                break
        seed += stride
    return {"counts": dict(counts), "failures": failures, "invalid": invalid}


# --- Several processes ------------------------------------------------------------


def _spawn(given: argparse.Namespace, number: int, folder: pathlib.Path) -> Any:
    command = [sys.executable, __file__, "--device", given.device]
    command += ["--ops", str(-(-given.ops // given.processes))]
    command += ["--programs", str(-(-given.programs // given.processes))]
    command += ["--passes", str(given.passes), "--within", str(given.within)]
    command += ["--seed", str(given.seed + number), "--stride", str(given.processes)]
    command += ["--hazards", *given.hazards]
    command += ["--json", str(folder / f"{number}.json")]
    with open(folder / f"{number}.log", "w") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _collect(process: Any, path: pathlib.Path) -> Found:
    """What a process found, or that it did not come to an end."""
    found: Found = {"counts": {}, "failures": [], "invalid": []}
    if path.exists():
        found.update(json.loads(path.read_text()))
    if "running" in found or not path.exists():
        seed = found.pop("running", None)
        log = path.with_suffix(".log").read_text()[-2000:]
        wrong = [f"the process ended with status {process.returncode}"]
        found["failures"].append({"seed": seed, "wrong": wrong, "program": log})
    return found


def _spread(given: argparse.Namespace) -> list[Found]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        processes = [_spawn(given, n, folder) for n in range(given.processes)]
        until = time.time() + given.within + GRACE_S + SHRINK_S
        try:
            while any(p.poll() is None for p in processes) and time.time() < until:
                time.sleep(0.1)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [
            _collect(process, folder / f"{n}.json")
            for n, process in enumerate(processes)
        ]


def merged(parts: list[Found]) -> Found:
    """Counts added up, failures one after another."""
    counts: Counts = collections.Counter()
    for part in parts:
        counts.update(part["counts"])
    return {
        "counts": dict(counts),
        "failures": [f for part in parts for f in part["failures"]],
        "invalid": [i for part in parts for i in part["invalid"]],
    }


def _alone(given: argparse.Namespace) -> Found:
    def note(seed: int) -> None:
        if given.json is not None:
            given.json.write_text(json.dumps({"running": seed}))

    return run(
        given.device,
        seed=given.seed,
        stride=given.stride,
        ops=given.ops,
        programs=given.programs,
        passes=given.passes,
        hazards=given.hazards,
        until_s=time.time() + given.within,
        note=note,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--ops", type=int, default=0, help="to be run under Reprise")
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--passes", type=int, default=PASSES, help="of each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stride", type=int, default=1, help="between seeds")
    parser.add_argument("--hazards", nargs="*", default=[], choices=list(HAZARDS))
    parser.add_argument("--processes", type=int, default=1, help="beside each other")
    parser.add_argument("--within", type=float, default=1e9, metavar="SECONDS")
    parser.add_argument("--json", type=pathlib.Path, help="all counts, for programs")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "reprise: on the CPU")
    torch.set_num_threads(1)
    started = time.time()
    found = merged(_spread(given)) if given.processes > 1 else _alone(given)
    seconds = time.time() - started
    found["seconds"] = round(seconds, 1)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, count in sorted(found["counts"].items()):
        print(f"{count:>12} {name}")
    if given.processes > 1:
        for failure in found["failures"]:
            print(f"FAILED seed {failure['seed']}: {failure['wrong'][:5]}")
            print(failure["program"])
    print(f"{len(found['invalid'])} programs that differ without Reprise, too")
    print(f"{len(found['failures'])} failures in {seconds:.1f} s")
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
