"""What a callable leads to: one walk, by one set of rules.

From the callable, and from objects among the arguments, by whatever holds something:
closures, defaults, `self`, globals and attributes that code names, classes and methods,
containers, modules and hooks. It yields holders: what holds values, which of its keys
count, and what these were (`holders.py`, `names.py`). There is no depth, but a budget of
objects.
"""

from __future__ import annotations

import collections
import enum
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from reprise.guards import classes
from reprise.guards.classes import short_name_of
from reprise.guards.code import READ_ALL, Code, codes_in, key_of, named_by
from reprise.guards.follow_code import CodeFollower, is_region
from reprise.guards.follow_data import PLAIN, DataFollower, is_array
from reprise.guards.holders import Dictionary, Holder, Sequence
from reprise.guards.names import leads_to_state
from reprise.guards.places import Written
from reprise.guards.tokens import MISSING, is_value
from reprise.guards.trail import Domain, Led, Trail, is_own_function

# Of these it is known what they are.
_LOCKS = (
    *(type(threading.Lock()), type(threading.RLock()), threading._PyRLock),  # type: ignore[attr-defined]
    *(threading.Condition, threading.Semaphore, threading.Barrier),
)
# Of `gc`: by these, code comes to whatever there is.
_FIND_ALL = frozenset({"get_objects", "get_referents", "get_referrers"})
_NOT_LED = (torch.Tensor, torch.nn.Module, type, types.MethodType)

_referent: Callable[[weakref.ref[Any]], Any] = weakref.ref.__call__


class Ran:
    """What recorded calls have run, and what they have shown of it."""

    def __init__(self) -> None:
        # Code of the program's and of packages, and its globals.
        self.code: Code = {}
        # Functions of the program's with such code that close over something.
        self.functions: list[weakref.ref[types.FunctionType]] = []
        # What packages keep for themselves; see `State.leave_out`.
        self.left_out: set[tuple[int, str]] = set()


class Walk:
    """What a callable leads to, and objects among the arguments hold; of None: nothing."""

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        given: Iterable[Any] = (),
        kinds: Iterable[type] = (),
        *,
        leading: Iterable[Any] = (),
        ran: Ran | None = None,
        written: Written = (),
    ) -> None:
        """`given`: objects among the arguments. `kinds`: classes of others.

        `leading`: among the arguments, too, but led to as the callable's closure is.
        `written`: places that calls set, which are not led to.

        Raises Refused, and Foreign: nobody can look into something that is given.
        """
        ran, given, leading = ran or Ran(), list(given), list(leading)
        self._trail = Trail(set(ran.left_out), [*given, *leading], written)
        self._code = CodeFollower(self._trail)
        # Classes of what is given are the business of who reads it.
        with_classes = fn is not None or not given
        self._data = DataFollower(self._trail, with_classes=with_classes)
        for each in given:
            self._trail.add(short_name_of(type(each)), each, Domain.GIVEN)
        self._trail.run(self._visit)
        self._trail.given_is_done()
        for kind in kinds:
            self._code.takers.note(kind)
            self._data.follow_class(kind)
        if fn is not None:
            self._trail.add("it", fn, Domain.PROGRAM)
            self._data.follow_class(type(fn))
        for each in leading:
            self._take_attributes(each)
            self._trail.add(short_name_of(type(each)), each, Domain.PROGRAM)
        if with_classes:
            self._data.follow_what_torch_asks_for()
        for code, of in ran.code.values():
            self._code.follow_what_ran(code, of)
        for ref in ran.functions:
            if (function := ref()) is not None:
                self._trail.add(function.__name__, function, Domain.PROGRAM)
        self._trail.run(self._visit)
        self._data.forget_own_locks()
        self._leads_to_groups = self._is_led_to_groups()
        self._trail.end()
        found = self._trail.found
        self.written = tuple([each for each in written if id(each.of) in found])

    def _take_attributes(self, value: Any) -> None:
        """Of a function or a class among the arguments all count, whoever reads them."""
        trail = self._trail
        if type(value) is types.FunctionType:
            trail.names_in(
                value.__name__, value.__dict__, trail.scopes.all, Domain.PROGRAM
            )
        elif isinstance(value, type):
            for base in classes.open_bases(value):
                where = short_name_of(base)
                of = classes.dict_of(base)
                trail.names_in(where, of, trail.scopes.all, Domain.PROGRAM)

    # --- What it has found ---

    @property
    def holders(self) -> list[Holder]:
        """What holds something that counts; who holds another one comes first."""
        return self._trail.holders

    @property
    def led(self) -> list[Led]:
        """Objects that the program's code names or holds."""
        return self._trail.led

    @property
    def locks(self) -> list[str]:
        """Of locks that the program's code or arguments hold: what the program calls them."""
        return [*self._trail.locks.values()]

    @property
    def found_types(self) -> set[int]:
        """The ids of the types of all that was found."""
        return self._trail.types

    @property
    def holds_code(self) -> bool:
        """Or modules, or what else is more than data."""
        return self._trail.holds_code

    @property
    def tensors(self) -> list[weakref.ref[torch.Tensor]]:
        """All of them, in order."""
        return self._data.tensors

    @property
    def namespaces(self) -> dict[int, dict[str, Any]]:
        """Globals of the program's functions, and their attributes, by id."""
        return self._code.namespaces

    @property
    def shown(self) -> set[int]:
        """Ids of what views show, a class's attributes among them."""
        return self._trail.shown

    @property
    def modules(self) -> list[weakref.ref[torch.nn.Module]]:
        """All of them."""
        return self._data.modules

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """All of them; those that are arguments live as long as a call."""
        found = self._data.optimizers
        return [*map(_referent, found)] if found else []

    @property
    def kinds(self) -> list[type]:
        """Classes of objects, and those that are led to."""
        return self._data.kinds

    def computes(self, form: Any) -> bool:
        """Return whether the program's code may do mathematics with a number.

        `form`: of its arguments.
        """
        return self._code.takers.may_take(self._trail.by_program, form)

    def hides_groups(self) -> bool:
        """Return whether the program's code looks into no group of an optimizer."""
        groups = {"param_groups", "defaults"}
        return (
            not self._leads_to_groups
            and self.names().isdisjoint(groups | READ_ALL | _FIND_ALL)
            and self._trail.by_others.isdisjoint(groups)
        )

    def _is_led_to_groups(self) -> bool:
        """Return whether a group is led to past its optimizer: as what that was made of."""
        is_known = self._trail.is_known
        groups = (each.param_groups for each in self.optimizers)
        return any(is_known(each) or any(map(is_known, each)) for each in groups)

    def names(self) -> frozenset[str]:
        """Attributes and globals that the program's code names."""
        globals_of = (named_by(fn.__code__).globals for fn in self._code.functions)
        return frozenset(self._trail.by_program).union(*globals_of)

    def shared(self) -> set[int]:
        """Ids of dictionaries that are held as such."""
        return {id(each.of) for each in self.holders if isinstance(each, Dictionary)}

    def counted(self) -> frozenset[str]:
        """Attributes in which the program's code counts, and that nothing else reads."""
        trail = self._trail
        if trail.reads_any or not READ_ALL.isdisjoint(trail.by_program):
            return frozenset()
        return frozenset(trail.counted - trail.not_counted)

    def codes(self) -> set[tuple[int, int]]:
        """Code of the program's that was read, and that of functions inside it."""
        return {
            key_of(each, fn.__globals__)
            for fn in self._code.functions
            for each in codes_in(fn.__code__)
        }

    # --- The rules ---

    def _visit(self, name: str, value: Any, domain: Domain) -> None:
        kind = type(value)
        if is_value(kind) or value is MISSING:
            self._code.takers.note_constant(value)
            return
        trail, code, data = self._trail, self._code, self._data
        is_new = trail.is_new(value, domain)
        if is_new is False:
            if domain is Domain.PACKAGE and issubclass(kind, torch.optim.Optimizer):
                self._take_whole(name, value)
            return
        is_held = kind is types.FunctionType and domain is not Domain.PACKAGE
        if is_held and leads_to_state(value.__name__):  # who has it names it
            trail.by_program.add(value.__name__)
        trail.types.add(id(kind))
        if domain is not Domain.PACKAGE and issubclass(kind, _LOCKS):
            self._trail.locks.setdefault(id(value), name)
        if is_new is None:
            self._visit_again(name, value, domain)
        elif id(kind) in PLAIN:
            data.follow(name, value, domain)
        elif issubclass(kind, torch.Tensor):
            data.follow_tensor(name, value, domain)
        elif issubclass(kind, torch.nn.Module) and not is_region(kind):
            data.follow_module(value)
        elif issubclass(kind, torch.optim.Optimizer):
            data.follow_optimizer(value, domain)
        elif issubclass(kind, type):
            code.note(value, domain)
            data.follow_class(value)
        elif issubclass(kind, types.ModuleType):
            code.follow_module(value, domain)
            if kind is not types.ModuleType:
                data.follow_class(kind)
        elif issubclass(kind, enum.Enum) and domain is Domain.GIVEN:
            data.follow_class(kind)
            if data.with_classes:  # it is its class's: what code names of it counts
                data.follow(name, value, Domain.PROGRAM)
        elif not code.follow(name, value, domain):
            data.follow(name, value, domain)

    def _take_whole(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        """A package's code has it, too, and may have it step."""
        trail = self._trail
        names = trail.names_in(
            *(name, optimizer.__dict__, trail.scopes.all, Domain.PACKAGE)
        )
        trail.take_all(names)

    def _visit_again(self, name: str, value: Any, domain: Domain) -> None:
        """Somebody leads to it, too, of whom more is looked at."""
        kind = type(value)
        trail = self._trail
        if kind is types.FunctionType:
            if not is_own_function(value):
                self._code.follow_function(value, domain)
        elif issubclass(kind, types.ModuleType):
            self._code.follow_module(value, domain)
        elif is_array(kind):
            self._data.follow_array(name, value, domain)
        elif issubclass(kind, threading.local):
            self._data.follow(name, value, domain)
        elif domain is Domain.PROGRAM and not issubclass(kind, _NOT_LED):
            trail.note_led(name, value)
            holder = trail.container(value)
            if isinstance(holder, (Sequence, Dictionary)):
                trail.add_all(holder, domain)
            if kind is collections.OrderedDict:
                self._data.follow_attributes(name, value, domain)
