"""Runs torch's own databases of samples under Reprise, against eager, bit for bit.

    python tests/python/databases/run.py --device cuda --processes 16
        [--dtypes float32 half] [--samples 12] [--shard 1/8] [--seconds 480]
        [--only op:addmm module:nn_LSTM] [--json FILE]

The databases are `op_db` (with the `foreach` lists beside it), `module_db` and `optim_db`
of torch.testing._internal. Each sample is a program of about twelve passes, whose floats
differ from pass to pass: operators are called plainly with their gradients, in place, and
with `out=`; modules run forward and backward, in training and evaluation; optimizers make
steps of a small model. Compared with eager are results, gradients and inputs: bits,
strides, `requires_grad`, `_version`, who shares memory, warnings and generators.

Prints each sample that is wrong with the command that runs it again, those that ended
their process, and how many were skipped for which reason. The exit status is 1 if a
sample was wrong or ended its process.

    python tests/python/databases/run.py --only op:addmm:float32 --sample 3

runs one sample in this process. Needs no package beside torch and Reprise (the package
`expecttest`, which torch's lists import, is replaced by a stand-in if it is missing).
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import faulthandler
import json
import os
import pathlib
import signal
import sys
import time
import warnings
import zlib
from typing import Any

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(here.parent)
    sys.path.append(str(here.parents[2] / "bindings" / "python"))

from databases import processes  # noqa: E402

CRASH_AT = "DATABASES_CRASH_AT"  # a unit and a sample, for a test of what happens then

Line = dict[str, Any]


# --- In a worker --------------------------------------------------------------------


def work(device: str, most: int) -> None:
    """Runs the units that come from the parent; a line of JSON for each sample."""
    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what samples print is no answer

    from databases import cases, check

    def say(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    for text in sys.stdin:
        order = json.loads(text)
        unit, after = order["unit"], order["after"]
        try:
            chosen_cases = list(cases.cases(unit, device, most))
        except Exception as error:
            why = f"torch makes no samples: {type(error).__name__}"
            say(unit=unit, number=-1, text=str(error)[:300], skipped=why)
            chosen_cases = []
        for case in chosen_cases:
            if case.number <= after:
                continue
            say(begin=case.number, text=case.text)
            if os.environ.get(CRASH_AT) == f"{unit} {case.number}":
                os.kill(os.getpid(), signal.SIGSEGV)
            found = dataclasses.asdict(check.check(case, device))
            say(unit=unit, number=case.number, text=case.text, **found)
            if not check.survived(device):
                say(restart=case.number)
                return
        say(done=unit)


def one(unit: str, number: int, device: str) -> int:
    """Runs one sample in this process, and prints what it was found to be."""
    from databases import cases, check

    for case in cases.cases(unit, device, cases.MOST_SAMPLES):
        if case.number == number:
            finding = check.check(case, device)
            print(case.text)
            for name, value in dataclasses.asdict(finding).items():
                print(f"  {name}: {value}")
            return 1 if finding.wrong else 0
    print(f"{unit} has no sample {number}")
    return 2


# --- In the parent ------------------------------------------------------------------


def chosen(
    device: str, dtypes: list[str], shard: str = "1/1", only: list[str] | None = None
) -> list[str]:
    """The units of a shard, "2/5", whose names begin with one of `only`."""
    from databases.cases import units  # torch's lists take seconds to load

    index, count = map(int, shard.split("/"))
    found = units(device, tuple(dtypes))
    if only:
        # A whole name, or a name without its dtype.
        found = [u for u in found if u in only or u.rpartition(":")[0] in only]
    found.sort(key=lambda unit: zlib.crc32(unit.encode()))  # all kinds in each shard
    return found[index - 1 :: count]


def sweep(
    units: list[str],
    device: str,
    *,
    count: int = 2,
    samples: int = 8,
    until_s: float = float("inf"),
) -> Line:
    """All findings and their sums."""
    options = ["--device", device, "--samples", str(samples)]
    lines, left = processes.run(units, count, options, until_s)
    tried = [line for line in lines if not line.get("skipped")]
    compared = [line for line in tried if "crashed" not in line]
    counts: collections.Counter[str] = collections.Counter(samples=len(compared))
    counts["units"] = len({line["unit"] for line in compared})
    counts["replayed"] = sum(line["replays"] > 0 for line in compared)
    for name in ("ops", "followed", "replays", "late_ops", "late_followed"):
        counts[name] = sum(line[name] for line in compared)
    skipped = collections.Counter(
        line["skipped"] for line in lines if line.get("skipped")
    )
    return {
        "device": device,
        "counts": dict(counts),
        "skipped": dict(skipped.most_common()),
        "wrong": [line for line in compared if line["wrong"]],
        "crashed": [line for line in lines if "crashed" in line],
        "left": left,
        "not replayed": _reasons(compared),
        "unskipped units": sorted({line["unit"] for line in compared}),
        "skipped samples": [
            (line["unit"], line["number"], line["skipped"])
            for line in lines
            if line.get("skipped")
        ],
    }


def _reasons(lines: list[Line]) -> dict[str, int]:
    """Why samples were not replayed at all: cuts and rejections by frequency."""
    found: collections.Counter[str] = collections.Counter()
    for line in lines:
        if line["replays"] == 0:
            found.update(set(line["cuts"] or line["rejections"]) or {"no reason told"})
    return dict(found.most_common())


def report(found: Line, seconds: float) -> str:
    """For people."""
    lines = []
    for kind in ("wrong", "crashed"):
        for line in found[kind]:
            lines.append(f"{kind.upper()} {line['unit']} sample {line['number']}")
            lines += [f"  {line['text']}", f"  {line[kind]}"]
            lines.append(
                f"  again: python tests/python/databases/run.py --device "
                f"{found['device']} --only {line['unit']} --sample {line['number']}"
            )
    counts = found["counts"]
    for reason, count in found["skipped"].items():
        lines.append(f"{count:>8} samples skipped: {reason}")
    if found["left"]:
        lines.append(f"{len(found['left'])} units were left, for there was no time")
    share = counts["late_followed"] / max(counts["late_ops"], 1)
    lines.append(
        f"{counts['samples']} samples of {counts['units']} units, "
        f"{counts['replayed']} replayed; {counts['ops']} ops, {counts['followed']} "
        f"followed, {share:.0%} in the last three passes; {len(found['wrong'])} wrong, "
        f"{len(found['crashed'])} ended their process; {seconds:.0f} s"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--dtypes",
        nargs="*",
        default=["float32", "half"],
        choices=["float32", "half"],
        help="half is bfloat16 on the CPU and float16 on a GPU",
    )
    parser.add_argument("--samples", type=int, default=8, help="of a unit, at most")
    parser.add_argument("--sample", type=int, help="one sample, in this process")
    parser.add_argument("--only", nargs="*", help="units: op:addmm, op:addmm:half")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=pathlib.Path, help="all findings, for programs")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    started = time.time()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    if given.worker:
        work(given.device, given.samples)
        return 0
    units = chosen(given.device, given.dtypes, given.shard, given.only)
    if given.sample is not None:
        return one(units[0], given.sample, given.device)
    found = sweep(
        units,
        given.device,
        count=given.processes,
        samples=given.samples,
        until_s=started + given.seconds,
    )
    print(report(found, time.time() - started))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if found["wrong"] or found["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
