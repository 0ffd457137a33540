"""Whether anything that counts may have changed: what the library tells of."""

from __future__ import annotations

import collections
import ctypes
import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from reprise import _native
from reprise.guards import classes
from reprise.guards.holders import Dictionary, Holder, parts_of_function
from reprise.guards.names import Names
from reprise.guards.object_holders import Bases, Instance

_WORD = ctypes.sizeof(ctypes.c_size_t)
_DICT_VERSION = 3 * _WORD  # before Python 3.12, behind the number of its entries
_TYPE = _WORD  # of an object, behind the number of references
_MOST_BEFORE = 4  # words that stand before an object
_MOST_NOISY = 4096


def _places(of: Any, *held: Any) -> list[int]:
    """Where in an object stand the addresses of what it holds, in bytes.

    Raises ValueError: not all of them do.
    """
    count = classes.size_of(type(of)) // _WORD
    words = list((ctypes.c_size_t * count).from_address(id(of)))
    return [_WORD * words.index(id(each)) for each in held]


def _function() -> Any:
    """One that has all that a function may have."""

    def made(by: int = 0, *, of: int = 0) -> object:
        return made, by, of

    if sys.version_info >= (3, 12):
        made.__type_params__ = (made,)
    return made


def _layout() -> dict[type, list[int]] | None:
    """By type: the words that change with it; None: it is not known."""

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    if sys.version_info[:3] == (3, 13, 0):  # neither versions nor watchers
        return None
    made = _function()
    call = functools.partial(made, 0, of=0)
    try:
        return {
            types.FunctionType: _places(made, *parts_of_function(made)),
            functools.partial: _places(call, call.func, call.args, call.keywords),
            types.CellType: _places(types.CellType(made), made),
            collections.defaultdict: _places(collections.defaultdict(made), made),
        }
    except ValueError:
        return None


_LAYOUT = _layout()


def _words_of_object(value: Any, attributes: Any) -> list[int]:
    """Where its class and its dictionary stand. Empty: that is not known."""
    kind = type(value)
    before = _MOST_BEFORE if classes.dict_is_before(kind) else 0
    begin = id(value) - _WORD * before
    count = before + max(classes.size_of(kind) // _WORD, 2)
    words = list((ctypes.c_size_t * count).from_address(begin))
    if words.count(id(attributes)) != 1:
        return []
    return [id(value) + _TYPE, begin + _WORD * words.index(id(attributes))]


def _word_of_bases(kind: type) -> list[int]:
    """Where those of a class stand, itself among them. Empty: that is not known."""
    try:
        return [id(kind) + place for place in _places(kind, classes.mro_of(kind))]
    except ValueError:
        return []


@functools.cache
def _watcher() -> ctypes.c_int | None:
    """The interpreter's, from 3.12 on: it counts changes of dictionaries.

    None: it has eight at most, and others have them.
    """
    callback = ctypes.c_void_p(_native._ops().dict_watcher())
    try:
        return ctypes.c_int(ctypes.pythonapi.PyDict_AddWatcher(callback))
    except RuntimeError:
        return None


def _words_of_dicts(dicts: list[dict[Any, Any]]) -> list[int]:
    """Addresses of words that change with each of them; from 3.12 on, if it is watched."""
    if sys.version_info < (3, 12):
        return [id(each) + _DICT_VERSION for each in dicts]
    words: list[int] = _native._ops().dict_words(list(map(id, dicts)))
    return words


def versions(dicts: list[dict[Any, Any]]) -> list[int]:
    """Of watched ones: numbers that change with each write, by whatever value."""
    return [ctypes.c_uint64.from_address(word).value for word in _words_of_dicts(dicts)]


# Dictionaries that change where nobody reads: their keys are compared. By id: another one
# in the place of one that has gone is compared, too.
_noisy: dict[int, None] = {}


class Watch:
    """Holders, others in their turn from time to time: what the library tells of.

    It tells of what a dictionary holds, what a cell does, of code, defaults and
    factories that are others, and of objects whose class or dictionary is another one.
    """

    def __init__(self) -> None:
        self.handle = 0  # nobody tells of anything: each call looks at all of it
        self._armed: list[Any] = []
        self._end: Callable[[], Any] | None = None

    def arm(self, watched: list[Any], words: list[int]) -> None:
        """From now on, these; see `Divided`."""
        ops = _native._ops()
        if _LAYOUT is None:
            return
        if watched is self._armed:
            self.anew()
            return
        dicts = [each for each in watched if issubclass(type(each), dict)]
        of_dicts = list(dict.fromkeys(_words_of_dicts(dicts)))
        if sys.version_info >= (3, 12):
            if (watcher := _watcher()) is None:
                return
            for each in dicts:
                ctypes.pythonapi.PyDict_Watch(watcher, ctypes.py_object(each))
        else:
            words, of_dicts = words + of_dicts, []
        self._armed = watched
        self._take(ops.watch_words(words, of_dicts))

    def anew(self) -> None:
        """The same as they are now."""
        if self.handle:
            self._take(_native._ops().watch_anew(self.handle))

    def _take(self, handle: int) -> None:
        """Who still has the one before is told that something changed."""
        if self._end is not None:
            self._end()
        self.handle = handle
        self._end = weakref.finalize(self, _native._ops().unwatch_words, handle)


def leave(of: dict[Any, Any]) -> None:
    """Compare its keys, wherever holders are divided from now on: it changes all the time."""
    while len(_noisy) >= _MOST_NOISY:
        del _noisy[next(iter(_noisy))]
    _noisy[id(of)] = None


def _is_noisy(holder: Holder) -> bool:
    return isinstance(holder, Names) and id(holder.of) in _noisy


class Divided:
    """Holders: which of them the library tells of, and which are compared."""

    def __init__(self, holders: list[Holder]) -> None:
        self.watched: list[Any] = []  # objects, which live as long as they are watched
        self.words: list[int] = []  # of theirs, dictionaries' versions apart
        self.compared: list[Holder] = []
        for holder in holders:
            if holder.changes:
                self._take(holder)

    def _take(self, holder: Holder) -> None:
        of = holder.watched()
        if (
            of is None
            or _LAYOUT is None
            or _is_noisy(holder)
            or (type(holder) is Dictionary and holder.has_places_among_all())
        ):
            self.compared.append(holder)
            return
        words: list[int] = []
        if isinstance(holder, (Instance, Bases)):
            words = (
                _words_of_object(of, holder.attributes)
                if isinstance(holder, Instance)
                else _word_of_bases(of)
            )
            if not words:
                self.compared.append(holder)
                return
        else:
            for kind, offsets in _LAYOUT.items():
                if issubclass(type(of), kind):
                    words = [id(of) + offset for offset in offsets]
        if isinstance(holder, Dictionary) and holder.is_ordered():
            self.compared.append(holder)
        self.words += words
        self.watched.append(of)
