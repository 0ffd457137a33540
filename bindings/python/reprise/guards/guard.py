"""What all that a callable leads to held at one time."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Container, Iterable
from typing import Any

import torch

from reprise.guards.classes import attributes_of
from reprise.guards.compared import Compared
from reprise.guards.holders import (
    NOWHERE,
    Beside,
    Dictionary,
    Holder,
    Moved,
    made_tokens,
)
from reprise.guards.mark import Mark
from reprise.guards.names import Names
from reprise.guards.object_holders import object_of
from reprise.guards.restoring import keeping
from reprise.guards.rewritten import (
    Change,
    Obstacle,
    Owners,
    changes_of,
    obstacle_among,
)
from reprise.guards.tokens import is_simple
from reprise.guards.walk import Walk
from reprise.guards.watch import Divided, Watch, leave, versions

MOST_WRITTEN = 4096  # places that calls set


# Places, by what tells them from each other.
_Ats = frozenset[tuple[int, Any]]


class State:
    """What all of that held when it was made; a number for what is learned in it."""

    def __init__(self, walk: Walk, number: int) -> None:
        self.number = number
        self.worth = 0.0  # how often it was found, of late
        # Others where equal lists and the like took a place.
        self.written = walk.written
        self.locks = walk.locks
        self._holders = walk.holders
        self._tensors = walk.tensors
        self._types = walk.found_types
        self._optimizers = [weakref.ref(each) for each in walk.optimizers]
        self._owners = walk.modules, walk.namespaces, walk.shown, walk.counted()
        self._named = walk.names()
        made_tokens(self._holders)
        self._ids: frozenset[int] | None = None  # of what it is of
        self._divided: Divided | None = None
        self._compared: Compared | None = None
        self._ats: _Ats | None = None  # of its places
        # Of the places of other states, that setting them changes nothing that it is of.
        self._left_out: weakref.WeakKeyDictionary[_Ats, bool]
        self._left_out = weakref.WeakKeyDictionary()
        self._for_nothing = 0  # looks
        self._odd: Holder | None = None  # it held something else, last
        self._versions: list[tuple[Names, int]] = []

    # --- What it is of ---

    def dicts(self) -> list[dict[Any, Any]]:
        """Those that it is of, and by which it keeps others alive.

        Not those of tensors that are there, with numbers and texts that were set on them:
        weights may be put back.
        """
        alive = [each for ref in self._tensors if (each := ref()) is not None]
        of_tensors = {
            id(found) for found in map(attributes_of, alive) if _holds_little(found)
        }
        return [
            each.of
            for each in self._holders
            if isinstance(each, (Names, Dictionary)) and id(each.of) not in of_tensors
        ]

    def keeping(self) -> contextlib.AbstractContextManager[None]:
        """Put back behind it what is set meanwhile of what it is of."""
        return keeping(self._holders)

    def tensors(self) -> list[torch.Tensor]:
        """Those that it is of, and optimizers hold now; the library looks at them."""
        held = [each for ref in self._tensors if (each := ref()) is not None]
        for optimizer in filter(None, (ref() for ref in self._optimizers)):
            for group in optimizer.param_groups:
                held += filter(torch.is_tensor, group["params"])
        return list({id(each): each for each in held}.values())

    def mark(self) -> Mark:
        """By what it is known again when it is no longer kept."""
        return Mark(self._holders, self._owners[0], self._tensors)

    def size(self) -> int:
        """The number of things that hold what it is of."""
        return len(self._holders)

    def meets(self, kinds: Iterable[type], tensors: Iterable[torch.Tensor]) -> bool:
        """Objects of these classes, or these tensors, are part of it."""
        if not self._types.isdisjoint(map(id, kinds)):
            return True
        own = set(map(id, self.tensors()))
        return not own.isdisjoint(map(id, tensors))

    def holds_any(self, ids: Container[int]) -> bool:
        """One of these objects is part of it."""
        return any(id(each.of) in ids for each in self._holders)

    def ats(self) -> _Ats:
        """Its places, by what tells them from each other."""
        if self._ats is None:
            self._ats = frozenset([each.at for each in self.written])
        return self._ats

    def leaves_out(self, other: State) -> bool:
        """Return whether no place of the other one, whatever it holds, changes this one."""
        ats = other.ats()
        if (known := self._left_out.get(ats)) is None:
            containers = {id(each.of) for each in self._holders}
            known = all([of not in containers for of, _ in ats - self.ats()])
            self._left_out[ats] = known
        return known

    def ids(self) -> frozenset[int]:
        """Return those of all that it is of; what has gone may have had that of another one."""
        if self._ids is None:
            self._ids = frozenset([id(object_of(each)) for each in self._holders])
        return self._ids

    # --- Whether it still is so ---

    def arm(self, watch: Watch) -> None:
        """From now on, what is watched and compared is what it is now."""
        if self._divided is None:
            self._divided = Divided(self._holders)
        self._compared = Compared(self._divided.compared)
        watch.arm(self._divided.watched, self._divided.words)

    def looks(self) -> int:
        """At how many things a call looks itself."""
        return 0 if self._compared is None else self._compared.count

    def seconds(self) -> float:
        """What that takes."""
        compared = self._compared
        return 0.0 if compared is None else min(compared.seconds() for _ in range(3))

    def largest(self) -> tuple[str, int]:
        """What most of these are of, and how many."""
        return ("nothing", 0) if self._compared is None else self._compared.largest

    def is_quiet(self) -> bool:
        """Nothing has changed of what nobody tells of."""
        return self._compared is not None and self._compared.quiet()

    def is_unlikely(self) -> bool:
        """What was another one last is so still, as far as that tells: a set of weights."""
        odd = self._odd
        try:
            return odd is not None and odd.difference({}) is not None
        except Exception:  # the program's own, as it is looked at
            return True

    def difference(self, beside: Beside = NOWHERE) -> str | None:
        """What is another one now, as the program names it, but for places `beside`."""
        try:
            return self._difference(beside)
        except Exception as failed:  # the program's own, as it is looked at
            return f"what cannot be looked at ({failed!r})"

    def _difference(self, beside: Beside) -> str | None:
        moved: Moved = {}
        for holder in self._holders:
            if holder.changes and id(holder) not in moved:
                found = holder.difference(moved, beside)
                if found is not None:
                    self._odd = holder
                    return found
        return self._move(moved) if moved else None

    def _move(self, moved: Moved) -> str | None:
        """Equal lists and the like are looked at from now on, in the place of others.

        Not such that are known already: then two are one now, or have changed places.
        """
        held = set(map(id, (each.of for each in self._holders if each.movable)))
        for holder, now in moved.values():
            if id(now) in held:
                return holder.name
            held.add(id(now))
        for holder, now in moved.values():
            if holder.apart:
                self.written = tuple(
                    [
                        each.moved(now) if each.of is holder.of else each
                        for each in self.written
                    ]
                )
            holder.of = now
            self._ids = None
            if holder.watched() is not None:
                self._divided = None
        self._ats = None
        self._left_out.clear()
        return None

    def was_for_nothing(self) -> None:
        """A look has found no difference: what is written all the time is compared.

        Of dictionaries whose names count, those are found that were written between two
        looks; ever more rarely, as that takes longer than a look.
        """
        self._for_nothing += 1
        count = self._for_nothing
        if count & (count + 1) == 0:
            holders = [each for each in self._holders if isinstance(each, Names)]
            now = versions([each.of for each in holders])
            self._versions = list(zip(holders, now, strict=True))
        elif count & (count - 1) == 0:
            now = versions([each.of for each, _ in self._versions])
            for (holder, before), version in zip(self._versions, now, strict=True):
                if version != before:
                    leave(holder.of)
                    self._divided = None
            self._versions = []

    def leave_out(self) -> set[tuple[int, str]]:
        """What packages keep for themselves, and a call has changed: a counter, say.

        It is of globals and classes of packages, and no code of the program's names it.
        From now on it is part of nothing. Ids of dictionaries, and keys.
        """
        found: set[tuple[int, str]] = set()
        for holder in self._holders:
            if isinstance(holder, Names) and holder.is_packages:
                found |= holder.leave_out(self._named)
        return found

    def rewritten(self) -> dict[tuple[int, Any], Change] | Obstacle:
        """What has changed of places that may be set, if nothing else has. Else, what has."""
        try:
            owners = Owners(self._holders, *self._owners)
            changes = list(changes_of(self._holders, owners))
            found = {
                each.place.at: each
                for each in changes
                if each.place is not None and each.is_adopted()
            }
            if found and self.difference(found) is None:
                many = len(self.written) + len(found) > MOST_WRITTEN
                return Obstacle("", "set fewer items") if many else found
            return obstacle_among(changes)
        except Exception:  # the program's own, as it is looked at
            return Obstacle("", "")


def _holds_little(attributes: Any) -> bool:
    """All that the program has set there are numbers and texts."""
    return type(attributes) is dict and all(
        is_simple(type(each)) for each in [*attributes.values()]
    )
