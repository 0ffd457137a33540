"""Code that would handle an operator's error, around a call of an operator.

A replay raises what an operator raises and runs no Python. So it never reaches an
`except`, a `finally`, or what a context manager does with an error: some swallow it, and
some write tensors back first. Before anything was written that does no harm, because the
callable then runs from its beginning. After the first write it cannot do so, and such a
call is not replayed.

Torch's own code is exempt: it handles types of arguments, and after an error it only puts
its modes back, and random generators (`fork_rng`), as a replay does. Only a module's call
runs code of the program's then: forward hooks that are always called.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.library import Library
from torch.utils._device import DeviceContext

from reprise import _native
from reprise._frames import Owner, is_torchs, owner_of

_SITES = ("BEFORE_WITH", "CALL")  # what calls `__enter__`
# In the place of a site: an `except` or a `finally`; what the compiler has written to put
# the interpreter's own state back.
_NO_MANAGER, _INTERPRETERS = -1, -2
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")
_RAISES = "RAISE_VARARGS"
# By such steps code may call an operator.
_CALLS = (
    "CALL",
    "BINARY_OP",
    "STORE_SUBSCR",
    "STORE_SLICE",
    "DELETE_SUBSCR",
    "FOR_ITER",
)


# What `with torch.device(...)`, which is written in C, makes as it is entered.
_OF_DEVICE = DeviceContext.__init__.__code__
_CALL_OF_MODULE = torch.nn.Module._call_impl.__code__
_ALWAYS_CALLED = torch.nn.modules.module._global_forward_hooks_always_called


_FORKS = inspect.unwrap(torch.random.fork_rng).__code__


class _Handler(NamedTuple):
    """Where Python goes on if code from `start` to `end` raises; offsets of bytes."""

    start: int
    end: int
    target: int
    # Of a `with`: the instruction that calls the manager's `__enter__`.
    site: int


def _entries(table: bytes) -> Iterator[tuple[int, int, int]]:
    """Of an exception table, as CPython writes it (Objects/exception_handling_notes)."""
    position = 0

    def number() -> int:
        nonlocal position
        byte = table[position]
        value = byte & 63
        while byte & 64:
            position += 1
            byte = table[position]
            value = value << 6 | byte & 63
        position += 1
        return value

    while position < len(table):
        start, length, target, _ = number(), number(), number(), number()
        yield 2 * start, 2 * (start + length), 2 * target


@functools.lru_cache(maxsize=4096)
def _handlers_of(code: types.CodeType) -> list[_Handler]:
    table = code.co_exceptiontable  # type: ignore[attr-defined]  # from 3.11 on
    entries = list(_entries(table))
    steps = [(each.offset, each.opname) for each in dis.get_instructions(code)]
    index = {offset: number for number, (offset, _) in enumerate(steps)}
    first: dict[int, int] = {}
    for start, _, target in entries:
        first[target] = min(start, first.get(target, start))
    found = []
    for start, end, target in entries:
        site = _INTERPRETERS
        if steps[index[target]][1] == "PUSH_EXC_INFO":
            site = _NO_MANAGER
            if steps[index[target] + 1][1] == "WITH_EXCEPT_START":
                before = steps[: index[first[target]]]
                calls = [offset for offset, name in before if name in _SITES]
                site = calls[-1] if calls else _NO_MANAGER
        found.append(_Handler(start, end, target, site))
    return found


def _round(code: types.CodeType, at: int) -> Iterator[_Handler]:
    """Those of an error of the instruction there, inner ones first."""
    handlers = _handlers_of(code)
    while True:
        handler = next((each for each in handlers if each.start <= at < each.end), None)
        if handler is None:
            return
        if handler.site != _INTERPRETERS:
            yield handler
        if handler.target <= at:  # a loop of the compiler's
            return
        at = handler.target


@functools.lru_cache(maxsize=4096)
def _does_nothing(code: types.CodeType) -> bool:
    """That function returns nothing that is true, calls nothing, and raises nothing."""
    constant: Any = ...
    for step in dis.get_instructions(code):
        if step.opname.startswith(_CALLS) or step.opname == _RAISES:
            return False
        if step.opname in _RETURNS:
            value = step.argval if step.opname == "RETURN_CONST" else constant
            if value not in (None, False):
                return False
        constant = step.argval if step.opname == "LOAD_CONST" else ...
    return True


class Managers:
    """The context managers that a recorded call has entered: which of them handle errors."""

    def __init__(self) -> None:
        # By code and the instruction that entered it; True: it may swallow an error, or
        # call something before it passes the error on.
        # A function: that finds it out when it is asked.
        self._known: dict[tuple[int, int], bool | Callable[[], bool]] = {}
        self._kept: list[types.CodeType] = []  # whose ids are known

    @staticmethod
    def enters(code: types.CodeType) -> bool:
        """Return whether that code runs as a manager is entered, as a rule."""
        return code.co_name == "__enter__" or code is _OF_DEVICE

    def saw_enter(self, frame: types.FrameType) -> None:
        """Note that a manager is entered."""
        by, code = frame.f_back, frame.f_code
        if by is None or not code.co_argcount or is_torchs(by.f_code.co_filename):
            return
        key = id(by.f_code), by.f_lasti
        if self._known.get(key) is True:
            return
        self._kept.append(by.f_code)
        self._known[key] = code is not _OF_DEVICE and self._judge(
            frame.f_locals[code.co_varnames[0]]
        )

    def _judge(self, manager: Any) -> bool | Callable[[], bool]:
        kind = type(manager)
        if kind.__module__.partition(".")[0] == "torch":
            return False
        if isinstance(manager, contextlib._GeneratorContextManager):
            code = getattr(manager.gen, "gi_code", None)
            if code is None:
                return True
            self._kept.append(code)
            return False if is_torchs(code.co_filename) else self._of_generator(code)
        if kind is contextlib.suppress:  # of nothing, as a `nullcontext`
            return bool(manager._exceptions)
        leave = kind.__exit__
        if isinstance(leave, types.FunctionType):
            return not _does_nothing(leave.__code__)
        return True

    def _of_generator(self, code: types.CodeType) -> Callable[[], bool]:
        yields = [
            step.offset
            for step in dis.get_instructions(code)
            if step.opname == "YIELD_VALUE"
        ]
        return lambda: any(may_handle(code, at, self, ends=True) for at in yields)

    def handles(self, code: types.CodeType, site: int) -> bool:
        """Return whether the manager that is entered there may swallow an error, or call.

        Nobody has reported one whose `__enter__` is written in C, or is a function of
        another name: its `__exit__` may do anything.
        """
        known = self._known.get((id(code), site), True)
        return known() if callable(known) else known


class Unseen(Managers):
    """Those that other threads have entered, which nobody reports."""

    def handles(self, code: types.CodeType, site: int) -> bool:
        """Return that it does not: torch's own in a backward pass, as a rule."""
        return False


_UNSEEN = Unseen()


def may_handle(
    code: types.CodeType, at: int, managers: Managers | None, ends: bool = False
) -> bool:
    """Return whether something may handle an error of the instruction at that offset.

    `managers`: None means that each may. `ends`: a `finally` that calls nothing, and passes
    the error on, does not count.
    """
    if not hasattr(code, "co_exceptiontable"):  # before Python 3.11
        steps = dis.get_instructions(code)
        return any(step.opname in ("SETUP_FINALLY", "SETUP_WITH") for step in steps)
    for handler in _round(code, at):
        if handler.site == _NO_MANAGER:
            if not (ends and _goes_on(code, handler.target)):
                return True
        elif managers is None or managers.handles(code, handler.site):
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _goes_on(code: types.CodeType, target: int) -> bool:
    """The handler that begins there is a `finally` that calls nothing.

    It catches by no type.
    """
    for step in dis.get_instructions(code):
        if step.offset <= target:
            continue
        if step.opname in ("CHECK_EXC_MATCH", "POP_EXCEPT", _RAISES, *_RETURNS):
            return False
        if step.opname.startswith(_CALLS):
            return False
        if step.opname == "RERAISE":
            return True
    return False


class HandlerWatch:
    """Finds handlers around operators of one recorded call, after its first write."""

    _now: HandlerWatch | None = None  # of the call that is recorded; one in a process

    def __init__(self, begin: types.CodeType) -> None:
        """`begin`: the code of the frame that calls the callable."""
        self._begin = begin
        self._thread = 0
        self.managers: Managers | None = None  # None: nobody tells which are entered
        self.reason = ""
        self.place = ""

    def begin(self) -> None:
        """Begin to watch. Called by the thread that makes the call."""
        _listen()
        self._thread = threading.get_ident()
        HandlerWatch._now = self

    def end(self) -> None:
        """Stop watching."""
        HandlerWatch._now = None

    @classmethod
    def look(cls, operator: str) -> None:
        """Look: that operator is called; it writes, or stands behind one that does."""
        if cls._now is not None and not cls._now.reason:
            cls._now._look(operator)

    def _look(self, operator: str) -> None:
        # Autograd's threads work for one that waits, and may run Python themselves.
        # No variable holds the frame: it may be this one, and would stay.
        managers = self.managers
        self._look_from(sys._current_frames().get(self._thread), operator, managers)
        if threading.get_ident() != self._thread:
            self._look_from(sys._getframe(1), operator, managers and _UNSEEN)

    def _look_from(
        self, frame: types.FrameType | None, operator: str, managers: Managers | None
    ) -> None:
        while frame is not None and frame.f_code is not self._begin:
            self._look_at(frame, operator, managers)
            frame = frame.f_back

    def _look_at(
        self, frame: types.FrameType, operator: str, managers: Managers | None
    ) -> None:
        code = frame.f_code
        if code is _CALL_OF_MODULE:
            module = frame.f_locals["self"]
            if module._forward_hooks_always_called or _ALWAYS_CALLED:
                self.reason = (
                    f"a forward hook that is always called (always_call) stands behind {operator}, "
                    "which writes, or comes after an operator that does, and no "
                    "replay gets there if that raises an error"
                )
                self.place = type(module).__qualname__
        if owner_of(code.co_filename) == Owner.REPRISE or is_torchs(code.co_filename):
            return
        if may_handle(code, frame.f_lasti, managers):
            self.reason = (
                "an except, a finally, or a with that swallows errors or calls something "
                f"behind them stands round {operator}, which writes, or comes "
                "after an operator that does, and no replay gets there (put it round the "
                "region, or before what writes)"
            )
            self.place = f"{code.co_filename}:{frame.f_lineno}"


def _leaves_fork() -> bool:
    """Return whether `torch.random.fork_rng` puts random generators back now."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _FORKS:
        frame = frame.f_back
    return frame is not None


@functools.cache
def _listen() -> Library:
    """From now on recorders tell of such operators, and ask about random generators."""
    library = Library("reprise", "IMPL")
    library.impl("leaves_fork", _leaves_fork, "CompositeImplicitAutograd")
    library.impl("behind_effects", HandlerWatch.look, "CompositeImplicitAutograd")
    _native._ops().tell_of_effects()
    return library
