"""Programs as users of libraries write them: the first second, the steady state, the bits.

    python perf/programs.py --commit ID --output perf/results/h100-programs.jsonl
    python perf/programs.py --list
    python perf/programs.py --commit ID --programs gan ppo generate_greedy
    python perf/programs.py --host --size small --seconds 1 --programs gan   # no GPU
    python perf/programs.py --host --size small --record FOLDER

user_programs/ has the programs: some twenty lines each against the library itself, with
random weights and no download. Each is run in four ways, each in a process of its own
(program_runs.py) that lives until the program's row is done: ``eager``; ``control``,
which is eager a second time; ``default``, with ``reprise.enable()``; and ``always``,
with ``reprise.enable(policy="always")``. Only one of the processes runs at a time, as
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
  first line of ``reprise.explain()``;
- error: why there are no numbers, also where a library is missing;
- line, size, policy, gpu, driver, torch, commit, dirty, command.

Programs of which the record has all ways of this commit are left out: an interrupted
run goes on. With ``--host`` all is run on the host executor, which shows correctness and
not speed. The file that ``--record`` writes is described in user_programs/stream.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import shlex
import signal
import statistics
import subprocess
import sys
import time
from typing import Any

import children
import models
import program_tables
import user_programs
from program_runs import WAYS
from user_programs import stream

RUNS = pathlib.Path(__file__).with_name("program_runs.py")
CORES_TO_PREPARE = 8
DIFFERING = 5  # names that a record has of what differs


class WayError(RuntimeError):
    """A way of a program cannot go on."""


class Way(children.Child):
    """The process of one way of a program."""

    def __init__(self, way: str, program: str, options: list[str]) -> None:
        self.way = way
        self.where: dict[str, Any] = {}
        chosen = [f"--way={way}", f"--program={program}", *options]
        super().__init__([sys.executable, str(RUNS), *chosen])

    def ready(self, ends: float) -> None:
        """Wait until its libraries are imported."""
        self.where = self._next("where", ends)

    def order(self, what: str, **how: Any) -> None:
        """Have it do something."""
        self.tell(json.dumps({"do": what} | how))

    def answer(self, ends: float) -> dict[str, Any]:
        """What it says when that is done."""
        return self._next("answer", ends)

    def _next(self, key: str, ends: float) -> dict[str, Any]:
        try:
            for message in self.messages(ends):
                if "error" in message:
                    raise WayError(message["error"])
                if key in message:
                    found: dict[str, Any] = message[key]
                    return found
        except children.EndedEarlyError as error:
            raise WayError(str(error)) from error
        raise AssertionError("messages end by raising")


class Row:
    """A program: its ways are run in turn; one that fails says why."""

    def __init__(self, program: str, options: list[str]) -> None:
        self.program = program
        self._ways = {way: Way(way, program, options) for way in WAYS}
        self._found: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
        self._failed: dict[str, str] = {}

    def __enter__(self) -> Row:
        return self

    def __exit__(self, *_: object) -> None:
        for way in self._ways.values():
            way.__exit__()

    def _left(self) -> list[Way]:
        return [way for name, way in self._ways.items() if name not in self._failed]

    def _wait(self, way: Way, ends: float, *, imports: bool = False) -> dict[str, Any]:
        """The answer of a way; none if it fails, and then of none later."""
        try:
            if imports:
                way.ready(ends)
                return way.where
            return way.answer(ends)
        except WayError as error:
            self._failed[way.way] = str(error)
            return {}

    def _each(self, ends: float, what: str, **how: Any) -> None:
        """Have all ways do something, one after another; keep what they say."""
        for way in self._left():
            way.order(what, **how)
            self._found[way.way] |= self._wait(way, ends)

    def measure(
        self, arguments: argparse.Namespace, progress: Progress
    ) -> list[dict[str, Any]]:
        """The records of all ways."""
        ends = time.monotonic() + arguments.timeout
        where: dict[str, Any] = {}
        progress.say(self.program, "imports")
        for way in self._left():
            where = self._wait(way, ends, imports=True) or where
        progress.say(self.program, "builds")
        for way in self._left():
            way.order("warm")
        for way in self._left():
            self._wait(way, ends)
        progress.say(self.program, "first second")
        self._each(ends, "first", seconds=1.0)
        progress.say(self.program, "settles")
        self._each(ends, "settle", seconds=arguments.seconds)
        times = self._rounds(arguments, ends, progress)
        self._each(ends, "report")
        progress.say(self.program, "bits")
        self._each(ends, "bits", passes=arguments.passes)
        return [self._record(way, times) | where for way in WAYS]

    def _rounds(
        self, arguments: argparse.Namespace, ends: float, progress: Progress
    ) -> dict[str, list[dict[str, float]]]:
        """Times of each round, of ways that answered in all."""
        times: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for index in range(arguments.rounds):
            progress.say(self.program, f"round {index + 1} of {arguments.rounds}")
            order = self._left()
            random.Random(index).shuffle(order)
            for way in order:
                way.order("block", seconds=arguments.block)
                answer = self._wait(way, ends)
                if answer:
                    times[way.way].append(answer)
        return times

    def _record(
        self, way: str, times: dict[str, list[dict[str, float]]]
    ) -> dict[str, Any]:
        """What is written of a way."""
        record: dict[str, Any] = {"program": self.program, "mode": way}
        record["line"] = user_programs.ALL[self.program].line
        if why := self._failed.get(way):
            return record | {"error": why}
        if "eager" in self._failed:
            return record | {"error": f"eager: {self._failed['eager']}"}
        found, eager = self._found[way], self._found["eager"]
        record |= {key: value for key, value in found.items() if key != "digests"}
        record["first_second"] = record.pop("passes")
        record["first_second_ratio"] = found["passes"] / eager["passes"]
        return record | compared_times(times[way], times["eager"]) | self._bits(way)

    def _bits(self, way: str) -> dict[str, Any]:
        """Whether a way's bits are eager's."""
        expected, found = (self._found[name]["digests"] for name in ("eager", way))
        again = self._found["control"].get("digests")
        deterministic = again == expected if again else None
        names = [*expected, *(name for name in found if name not in expected)]
        differ = [name for name in names if found.get(name) != expected.get(name)]
        same = not differ
        return {
            "deterministic": deterministic,
            "bits": same if same or deterministic else None,
            "compared": len(names),
            "differing": differ[:DIFFERING],
        }


def compared_times(
    ours: list[dict[str, float]], eager: list[dict[str, float]]
) -> dict[str, float]:
    """Times of a pass, and eager's over them."""
    record: dict[str, float] = {}
    for key, name, short in (
        ("waited", "pass_us", "ratio"),
        ("back_to_back", "back_to_back_us", "back_to_back_ratio"),
    ):
        every = sorted(1e6 * block[key] for block in ours)
        ratios = [e[key] / o[key] for e, o in zip(eager, ours, strict=True)]
        low, high = models.bootstrap(ratios)
        record |= {
            name: statistics.median(every),
            f"{name}_p10": every[len(every) // 10],
            f"{name}_p90": every[9 * len(every) // 10],
            short: statistics.median(ratios),
            f"{short}_low": low,
            f"{short}_high": high,
        }
    return record


class Progress:
    """A line on a terminal that says what is measured; nothing in a file."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._begin = time.monotonic()
        self._shown = sys.stderr.isatty()
        self.row = 0

    def say(self, program: str, stage: str) -> None:
        """Replace the line."""
        if self._shown:
            took = time.monotonic() - self._begin
            text = f"{took:4.0f} s  {self.row} of {self._rows}, {program}: {stage}"
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
    todo = [n for n in names if not all((n, way) in modes for way in WAYS)]
    progress = Progress(len(todo))
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
                rows[name] = stack.enter_context(Row(name, options))
            return rows[name]

        for index, name in enumerate(todo):
            progress.row = index + 1
            row = prepared(index)
            if row is None:
                why = user_programs.missing(user_programs.ALL[name])
                found: list[dict[str, Any]] = [{"program": name, "error": why}]
                progress.clear()
                print(why, file=sys.stderr, flush=True)
            else:
                if prepares:
                    prepared(index + 1)
                with row:
                    found = row.measure(arguments, progress)
            found = [record | about | command for record in found]
            write(arguments.output, found)
            records = [r for r in records if r["program"] != name] + found
    progress.clear()
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
    records = measure(arguments.programs, arguments)
    print(program_tables.table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
