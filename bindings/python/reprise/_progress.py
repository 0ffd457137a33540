"""A line on a terminal that says what a call waits for.

There is none in a file, in a notebook or under pytest.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable

_AFTER_S = 1.0  # a wait that is shorter shows nothing
_CLEAR = "\r\x1b[K"


class Waiting:
    """Says how much is done and how long it took, in one line, written anew each second.

    `count` returns how many things have ended since some time, and how many there were.
    Those that had ended when the wait began are left out.

    The owner calls `tick` several times a second, and leaves the block when the wait is
    over. Nothing is shown where stderr is no terminal.
    """

    def __init__(self, what: str, count: Callable[[], tuple[int, int]]) -> None:
        self._what = what
        self._count = count
        self._before = count()[0] if _has_terminal() else 0  # a count is an op
        self._begin = time.monotonic()
        self._shown = 0  # the seconds that the terminal says

    def __enter__(self) -> Waiting:
        return self

    def tick(self) -> None:
        """Write the line if another second has passed."""
        took = time.monotonic() - self._begin
        if took < _AFTER_S or int(took) == self._shown or not _has_terminal():
            return
        self._shown = int(took)
        done, all_ = (max(0, number - self._before) for number in self._count())
        _write(f"{_CLEAR}Reprise: {self._what}, {done} of {all_}, {self._shown} s")

    def __exit__(self, *_: object) -> None:
        if self._shown:
            _write(_CLEAR)


def _has_terminal() -> bool:
    if "PYTEST_CURRENT_TEST" in os.environ or os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal is gone
        sys.stderr.write(text)
        sys.stderr.flush()
