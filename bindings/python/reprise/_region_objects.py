"""Objects among the arguments of a region's calls, and what is known of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from reprise._region_looks import Looks
from reprise._region_standing import Standing
from reprise._region_structures import MOST_CHANGES
from reprise.guards.arguments import Forms, Given
from reprise.guards.reading import Reading
from reprise.guards.tree import Foreign

_MOST_OBJECTS = 16  # sets of objects among the arguments

R = TypeVar("R")


class Objects(Generic[R]):
    """What is known of objects among the arguments, by the objects of one call.

    If the objects lead to nothing but data, that is a `Given`: a tape is given their data
    like arguments. Otherwise it is an R, the region of all calls with these objects. No object
    is kept alive: an entry goes when one of its objects goes.
    """

    def __init__(
        self,
        reads: Reading,
        looks: Looks,
        standing: Standing,
        lock: threading.RLock,
    ) -> None:
        """`lock`: see `Reading`."""
        self._reads = reads
        self._looks = looks
        self._standing = standing
        self._lock = lock
        self._known: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], R | Given]]
        self._known = {}
        self._forms = Forms()  # of such objects
        self._are_data = False  # those that came last
        self._strangers = 0  # sets of objects since a call was replayed
        # What objects of these types hold that nobody can look into, if they do.
        self._foreign = ""
        self._foreigners: tuple[type, ...] = ()
        self._replayed = 0  # calls, when the last of these came

    def __len__(self) -> int:
        return len(self._known)

    def get(self, objects: Sequence[Any]) -> R | Given | None:
        """Return what is known of these. None: nothing yet."""
        known = self._known.get(tuple(map(id, objects)))
        return None if known is None else known[1]

    def regions(self) -> Iterator[R]:
        """Yield the regions."""
        for _, each in list(self._known.values()):
            if not isinstance(each, Given):
                yield each

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    # --- New ones ---

    def are_worth_it(self, objects: Sequence[Any]) -> bool:
        """Return whether calls with new objects are learned. No, if each call has others."""
        replayed, self._replayed = self._replayed, self._standing.report.replayed
        self._strangers = self._strangers + 1 if replayed == self._replayed else 0
        if self._strangers <= _MOST_OBJECTS or not self._strangers % _MOST_OBJECTS:
            return True
        if self._foreign and self._foreigners == tuple(map(type, objects)):
            self._standing.note(f"an argument holds {self._foreign}")
            return False
        names = ", ".join(sorted({type(each).__name__ for each in objects}))
        if self._are_data:
            why = (
                f"is another {names} in each call, which does no harm by itself: the other "
                "reasons say why no call is replayed"
            )
        elif len(self._known) < _MOST_OBJECTS:  # those before are gone
            why = f"is another {names} in each call (make it once, and give that one)"
        else:
            why = (
                f"are more than {_MOST_OBJECTS} sets of objects ({names}), which a region "
                "does not keep apart (give it fewer, or several regions some each)"
            )
        self._standing.note(f"among the arguments {why}")
        return False

    def data_of(self, objects: Sequence[Any]) -> Given | None:
        """Return what they hold. None: more than that counts, or there are none."""
        if not objects:
            return None
        self._foreign, self._are_data = "", False
        try:
            given = Given(objects, self._forms)
        except Foreign as foreign:
            self._foreign, self._foreigners = str(foreign), tuple(map(type, objects))
            return None
        except Exception:  # the program's own, too: the region that is made says it
            return None
        self._are_data = self._knows(given)
        return given if self._are_data else None

    def keep(self, objects: Sequence[Any], made: R | Given) -> None:
        """Keep this until one of the objects goes. Drops the oldest if there are too many."""
        # Other threads add and drop meanwhile, hence copies.
        for oldest in list(self._known)[: 1 - _MOST_OBJECTS]:
            self._known.pop(oldest, None)
        key = tuple(map(id, objects))
        # Weakly: else what is known would refer to itself, and outlive the region.
        of = weakref.ref(self)

        def drop(_: Any) -> None:
            if (known := of()) is not None:
                known._known.pop(key, None)

        self._known[key] = [weakref.ref(each, drop) for each in objects], made

    # --- Those that are data ---

    def now(self, given: Given) -> tuple[int, int, list[Any]] | None:
        """See `Given.now`. None: the callable is run this time."""
        if given.changes >= MOST_CHANGES:
            return None
        try:
            found = given.now()
        except Exception:  # they hold something else now, and are met anew
            self.forget(given)
            return None
        if self._knows(given):
            return found
        self.forget(given)  # from now on it is learned by itself
        return None

    def look_at(self, given: Given) -> None:
        """Find out what they hold now."""
        try:
            changed = given.look()
        except Exception:
            self.forget(given)
            return
        if changed is not None:
            self._standing.note_guard(changed)

    def forget(self, given: Given) -> None:
        """Learn no more calls with these objects as data."""
        given.changes = MOST_CHANGES
        for key, (_, each) in list(self._known.items()):
            if each is given:
                self._known.pop(key, None)

    def _knows(self, given: Given) -> bool:
        """Let code that is found lead through its classes. False: there are too many."""
        kinds, state = given.known
        at = self._reads.at
        if kinds is given.kinds and at is not None and state is at[0]:
            return True
        with self._lock:
            if not self._reads.know_kinds(given.kinds):
                return False
            # That is, for all that is known; what is another one is found before
            # a call is made.
            state = (self._reads.at or self._looks.look())[0]
            kinds = given.kinds  # other threads look, too
            # It may ask which one it is.
            if state.meets(kinds, given.tensors()):
                return False
            given.known = kinds, state
        return True
