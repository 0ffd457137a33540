"""Stops recording under torch's profilers, which need CUPTI for themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.autograd import profiler

_PAUSED = "_reprise_paused"


def wrap(*, pause: Callable[[], None], resume: Callable[[], None]) -> None:
    """Call `pause` before a profile prepares or starts, `resume` after it ends.

    `torch.profiler.profile` goes through the same class. Once a process.
    """
    cls: Any = profiler.profile

    def before(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not getattr(self, _PAUSED, False):
                setattr(self, _PAUSED, True)
                pause()
            return method(self, *args, **kwargs)

        return wrapper

    def after(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            finally:
                if getattr(self, _PAUSED, False):
                    setattr(self, _PAUSED, False)
                    resume()

        return wrapper

    cls._prepare_trace = before(cls._prepare_trace)
    cls._start_trace = before(cls._start_trace)
    cls.__exit__ = after(cls.__exit__)
