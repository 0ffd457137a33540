"""Programs as users of libraries write them: the first second, the steady state, the bits.

    python perf/programs.py --commit ID --output perf/results/h100-programs.jsonl
    python perf/programs.py --list
    python perf/programs.py --commit ID --programs gan ppo generate_greedy
    python perf/programs.py --host --size small --seconds 1 --programs gan   # no GPU
    python perf/programs.py --host --size small --record FOLDER
    python perf/programs.py --host --size small --regions FILE

user_programs/ has the programs: some twenty lines each against the library itself, with
random weights and no download. Each is run in five ways, each in a process of its own
(program_runs.py) that lives until the program's row is done: ``eager``; ``control``,
which is eager a second time; ``default``, with ``reprise.enable()``; ``always``, with
``reprise.enable(policy="always")``; and ``region``, with ``reprise.enable()`` and with
what the program gives to ``setting.region`` as regions. Only one of the processes runs at a time, as
this one tells them, in this order:

- two passes by eager of a program that is then dropped, so that libraries have loaded
  what they load once; then the program is built;
- the first second: passes from the first call on, each waited for. What Reprise does
  once in a process (CUPTI, a kernel) is within it;
- ``--seconds`` of passes, to learn all that is to be learned;
- ``--rounds`` rounds, in each of which all ways run, in another order: passes of
  ``--block`` seconds that are waited for, then passes back to back;
- the program is built anew from its seed, and the hashes of all that ``--passes``
  passes show and leave (outputs, parameters, buffers, gradients, optimizers' state,
  generators) are compared with eager's. In the first of these passes builds are waited
  for.

A program is on new data at each pass. cuDNN's algorithms are deterministic, and matrices
of float32 are multiplied in TF32. While a program is measured, the processes of the next
one import their libraries, if there are eight cores or more.

Writes one JSON object a program and way:

- first_second: passes done in the first second; first_second_ratio: over eager's;
- first_replay_pass: how many passes came before the first replay, null if none did;
- pass_us: median of a pass that is waited for, and pass_us_p10, pass_us_p90 of rounds;
  ratio: eager over it, the median of paired rounds, with a bootstrap 95 % interval;
- back_to_back_us, back_to_back_ratio: the same of passes that are not waited for;
- bits: whether all hashes are eager's; null if eager's two runs differ, for then they say
  nothing (``deterministic`` is false); compared: how many there are; differing: the first
  few names that differ; bits_replays: what was replayed in these passes;
- followed: share of the operators whose results came from replays, since Reprise had
  learned; replays, squashes: counted likewise; plans: those that are ready; report: the
  first line of ``reprise.explain()``; calls, calls_replayed: of regions, since then;
- error: why there are no numbers, also where a library is missing;
- line, size, policy, gpu, driver, torch, commit, dirty, command.

Programs of which the record has these ways (``--ways``) of this commit are left out: an
interrupted run goes on. With ``--host`` all is run on the host executor, which shows
correctness and not speed. The file that ``--record`` writes is described in user_programs/stream.py, and
the one that ``--regions`` writes in program_regions.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from typing import Any

import program_regions
import program_tables
import progress
import user_programs
from program_rows import Row
from program_runs import EAGERS, OURS
from user_programs import stream

CORES_TO_PREPARE = 8


def read(path: pathlib.Path | None, commit: str) -> list[dict[str, Any]]:
    """What the record has of this commit."""
    if path is None or not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if record.get("commit") == commit]


def write(path: pathlib.Path | None, records: list[dict[str, Any]]) -> None:
    """Add to the record."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def measure(names: list[str], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure programs one after another; gives all records of this commit."""
    about = {"size": arguments.size, "commit": arguments.commit}
    about["dirty"] = arguments.dirty
    command = {"command": shlex.join(["python", *sys.argv])}
    options = [f"--size={arguments.size}", f"--seed={arguments.seed}"]
    options += [f"--commit={arguments.commit}"] + ["--dirty"] * arguments.dirty
    options += ["--host"] * arguments.host
    known = read(arguments.output, arguments.commit)
    known = [r for r in known if "error" not in r and r["size"] == arguments.size]
    modes = {(record["program"], record["mode"]) for record in known}
    ways = (*EAGERS, *arguments.ways)
    todo = [n for n in names if not all((n, way) in modes for way in ways)]
    prepares = (os.cpu_count() or 1) >= CORES_TO_PREPARE
    records = [record for record in known if record["program"] in names]
    with contextlib.ExitStack() as stack:
        rows: dict[str, Row] = {}

        def prepared(index: int) -> Row | None:
            """The processes of a program begin their imports, if it can be run."""
            if index >= len(todo) or user_programs.missing(
                user_programs.ALL[todo[index]]
            ):
                return None
            name = todo[index]
            if name not in rows:
                rows[name] = stack.enter_context(Row(name, ways, options))
            return rows[name]

        for index, name in enumerate(todo):
            row = prepared(index)
            if row is None:
                why = user_programs.missing(user_programs.ALL[name])
                found: list[dict[str, Any]] = [{"program": name, "error": why}]
                progress.tell(why)
            else:
                if prepares:
                    prepared(index + 1)
                with progress.row(index + 1, len(todo), name), row:
                    found = row.measure(arguments)
            found = [record | about | command for record in found]
            write(arguments.output, found)
            records = [r for r in records if r["program"] != name] + found
    return records


def record(names: list[str], arguments: argparse.Namespace) -> int:
    """Write the operators of programs to files; gives how many programs failed."""
    arguments.record.mkdir(parents=True, exist_ok=True)
    device = "cpu" if arguments.host else "cuda"
    setting = user_programs.Setting(device, arguments.size, arguments.seed)
    failed = 0
    for name in names:
        program = user_programs.ALL[name]
        if why := user_programs.missing(program):
            print(why, file=sys.stderr)
            continue
        path = arguments.record / f"{name}.jsonl"
        try:
            stream.record(program, setting, arguments.record_passes, path)
        except Exception as error:  # one program must not hide the others
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        else:
            print(path, flush=True)
    return failed


def head() -> str:
    """The commit of this checkout, if it is one."""
    here = str(pathlib.Path(__file__).resolve().parent)
    command = ["git", "-C", here, "rev-parse", "--short=7", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def parsed() -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = list(user_programs.ALL)
    parser.add_argument("--programs", nargs="+", metavar="NAME", default=every)
    parser.add_argument(
        "--ways", nargs="+", choices=list(OURS), default=list(OURS), help="beside eager"
    )
    parser.add_argument("--list", action="store_true", help="a line for each program")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--host", action="store_true", help="on the host executor")
    parser.add_argument("--seconds", type=float, default=3.0, help="before rounds")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--block", type=float, default=0.15, help="seconds")
    parser.add_argument(
        "--passes", type=int, default=40, help="whose bits are compared"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="of a program")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--record-passes", type=int, default=6)
    parser.add_argument("--regions", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--region-passes", type=int, default=32)
    parser.add_argument("--commit", default="", help="where there is no repository")
    parser.add_argument("--dirty", action="store_true", help="not just that commit")
    arguments = parser.parse_args()
    for name in arguments.programs:
        if name not in user_programs.ALL:
            parser.error(f"no program is {name!r}: --list names them")
    arguments.commit = arguments.commit or head()
    if not arguments.commit and not arguments.list and not arguments.record:
        parser.error("--commit is needed: this is not a repository")
    return arguments


def interrupted(*_: object) -> None:
    """SIGTERM ends the processes of ways, too."""
    raise SystemExit(143)


def main() -> int:
    """List, record or measure."""
    arguments = parsed()
    if arguments.list:
        for name in arguments.programs:
            print(f"{name:26} {user_programs.ALL[name].line}")
        return 0
    if arguments.record:
        return min(record(arguments.programs, arguments), 1)
    signal.signal(signal.SIGTERM, interrupted)
    if arguments.regions:
        found = program_regions.check(arguments.programs, arguments)
        print(program_regions.table(found))
        return int(any(each.get("bits") is False for each in found))
    records = measure(arguments.programs, arguments)
    print(program_tables.table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
