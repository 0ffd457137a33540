"""Values from outside that are compared in each call of a region.

Environment and context variables, the working directory, what each thread has of its own.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from reprise.guards import classes
from reprise.guards.constants import constant

_MOST_OF_A_THREAD = 64  # values, of one threading.local
_PLAIN = classes.ids_of(bool, int, float, str, bytes, type(None))
_AN_OBJECT = "an object"  # or too much: what no structure is compared by


class Value(NamedTuple):
    """Something from outside that is compared by value, in each call."""

    name: str  # for people
    read: Callable[[], Hashable]


def is_plain(value: Any) -> bool:
    """Return whether it is compared as it is: a number, a text or nothing."""
    return id(type(value)) in _PLAIN


def of_environment(key: str) -> Value:
    """One of the environment's variables."""
    return Value(f"environment variable {key!r}", lambda: os.environ.get(key))


def the_folder() -> Value:
    """Where relative paths begin."""

    def read() -> str | None:
        try:
            return os.getcwd()
        except OSError:  # it has gone
            return None

    return Value("the working directory", read)


def the_thread() -> Value:
    """What `threading.current_thread` tells."""

    def read() -> Hashable:
        thread = threading.current_thread()
        return id(thread), thread.ident, thread.name, thread.daemon

    return Value("which thread calls", read)


def the_environment() -> Value:
    """All of its variables, in order."""
    read: Callable[[], Hashable] = lambda: tuple(os.environ.items())  # noqa: E731
    return Value("the environment", read)


def of_context(variable: contextvars.ContextVar[Any]) -> Value:
    """What the calling context holds of that variable."""
    missing: Any = ...
    return Value(f"context variable {variable.name!r}", lambda: variable.get(missing))


def of_thread_local(name: str, local: threading.local) -> Value:
    """What the calling thread has of it: constants by value, and which containers these are.

    `local`: of no class of the program's.
    """
    # Others may have that name.
    name = f"what each thread has of {name} ({id(local):#x})"
    return Value(name, lambda: _frozen_items(vars(local), []))


def holds_objects(local: threading.local) -> bool:
    """More than constants, and lists and dictionaries of them; in the calling thread."""
    return _AN_OBJECT in _frozen_items(vars(local), [])


def _frozen_items(items: dict[Any, Any], seen: list[Any]) -> tuple[Hashable, ...]:
    parts = [each for pair in [*items.items()] for each in pair]
    return tuple([_frozen(each, seen) for each in parts])


def _frozen(value: Any, seen: list[Any]) -> Hashable:
    """Equal of equal constants, and of the same containers that hold such."""
    if len(seen) > _MOST_OF_A_THREAD:
        return _AN_OBJECT
    seen.append(value)
    if type(value) is dict:
        frozen = _frozen_items(value, seen)
    elif type(value) is list:
        frozen = tuple([_frozen(each, seen) for each in value])
    else:
        return constant(value) or _AN_OBJECT
    return _AN_OBJECT if _AN_OBJECT in frozen else (id(value), frozen)
