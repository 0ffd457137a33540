"""The structures of arguments that a region's calls have come with, and their tapes."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from reprise import _native
from reprise._compared_values import Value
from reprise._hidden_state import MOST_VALUES
from reprise._region_standing import Standing
from reprise._variants import Variants
from reprise.nodes.differentiable import Differentiable

MOST_CHANGES = 4  # of Python's state by the callable itself
DOES_NOT_COME = (
    "its arguments have forms, or numbers, or it reads values, that do not come again"
)
_FEW_STRUCTURES = 64  # kept whatever their tapes take
_MOST_STRUCTURES = 1024
_SHARE_THAT_GOES = 8  # one in so many, where there are too many
_MOST_FRUITLESS = 128
# Where arguments are followed: of so many, one in so many is recorded.
_FEW_FRUITLESS = 32
_PASSED_A_STRUCTURE = 16
_MOST_HIDDEN = 2  # recordings in a row that took what no guard looks at
_LONGEST_WAIT = 256  # calls


class Structure(Variants):
    """The variants of arguments of one structure, in one state of the modules."""

    # Where results have a history: its passes, with one node for both.
    passes: Differentiable | None = None
    # Why it has none: known from a call that was recorded otherwise.
    no_node = ""
    why_off = ""
    # What its calls changed of objects among the arguments, and of how many.
    changed = ""
    changes = 0
    # Its callable may tell floats from those that note what is done with them.
    asks_for_class = False
    # Generators of random numbers that recordings at last took, by name.
    suspects: frozenset[str] = frozenset()
    # What a recorded call took at least.
    seconds = math.inf
    weighed = False  # what is looked at in each of its calls
    # Uses up to now, when structures were last too many; and what they were worth
    # then, where older ones count less.
    worth = 0.0
    _uses = 0
    _recordings = 0
    _hidden = 0  # recordings at last that took what no guard looks at
    # While it is off: so many calls are not asked for what is another one, twice as
    # many each time that nothing was.
    _waits = 0
    _next_waits = 1

    def end(self) -> None:
        """Nothing of it is called again."""
        super().end()
        if self.passes is not None:
            self.passes.end()
            self.passes = None

    def weigh_uses(self) -> float:
        """Return what its tapes are worth."""
        uses = self.uses() + (self.passes.uses() if self.passes is not None else 0)
        self.worth = self.worth / 2 + uses - self._uses
        self._uses = uses
        return self.worth

    # --- While it is off ---

    def asks(self) -> bool:
        """Return whether this call looks for what is another one."""
        if self._waits > 0:
            self._waits -= 1
            return False
        return True

    def no_difference(self) -> None:
        """Note that a look was for nothing: what has changed does not count."""
        self._waits = self._next_waits
        self._next_waits = min(2 * self._next_waits, _LONGEST_WAIT)

    # --- What recordings show ---

    def begin_recording(self) -> bool:
        """Return whether this recording is to note what Python does with numbers.

        Of the two first recordings the second one does, and of later ones half, by a rule
        that no other rhythm meets.
        """
        notes = self._recordings.bit_count() % 2 == 1
        self._recordings += 1
        return notes

    def note_hidden(self, took: bool) -> None:
        """A recording took what no guard looks at, or did not."""
        self._hidden = self._hidden + 1 if took else 0
        self.off |= self._hidden >= _MOST_HIDDEN

    def note_changed(self, what: str, is_first: bool) -> None:
        """The callable has changed an object among the arguments.

        `is_first`: for the first time. As a cache is made in its first call: with each of them.
        """
        self.changed = what
        self.changes += is_first and not self.builders
        self.off |= self.changes >= MOST_CHANGES

    def note_backward(self, again: bool, make: Callable[[], Differentiable]) -> None:
        """Note a backward pass. `again`: it is to be differentiated, so one node is not enough."""
        if self.passes is None:
            self.passes = make()
        self.passes.off |= again


_OTHERS = (
    "its arguments are others in each call (give numbers as tensors, or floats that are "
    "NumPy's as Python's own)"
)
_TELLING = 16  # structures without a replay


class Structures(dict[Any, Structure]):
    """A region's structures, by keys of state, form and the like.

    `structures[key]` makes a structure that is missing. Those that are used least go if there
    are too many, or if all tapes of the process take too many bytes. Not locked: if two
    threads make the same one, the second stays.
    """

    def __init__(self, check: str, standing: Standing) -> None:
        """`standing`: it is turned off if almost no structure comes again."""
        super().__init__()
        self.fruitless = 0  # states and structures since a call was replayed
        # Environment and context variables, which tell structures from each other.
        self.variables: tuple[Value, ...] = ()
        self._check = check
        self._standing = standing
        self._passed = 0
        self._left_out: Structure | None = None

    def __missing__(self, key: Any) -> Structure:
        self.fruitless += 1
        if any(of[0] == key[0] for of in list(self)):
            self._standing.note_guard("structure of the arguments")
        if self._standing.following.is_on:
            # A number among what they hold counts on, and begins anew with the next text.
            if self.fruitless > _FEW_FRUITLESS:
                self._passed += 1
                if self._passed % _PASSED_A_STRUCTURE:
                    return self._leave_out()
        elif self.fruitless > _MOST_FRUITLESS:
            self._standing.turn_off(_OTHERS)
        elif len(self) == _TELLING and not self._standing.report.replayed:
            self._standing.note(_OTHERS)  # long before: a user may wait for replays
        if len(self) >= _FEW_STRUCTURES:
            self._make_room()
        made = self[key] = Structure(self._check)
        return made

    def _leave_out(self) -> Structure:
        """Return one that is off, and is not kept."""
        if self._left_out is None:
            self._left_out = Structure(self._check)
            self._left_out.off, self._left_out.why_off = True, DOES_NOT_COME
        return self._left_out

    def _make_room(self) -> None:
        """Drop the ones that are used least, some at a time: to look at all takes long."""
        if len(self) < _MOST_STRUCTURES and _native._ops().tapes_have_room():
            return
        # Those that are used as much go at random: in turn, the oldest would be the next.
        # Other threads add and drop meanwhile, hence a copy.
        worth = {
            key: (of.weigh_uses(), random.random()) for key, of in list(self.items())
        }
        for key in heapq.nsmallest(
            len(worth) // _SHARE_THAT_GOES, worth, worth.__getitem__
        ):
            self.pop(key, None)

    def keep_states(self, numbers: set[int], made: int, what: str) -> None:
        """Drop the structures of all states but these.

        `made`: the number of new states. `what`: what differs from the state before.
        """
        self.fruitless += made
        if self.fruitless > _MOST_FRUITLESS:
            self._standing.turn_off(
                f"{what or 'what it reads'} is another one again and again"
            )
        for key in list(self):
            if key[0] not in numbers:
                self.pop(key, None)

    def learn_variables(self, read: dict[str, Value]) -> bool:
        """Learn what a recorded call has read. Returns whether one of them is new."""
        known = {each.name for each in self.variables}
        new = [each for name, each in read.items() if name not in known]
        if not new:
            return False
        # From now on each value of theirs is another variant.
        self.variables = (*self.variables, *new)
        if len(self.variables) > MOST_VALUES:
            self._standing.turn_off(
                "it reads too many environment and context variables"
            )
        return True

    def take(self) -> Sequence[Structure]:
        """Return all of them, and keep none."""
        structures = self.all()
        self.clear()
        return structures

    def all(self) -> Sequence[Structure]:
        """Return those of now; other threads may add more."""
        return list(self.values())
