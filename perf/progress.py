"""A line on a terminal that says what is measured; nothing in a file.

    for number, name in enumerate(names, 1):
        with progress.row(number, len(names), name):
            record = measure(name)
        print(record)

The line is stderr's, and what measures may name its `stage`. What else goes to stderr
meanwhile is written by `tell`. Standard output and records are as without a terminal.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator

_CLEAR = "\r\x1b[K"
_BEGIN = time.monotonic()


class _Now:
    row = ""  # what is measured; empty: nothing is
    line = ""  # what the terminal shows


def say(text: str) -> None:
    """Replace the line, which begins with the seconds that the program has taken."""
    line = f"{time.monotonic() - _BEGIN:4.0f} s  {text}"
    if sys.stderr.isatty() and line != _Now.line:
        _Now.line = line
        width = shutil.get_terminal_size().columns - 1
        print(f"{_CLEAR}{line[:width]}", end="", file=sys.stderr, flush=True)


def clear() -> None:
    """Leave the terminal as it was, whichever process wrote the line."""
    if sys.stderr.isatty():
        _Now.line = ""
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def tell(*what: object) -> None:
    """Write a line to stderr that stays, as `print` does."""
    clear()
    print(*what, file=sys.stderr, flush=True)
    if _Now.row:
        say(_Now.row)


@contextlib.contextmanager
def row(number: int, total: int, name: str) -> Iterator[None]:
    """Show that this is measured, the `number`-th of so many."""
    _Now.row = f"{number} of {total}, {name}"
    say(_Now.row)
    try:
        yield
    finally:
        _Now.row = ""
        clear()


def stage(text: str) -> None:
    """Show what is done for the row, if a row is measured."""
    if _Now.row:
        say(f"{_Now.row}: {text}")
