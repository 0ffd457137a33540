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
        self.known: list[type] = []  # the same, once the region leads through them
        self.changes = 0  # of what they hold, by the callable
        self._objects = [weakref.ref(each) for each in objects]
        self._forms = forms
        self._lock = threading.RLock()
        self._watch = Watch(given=True)
        self._at: tuple[State, int, int, list[weakref.ref[torch.Tensor]]] | None = None
        self.look()

    def look(self) -> str | None:
        """Find out what they hold now, and what of it is another one."""
        with self._lock:
            at = self._at
            changed = at and at[0].difference()
            if at is None or changed is not None:
                held = Held([each() for each in self._objects])
                refs = held.given_tensors()
                tensors = [each for ref in refs if (each := ref()) is not None]
                if not _native._ops().are_ordinary(tensors):
                    raise TypeError("a tensor that is no ordinary one")
                number = self._forms.number(held.form())
                self.kinds = held.kinds()
                at = State(held, number), 0, number, refs
            self._watch.arm(at[0].watched())
            self._at = at[0], self._watch.handle, *at[2:]
            return changed

    def now(self) -> tuple[int, int, list[torch.Tensor]]:
        """The watch, the number of the form, and the tensors."""
        assert self._at is not None
        if LOOKS_ALWAYS or self._at[0].quick_difference() is not None:
            self.look()
        _, watch, number, refs = self._at
        tensors = [ref() for ref in refs]
        return watch, number, [each for each in tensors if each is not None]

    def difference(self) -> str | None:
        """What is another one than when they were looked at."""
        assert self._at is not None
        return self._at[0].difference()
