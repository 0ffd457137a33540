"""Objects among the arguments of a region, as what they hold."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Container, Hashable, Sequence
from typing import Any

import torch

from reprise import _native
from reprise.guards.containers import Containers
from reprise.guards.guard import State
from reprise.guards.holders import Dictionary, Holder
from reprise.guards.names import Names
from reprise.guards.object_holders import Instance, object_of
from reprise.guards.tokens import MISSING, Is, described
from reprise.guards.walk import Walk
from reprise.guards.watch import Watch

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


def held_by(objects: list[Any]) -> Walk:
    """What they hold. Raises TypeError where that is more than data."""
    walk = Walk(None, objects)
    if walk.holds_code:
        raise TypeError("an object that does more than hold")
    return walk


def form_of(walk: Walk) -> Hashable:
    """Equal where others hold the same, but for tensors. Raises TypeError."""
    tensors: dict[int, int] = {}
    for ref in walk.tensors:
        tensors.setdefault(id(ref()), len(tensors))
    numbers: dict[int, int] = {}
    for holder in walk.holders:
        numbers.setdefault(id(object_of(holder)), len(numbers))

    def of(value: Any) -> Hashable:
        if value is MISSING:
            return "missing"
        if (tensor := tensors.get(id(value))) is not None:
            return type(value), tensor
        known = numbers.get(id(value))
        return described(value) if known is None else ("holder", known)

    return tuple([_form_of_holder(each, of) for each in walk.holders])


def _form_of_holder(holder: Holder, of: Any) -> Hashable:
    what = type(holder), Is(type(object_of(holder)))
    if isinstance(holder, Instance):
        return what
    if isinstance(holder, Names):
        items = holder.items()
        keys = tuple([key if type(key) is str else of(key) for key, _ in items])
        return *what, keys, *[of(value) for _, value in items]
    values = [of(each) for each in holder.values(holder.of)]
    if isinstance(holder, Dictionary):
        return *what, len(holder.of), *values
    return *what, *values


class Given:
    """Some objects: a number for their form, and the tensors that they hold.

    Others of that form are as good: a tape is given the tensors like arguments. Looked
    at when something of them may have changed.
    """

    def __init__(self, objects: Sequence[Any], forms: Forms) -> None:
        """Raises TypeError where more than their data counts."""
        self.kinds: list[type] = []  # their classes
        # The same, and in which state they are no part of what the callable reads.
        self.known: tuple[list[type] | None, State | None] = None, None
        self.changes = 0  # of what they hold, by the callable
        self._objects = [weakref.ref(each) for each in objects]
        self._forms = forms
        self._lock = threading.RLock()
        self._watch = Watch()
        self._at: tuple[State, int, int, list[weakref.ref[torch.Tensor]]] | None = None
        self.look()

    def look(self) -> str | None:
        """Find out what they hold now, and what of it is another one."""
        with self._lock:
            changed = None
            for _ in range(3):
                at = self._at
                difference = at and at[0].difference()
                changed = changed or difference
                if at is None or difference is not None:
                    at = self._find()
                at[0].arm(self._watch)
                self._at = at[0], self._watch.handle, *at[2:]
                # What another thread has changed meanwhile the watch does not tell.
                if threading.active_count() == 1 or at[0].difference() is None:
                    break
            return changed

    def _find(self) -> tuple[State, int, int, list[weakref.ref[torch.Tensor]]]:
        walk = held_by([each() for each in self._objects])
        refs = list({id(ref()): ref for ref in walk.tensors}.values())
        tensors = [each for ref in refs if (each := ref()) is not None]
        if not _native.are_ordinary(tensors):
            raise TypeError("a tensor that is no ordinary one")
        number = self._forms.number(form_of(walk))
        self.kinds = walk.kinds
        return State(walk, number), 0, number, refs

    def tensors(self) -> list[torch.Tensor]:
        """That they hold."""
        assert self._at is not None
        return [each for ref in self._at[3] if (each := ref()) is not None]

    def now(self) -> tuple[int, int, list[torch.Tensor]]:
        """The watch, the number of the form, and the tensors."""
        assert self._at is not None
        if not self._at[1] or not self._at[0].is_quiet():
            self.look()
        _, watch, number, _ = self._at
        return watch, number, self.tensors()

    def state(self) -> State:
        """What they hold."""
        assert self._at is not None
        return self._at[0]

    def holds_any(self, ids: Container[int]) -> bool:
        """Return whether they hold a container with one of these ids, by `now`."""
        return self.state().holds_any(ids)

    def changed(self) -> str | None:
        """What the callable has made another one since they were looked at."""
        assert self._at is not None
        return self._at[0].difference()


_IS_LED_TO = (
    "among the arguments, which its calls change, is a list, dictionary or object that it leads "
    "to from outside, too (give it once: as an argument, or from outside)"
)


def why_led_to(containers: Containers | None, state: State, given: Given | None) -> str:
    """Return why a call is not replayed whose arguments are reached by other ways, too.

    What it sets would be read by these. Empty: it may be. `containers`: None: calls set
    nothing.
    """
    if containers is None:
        return ""
    states = [state] if given is None else [state, given.state()]
    return (
        _IS_LED_TO if any(containers.are_among(each.ids()) for each in states) else ""
    )
