"""One way of running a program of user_programs/, in this process (see programs.py).

    python perf/program_runs.py --program gan --way always --commit COMMIT

Imports the program's libraries, and tells ``{"where": ...}``. Then each line of stdin is
a JSON object that says what to do, and is answered by a line of stdout:

- ``{"do": "warm"}``: two passes of a program that is then dropped, by eager, so that
  libraries have loaded what they load once; then the program is built;
- ``{"do": "first", "seconds": S}``: Reprise is enabled, if this way has it, and stays so;
  passes for so long, each waited for;
- ``{"do": "settle", "seconds": S}``: the same, without a word on them;
- ``{"do": "block", "seconds": S}``: passes that are waited for, then passes back to back;
- ``{"do": "report"}``: what Reprise says since it has settled;
- ``{"do": "bits", "passes": N}``: the program is built again from its seed, and hashes of
  all that so many passes show and leave.

An answer with ``error`` is the last one.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import itertools
import json
import shlex
import statistics
import sys
import time
import traceback
from typing import Any

import children
import models
import reprise
import torch
import user_programs
from user_programs import program as program_module

# Options of `reprise.enable` of the ways that have it.
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "always": {"policy": "always"},
    "region": {},
}
EAGERS = ("eager", "control")
WAYS = (*EAGERS, *OURS)
WARM_PASSES = 2
LEAST = 2  # passes of a block
WAITED = 12  # passes after which bits do not wait for builds any more


def policy_of(options: dict[str, Any]) -> str:
    """The policy that these options ask for."""
    default = next(o.default for o in reprise.options() if o.name == "policy")
    return options.get("policy", default)


class Run:
    """A program, as it is run by one way."""

    def __init__(self, way: str, name: str, setting: user_programs.Setting) -> None:
        self._options = OURS.get(way)
        self._program = user_programs.ALL[name]
        self._setting = setting
        self._regions: list[Any] | None = [] if way == "region" else None
        self._settled_calls = (0, 0)
        self._built: user_programs.Built | None = None
        self._numbers = itertools.count()
        self._settled: reprise.Stats | None = None

    def _synchronize(self) -> None:
        if self._setting.device.startswith("cuda"):
            torch.cuda.synchronize()

    def _pass(self) -> None:
        assert self._built
        self._built.step(next(self._numbers))

    def timed(self) -> float:
        """Seconds of a pass that is waited for."""
        begin = time.perf_counter()
        self._pass()
        self._synchronize()
        return time.perf_counter() - begin

    def warm(self) -> dict[str, Any]:
        """Have libraries load what they load once, and build the program."""
        thrown_away = self._program.start(self._setting)
        for number in range(WARM_PASSES):
            thrown_away.step(number)
        self._synchronize()
        del thrown_away
        gc.collect()
        self._built = self._start()
        self._synchronize()
        return {}

    def _start(self) -> user_programs.Built:
        """Build the program, with regions if this way has them."""
        if self._regions is None:
            return self._program.start(self._setting)
        self._regions.clear()
        return self._program.start(
            dataclasses.replace(self._setting, regions=self._regions)
        )

    def _calls(self) -> tuple[int, int]:
        """All calls of regions, and those that were replayed."""
        reports = [region.explain() for region in self._regions or ()]
        return sum(r.calls for r in reports), sum(r.replayed for r in reports)

    def first(self, seconds: float) -> dict[str, Any]:
        """Passes that are done in the first seconds, and which is the first replayed."""
        if self._options is not None:
            reprise.enable(self._setting.device, **self._options)
        replayed = None
        begin = before = time.perf_counter()
        for done in itertools.count():
            self._pass()
            self._synchronize()
            now = time.perf_counter()
            if now - begin >= seconds:  # of the last pass, the part within
                passes = done + (begin + seconds - before) / (now - before)
                return {"passes": passes, "first_replay_pass": replayed}
            if (
                self._options is not None
                and replayed is None
                and reprise.stats().replays
            ):
                replayed = done
            before = time.perf_counter()

    def settle(self, seconds: float) -> dict[str, Any]:
        """Passes until all is learned that will be."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.timed()
        if self._options is not None:
            self._settled = reprise.stats()
            self._settled_calls = self._calls()
        return {}

    def block(self, seconds: float) -> dict[str, Any]:
        """Seconds of a pass: each waited for (the median), and back to back."""
        self.timed()
        waited: list[float] = []
        while len(waited) < LEAST or sum(waited) < seconds:
            waited.append(self.timed())
        begin = time.perf_counter()
        for done in itertools.count():
            if done >= LEAST and time.perf_counter() - begin >= seconds:
                break
            self._pass()
        self._synchronize()
        each = (time.perf_counter() - begin) / done
        return {"waited": statistics.median(waited), "back_to_back": each}

    def report(self) -> dict[str, Any]:
        """What became of the operators since all was learned."""
        if self._settled is None:
            return {}
        now = reprise.stats().since(self._settled)
        found = reprise.explain()
        print(found, file=sys.stderr, flush=True)
        plans = [p for p in found.to_dict()["plans"] if p["state"] == "ready"]
        return {
            "policy": policy_of(self._options or {}),
            "followed": now.followed / max(now.ops, 1),
            "replays": now.replays,
            "squashes": now.squashes,
            "plans": len(plans),
            "report": str(found).splitlines()[0],
        } | self._regions_report()

    def _regions_report(self) -> dict[str, int]:
        """Calls of regions since all was learned, if this way has regions."""
        if self._regions is None:
            return {}
        for region in self._regions:
            print(region.explain(), file=sys.stderr, flush=True)
        calls, replayed = self._calls()
        before, replayed_before = self._settled_calls
        return {"calls": calls - before, "calls_replayed": replayed - replayed_before}

    def bits(self, passes: int) -> dict[str, Any]:
        """Hashes of all that passes from the seed show and leave."""
        self._built = None
        gc.collect()
        ours = self._options is not None
        before = reprise.stats() if ours else None
        built = self._start()
        outputs = []
        for number in range(passes):
            outputs.append(built.step(number))
            if ours and number < WAITED:
                reprise.wait()
        self._synchronize()
        replays = reprise.stats().since(before).replays if before else None
        found = program_module.digests(outputs, built, self._setting.device)
        return {"digests": found, "bits_replays": replays}


def environment(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where this is measured."""
    if not arguments.host:
        return models.environment(arguments)
    return {
        "gpu": "none: the host executor",
        "driver": "",
        "torch": torch.__version__,
        "commit": arguments.commit,
        "dirty": arguments.dirty,
        "command": shlex.join(["python", *sys.argv]),
    }


def main() -> None:
    """Do what stdin says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, choices=list(user_programs.ALL))
    parser.add_argument("--way", required=True, choices=WAYS)
    parser.add_argument("--size", default="full", choices=("small", "full"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--dirty", action="store_true")
    arguments = parser.parse_args()
    tell = children.teller()  # what libraries print goes to stderr
    for library in user_programs.ALL[arguments.program].needs:
        importlib.import_module(library)
    tell(where=environment(arguments))
    program_module.settle_numerics()
    device = "cpu" if arguments.host else "cuda"
    setting = user_programs.Setting(device, arguments.size, arguments.seed)
    run = Run(arguments.way, arguments.program, setting)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            tell(answer=getattr(run, order.pop("do"))(**order))
        except Exception as error:
            traceback.print_exc()
            tell(error=children.said(error))
            return


if __name__ == "__main__":
    main()
