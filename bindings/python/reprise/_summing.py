"""What `sum` makes of floats of a class of their own.

From Python 3.12 on, `sum` adds ordinary floats more precisely than others: it keeps what each
addition has rounded off. So while a recorded call has numbers that note what is done with
them, `sum` is given ordinary ones.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from reprise._functions_of_c import MethodDef, def_at

_SUM: Any = builtins.sum  # this object stays: the program may have it under any name
_FASTCALL_WITH_KEYWORDS = 0x80 | 0x02
_Words = ctypes.c_size_t * 2


class _Sum:
    """The function of C behind that object. Raises ValueError: nobody knows it."""

    def __init__(self) -> None:
        pointer = def_at(_SUM)
        if pointer is None:
            raise ValueError(_SUM)
        # To its definition, and what its function is given first: nobody runs in between.
        self._words: Any = _Words.from_address(pointer)
        self._before: list[int] = self._words[:]
        definition = MethodDef.from_address(self._before[0])
        if definition.flags != _FASTCALL_WITH_KEYWORDS:
            raise ValueError(definition.flags)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        self.plain = make(self._before[0], builtins, "builtins")
        # It takes arguments as such a function does, behind what it calls with them.
        call = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p)
        self._calls = MethodDef.from_buffer_copy(definition)
        self._calls.function = call.value

    @contextlib.contextmanager
    def replaced(self, function: Callable[..., Any]) -> Iterator[None]:
        """Have the object call that one."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
        self._words[:] = [ctypes.addressof(self._calls), id(function)]
        try:
            yield
        finally:
            self._words[:] = self._before
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(function))


@functools.cache
def _the_sum() -> _Sum | None:
    try:
        return _Sum()
    except ValueError:
        return None


def tells_floats_apart() -> bool:
    """Return whether it gives another sum of floats of a class of their own, `summing` or not."""
    return sys.version_info >= (3, 12) and _the_sum() is None


@contextlib.contextmanager
def summing(plain: Callable[[Any], Any]) -> Iterator[None]:
    """Have `sum` add `plain(value)` in place of each value. One at a time in a process."""
    of = _the_sum() if sys.version_info >= (3, 12) else None
    if of is None:
        yield
        return
    plain_sum = of.plain

    def sum_of_plain(*args: Any, **kwargs: Any) -> Any:
        if args:
            values, *start = args
            args = map(plain, values), *map(plain, start)
        return plain_sum(*args, **{key: plain(each) for key, each in kwargs.items()})

    with of.replaced(sum_of_plain):
        yield
