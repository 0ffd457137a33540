"""What becomes of the regions of programs, and whether their bits are eager's.

    python perf/programs.py --host --size small --regions FILE --programs gan ppo

Each program of user_programs/ runs in a process of its own, twice from one seed: by
eager, and with what it gives to ``setting.region`` as regions, under the policy
``always``. Both run the same number of passes: ``--region-passes`` of them, more where
batches are of many forms, or half as many where eager takes longer than a few seconds.
Builds are waited for after each pass.

Writes one JSON object a program. A program that the file has of this commit is left out.

- passes: how many each of both ran;
- calls, replayed: of all its regions; share: of the calls in the last half of the
  passes, how many were replayed, null if there were none;
- variants, backward: of all regions together;
- regions: of each region that was called its name, calls, replayed, share, variants,
  operators, reasons (each with its count and place) and guards, as `explain()` has them;
- bits: whether the hashes of all that the passes show and leave are eager's; compared:
  how many there are; differing: the first few names that differ; null if eager's own
  bits differ in a second run, which is made where bits differ;
- replays: what plans replayed, of all operators of the program;
- error: why there are no numbers, also where a library is missing;
- line, size, device, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import json
import pathlib
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

import children
import progress
import reprise
import torch
import user_programs
from user_programs import program as program_module

ROOT = pathlib.Path(__file__).resolve().parents[1]
SLOW_S = 4.0  # what eager's passes take, and half of them are enough
BUILD_S = 60.0
DIFFERING = 5  # names that a record has of what differs
# Of programs whose batches are of many forms: how many times as many passes.
MORE_PASSES = {"bert_lengths": 3, "packed_tagger": 3}


@dataclasses.dataclass
class Twin:
    """What a run of a program left: its hashes, and how many passes it ran."""

    digests: dict[str, str]
    passes: int


def run(
    program: user_programs.Program,
    setting: user_programs.Setting,
    enough: Callable[[int], bool],
    after: Callable[[int], None] = lambda _: None,
) -> Twin:
    """Build a program and run it until it is enough; `after` each pass its number."""
    built = program.start(setting)
    outputs = []
    while not enough(len(outputs)):
        outputs.append(built.step(len(outputs)))
        after(len(outputs))
    found = program_module.digests(outputs, built, setting.device)
    return Twin(found, len(outputs))


def by_eager(
    program: user_programs.Program, setting: user_programs.Setting, passes: int
) -> Twin:
    """So many passes, or half of them if they are slow."""
    begin = time.process_time()

    def enough(done: int) -> bool:
        slow = time.process_time() - begin > SLOW_S
        return done >= passes or (slow and done >= passes // 2)

    return run(program, setting, enough)


def without_folders(text: str) -> str:
    """A place, or a word of a command, without this machine's folders."""
    for folder in ("/site-packages/", f"{ROOT}/"):
        if folder in text:
            return text.rpartition(folder)[2]
    return pathlib.Path(text).name if pathlib.Path(text).is_absolute() else text


def share(calls: int, replayed: int) -> float | None:
    """The share of calls that were replayed."""
    return replayed / calls if calls else None


def differing(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Names of hashes that are not the same."""
    names = [*expected, *(name for name in found if name not in expected)]
    return [name for name in names if found.get(name) != expected.get(name)]


def as_regions(
    program: user_programs.Program, setting: user_programs.Setting, passes: int
) -> tuple[Twin, dict[str, Any]]:
    """So many passes with regions, and what the regions say of themselves."""
    regions: list[Any] = []
    halves: dict[int, tuple[int, int]] = {}

    def after(done: int) -> None:
        reprise.wait(BUILD_S)
        if done == passes // 2:
            for each in regions:
                report = each.explain()
                halves[id(each)] = report.calls, report.replayed

    with_regions = dataclasses.replace(setting, regions=regions)
    with reprise.session(setting.device, policy="always") as session:
        twin = run(program, with_regions, lambda done: done >= passes, after)
        replays = session.stats().replays
    rows, late, late_replayed = [], 0, 0
    for each in regions:
        report = each.explain()
        row = report.to_dict()
        calls, replayed = halves.get(id(each), (0, 0))
        late += report.calls - calls
        late_replayed += report.replayed - replayed
        row["share"] = share(report.calls - calls, report.replayed - replayed)
        del row["seconds"]
        for why in row["reasons"]:
            why["place"] = without_folders(why["place"])
        if report.calls:
            rows.append(row)
    sums = {
        key: sum(row[key] for row in rows)
        for key in ("calls", "replayed", "backward", "variants")
    }
    sums |= {"share": share(late, late_replayed), "replays": replays}
    return twin, sums | {"regions": rows}


def compare(
    program: user_programs.Program, setting: user_programs.Setting, passes: int
) -> dict[str, Any]:
    """The record of a program, in this process."""
    eager = by_eager(program, setting, passes)
    gc.collect()
    twin, found = as_regions(program, setting, eager.passes)
    differ = differing(eager.digests, twin.digests)
    bits: bool | None = not differ
    if differ:
        again = run(program, setting, lambda done: done >= eager.passes)
        bits = None if again.digests != eager.digests else False
    return {
        "passes": eager.passes,
        **found,
        "bits": bits,
        "compared": len(eager.digests),
        "differing": differ[:DIFFERING],
    }


def ask(name: str, options: list[str], timeout: float) -> dict[str, Any]:
    """The record of a program, by a process of its own."""
    command = [sys.executable, __file__, f"--program={name}", *options]
    with children.Child(command) as child:
        try:
            for message in child.messages(time.monotonic() + timeout):
                if message:
                    return message
        except children.EndedEarlyError as error:
            return {"error": str(error)}
    raise AssertionError("messages end by raising")


def check(names: list[str], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Write and give the records of programs."""
    path: pathlib.Path = arguments.regions
    path.parent.mkdir(parents=True, exist_ok=True)
    known = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in known]
    records = [r for r in records if r["commit"] == arguments.commit]
    done = {r["program"] for r in records if "error" not in r}
    device = "cpu" if arguments.host else "cuda"
    options = [f"--size={arguments.size}", f"--seed={arguments.seed}"]
    options += [f"--device={device}", f"--passes={arguments.region_passes}"]
    about = {"size": arguments.size, "device": device, "torch": torch.__version__}
    about |= {"commit": arguments.commit, "dirty": arguments.dirty}
    about |= {"command": shlex.join(["python", *map(without_folders, sys.argv)])}
    for index, name in enumerate(names):
        if name in done:
            continue
        program = user_programs.ALL[name]
        found: dict[str, Any] = {"program": name, "line": program.line}
        with progress.row(index + 1, len(names), name):
            if why := user_programs.missing(program):
                found |= {"error": why}
            else:
                found |= ask(name, options, arguments.timeout)
        found |= about
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")
        records = [r for r in records if r["program"] != name] + [found]
    return [record for record in records if record["program"] in names]


def table(records: list[dict[str, Any]]) -> str:
    """A line for each program: the share that was replayed, bits, the first reason."""
    lines = []
    for record in records:
        name = f"{record['program']:26}"
        if "error" in record:
            lines.append(f"{name} {record['error']}")
            continue
        found = record["share"]
        part = "no calls" if found is None else f"{found:.0%}"
        bits = {True: "same", False: "DIFFER", None: "eager's differ"}[record["bits"]]
        reasons = [why for each in record["regions"] for why in each["reasons"]]
        reasons.sort(key=lambda why: -why["count"])
        first = reasons[0]["reason"] if reasons and found != 1 else ""
        lines.append(f"{name} {part:>8}  {bits:14} {first}".rstrip())
    return "\n".join(lines)


def main() -> None:
    """Compare one program in this process, and tell its record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, choices=list(user_programs.ALL))
    parser.add_argument("--size", default="small", choices=("small", "full"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--passes", type=int, default=32)
    arguments = parser.parse_args()
    tell = children.teller()  # what libraries print goes to stderr
    program = user_programs.ALL[arguments.program]
    program_module.settle_numerics()
    setting = user_programs.Setting(arguments.device, arguments.size, arguments.seed)
    try:
        for library in program.needs:
            importlib.import_module(library)
        passes = arguments.passes * MORE_PASSES.get(program.name, 1)
        tell(**compare(program, setting, passes))
    except Exception as error:  # the record says so
        tell(error=children.said(error))


if __name__ == "__main__":
    main()
