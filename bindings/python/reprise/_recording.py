"""Whether this thread runs the callable of a region that is being recorded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class _Watch(Protocol):
    """See `CallWatch`."""

    def pause(self) -> None: ...
    def go_on(self) -> None: ...


class _Thread(threading.local):
    recording = False
    objects = False  # are among the arguments
    watch: _Watch | None = None  # of the call that is recorded


thread = _Thread()


@contextlib.contextmanager
def recording(objects: bool = False, watch: _Watch | None = None) -> Iterator[None]:
    """Mark this thread as running such a callable, until the end of the block."""
    before = thread.recording, thread.objects, thread.watch
    thread.recording, thread.objects, thread.watch = True, objects, watch
    try:
        yield
    finally:
        thread.recording, thread.objects, thread.watch = before


def unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for a call that is not watched, because it runs in each call."""
    watch = thread.watch
    if watch is None:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        watch.pause()
        try:
            return function(*args, **kwargs)
        finally:
            watch.go_on()

    return call
