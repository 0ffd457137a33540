"""What a walk has found so far, and what is left to be visited."""

from __future__ import annotations

import collections
import enum
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from reprise._frames import is_programs
from reprise.guards.code import is_reader
from reprise.guards.holders import Holder
from reprise.guards.names import Names, Scope, Scopes
from reprise.guards.places import Written
from reprise.guards.tree import Foreign

MOST = 1 << 16  # objects, and elements of containers
_MOST_GIVEN = 1 << 12  # of arguments, which are walked in many calls


class Domain(enum.IntEnum):
    """Who leads to a value; the first ones look at more of it."""

    GIVEN = 0  # an argument: all that it holds counts
    PROGRAM = 1  # code of the program's, which names it
    PACKAGE = 2  # code of an installed package, or code that does not name it


class Refused(Exception):
    """Something that the callable leads to cannot be looked at: a sentence for people."""


class Led(NamedTuple):
    """A value, and what the program calls it."""

    name: str
    value: Any


class Trail:
    """The order of a walk: first come, first visited, until no new name leads on.

    Who follows values says what is next (`add`), and what holds something (`hold`,
    `names_in`). An object is visited once, and again where somebody leads to it of whom
    more is looked at.
    """

    def __init__(
        self, apart: set[tuple[int, str]], roots: Iterable[Any], written: Written
    ) -> None:
        """`apart`: keys, with the ids of dictionaries, that are led to by nobody.

        `roots` are not kept. `written`: places that calls set, which nobody leads to.
        """
        self.holders: list[Holder] = []
        self.led: list[Led] = []  # objects that the program's code names or holds
        self.locks: dict[int, str] = {}  # the same, by id: what the program calls them
        self.types: set[int] = set()  # ids of the types of all that was found
        self.holds_code = False  # or modules, or what else is more than data
        self.by_program: set[str] = set()  # names of attributes, by whose code ...
        self.by_packages: set[str] = set()  # ... names them
        self.by_others: set[str] = set()  # of packages but torch
        self.counted: set[str] = set()  # in which the program's code counts ...
        self.not_counted: set[str] = set()  # ... and what any code does more with
        self.reads_any = False  # some code, but torch's, reads what it does not name
        self.scopes = Scopes(self.by_program, self.by_packages, self.by_others)
        self.apart = apart
        self.roots = set(map(id, roots))
        self.shown: set[int] = set()  # ids of what views show, which cannot be set
        self.found: set[int] = set()  # ids of containers with places
        self._keys_apart: dict[int, frozenset[Any]] = {}
        for each in written:
            known = self._keys_apart.get(id(each.of), frozenset())
            self._keys_apart[id(each.of)] = known | {each.key}
        self._names: dict[int, Names] = {}
        self._containers: dict[int, Holder] = {}
        self._seen: dict[int, Domain] = {}
        self._kept: list[Any] = []  # whose ids are known
        self._todo: collections.deque[tuple[str, Any, Domain]] = collections.deque()
        self._pinned: list[int] = []  # ids
        self._left = _MOST_GIVEN
        self._is_given = True

    # --- What to visit ---

    def add(self, name: str, value: Any, domain: Domain) -> None:
        """To be visited. `name`: what the program calls it."""
        self._todo.append((name, value, domain))

    def add_all(self, holder: Holder, domain: Domain) -> None:
        """What it holds."""
        for name, value in holder.parts():
            self._todo.append((name, value, domain))

    def run(self, visit: Callable[[str, Any, Domain], None]) -> None:
        """Visits all that there is, and is led to from there."""
        while self._todo:
            while self._todo:
                visit(*self._todo.popleft())
            for names in list(self._names.values()):
                self._visit_names(names)

    def given_is_done(self) -> None:
        """What follows is not given, and may be more."""
        self._left, self._is_given = MOST, False

    def spend(self, count: int, name: str) -> None:
        """So many objects more. Raises Refused, or Foreign of what is given."""
        self._left -= count
        if self._left >= 0:
            return
        if self._is_given:
            raise Foreign(f"{name} of so many")
        raise Refused(
            f"it leads to more than {MOST} objects, the last ones in {name} (give the "
            "callable what it takes of them as an argument)"
        )

    def is_new(self, value: Any, domain: Domain) -> bool | None:
        """It was not visited; None: not for somebody who looks at so much of it."""
        known = self._seen.get(id(value))
        if known is not None and known <= domain:
            return False
        self._seen[id(value)] = domain
        self._kept.append(value)
        return True if known is None else None

    def is_known(self, value: Any) -> bool:
        """It was visited."""
        return id(value) in self._seen

    def keep(self, value: Any) -> None:
        """Until the end: its id stands for it."""
        self._kept.append(value)

    def pin(self, value: Any) -> None:
        """No equal one takes its place: what is no holder leads to it, too."""
        self._pinned.append(id(value))

    def note_led(self, name: str, value: Any) -> None:
        """The program's code names or holds it."""
        if id(value) not in self.roots:
            self.led.append(Led(name, value))

    # --- What holds something ---

    def hold(self, holder: Holder) -> None:
        """All that it holds counts, but places."""
        if (apart := self._keys_apart.get(id(holder.of))) is not None:
            self.found.add(id(holder.of))
            holder.apart = apart
            if type(holder.of) is types.CellType:  # nothing else
                return
        self.holders.append(holder)
        self._containers.setdefault(id(holder.of), holder)

    def container(self, value: Any) -> Holder | None:
        """What holds its elements."""
        return self._containers.get(id(value))

    def names_in(
        self,
        name: str,
        of: dict[str, Any],
        scope: Scope,
        domain: Domain,
        *,
        leads_on: bool = True,
    ) -> Names:
        """The holder of a dictionary's keys; all who name some have one together."""
        names = self._names.get(id(of))
        if names is None:
            names = self._names[id(of)] = Names(name, of, scope, domain)
            names.leads_on = leads_on
            if (apart := self._keys_apart.get(id(of))) is not None:
                self.found.add(id(of))
                names.apart = apart
            self.holders.append(names)
        elif names.scope is self.scopes.nothing and scope is not names.scope:
            names.scope, names.domain, names.size = scope, domain, -1
            names.leads_on |= leads_on
        self._visit_names(names)
        return names

    def take_all(self, names: Names) -> None:
        """All of its keys count from now on."""
        names.scope, names.size, names.leads_on = self.scopes.all, -1, True
        self._visit_names(names)

    def fix(self, names: Names, key: str, domain: Domain) -> None:
        """That key counts, whoever names it."""
        names.fixed.add(key)
        if dict.__contains__(names.of, key):
            self._visit_name(names, key, dict.__getitem__(names.of, key), domain)

    def _visit_names(self, names: Names) -> None:
        """Those that count by now."""
        scope, domain = names.scope, names.domain
        size = scope.size()
        if names.size == size:
            return
        names.size = size
        for key, value in [*dict.items(names.of)]:
            if scope.leads_to(key):
                named = type(key) is str and key in self.by_program
                whose = Domain.PROGRAM if named else Domain.PACKAGE
                given = domain is Domain.GIVEN
                self._visit_name(names, key, value, domain if given else whose)

    def _visit_name(self, names: Names, key: Any, value: Any, domain: Domain) -> None:
        known = names.done.get(key)
        if known is not None and known <= domain:
            return
        if key in names.apart or (id(names.of), key) in self.apart:
            return
        names.done[key] = domain
        if domain is Domain.PROGRAM and is_reader(value):
            self.by_program.add("getattr")
        if names.leads_on or is_own_function(value):
            self.add(f"{names.name}.{key}", value, domain)

    # --- The end ---

    def end(self) -> None:
        """Which keys count is known now, and who holds what."""
        for names in self._names.values():
            names.take_keys()
            names.left_out |= {key for of, key in self.apart if of == id(names.of)}
        movable = {id(each.of): each for each in self.holders if each.movable}
        for pinned in self._pinned:
            if (inner := movable.get(pinned)) is not None:
                inner.held += 1
        for holder in self.holders:
            for value in holder.values(holder.of):
                if (inner := movable.get(id(value))) is not None:
                    inner.held += 1
        self._seen.clear()
        self._kept.clear()


def is_own_function(value: Any) -> bool:
    """A function of the program's, wherever it was put."""
    return type(value) is types.FunctionType and is_programs(value.__code__)
