"""Whether this thread runs the callable of a region that is being recorded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Thread(threading.local):
    recording = False
    objects = False  # are among the arguments


thread = _Thread()


@contextlib.contextmanager
def recording(objects: bool = False) -> Iterator[None]:
    """It does, meanwhile."""
    before = thread.recording, thread.objects
    thread.recording, thread.objects = True, objects
    try:
        yield
    finally:
        thread.recording, thread.objects = before
