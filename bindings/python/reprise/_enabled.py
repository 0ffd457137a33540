"""What is enabled, and by which blocks of the program.

Blocks of several threads or coroutines may overlap, so that the first one to begin is
the first one to end. The newest block that has not ended says what is enabled.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

from reprise import _native


class _Block:
    """A block that has not ended, or the program outside of all blocks."""

    def __init__(self, runtime: int | None, brief: bool) -> None:
        self.runtime = runtime  # what is enabled in it
        self.brief = brief


class _Blocks:
    """All of the process, the oldest first; the program outside of them is the first."""

    def __init__(self) -> None:
        # A warning of Reprise's may run code of the program's, which may enable it.
        self.lock = threading.RLock()
        self.held = [_Block(None, brief=False)]


_blocks = _Blocks()


def _after_fork() -> None:
    """The child runs without Reprise, and without whoever has taken the lock."""
    _blocks.lock = threading.RLock()
    for block in _blocks.held:
        block.runtime = None


os.register_at_fork(after_in_child=_after_fork)


def change(begin: Callable[[], None]) -> None:
    """Enable or disable by `begin`, until the block ends in which this is called."""
    with _blocks.lock:
        begin()
        block = next(block for block in reversed(_blocks.held) if not block.brief)
        block.runtime = _native.active()


@contextlib.contextmanager
def block(begin: Callable[[], None], *, brief: bool = False) -> Iterator[int | None]:
    """Enable or disable by `begin` for a block, which is given what is enabled then.

    What the program changes within a brief block, on any thread, outlives the block.
    """
    with _blocks.lock:
        begin()
        made = _Block(_native.active(), brief)
        _blocks.held.append(made)
    try:
        yield made.runtime
    finally:
        with _blocks.lock:
            was_newest = _blocks.held[-1] is made
            _blocks.held.remove(made)
            if was_newest:
                _native.activate(_blocks.held[-1].runtime)
