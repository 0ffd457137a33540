"""Attributes and globals that code names: of a dictionary the keys that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reprise.guards import classes
from reprise.guards.code import READ_ALL, named_by
from reprise.guards.holders import (
    APART,
    NOWHERE,
    Beside,
    Holder,
    Moved,
    differs,
    name_of_key,
)
from reprise.guards.tokens import MISSING, Token, same

_OF_MODULES = frozenset(
    {
        *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"),
        *("_backward_pre_hooks", "_parameters", "_buffers", "_modules", "training"),
    }
)
# Hooks that only these two run: a quarter of the dictionaries of modules.
_SAVES = frozenset({"state_dict", "load_state_dict"})
_SAVING = frozenset(
    {
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_non_persistent_buffers_set",
    }
)
# By these, and by names with `_STATE` in them, code comes to what optimizers keep for their
# parameters.
_STEPS = frozenset({"step", "add_param_group"})
_STATE = "state"
_OF_STEPS = frozenset({"state"})
_CALLED = classes.SPECIAL | {"forward"}
# What torch asks a module for when it is called.
_OF_CALLS = _OF_MODULES.union(
    *(
        named_by(getattr(torch.nn.Module, name).__code__).read
        for name in ("_wrapped_call_impl", "_call_impl", "_slow_forward")
    )
)


def leads_to_state(name: str) -> bool:
    """Return whether a function of that name may come to what optimizers keep."""
    return name in _STEPS or _STATE in name


class Scope:
    """Names that count: attributes that some code reads or sets."""

    def __init__(
        self,
        *sets: set[str],
        extra: frozenset[str] = frozenset(),
        takes_all: bool = False,
        may_take_all: bool = False,
        but: frozenset[str] = frozenset(),
        unless: frozenset[str] = frozenset(),
        unless_part: str = "",
        asked: int = 1,
    ) -> None:
        """`takes_all`: all do, `but` those, `unless` code names one of these, or `unless_part`.

        Of the sets, the first ones are `asked` for them. `may_take_all`: likewise, where code
        reads what it does not name.
        """
        self._asked = sets[:asked]
        self._but = but
        self._unless = unless | READ_ALL
        self._unless_part = unless_part
        self._sets = sets
        self._extra = extra
        self._takes_all = takes_all
        self._may_take_all = may_take_all
        self._known: tuple[int, frozenset[str]] = -1, frozenset()

    @property
    def _reads_all(self) -> bool:
        return bool(self._sets) and not READ_ALL.isdisjoint(self._sets[0])

    @property
    def everything(self) -> bool:
        """All names count, but those of `apart`."""
        return self._takes_all or (self._may_take_all and self._reads_all)

    def apart(self) -> frozenset[str]:
        """Names that do not, where everything else does."""
        part = self._unless_part
        named = any(
            not self._unless.isdisjoint(each)
            or (part and any(part in name for name in each))
            for each in self._asked
        )
        return frozenset() if named else self._but

    def size(self) -> int:
        """It grows with the names."""
        return sum(map(len, self._sets))

    def names(self) -> frozenset[str]:
        """Those so far, if not all count."""
        if self._known[0] != self.size():
            self._known = self.size(), self._extra.union(*self._sets)
        return self._known[1]

    def leads_to(self, key: Any) -> bool:
        """That key counts."""
        if type(key) is not str:
            return self.everything
        if self.everything:
            return key not in self._but or key not in self.apart()
        return key in self.names()


class Scopes:
    """By what holds the names."""

    def __init__(
        self, by_program: set[str], by_packages: set[str], by_others: set[str]
    ) -> None:
        """`by_others`: by packages' code but torch's, which names too much."""
        both = by_program, by_packages
        self.all = Scope(*both, takes_all=True)
        # Of torch's own modules, whose code reads most of it.
        self.torch_modules = Scope(*both, takes_all=True, but=_SAVING, unless=_SAVES)
        # Of optimizers that the program's code has, and no package's.
        self.optimizers = Scope(
            *(by_program, by_others),
            takes_all=True,
            but=_OF_STEPS,
            unless=_STEPS,
            unless_part=_STATE,
            asked=2,
        )
        self.nothing = Scope()
        self.named = Scope(by_program)  # of modules of packages and of Python's
        # Of objects and functions of the program's, and of packages'.
        self.program = Scope(by_program, by_others, may_take_all=True)
        self.package = Scope(*both, may_take_all=True)
        self.modules = Scope(by_program, by_others, extra=_OF_CALLS, may_take_all=True)
        self.package_modules = Scope(*both, extra=_OF_CALLS, may_take_all=True)
        self.classes = Scope(by_program, by_others, extra=_CALLED, may_take_all=True)
        self.package_classes = Scope(*both, extra=_CALLED)


class Names(Holder):
    """Attributes or globals: of a dictionary the keys that code names.

    Keys that are not there count, too: they may come.
    """

    __slots__ = (
        *("domain", "done", "fixed", "keys", "leads_on", "left_out", "present"),
        *("scope", "size", "torchs"),
    )

    def __init__(
        self, name: str, of: dict[str, Any], scope: Scope, domain: Any
    ) -> None:
        super().__init__(name, of)
        self.scope = scope
        self.domain = domain  # who leads to it
        self.fixed: set[str] = set()  # keys that count, whoever names them
        self.done: dict[Any, Any] = {}  # keys that were followed, and by whom
        self.leads_on = True  # what it holds is followed, or functions alone
        self.size = -1  # of the scope, when it was last looked at
        self.keys: frozenset[str] | None = None  # None: all
        self.left_out: frozenset[str] = frozenset()  # keys that do not count
        self.present: dict[Any, Token] = {}
        self.torchs: frozenset[str] = frozenset()  # keys of torch's own

    def take_keys(self) -> None:
        """Those of the scope, which is whole by now."""
        if self.scope.everything:
            self.keys = None
            self.left_out |= self.scope.apart()
            return
        names = self.scope.names()
        self.keys = names | self.fixed if not self.fixed <= names else names

    def items(self) -> list[tuple[Any, Any]]:
        """What counts."""
        of, keys, apart, left_out = self.of, self.keys, self.apart, self.left_out
        if keys is None:
            items = [*dict.items(of)]
        else:  # the fewer of both are gone through
            there = dict.keys(of) & keys
            items = [(key, dict.get(of, key, MISSING)) for key in there]
        if left_out:
            items = [each for each in items if each[0] not in left_out]
        if apart and keys is None:  # where they stand among the others counts
            return [(key, APART if key in apart else value) for key, value in items]
        if apart:
            return [each for each in items if each[0] not in apart]
        return items

    def counting(self) -> frozenset[str]:
        """The keys that count, whether or not they are there, if not all do."""
        return (self.keys or frozenset()) - self.apart - self.left_out

    def has_places_among_all(self) -> bool:
        return self.keys is None and bool(self.apart)

    def values(self, of: Any) -> list[Any]:
        return [value for _, value in self.items()]

    def take(self, token: Callable[[Any], Token]) -> None:
        self.present = {key: token(value) for key, value in self.items()}

    def difference(self, moved: Moved, beside: Beside = NOWHERE) -> str | None:
        items, present = self.items(), self.present
        for key, value in items:
            token = present.get(key, MISSING)
            if token is value or (beside and (id(self.of), key) in beside):
                continue
            if token is MISSING or differs(token, value, moved):
                return self.label_of(key)
        if len(items) < len(present):
            found = dict(items)
            for key in present:
                if key not in found and (id(self.of), key) not in beside:
                    return self.label_of(key)
        elif self.keys is None:  # those that come are the last ones
            for (key, _), known in zip(items, present, strict=False):
                if key is not known and key != known:
                    return f"{self.name}.order"
        return None

    @property
    def reads_all(self) -> bool:
        """All keys count, whoever names them."""
        return self.keys is None

    @property
    def is_packages(self) -> bool:
        """It is of globals, or a class, of a package."""
        return not self.leads_on

    def leave_out(self, named: frozenset[str]) -> set[tuple[int, str]]:
        """Keys that hold something else now count no longer, but those `named`."""
        found = {
            key
            for key, value in self.items()
            if key not in named and not same(self.present.get(key, MISSING), value)
        }
        self.left_out |= found
        for key in found:
            self.present.pop(key, None)
        return {(id(self.of), key) for key in found}

    def label_of(self, key: Any) -> str:
        """What the program calls it."""
        if type(key) is str and key in self.torchs:
            return f"what torch keeps in {self.name} for itself"
        return f"{self.name}.{name_of_key(key)}"

    def watched(self) -> Any:
        return self.of
