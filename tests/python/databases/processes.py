"""Runs units in processes, so that a sample which ends its process ends no more."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

SILENCE_S = 120.0  # after which a process is given up
LOG_BYTES = 1500
RESTARTED = "restarted"

Line = dict[str, Any]


class _Process:
    """A process of run.py that is given units, and answers with lines of JSON."""

    def __init__(self, options: list[str]) -> None:
        script = os.path.join(os.path.dirname(__file__), "run.py")
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._child = subprocess.Popen(
            [sys.executable, script, "--worker", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._selector = selectors.DefaultSelector()
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._selector.register(self._child.stdout, selectors.EVENT_READ)
        self._buffer = b""

    def ask(self, **order: Any) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(order).encode() + b"\n")
        self._child.stdin.flush()

    def answer(self, until_s: float) -> Line | None:
        """The next line, or None where the process has ended or says nothing."""
        assert self._child.stdout is not None
        while b"\n" not in self._buffer:
            patience = min(SILENCE_S, until_s - time.time())
            if patience <= 0 or not self._selector.select(patience):
                return None
            more = self._child.stdout.read(1 << 16)
            if not more:
                return None
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\n", 1)
        return dict(json.loads(line))

    def end(self) -> str:
        """Ends it if it is still running; how it ended, and the last of what it said."""
        self._child.kill()
        status = self._child.wait()
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(size - LOG_BYTES, 0))
        log = self._log.read().decode(errors="replace")
        self._log.close()
        ended = f"status {status}"
        if status < 0:
            ended = signal.Signals(-status).name
        return f"{ended}; {log}"


class _Feeder(threading.Thread):
    """Gives units to a process, and to another one where that ended."""

    def __init__(
        self, units: collections.deque[str], options: list[str], until_s: float
    ) -> None:
        super().__init__()
        self._units = units
        self._options = options
        self._until_s = until_s
        self.lines: list[Line] = []
        self.left: list[str] = []

    def run(self) -> None:
        process: _Process | None = None
        while self._units and time.time() < self._until_s:
            try:
                unit = self._units.popleft()
            except IndexError:  # another thread took the last one
                break
            after = -1
            while True:  # once more for each sample that ended its process
                process = process or _Process(self._options)
                begun = self._serve(process, unit, after)
                if begun is None:
                    break
                told = process.end()
                process = None
                if begun[1] == RESTARTED:
                    after = begun[0]
                    continue
                if time.time() >= self._until_s:  # it was we who ended it
                    self.left.append(unit)
                    break
                number, text = begun
                crash = {"unit": unit, "number": number, "text": text}
                self.lines.append({**crash, "crashed": told})
                if number <= after:  # not even to the next sample
                    break
                after = number
        if process is not None:
            process.end()

    def _serve(
        self, process: _Process, unit: str, after: int
    ) -> tuple[int, str] | None:
        """None if the unit is done, else the sample at which the process ended.

        With the text RESTARTED, the process asked for another one in its place.
        """
        begun = (after, "before its first sample")
        try:
            process.ask(unit=unit, after=after)
        except BrokenPipeError:
            return begun
        while (line := process.answer(self._until_s)) is not None:
            if "done" in line:
                return None
            if "restart" in line:
                return line["restart"], RESTARTED
            if "begin" in line:
                begun = (line["begin"], line["text"])
            else:
                self.lines.append(line)
        return begun


def run(
    units: list[str], processes: int, options: list[str], until_s: float
) -> tuple[list[Line], list[str]]:
    """A line for each sample, and the units for which there was no time.

    `until_s` is a time.time().
    """
    waiting = collections.deque(units)
    feeders = [_Feeder(waiting, options, until_s) for _ in range(processes)]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    lines = [line for feeder in feeders for line in feeder.lines]
    left = [unit for feeder in feeders for unit in feeder.left]
    return lines, left + list(waiting)
