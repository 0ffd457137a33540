"""Processes that measure, and tell by JSON lines on their stdout."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


def teller() -> Callable[..., None]:
    """In such a process: what tells a message. Else what goes to stdout goes to stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def tell(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")

    return tell


def said(error: BaseException) -> str:
    """An error in one line."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:300]


class EndedEarlyError(RuntimeError):
    """A process did not tell what it was started for."""


class Child:
    """A process, and what it tells.

    Leaving the ``with`` ends it, and the processes that it started.
    """

    def __init__(self, command: list[str]) -> None:
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def tell(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # `messages` says that it ended
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def messages(self, ends: float) -> Iterator[dict[str, Any]]:
        """What it tells, until `ends` by ``time.monotonic``; each second nothing."""
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise EndedEarlyError("its time was over")
            try:
                line = self._lines.get(timeout=min(1.0, left))
            except queue.Empty:
                yield {}
                continue
            if line is None:
                raise EndedEarlyError(f"its process ended: {self._last_words()}")
            yield json.loads(line)

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0)
        lines = [line.strip() for line in self._said if line.strip()]
        last = lines[-1][:300] if lines else "it said nothing"
        return f"{last} (exit status {self._process.returncode})"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._said.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()  # all that held the pipe has ended
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
