"""Whether this thread runs the callable of a region that is being recorded."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack


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


def modes() -> tuple[Any, ...]:
    """Return modes that a call may begin and not end, and that no operator tells of."""
    return (
        torch.is_anomaly_enabled(),
        torch.is_anomaly_check_nan_enabled(),
        torch._C._is_multithreading_enabled(),
        torch._C._is_view_replay_enabled(),
        forward_ad._current_level,
        torch._C._functorch.maybe_current_level(),
        torch._C._autograd._saved_tensors_hooks_is_enabled(),
        torch.sparse.check_sparse_tensor_invariants.is_enabled(),
        torch.is_autocast_cache_enabled(),
        *(torch.get_autocast_dtype(device) for device in ("cpu", "cuda")),
        torch.backends.cudnn.benchmark,
        torch.utils.deterministic.fill_uninitialized_memory,
        *_get_current_function_mode_stack(),
    )


def are_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Return whether these modes are the same; a mode may compare as it likes."""
    return len(before) == len(after) and all(map(operator.is_, before, after))
