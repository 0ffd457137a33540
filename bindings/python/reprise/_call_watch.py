"""Watches what a recorded call does that no operator shows."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Container, Iterable
from typing import Any

import torch

from reprise._arithmetic import Arithmetic, not_reading
from reprise._frames import Owner, is_torchs, owner_of
from reprise._handlers import HandlerWatch, Managers
from reprise._hidden_state import ASKING_NAMES, HiddenState
from reprise._identity import IdentityWatch, has_plain_variables
from reprise._values_taken import takes
from reprise.guards.code import Code, key_of

_READ = (Owner.PROGRAM, Owner.PACKAGE)
# By these, Python calls operators, for some of which code of others runs.
_CALLS_OPERATOR = frozenset(
    kind.__call__.__code__
    for kind in (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
)
_OWN = ("aten::", "prims::", "profiler::", "reprise::")  # torch's, and ours
_ASKS_FOR_CLASS = frozenset({"type", "__class__"})


def _nothing() -> None:
    """Nothing has changed, or nobody asks."""


class CallWatch:
    """The functions that this thread calls between enter and exit, during one call.

    Python's hook for profilers reports them. A profiler that is written in Python is still
    told. Beside a profiler that is written in C (cProfile), they cannot be seen.
    """

    def __init__(
        self,
        begin: types.CodeType,
        values: Iterable[tuple[str, Any]],
        suspects: Container[str],
        names: Iterable[str],
        numbers: Iterable[float],
        known: Container[tuple[int, int]] = (),
        changed: Callable[[], object] | None = None,
        given: Container[int] = (),
        own: Container[int] = (),
    ) -> None:
        """`begin`: the code of the frame that calls the callable.

        `values`, `suspects`: see `HiddenState`. `names`: those that the callable's code
        names. `numbers`: among the arguments. `known`: code that was read already; see `key_of`.
        `changed`: what is another one than before the call; None: nothing. `given`, `own`: see
        `IdentityWatch`.
        """
        self.hidden = HiddenState(values, suspects)
        self._identity = IdentityWatch(given, own)
        self.handlers = HandlerWatch(begin)
        self._managers = Managers()
        self.handlers.managers = self._managers
        self._names = frozenset(names)
        self._numbers = set(map(id, numbers))
        # A function may ask for the class of a number.
        self.asks_for_class = False
        # What it computes with its numbers. None: nobody follows that.
        self.arithmetic: Arithmetic | None = None
        # Who is told that code in C may take the value of a number. None: nobody asks.
        self.taken: Callable[[], None] | None = None
        # Code that the call has run, of the program's and of packages, and its globals.
        self.ran: Code = {}
        self._known = known
        self._changed: Callable[[], object] = changed or _nothing
        # Something was another one where code of others ran, which may have read it.
        self.sets_within = False
        self._before: Callable[..., Any] | None = None
        self._hook = self._see

    def __enter__(self) -> CallWatch:
        self._begin_to_look()
        self.handlers.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.handlers.end()
        self._look_away()
        self._changed = _nothing  # the call is not to be kept

    @staticmethod
    def sees_calls() -> bool:
        """Return whether calls can be seen, by one that is entered now."""
        before = sys.getprofile()
        return before is None or callable(before)

    def pause(self) -> None:
        """Stop watching: the code that follows runs in each call."""
        self._look_away()
        self._look_at_state()
        self.hidden.pause()

    def go_on(self) -> None:
        """Watch again, after that code."""
        self._look_at_state()
        self.hidden.go_on()
        self._begin_to_look()

    def _begin_to_look(self) -> None:
        before = sys.getprofile()
        if before is None or callable(before):
            self._before = before
            sys.setprofile(self._hook)
            return
        self.handlers.managers = None
        self.asks_for_class |= not self._names.isdisjoint(_ASKS_FOR_CLASS)
        if asks := sorted(ASKING_NAMES.intersection(self._names)):
            self.hidden.note(
                f"a profiler is at work, beside which nobody can look at what it reads "
                f"by {', '.join(asks)}",
                None,
            )

    def _look_away(self) -> None:
        if sys.getprofile() is self._hook:
            sys.setprofile(self._before)

    def _see(self, frame: types.FrameType, event: str, what: Any) -> None:
        try:
            if event == "c_call":
                self.hidden.saw_call(frame, what)
                if what is id and (why := self._identity.saw_id(frame)) is not None:
                    self.hidden.note(why, frame)
                if self.arithmetic is not None:
                    self.arithmetic.saw_call(frame, what)
                if self.taken is not None and takes(frame, what):
                    self.taken()
                    self.taken = None
            elif event == "call":
                self.hidden.saw_function(frame)
                if (why := self._identity.saw_function(frame)) is not None:
                    self.hidden.note(why, frame.f_back)
                self._saw_code(frame)
                if self.arithmetic is not None:
                    self.arithmetic.saw_function(frame)
                if self._numbers and not self.asks_for_class:
                    self._saw_function(frame)
                if self._managers.enters(frame.f_code):
                    self._managers.saw_enter(frame)
                elif frame.f_code in _CALLS_OPERATOR:
                    self._saw_operator(frame)
            self.hidden.look_at_suspects(frame)
        except Exception as error:  # the program's objects may raise what they like
            self.hidden.note(f"its calls cannot be looked at: {error!r}", frame)
        if self._before is not None:
            self._before(frame, event, what)

    def _look_at_state(self) -> None:
        """Around code that runs in each call, or may.

        A replay sets nothing before it, and does not know what it sets.
        """
        if not self.sets_within:
            with not_reading():
                self.sets_within = self._changed() is not None

    def _saw_operator(self, frame: types.FrameType) -> None:
        operator = frame.f_locals["self"]
        name = getattr(operator, "_qualified_op_name", "") or operator._name
        if not name.startswith(_OWN):
            self._look_at_state()

    def _saw_code(self, frame: types.FrameType) -> None:
        code, of = frame.f_code, frame.f_globals
        key = key_of(code, of)
        if key in self.ran or key in self._known:
            return
        of_function = code.co_flags & inspect.CO_OPTIMIZED
        if of_function and owner_of(code.co_filename) in _READ:
            self.ran[key] = code, of

    def _saw_function(self, frame: types.FrameType) -> None:
        code = frame.f_code
        named = set(code.co_names)
        if named.isdisjoint(_ASKS_FOR_CLASS) or is_torchs(code.co_filename):
            return
        if owner_of(code.co_filename) == Owner.REPRISE:
            return  # it knows the class
        if not has_plain_variables(code):
            self.asks_for_class = True
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = frame.f_locals
        self.asks_for_class = "float" in named or any(
            id(given.get(name)) in self._numbers
            for name in (*arguments, *code.co_freevars)
        )
