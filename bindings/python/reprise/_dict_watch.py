"""Dictionaries whose changes the library tells of."""

from __future__ import annotations

import ctypes
import operator
import sys
import weakref
from collections.abc import Callable
from typing import Any

from reprise import _native


def watchable() -> bool:
    """Dictionaries can be watched without looking into them."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return sys.version_info[:3] != (3, 13, 0)


LOOKS_ALWAYS = not watchable()


class Watch:
    """Some of them, others in their place from time to time."""

    _watcher: int | None = None  # of the interpreter's, from 3.12 on

    def __init__(self) -> None:
        self.handle = 0
        self._armed: list[dict[Any, Any]] = []
        self._end: Callable[[], Any] | None = None

    def arm(self, dicts: list[dict[Any, Any]]) -> None:
        """From now on, these."""
        ops = _native._ops()
        if LOOKS_ALWAYS or (
            len(dicts) == len(self._armed)
            and all(map(operator.is_, dicts, self._armed))
        ):
            return
        self._armed = dicts
        if self._end is not None:
            self._end()
        if sys.version_info < (3, 12):
            self.handle = ops.watch_dicts([id(each) for each in dicts])
        else:
            watch = self._interpreter()
            for each in dicts:
                watch(each)
            self.handle = ops.watch_dicts([])
        self._end = weakref.finalize(self, ops.unwatch_dicts, self.handle)

    @classmethod
    def _interpreter(cls) -> Callable[[dict[Any, Any]], None]:
        api = ctypes.pythonapi
        if cls._watcher is None:
            callback = ctypes.c_void_p(_native._ops().dict_watcher())
            cls._watcher = api.PyDict_AddWatcher(callback)
        watcher = ctypes.c_int(cls._watcher)
        return lambda each: api.PyDict_Watch(watcher, ctypes.py_object(each))
