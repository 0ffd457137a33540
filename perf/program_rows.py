"""The row of a program: its ways are run in turn, each in a process of its own.

What is measured, and in which order, is said in programs.py.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import children
import models
import progress
import user_programs

RUNS = pathlib.Path(__file__).with_name("program_runs.py")
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

    def __init__(self, program: str, ways: Sequence[str], options: list[str]) -> None:
        self.program = program
        self._ways = {way: Way(way, program, options) for way in ways}
        self._found: dict[str, dict[str, Any]] = {way: {} for way in ways}
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

    def measure(self, arguments: argparse.Namespace) -> list[dict[str, Any]]:
        """The records of all ways."""
        ends = time.monotonic() + arguments.timeout
        where: dict[str, Any] = {}
        progress.stage("imports")
        for way in self._left():
            where = self._wait(way, ends, imports=True) or where
        progress.stage("builds")
        for way in self._left():
            way.order("warm")
        for way in self._left():
            self._wait(way, ends)
        progress.stage("first second")
        self._each(ends, "first", seconds=1.0)
        progress.stage("settles")
        self._each(ends, "settle", seconds=arguments.seconds)
        times = self._rounds(arguments, ends)
        self._each(ends, "report")
        progress.stage("bits")
        self._each(ends, "bits", passes=arguments.passes)
        return [self._record(way, times) | where for way in self._ways]

    def _rounds(
        self, arguments: argparse.Namespace, ends: float
    ) -> dict[str, list[dict[str, float]]]:
        """Times of each round, of ways that answered in all."""
        times: dict[str, list[dict[str, float]]] = {way: [] for way in self._ways}
        for index in range(arguments.rounds):
            progress.stage(f"round {index + 1} of {arguments.rounds}")
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
