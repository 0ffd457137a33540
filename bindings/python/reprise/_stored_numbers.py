"""Floats that note what is done with them, where a recorded call has stored them.

Ordinary ones take their places, so that the program finds what it has stored.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import ctypes
import gc
import types
from collections.abc import Sequence
from typing import Any

from reprise.guards import classes

_HEAD = object.__basicsize__  # what every object begins with, in bytes
_WORD = tuple.__itemsize__
_Words = ctypes.POINTER(ctypes.c_size_t)
# Their objects keep what they refer to in words of their own, for good.
_FIXED = classes.ids_of(types.MethodType, slice)


def replace(numbers: Sequence[float], beside: Sequence[Any]) -> None:
    """Put ordinary floats in their places: elements, keys, variables and attributes.

    `beside`: what holds them, too, and keeps them.
    """
    floats = {id(each): float.__pos__(each) for each in numbers}
    ours = {id(numbers), *map(id, beside)}
    for holder in gc.get_referrers(*numbers):
        if id(holder) not in ours:
            _replace_in(holder, floats)
    for variable, value in contextvars.copy_context().items():
        if id(value) in floats:
            variable.set(floats[id(value)])


def _replace_in(holder: Any, floats: dict[int, float]) -> None:
    kind = type(holder)
    if issubclass(kind, (list, collections.deque)):
        for index, each in enumerate(list(holder)):
            if id(each) in floats:
                holder[index] = floats[id(each)]
    elif issubclass(kind, tuple):
        count = tuple.__len__(holder)
        _replace_words(id(holder) + tuple.__basicsize__, range(count), floats)
    elif issubclass(kind, (set, frozenset)):
        _replace_elements(holder, floats)
    elif id(kind) in _FIXED:
        words = range((kind.__basicsize__ - _HEAD) // _WORD)
        _replace_words(id(holder) + _HEAD, words, floats)
    elif kind is types.CellType:
        holder.cell_contents = floats[id(holder.cell_contents)]
    else:
        _replace_attributes(holder, floats)


def _replace_attributes(holder: Any, floats: dict[int, float]) -> None:
    kind = type(holder)
    of = holder if issubclass(kind, dict) else classes.attributes_of(holder) or {}
    for key, each in list(dict.items(of)):
        if id(each) in floats:
            dict.__setitem__(of, key, floats[id(each)])
    if issubclass(kind, dict):
        _replace_keys(holder, floats)
    for _, slot in classes.slots_of(kind):
        with contextlib.suppress(AttributeError):  # it is not set
            if (name := id(slot.__get__(holder))) in floats:
                slot.__set__(holder, floats[name])


def _replace_keys(holder: dict[Any, Any], floats: dict[int, float]) -> None:
    if not any(id(key) in floats for key in dict.__iter__(holder)):
        return
    is_ordered = issubclass(type(holder), collections.OrderedDict)
    of: Any = collections.OrderedDict if is_ordered else dict
    entries = [(floats.get(id(key), key), each) for key, each in of.items(holder)]
    of.clear(holder)
    for key, each in entries:
        of.__setitem__(holder, key, each)


def _replace_elements(holder: Any, floats: dict[int, float]) -> None:
    """In their places in its table: the order of a set depends on what it has held."""
    base: Any = set if issubclass(type(holder), set) else frozenset
    _, used, mask, table = (ctypes.c_size_t * 4).from_address(id(holder) + _HEAD)
    if used == base.__len__(holder):  # else nobody knows where its table is
        _replace_words(table, range(0, 2 * (mask + 1), 2), floats)


def _replace_words(address: int, words: range, floats: dict[int, float]) -> None:
    """Of references, each of which is counted."""
    found = ctypes.cast(address, _Words)
    for index in words:
        if (new := floats.get(found[index])) is not None:
            old = ctypes.cast(found[index], ctypes.py_object)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(new))
            found[index] = id(new)
            ctypes.pythonapi.Py_DecRef(old)
