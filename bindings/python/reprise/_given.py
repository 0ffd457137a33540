"""Objects among the arguments of a region, as what they hold."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any

import torch

from reprise import _native
from reprise._reach import Held, State
from reprise._watch import LOOKS_ALWAYS, Watch

_MOST_FORMS = 256


class Forms:
    """Numbers of forms: equal ones have one."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = 0

    def number(self, form: Hashable) -> int:
        """That of `form`."""
        known = self._numbers.get(form)
        if known is not None:
            return known
        while len(self._numbers) >= _MOST_FORMS:  # the oldest goes
            del self._numbers[next(iter(self._numbers))]
        self._next += 1
        self._numbers[form] = self._next
        return self._next


class Given:
    """Some objects: a number for their form, and the tensors that they hold.

    Others of that form are as good: a tape is given the tensors like arguments. Looked
    at when something of them may have changed.
    """

    def __init__(self, objects: list[Any], forms: Forms) -> None:
        """Raises TypeError where more than their data counts."""
        self.kinds: list[type] = []  # their classes
        # The same, and in which state they are no part of what the callable reads.
        self.known: tuple[list[type] | None, State | None] = None, None
        self.changes = 0  # of what they hold, by the callable
        self._objects = [weakref.ref(each) for each in objects]
        self._forms = forms
        self._lock = threading.RLock()
        self._watch = Watch(given=True)
        self._at: tuple[State, int, int, list[weakref.ref[torch.Tensor]]] | None = None
        self._places: list[int] = []  # of all that they hold
        self.look()

    def look(self) -> str | None:
        """Find out what they hold now, and what of it is another one."""
        with self._lock:
            changed = None
            for _ in range(3):
                at = self._at
                difference = at and at[0].difference()
                changed = changed or difference
                if at is None or difference is not None or self._moved():
                    at = self._find()
                self._watch.arm(at[0].watched())
                self._at = at[0], self._watch.handle, *at[2:]
                # What another thread has changed meanwhile the watch does not tell.
                if threading.active_count() == 1 or at[0].difference() is None:
                    break
            return changed

    def _moved(self) -> bool:
        """An equal list or the like has taken another's place."""
        try:
            return Held([each() for each in self._objects]).places() != self._places
        except TypeError:
            return True

    def _find(self) -> tuple[State, int, int, list[weakref.ref[torch.Tensor]]]:
        held = Held([each() for each in self._objects])
        refs = held.given_tensors()
        tensors = [each for ref in refs if (each := ref()) is not None]
        if not _native.are_ordinary(tensors):
            raise TypeError("a tensor that is no ordinary one")
        number = self._forms.number(held.form())
        self.kinds = held.kinds()
        self._places = held.places()
        return State(held, number), 0, number, refs

    def tensors(self) -> list[torch.Tensor]:
        """That they hold."""
        assert self._at is not None
        return [each for ref in self._at[3] if (each := ref()) is not None]

    def now(self) -> tuple[int, int, list[torch.Tensor]]:
        """The watch, the number of the form, and the tensors."""
        assert self._at is not None
        if LOOKS_ALWAYS or self._at[0].quick_difference() is not None:
            self.look()
        _, watch, number, _ = self._at
        return watch, number, self.tensors()

    def changed(self) -> str | None:
        """What the callable has made another one since they were looked at."""
        assert self._at is not None
        state, _, number, refs = self._at
        if (difference := state.difference()) is not None:
            return difference
        try:
            held = Held([each() for each in self._objects])
        except TypeError:
            return "what an argument holds"
        now = [ref() for ref in held.given_tensors()]
        same = (
            self._forms.number(held.form()) == number
            and held.places() == self._places
            and len(now) == len(refs)
            and all(ref() is each for ref, each in zip(refs, now, strict=True))
        )
        return None if same else "what an argument holds"
