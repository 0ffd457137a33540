"""Whether this thread runs the callable of a region that is being recorded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Thread(threading.local):
    recording = False


thread = _Thread()


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """It does, meanwhile."""
    before, thread.recording = thread.recording, True
    try:
        yield
    finally:
        thread.recording = before
