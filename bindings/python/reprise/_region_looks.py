"""Looks at what a region's callable reads, and what they take."""

from __future__ import annotations

import math
import operator
import threading
import time

from reprise import _native
from reprise._region_standing import Standing
from reprise._region_structures import Structure, Structures
from reprise.guards.arguments import Given
from reprise.guards.guard import State
from reprise.guards.reading import At, Reading

# Looking at what a callable reads may take so long in each call, or that share of it.
_LONGEST_LOOK = 50e-6
_LARGEST_SHARE = 0.02
# Of looks that the program's writes cause: with them, replays may still be worth it.
_LARGEST_SHARE_OF_LOOKS = 0.25
_LOOKS_WEIGHED = 64  # at a time

_clock = time.perf_counter
_place = operator.itemgetter(1)


class Looks:
    """Finds the state of all that the callable reads. Turns the region off if that is dear.

    Thread-safe: a look holds the lock.
    """

    def __init__(
        self,
        reads: Reading,
        structures: Structures,
        standing: Standing,
        lock: threading.RLock,
    ) -> None:
        """`structures`: a look drops those whose state is no longer known."""
        self._reads = reads
        self._structures = structures
        self._standing = standing
        self._lock = lock
        self._count = 0
        self._seconds = 0.0  # that looks took since they were weighed
        self._until = 0  # the number of calls at that time

    def look(self) -> At:
        """Find the state that all of it is in."""
        _native.observe()
        reads = self._reads
        with self._lock:
            begin, made = _clock(), reads.made
            at = reads.look()
            if reads.left:
                self._standing.note_guard(reads.left)
            if reads.made == made:
                self._weigh_look(_clock() - begin)
            else:
                self._structures.keep_states(
                    reads.numbers(), reads.made - made, reads.left
                )
            self.note_refusal()
        return at

    def note_refusal(self) -> None:
        """Turn the region off if what it reads cannot be looked at."""
        if self._reads.refused and not self._standing.off:
            self._standing.turn_off(self._reads.refused)

    def weigh(self, structure: Structure, state: State, given: Given | None) -> None:
        """Turn the region off if what each call compares takes too much of the callable."""
        structure.weighed = True
        looked_at = [state, *([] if given is None else [given.state()])]
        seconds = sum(each.seconds() for each in looked_at)
        if seconds > max(_LONGEST_LOOK, _LARGEST_SHARE * structure.seconds):
            name, count = max((each.largest() for each in looked_at), key=_place)
            self._standing.turn_off(
                f"what is compared in each call takes {seconds * 1e6:.0f} us, most of it "
                f"{name} ({count} values): give the callable what it takes of that as an "
                "argument"
            )

    def _weigh_look(self, seconds: float) -> None:
        """Turn the region off if looks take too much of the callable. One took so long."""
        self._count += 1
        self._seconds += seconds
        if self._count % _LOOKS_WEIGHED:
            return
        calls = self._standing.report.calls
        a_call = self._seconds / max(calls - self._until, 1)
        self._seconds, self._until = 0.0, calls
        callable_takes = max(
            (
                each.seconds
                for each in self._structures.all()
                if each.seconds < math.inf
            ),
            default=math.inf,
        )
        if a_call > max(_LONGEST_LOOK, _LARGEST_SHARE_OF_LOOKS * callable_takes):
            self._standing.turn_off(
                "what it leads to is written between calls, and looking at all of it takes "
                f"{a_call * 1e6:.0f} us a call ({self._reads.left or 'it is the same'})"
            )
