"""README's first table and its figure: measured, and drawn from the record alone.

    python perf/front_page.py --commit COMMIT                   # measures all six rows
    python perf/front_page.py --commit COMMIT --models model:bert_fp16,model:gpt2_bf16
    python perf/front_page.py --commit COMMIT --quick --output trial.jsonl
    python perf/front_page.py --draw                            # the figure, without a GPU

A row is measured by front_rows.py in a process of its own, whose docstring says how,
one after another; the next one imports its libraries while a row is measured. The whole
takes at most ``--seconds``: a row may take what is left but for what the rows behind it
need. A way that raises, or a compilation that takes too long, is written
as an error; so is a row whose process ends early or has to be ended. The record is
written after each row. ``--models`` measures some of the rows, for the same record: its
rows replace those that it has. A record is of one GPU and one commit, else the command
stops before it measures.

The record has a JSON object a line, of one row and one way (``mode``):

- median_us: of a call that is waited for, the median of interleaved rounds; ratio: eager
  over it, of paired rounds, with a bootstrap 95 % interval;
- first_fast_s: seconds from before the way is made (``torch.compile``, ``reprise.region``
  or ``reprise.enable``; its model is there) until the end of the first call that takes at
  most 1.25 times median_us, each call waited for; null where none of the first calls did,
  of which there were first_calls in first_calls_s; first_fast_call: its number, from 1;
- prepare_s: what Reprise (CUPTI, a kernel) or torch.compile (imports, helper processes) do
  once a process, measured before with an addition. A process with one way pays both:
  the table's seconds are first_fast_s + prepare_s;
- bits: whether all outputs of 50 calls, or all state, gradients, losses and the
  generator after 50 training steps, have eager's bits; compared: the number of tensors;
  replays: those of Reprise in these calls;
- policy: of Reprise, the default; error: why there are no numbers;
- gpu, driver, torch, commit, dirty, command.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import shlex
import signal
import sys
import time
from typing import Any

import children
import progress
import tables
from children import EndedEarlyError

ROWS = pathlib.Path(__file__).with_name("front_rows.py")
NEEDED = {"model": 45.0, "step": 110.0}  # seconds that are kept for each later row
GRACE = 2.0  # seconds that a row may take longer than it was told
QUICK_SECONDS = 30.0
QUICK_PROGRAM = "model:vit_s_fp16"
STAGES = {
    "enable": "reprise.enable",
    "region": "reprise.region",
    "graph": "hand-written graph",
    "compile": "torch.compile",
    "reduce_overhead": "torch.compile, reduce-overhead",
}


class RecordError(ValueError):
    """What was measured does not belong into the record."""


def refusal(
    known: tables.FrontRecord, where: dict[str, Any], path: pathlib.Path
) -> str | None:
    """Why what is measured here cannot join the record, if it cannot."""
    for record in known.values():
        for key in ("gpu", "commit"):
            if record[key] != where[key]:
                return (
                    f"{path} is of {key} {record[key]}, and this is {where[key]}: "
                    "give another --output, or remove the file to measure all anew"
                )
    return None


def write(path: pathlib.Path, records: tables.FrontRecord) -> None:
    """Replace the file as a whole, with rows and ways in their order."""
    programs = list(tables.FRONT_PROGRAMS)
    modes = list(tables.FRONT_MODES)
    order = sorted(
        records.values(),
        key=lambda r: (programs.index(r["program"]), modes.index(r["mode"])),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text("".join(json.dumps(record) + "\n" for record in order))
    part.replace(path)


def allowed(programs: list[str], seconds: float) -> float:
    """Seconds that the first of these rows may take, of those that are left for all."""
    needed = [NEEDED[program.partition(":")[0]] for program in programs]
    return max(seconds - sum(needed[1:]), seconds * needed[0] / sum(needed))


class Row(children.Child):
    """The process that measures a row; it imports its libraries at once.

    It waits for `go`.
    """

    def __init__(self, program: str, options: list[str]) -> None:
        self.program = program
        super().__init__([sys.executable, str(ROWS), f"--program={program}", *options])

    def go(self, seconds: float) -> None:
        """Have it measure, in so many seconds."""
        self.tell(str(seconds))


class Command:
    """Measures rows one after another, and writes the record after each."""

    def __init__(self, programs: list[str], arguments: argparse.Namespace) -> None:
        self._programs = programs
        self._output: pathlib.Path = arguments.output
        self._ends = time.monotonic() + arguments.seconds
        self._options = [f"--commit={arguments.commit}"]
        self._options += ["--dirty"] * arguments.dirty + ["--quick"] * arguments.quick
        self._known: tables.FrontRecord = {}
        if self._output.exists():
            self._known = tables.read_front(self._output)
        self._where: dict[str, Any] = {}

    def run(self) -> tables.FrontRecord:
        """Measure, and give the record."""
        with contextlib.ExitStack() as stack:
            rows = [stack.enter_context(Row(self._programs[0], self._options))]
            for index, program in enumerate(self._programs):
                row = rows[index]
                left = self._programs[index:]
                with row:
                    records = self._measure(row, index, left, rows, stack)
                for record in records:
                    whole = {"program": program} | record | self._where
                    self._known[program, record["mode"]] = whole
                write(self._output, self._known)
        progress.clear()
        return self._known

    def _measure(
        self,
        row: Row,
        index: int,
        left: list[str],
        rows: list[Row],
        stack: contextlib.ExitStack,
    ) -> list[dict[str, Any]]:
        """One row; the next one begins its imports."""
        now = time.monotonic()
        ends = now + allowed(left, self._ends - now)
        stage = "imports"
        try:
            for message in row.messages(ends):
                progress.say(self._line(index, stage))
                if "where" in message:
                    self._here(message["where"])
                    row.go(ends - time.monotonic() - GRACE)
                    if len(left) > 1:
                        rows.append(stack.enter_context(Row(left[1], self._options)))
                elif "stage" in message:
                    stage = STAGES.get(message["stage"], message["stage"])
                elif "records" in message:
                    return message["records"]
        except EndedEarlyError as error:
            if not self._where:
                raise
            if len(left) > 1 and len(rows) == index + 1:
                rows.append(stack.enter_context(Row(left[1], self._options)))
            why = f"at {stage} {error}"
            return [{"mode": mode, "error": why} for mode in tables.FRONT_MODES]
        raise AssertionError("messages end by raising")

    def _line(self, index: int, stage: str) -> str:
        name = tables.FRONT_PROGRAMS[self._programs[index]]
        return f"row {index + 1} of {len(self._programs)}, {name}: {stage}"

    def _here(self, where: dict[str, Any]) -> None:
        """Where a row is measured, which must be where the others were."""
        if why := refusal(self._known, where, self._output):
            raise RecordError(why)
        self._where = where | {"command": shlex.join(["python", *sys.argv])}


def chosen(text: str | None, quick: bool) -> list[str]:
    """The rows that were asked for."""
    if text is None:
        return [QUICK_PROGRAM] if quick else list(tables.FRONT_PROGRAMS)
    names = text.split(",")
    for name in names:
        if name not in tables.FRONT_PROGRAMS:
            every = ", ".join(tables.FRONT_PROGRAMS)
            raise argparse.ArgumentTypeError(f"no row is {name!r}; rows are {every}")
    return list(dict.fromkeys(names))


def interrupted(*_: object) -> None:
    """SIGTERM ends the rows' processes, too."""
    raise SystemExit(143)


def main() -> int:
    """Parse arguments, then measure or draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", help="rows to measure, with commas between")
    parser.add_argument("--commit", help="of the library and of this file")
    parser.add_argument("--dirty", action="store_true", help="not just that commit")
    parser.add_argument("--seconds", type=float, help="for all (470; 30 with --quick)")
    parser.add_argument(
        "--quick", action="store_true", help="one row, few calls: a trial, no record"
    )
    parser.add_argument("--output", type=pathlib.Path, default=tables.FRONT)
    parser.add_argument(
        "--draw", action="store_true", help="the figure from the record"
    )
    arguments = parser.parse_args()
    if arguments.draw:
        import front_figure

        if not arguments.output.exists():
            parser.error(f"there is no record {arguments.output}: measure first")
        for path in front_figure.draw(tables.read_front(arguments.output)):
            print(path)
        return 0
    if not arguments.commit:
        parser.error("--commit is needed: what git rev-parse --short HEAD says")
    if arguments.quick and arguments.output == tables.FRONT:
        parser.error("--quick measures too little for the record: give an --output")
    if arguments.seconds is None:
        arguments.seconds = QUICK_SECONDS if arguments.quick else 470.0
    try:
        programs = chosen(arguments.models, arguments.quick)
    except argparse.ArgumentTypeError as error:
        parser.error(f"--models: {error}")
    signal.signal(signal.SIGTERM, interrupted)
    try:
        records = Command(programs, arguments).run()
    except (RecordError, EndedEarlyError) as error:
        print(f"front_page.py: {error}", file=sys.stderr)
        return 1
    print(tables.front_table(records), end="")
    for (program, mode), record in records.items():
        if "error" in record:
            print(f"{program} {mode}: {record['error']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
