"""In which state all of that is that a region's callable reads."""

from __future__ import annotations

import contextlib
import random
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reprise._frames import is_programs
from reprise.guards.code import Code, functions_with
from reprise.guards.guard import MOST_WRITTEN, State
from reprise.guards.mark import Mark
from reprise.guards.places import (
    Held,
    Place,
    Written,
    counts_still,
    enums_of,
    has_constants,
)
from reprise.guards.rewritten import Obstacle
from reprise.guards.trail import Refused
from reprise.guards.tree import Foreign
from reprise.guards.walk import Ran, Walk
from reprise.guards.watch import Watch

_FEW_STATES = 8  # kept however much they hold
_MOST_STATES = 64
_MOST_HELD = 1 << 16  # things that hold values, in all states together
_MOST_AWAY = 16  # states that may be known again
_MOST_KINDS = 64  # classes of arguments
_MOST_LOOKS = 3  # in a call
_FEW_CONSTANTS = 4  # of which nothing is said, that a place holds in turn ...
_MOST_CONSTANTS = 16  # ... and that it may hold ...
_MOST_TOGETHER = 64  # ... and that all places may hold together
MOST_CODE = 1 << 14  # that recorded calls have run

# A state, and what watches it.
At = tuple[State, int]

SETTING: weakref.WeakSet[Reading] = weakref.WeakSet()  # whose calls set places
_setting_lock = threading.Lock()


class Reading:
    """What a callable reads besides its arguments.

    States that it was in are kept for a while, and known again. Thread-safe: who looks
    holds the lock, who asks whether all is quiet does not.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        given: Sequence[Any],
        leading: Sequence[Any],
        lock: threading.RLock,
    ) -> None:
        """`given`, and `leading`: objects among all calls' arguments; they are not kept.

        See `Walk`.
        """
        self.walk: Walk | None = None  # the last one
        self.at: At | None = None  # found last
        self.made = 0  # states
        self.refused = ""  # why it cannot be looked at
        self.left = ""  # what was another one than in the state before
        self.ran = Ran()
        self.watch = Watch()
        self._fn = fn
        self._given = [weakref.ref(each) for each in given]
        self._leading = [weakref.ref(each) for each in leading]
        self._lock = lock
        self._kinds: list[type] = []  # of arguments
        self._states: list[State] = []
        # Numbers and marks of states that are not kept.
        self._away: list[tuple[int, Mark]] = []
        self._written: Written = ()
        # Places, by what tells them from each other: to which a call has set a constant
        # in place of another one, and of those that calls set, the kinds of what they held.
        self._set_once: set[tuple[int, Any]] = set()
        self._constants: dict[tuple[int, Any], set[Any]] = {}
        self._together: set[Any] = set()  # of all of them
        self._pardoned = False  # the next look, if it is for nothing

    def numbers(self) -> set[int]:
        """Those of the states that are known."""
        known = {each.number for each in self._states}
        return known.union(number for number, _ in self._away)

    def leading(self) -> list[Any]:
        """What all calls' arguments lead to, as long as it lives."""
        return [value for each in self._leading if (value := each()) is not None]

    def keeping(self) -> contextlib.AbstractContextManager[None]:
        """Put back behind it what is set meanwhile of what the callable leads to."""
        return contextlib.nullcontext() if self.at is None else self.at[0].keeping()

    def now(self) -> At | None:
        """The state, if nothing of it has changed that nobody tells of."""
        at = self.at
        return None if at is None or not at[1] or not at[0].is_quiet() else at

    def look(self) -> At:
        """Finds the state that all of it is in."""
        with self._lock:
            self.left = ""
            before = self.at[0] if self.at is not None else None
            for _ in range(_MOST_LOOKS):
                found: dict[int, str | None] = {}
                # Of many, the one that it is comes first, as a rule.
                for state in sorted(reversed(self._states), key=State.is_unlikely):
                    last = found[state.number] = state.difference()
                    if last is None:
                        break
                else:
                    state = self._new_state()
                if self.at is not None and self.at[0] is state:
                    if not (self._pardoned and threading.active_count() == 1):
                        state.was_for_nothing()
                    self._pardoned = False
                else:
                    state.worth += 1
                    if before is not None:
                        self.left = self.left or found.get(before.number) or ""
                state.arm(self.watch)
                at = self.at = state, self.watch.handle
                # What another thread has changed meanwhile the watch does not tell.
                if threading.active_count() == 1 or state.difference() is None:
                    break
            return at

    def _new_state(self) -> State:
        self.made += 1
        state = self._find(self.made, self._written)
        # What belongs to others than now is not kept for their sake.
        here = {id(each) for each in state.dicts()}
        states = [
            each for each in self._states if here.issuperset(map(id, each.dicts()))
        ]
        going = [each for each in self._states if each not in states]
        if self._away or going:
            self._know_again(state, going)
        while len(states) >= _FEW_STATES and (
            len(states) >= _MOST_STATES
            or state.size() + sum(each.size() for each in states) > _MOST_HELD
        ):
            states.remove(min(states, key=_worth))
            for each in states:
                each.worth /= 2
        self._states = [*states, state]
        self._written = _unique(each for of in self._states for each in of.written)
        return state

    def _know_again(self, state: State, going: list[State]) -> None:
        """A new state may be one that was known. `going`: are not kept, from now on."""
        mark = state.mark()
        # What these share somebody has kept up to now, and this state does from now on.
        away = [each for each in self._away if each[1].shared <= mark.held]
        for number, known in away:
            if known.is_of(mark):
                state.number = number
                self.made -= 1
                away = [each for each in away if each[0] != number]
                break
        for each in going:
            known = each.mark()
            if known.is_known() and known.shared <= mark.held:
                away.append((each.number, known))
        while len(away) > _MOST_AWAY:
            del away[random.randrange(len(away) - 1)]
        self._away = away

    def _find(self, number: int, written: Written) -> State:
        """By a walk. Where that cannot be looked at, it is refused, and of nothing."""
        given = [each() for each in self._given]
        try:
            self.walk = self._walked(given, written)
            # Code that was found since may read what others count in.
            counted, shared = self.walk.counted(), self.walk.shared()
            kept = [each for each in written if counts_still(each, counted, shared)]
            if len(kept) < len(written):
                self.walk = self._walked(given, tuple(kept))
            return State(self.walk, number)
        except Refused as refused:
            self.refused = str(refused)
        except Foreign as foreign:
            self.refused = f"an argument holds {foreign}"
        except Exception as failed:  # the program's own, as it is looked at
            self.refused = f"what it reads cannot be looked at: {failed!r}"
        self.walk = Walk(None)
        return State(self.walk, number)

    def _walked(self, given: list[Any], written: Written) -> Walk:
        return Walk(
            self._fn,
            given,
            self._kinds,
            leading=self.leading(),
            ran=self.ran,
            written=written,
        )

    # --- What it learns ---

    def know_kinds(self, kinds: list[type]) -> bool:
        """Classes of arguments, which code that is found leads through. False: many."""
        known = set(map(id, self._kinds))
        new = list({id(each): each for each in kinds if id(each) not in known}.values())
        if not new:
            return True
        with self._lock:
            if len(self._kinds) + len(new) > _MOST_KINDS:
                return False
            self._kinds += new
            self._begin_anew()  # what its code names may be more
        return True

    def learn_code(self, state: State, ran: Code) -> None:
        """A recorded call has run code that the walk has not found: it is read, too.

        Nothing of what the state is of has changed, so it stays the same one.
        """
        if not ran:
            return
        with self._lock:
            self._away = []  # other code may name more
            self.ran.code.update(ran)
            if len(self.ran.code) > MOST_CODE:
                self.refused = "it runs other code in each call"
                return
            own: list[types.CodeType]
            own = [code for code, _ in ran.values() if is_programs(code)]
            alive = [each for each in self.ran.functions if each() is not None]
            self.ran.functions = [*alive, *map(weakref.ref, functions_with(own))]
            # Tapes of that number are given what its places hold.
            again = self._find(state.number, state.written)
            is_same = _ats(again.written) == _ats(state.written)
            self._states = [
                again if each is state else each
                for each in self._states
                if is_same or each is not state
            ]
            self.at = None

    def learn_written(self, state: State) -> Obstacle | None:
        """A call has set places that may be set, and nothing else. Else, what else."""
        found = state.rewritten()
        if isinstance(found, Obstacle):
            return found
        with self._lock:
            if len(self._set_once) > MOST_WRITTEN:
                self._forget_constants()
            places = [
                each.place
                for at, each in found.items()
                if each.place is not None
                and (at in self._set_once or not each.is_of_constants())
            ]
            self._set_once.update(found)
            if places:
                with _setting_lock:
                    SETTING.add(self)
                # Another thread may have learned others.
                self._written = _unique((*self._written, *state.written, *places))
                self._begin_anew()  # these are part of no state
        return None

    @staticmethod
    def have_been_set() -> None:
        """A call that runs its Python has set places, so many a watch is not quiet.

        Replays will keep it quiet, so what has changed is not looked at in each call for that.
        """
        with _setting_lock:
            for each in SETTING:
                each._pardoned = True

    def learn_enums(self, before: Held) -> bool:
        """Return whether a place holds a member of a class that no walk has gone through."""
        known = set(map(id, self._kinds))
        found = [each for each in enums_of(before.kinds) if id(each) not in known]
        if found and not self.know_kinds(found):
            self.refused = "places that it sets hold members of too many enums"
        return bool(found)

    def note_constants(self, before: Held) -> tuple[str, bool]:
        """Note what places hold before a call that is to be recorded.

        Returns one that holds others again and again, and whether it is hopeless; "": none.
        """
        pairs = [
            (place, kind)
            for place, kind in zip(before.written, before.kinds, strict=True)
            if type(kind) is bool or has_constants(kind)
        ]
        with self._lock:
            for place, kind in pairs:
                known = self._constants.setdefault(place.at, set())
                is_new = kind not in known
                known.add(kind)
                if is_new and len(known) > _FEW_CONSTANTS:
                    return place.name, len(known) > _MOST_CONSTANTS
            self._together.add(tuple([kind for _, kind in pairs]))
            if len(self._together) > _MOST_TOGETHER:
                # More than one have changed, so one has held two constants.
                places = [place for place, _ in pairs]
                odd = max(places, key=lambda place: len(self._constants[place.at]))
                return odd.name, True
        return "", False

    def is_quiet_again(self, at: At) -> None:
        """A call has changed what is watched, and was to; it is not to be looked at."""
        if self.at is at:
            self.watch.anew()
            self.at = at[0], self.watch.handle

    def let_go(self) -> None:
        """It knows nothing any longer."""
        self._begin_anew()
        self._written = ()
        self._forget_constants()
        self.walk = None

    def _forget_constants(self) -> None:
        self._set_once, self._constants, self._together = set(), {}, set()

    def _begin_anew(self) -> None:
        self._states, self._away, self.at = [], [], None


def _worth(state: State) -> tuple[float, float]:
    """What was found least goes first.

    At random where that is equal: of many in turn, the oldest would be the next one.
    """
    return state.worth, random.random()


def _unique(places: Iterable[Place]) -> Written:
    return tuple({each.at: each for each in places}.values())


def _ats(written: Written) -> list[tuple[int, Any]]:
    return [each.at for each in written]
