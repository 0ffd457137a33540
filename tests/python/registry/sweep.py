"""Runs every hooked operator on random inputs, and checks what Reprise believes of it.

    python tests/python/registry/sweep.py [--device cuda] [--jobs 2] [--calls 3]
        [--every N] [--within SECONDS] [--json FILE]

Each call is examined by eager alone (effects.py) and then repeated under Reprise among
ordinary ops (replays.py). What the hooks' tables do not cover is a problem: printed, and
the exit status is 1, as it is where there was no time for all. Workers are processes, so that a call which torch cannot survive
ends one of them and no more.

What a problem asks for, in `bindings/torch/runtime/op_policy.cc`:

- writes what neither schema nor tables say: a row of `kHiddenWrites`
- draws from the default generator: a rule of `MayUseGenerator`
- gives out memory that it keeps, or is not as eager: a row of `kCuts`
- is several ops, or none, or there is work that no op made: it or what it calls should be
  hooked; see `MayBeHooked` and `kNotHooked`
- equal arguments give other results, unknown reason: a line of `known.py` that says why it
  does no harm, or a row of `kCuts`
- nothing is so any more (of a whole sweep): the line of `known.py` goes
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from typing import Any

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(here.parent))
    sys.path.append(str(here.parents[2] / "bindings" / "python"))

CALLS = 3  # of an operator in each worker, each of another form
SLOWEST = 40  # calls that the record names
SILENCE_S = 300.0  # after which a worker is given up
GRACE_S = 10.0  # for the unit that is running when the time is over

Line = dict[str, Any]


# --- In a worker ------------------------------------------------------------------


def work(order: dict[str, Any], out: Any) -> None:
    """Run the units of an order; a line of JSON for all that begins or is found.

    Raises, and leaves the rest to another process, where the device is lost.
    """
    from registry import calls, effects, known, replays
    from registry.hooks import check_device
    from registry.memory import form

    def say(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    forms: dict[str, set[Any]] = collections.defaultdict(set)
    counts: collections.Counter[str] = collections.Counter(order["counts"])
    skip = known.BREAK_TORCH.keys() | set(order["skip"])
    limit, device = order["calls"], order["device"]

    def full(name: str) -> bool:
        return counts[name] >= limit or name in skip

    for unit in order["units"]:
        if time.time() > order["until_s"]:
            say(left=unit)
            continue
        say(unit=unit)
        for call in calls.calls_of(unit, device, limit, full):
            key = form((call.args, call.kwargs))
            if full(call.name) or key in forms[call.name]:
                continue
            forms[call.name].add(key)
            say(begin=call.name, stage="eager")
            began = time.monotonic()
            try:
                found = effects.examine(call, device)
            except Exception:  # not a call that can be repeated, after all
                check_device()
                continue
            counts[call.name] += 1
            say(begin=call.name, stage="replay")
            repeats = found["repeats"] and not known.unrepeatable(call.name)
            try:
                found.update(replays.replay(call, device, repeats))
            except Exception as error:
                found.update(replays.NOTHING, differs=f"it raised {error}")
            found["seconds"] = time.monotonic() - began
            say(op=call.name, source=unit, form=str(key)[:300], **found)
            check_device()


# --- In the parent ----------------------------------------------------------------


class Worker(threading.Thread):
    """Gives units to processes, one after another, until all are done."""

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__()
        self._order = order
        self.lines: list[Line] = []
        self.crashes: list[Line] = []
        self.left: list[str] = []  # for which there was no time

    def run(self) -> None:
        order = self._order
        while order["units"] and time.time() < order["until_s"]:
            crash = self._serve(order)
            if crash is None:
                return
            at = order["units"].index(crash["unit"])
            if time.time() < order["until_s"]:  # else it was ended by us
                self.crashes.append(crash)
                # Go on with the same unit, but without the operator that did not return.
                at += crash["unit"].startswith("schema:") or "op" not in crash
                order["skip"].append(crash.get("op", ""))
                order["counts"] = collections.Counter(line["op"] for line in self.lines)
            else:
                print(
                    f"ended in {crash['unit']}: {crash.get('op')} ({crash.get('stage')})"
                )
            order["units"] = order["units"][at:]
        self.left += order["units"]

    def _serve(self, order: dict[str, Any]) -> Line | None:
        """None when all is done, else where the process was when it ended."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "order").write_text(json.dumps(order))
            (folder / "out").touch()
            with open(folder / "log", "w") as log:
                process = subprocess.Popen(
                    [sys.executable, __file__, "--worker", name],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
                size, since = -1, time.monotonic()
                while process.poll() is None:
                    time.sleep(0.1)
                    now = (folder / "out").stat().st_size
                    if now != size:
                        size, since = now, time.monotonic()
                    elif time.monotonic() - since > SILENCE_S:
                        process.kill()
                    if time.time() > order["until_s"] + GRACE_S:
                        process.kill()
            crash = self._read((folder / "out").read_text(), order)
            if process.returncode == 0:
                return None
            log_text = (folder / "log").read_text()
            _, fatal, stack = log_text.rpartition("Fatal Python error")
            said = fatal + stack[:1000] if fatal else log_text[-1000:]
            return {**crash, "status": process.returncode, "log": said}

    def _read(self, text: str, order: dict[str, Any]) -> Line:
        """Keep what was found; where the process was when it wrote its last line."""
        unit, begun = order["units"][0], {}
        for row in text.splitlines():
            if not row.endswith("}"):  # it ended in the middle of this line
                continue
            line = json.loads(row)
            if "left" in line:
                self.left.append(line["left"])
            elif "unit" in line:
                unit, begun = line["unit"], {}
            elif "begin" in line:
                begun = {"op": line["begin"], "stage": line["stage"]}
            else:
                self.lines.append(line)
        return {"unit": unit, **begun}


def sweep(
    units: list[str],
    device: str,
    *,
    jobs: int = 2,
    calls: int = CALLS,
    until_s: float = float("inf"),
) -> tuple[list[Line], list[Line], list[str]]:
    """All findings, all crashes, and the units that were left at `until_s` (time.time())."""
    orders = [
        {
            "units": units[number::jobs],
            "device": device,
            "calls": calls,
            "skip": [],
            "counts": {},
            "until_s": until_s,
        }
        for number in range(jobs)
    ]
    workers = [Worker(order) for order in orders if order["units"]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (
        [line for worker in workers for line in worker.lines],
        [crash for worker in workers for crash in worker.crashes],
        [unit for worker in workers for unit in worker.left],
    )


def whole(device: str, **how: Any) -> tuple[list[Line], list[Line], list[str]]:
    """A sweep of all sources of calls, and of guesses at what they do not reach."""
    from registry import findings
    from registry.calls import units  # torch's lists of samples take seconds to load

    lines, crashes, left = sweep(units(), device, **how)
    rest = findings.worth_guessing(line["op"] for line in lines)
    guessed = sweep([f"schema:{name}" for name in rest], device, **how)
    return lines + guessed[0], crashes + guessed[1], left + guessed[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--units", nargs="*", help="only these: op:add")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="every Nth source of calls"
    )
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument(
        "--json", type=pathlib.Path, help="what was found, for programs"
    )
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.worker is not None:
        faulthandler.enable()  # the parent keeps the end of what a process says
        order = json.loads((given.worker / "order").read_text())
        with open(given.worker / "out", "a") as out:
            work(order, out)
        return 0

    from registry import findings

    started = time.time()
    how = {
        "jobs": given.jobs,
        "calls": given.calls,
        "until_s": started + given.within,
    }
    if given.units is None and given.every > 1:
        from registry.calls import units

        given.units = units()[:: given.every]
    if given.units is None:
        lines, crashes, left = whole(given.device, **how)
    else:
        lines, crashes, left = sweep(given.units, given.device, **how)
    summary = findings.summarize(lines)
    problems = findings.problems(lines, crashes)
    if given.units is None and not left:
        problems += findings.unneeded(lines, given.device)
    for problem in problems:
        print(f"PROBLEM {problem}")
    if left:
        print(
            f"no time for {len(left)} of the sources of calls: {', '.join(left)[:500]}"
        )
    print(
        f"{len(lines)} calls in {time.time() - started:.0f} s",
        findings.counts(summary),
        f"{len(problems)} problems",
        f"{len(crashes)} processes that ended early",
        sep="; ",
    )
    slowest = sorted(lines, key=lambda line: -line["seconds"])[:SLOWEST]
    print(
        "slowest:", *(f"{line['op']} {line['seconds']:.1f} s;" for line in slowest[:3])
    )
    if given.json is not None:
        found = {
            "problems": problems,
            "crashes": crashes,
            "left": left,
            "calls": len(lines),
            "seconds": sum(line["seconds"] for line in lines),
            "slowest": [
                {key: line[key] for key in ("op", "source", "seconds")}
                for line in slowest
            ],
            "operators": findings.notable(summary),
        }
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if problems or left else 0


if __name__ == "__main__":
    sys.exit(main())
