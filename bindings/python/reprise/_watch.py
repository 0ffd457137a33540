"""Objects whose changes the library tells of."""

from __future__ import annotations

import collections
import ctypes
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from reprise import _native

_WORD = ctypes.sizeof(ctypes.c_size_t)
_DICT_VERSION = 3 * _WORD  # before Python 3.12, behind the number of its entries


def _places(of: Any, *held: Any) -> list[int]:
    """Where in an object stand the addresses of what it holds, in bytes.

    Raises ValueError: not all of them do.
    """
    count = type(of).__basicsize__ // _WORD
    words = list((ctypes.c_size_t * count).from_address(id(of)))
    return [_WORD * words.index(id(each)) for each in held]


def _layout() -> dict[type, list[int]] | None:
    """By type: the words that change with it; None: it is not known."""

    def made(by: tuple[int, ...] = (), *, of: tuple[int, ...] = ()) -> object:
        return made, by, of

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    if sys.version_info[:3] == (3, 13, 0):  # neither versions nor watchers
        return None
    try:
        return {
            types.FunctionType: _places(
                made, made.__code__, made.__defaults__, made.__kwdefaults__
            ),
            types.CellType: _places(types.CellType(made), made),
            collections.defaultdict: _places(collections.defaultdict(made), made),
        }
    except ValueError:
        return None


_LAYOUT = _layout()
LOOKS_ALWAYS = _LAYOUT is None


class Watch:
    """Dictionaries, functions and cells, others in their place from time to time.

    It tells of what a dictionary holds, what a cell does, and of code, defaults and
    factories that are others.
    """

    _watchers: ClassVar[dict[bool, int]] = {}  # of the interpreter's, from 3.12 on

    def __init__(self, *, given: bool = False) -> None:
        """`given`: of objects among arguments."""
        self.handle = 0
        self._is_given = given
        self._armed: list[Any] = []
        self._end: Callable[[], Any] | None = None

    def arm(self, objects: list[Any]) -> None:
        """From now on, these."""
        ops = _native._ops()
        if _LAYOUT is None:
            return
        if len(objects) == len(self._armed) and all(
            map(operator.is_, objects, self._armed)
        ):
            self.anew()
            return
        words = []
        for each in objects:
            for kind, places in _LAYOUT.items():
                if isinstance(each, kind):
                    words += [id(each) + place for place in places]
        dicts = [each for each in objects if isinstance(each, dict)]
        if sys.version_info < (3, 12):
            words += [id(each) + _DICT_VERSION for each in dicts]
        else:
            watch = self._interpreter()
            for each in dicts:
                watch(each)
            words.append(ops.dict_changes(self._is_given))
        self._armed = objects
        self._take(ops.watch_words(words))

    def anew(self) -> None:
        """The same as they are now."""
        if _LAYOUT is not None:
            self._take(_native._ops().watch_anew(self.handle))

    def _take(self, handle: int) -> None:
        """Who still has the one before is told that something changed."""
        if self._end is not None:
            self._end()
        self.handle = handle
        self._end = weakref.finalize(self, _native._ops().unwatch_words, handle)

    def _interpreter(self) -> Callable[[dict[Any, Any]], None]:
        api = ctypes.pythonapi
        known = self._watchers.get(self._is_given)
        if known is None:
            callback = ctypes.c_void_p(_native._ops().dict_watcher(self._is_given))
            known = self._watchers.setdefault(
                self._is_given, api.PyDict_AddWatcher(callback)
            )
        watcher = ctypes.c_int(known)
        return lambda each: api.PyDict_Watch(watcher, ctypes.py_object(each))
