"""From functions, and what stands for one, to what their code names."""

from __future__ import annotations

import builtins
import functools
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from reprise._frames import Owner, is_programs, is_torchs
from reprise.guards import classes
from reprise.guards.code import (
    READ_ALL,
    SETTERS,
    is_format,
    is_of_frozen,
    is_reader,
    named_by,
    named_by_getter,
    reads_any,
)
from reprise.guards.counters import counted_by
from reprise.guards.holders import Cell, Function, content
from reprise.guards.object_holders import (
    Cached,
    Instance,
    Lazy,
    Partial,
    Reference,
)
from reprise.guards.tokens import MISSING
from reprise.guards.trail import Domain, Trail, is_own_function
from reprise.guards.values import GETTERS, Takers

_BOUND = classes.ids_of(types.BuiltinFunctionType, types.MethodWrapperType)
# Of packages' globals these are followed where they are called, or named.
_FOLLOWED_LATER = (types.ModuleType, types.FunctionType, type)
# What shows a dictionary, and keeps it.
_VIEWS = classes.ids_of(
    types.MappingProxyType,
    *(type({}.keys()), type({}.values()), type({}.items())),
)
# Their texts name globals of who calls them.
_EVALUATES = frozenset({"eval", "exec"})
# So may what a dictionary of globals is given by these.
_UPDATES = frozenset({"update", "setdefault", "__setitem__", "__ior__"})
_OF_NOBODY = classes.ids_of(types.ModuleType, type(None))
_SET = classes.ids_of(
    types.WrapperDescriptorType, types.MethodWrapperType, types.FunctionType
)
# From Python 3.12 on, which are asked for when they are needed.
_LAZY = classes.ids_of(
    *(
        getattr(typing, each)
        for each in ("TypeAliasType", "TypeVar", "ParamSpec", "TypeVarTuple")
        if sys.version_info >= (3, 12)
    )
)
_CACHED: Any = type(functools.lru_cache(maxsize=1)(lambda: None))
# Descriptors, and what they call.
_DESCRIPTORS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (property, ("fget", "fset", "fdel")),
    (classmethod, ("__func__",)),
    (staticmethod, ("__func__",)),
)


class Bound:
    """A method that does not keep its object."""

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self.function = function
        self.owner = weakref.ref(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner(), *args, **kwargs)


def is_region(kind: type) -> bool:
    """Asks the type: an object may answer to every name."""
    return classes.found_in(kind, "_reprise_is_region") is not None


class CodeFollower:
    """Follows functions. Of the program's all that is named counts.

    Code of packages is read once it has run: of its globals the attributes that it takes
    of them, and of their objects the attributes that it names.
    """

    def __init__(self, trail: Trail) -> None:
        self.functions: list[types.FunctionType] = []  # the program's
        # What their code leads to that may take the value of a number.
        self.takers = Takers()
        # Dictionaries of globals of theirs, and of their attributes, by id.
        self.namespaces: dict[int, dict[str, Any]] = {}
        self._trail = trail

    # --- Functions, and what stands for one ---

    def follow(self, name: str, value: Any, domain: Domain) -> bool:
        """False: it is nothing of the kind."""
        kind = type(value)
        trail = self._trail
        inner = Domain.PACKAGE if domain is Domain.PACKAGE else Domain.PROGRAM
        self.note(value, inner)
        if kind is types.FunctionType:
            trail.holds_code = True
            self.follow_function(value, inner)
        elif kind is types.MethodType:
            trail.holds_code |= inner is not domain
            trail.pin(value.__self__)
            trail.add(name, value.__func__, inner)
            trail.add(name, value.__self__, domain)
        elif issubclass(kind, functools.partial):
            self._follow_partial(name, value, domain)
        elif issubclass(kind, weakref.ref) and domain is not Domain.GIVEN:
            self._follow_reference(name, value, domain)
        elif id(kind) in _LAZY and domain is not Domain.GIVEN:
            lazy = Lazy(name, value)
            trail.hold(lazy)
            trail.add_all(lazy, inner)
        elif id(kind) in _BOUND:
            trail.pin(value.__self__)
            if id(type(value.__self__)) not in _OF_NOBODY:
                trail.add(name, value.__self__, domain)
        elif (held := self._held_by(value)) is not None:
            trail.holds_code |= inner is not domain
            for each in held:
                trail.add(name, each, inner)
        else:
            return False
        return True

    def _held_by(self, value: Any) -> Iterable[Any] | None:
        """What it calls. None: it calls nothing that is known."""
        kind = type(value)
        if kind is Bound:
            owner = value.owner()
            self._trail.roots.add(id(owner))
            return owner, value.function
        if is_region(kind):
            region = getattr(value, "_reprise_region", value)
            runs_each_time = hasattr(region, "_reprise_eager")
            return () if runs_each_time else (region._reprise_fn,)
        if id(kind) in GETTERS:
            named = named_by_getter(value)
            self._trail.by_program |= named
            self._trail.not_counted |= named
            return ()
        if kind is types.CellType:
            cell = Cell("what is in a cell", value)
            self._trail.hold(cell)
            return cell.values(value)
        if id(kind) in _VIEWS:
            held = classes.held_by(value)
            # That of a class is set by its class alone.
            self._trail.shown |= set(map(id, held))
            for each in held:
                self._trail.pin(each)
            return held
        if kind is _CACHED:
            cached = Cached("a cache", value)
            held = cached.values(value)
            self._trail.spend(len(held), cached.name)
            self._trail.hold(cached)
            return held
        for base, names in _DESCRIPTORS:
            if issubclass(kind, base):
                return [base.__dict__[each].__get__(value) for each in names]
        return None

    def _follow_partial(
        self, name: str, value: functools.partial[Any], domain: Domain
    ) -> None:
        trail = self._trail
        kept = id(value) not in trail.roots
        holder = Partial(name, value, kept=kept)
        held = holder.values(value)
        if is_own_function(held[0]):
            domain = min(domain, Domain.PROGRAM)
        for each in held:
            trail.add(name, each, domain)
        attributes = classes.attributes_of(value)
        trail.hold(holder)
        trail.hold(Instance(name, value, attributes, kept=kept))
        if attributes is not None:
            given = domain is Domain.GIVEN
            scope = trail.scopes.all if given else trail.scopes.program
            trail.names_in(name, attributes, scope, domain)

    def _follow_reference(self, name: str, value: Any, domain: Domain) -> None:
        """To an object that is not kept for that."""
        referent = weakref.ref.__call__(value)
        if not self._trail.is_known(referent):
            self._trail.roots.add(id(referent))
        self._trail.hold(Reference(name, value))
        self._trail.add(name, referent, domain)

    def follow_function(self, fn: types.FunctionType, domain: Domain) -> None:
        """What it closes over, its defaults, and what its code names."""
        is_own = is_own_function(fn)
        if not is_own and domain is Domain.PACKAGE:
            return  # what it reads is known once it has run
        if is_own:  # what it closes over is the program's, whoever leads to it
            domain = min(domain, Domain.PROGRAM)
        trail = self._trail
        for name, cell in zip(
            fn.__code__.co_freevars, fn.__closure__ or (), strict=True
        ):
            holder = Cell(name, cell)
            trail.hold(holder)
            trail.add_all(holder, domain)
        function = Function(fn.__name__, fn)
        trail.hold(function)
        trail.add_all(function, domain)
        scope = trail.scopes.program if is_own else trail.scopes.package
        trail.names_in(fn.__name__, fn.__dict__, scope, domain)
        if is_own:
            self.functions.append(fn)
            self.namespaces[id(fn.__dict__)] = fn.__dict__
            if reads_any(fn.__code__):
                for cell in fn.__closure__ or ():
                    self._take_whole(content(cell))
            where = fn.__module__ or fn.__name__
            self._follow_code(fn.__code__, fn.__globals__, where)

    def note(self, value: Any, domain: Domain = Domain.PROGRAM) -> None:
        """What reads what code does not name, or takes the value of a number."""
        if domain is Domain.PACKAGE:
            self.takers.note_of_package(value)
            return
        kind = type(value)
        sets = (
            id(kind) in _SET
            and value.__name__ in SETTERS
            and not is_own_function(value)
        )
        if sets or is_reader(value) or is_format(value):
            self._trail.by_program.add("getattr")
        self.takers.note(value)

    # --- Code of the program's ---

    def _follow_code(
        self, code: types.CodeType, of: dict[str, Any], where: str
    ) -> None:
        trail, named = self._trail, named_by(code)
        self.namespaces[id(of)] = of
        self.takers.note_code(named, of)
        # One that makes an object sets attributes of what nobody has yet.
        makes = code.co_name in classes.MAKING or is_of_frozen(code)
        trail.by_program |= named.read - READ_ALL if makes else named.read
        trail.by_program |= named.written
        counted, otherwise = counted_by(code)
        trail.counted |= counted
        trail.not_counted |= otherwise.union(named.globals)
        trail.reads_any |= reads_any(code) and not is_of_frozen(code)
        names = trail.names_in(where, of, trail.scopes.nothing, Domain.PROGRAM)
        for name in named.globals:
            trail.fix(names, name, Domain.PROGRAM)  # it may come, too
            if name in of:
                self.note(of[name])
            else:
                trail.by_program.add(name)
            if name not in of or name in names.apart:  # which may hold nothing some day
                self._fix_builtin(name, may_come=name in names.apart)
        if reads_any(code):
            for name in named.globals:
                self._take_whole(of.get(name))
        if not _EVALUATES.isdisjoint(named.globals) or (
            "globals" in named.globals and not _UPDATES.isdisjoint(named.read)
        ):
            trail.take_all(names)
        for each in named.imports:
            self._follow_import(each.absolute(of.get("__package__")))
        if named.by_text is not None:  # its own module may be one
            for text in named.by_text & of.keys():
                trail.fix(names, text, Domain.PROGRAM)
            for text in (*(named.by_text & sys.modules.keys()), where):
                self._follow_import(text)

    def _follow_import(self, name: str) -> None:
        self.takers.note_module(name)
        trail = self._trail
        names = trail.names_in(
            *("sys.modules", sys.modules, trail.scopes.nothing, Domain.PROGRAM),
            leads_on=False,
        )
        for each in {name, name.partition(".")[0]}:
            trail.fix(names, each, Domain.PROGRAM)  # it may come, too
            if (module := sys.modules.get(each)) is not None:
                trail.add(each, module, Domain.PROGRAM)

    def _fix_builtin(self, name: str, *, may_come: bool = False) -> None:
        trail, of = self._trail, vars(builtins)
        if name in of or may_come:
            names = trail.names_in(
                *("builtins", of, trail.scopes.nothing, Domain.PACKAGE), leads_on=False
            )
            trail.fix(names, name, Domain.PACKAGE)
            found = of.get(name)
            if classes.is_written_in_python(type(found)):  # the program put it there
                trail.add(name, found, Domain.PROGRAM)

    # --- Code that ran ---

    def follow_what_ran(self, code: types.CodeType, of: dict[str, Any]) -> None:
        """Code, and its globals."""
        where = str(of.get("__name__"))
        if is_programs(code):
            self._follow_code(code, of, where)
            return
        trail, named = self._trail, named_by(code)
        trail.by_packages |= named.read
        trail.by_packages |= named.written
        trail.not_counted |= (named.read | named.written).union(named.globals)
        is_anothers = not is_torchs(code.co_filename)
        if is_anothers:
            trail.by_others |= named.read
            trail.reads_any |= reads_any(code)
            self.takers.note_code_of_package(named, of)
        names = trail.names_in(
            *(where, of, trail.scopes.nothing, Domain.PACKAGE), leads_on=False
        )
        for name in named.globals:
            is_place = name in names.apart
            if name in of:
                trail.fix(names, name, Domain.PACKAGE)
                leads_on = is_anothers and not is_place
                if leads_on and not issubclass(type(of[name]), _FOLLOWED_LATER):
                    trail.add(f"{where}.{name}", of[name], Domain.PACKAGE)
            if name not in of or is_place:
                self._fix_builtin(name, may_come=is_place)
        for first, *others in named.chains:
            self._follow_chain(of.get(first, MISSING), others)

    def _follow_chain(self, value: Any, keys: list[str]) -> None:
        """Attributes of attributes, from a global of a package's on."""
        trail = self._trail
        for key in keys:
            trail.keep(value)
            found: Any = MISSING
            for where, of in classes.namespaces_of(value):
                names = trail.names_in(
                    *(where, of, trail.scopes.nothing, Domain.PACKAGE), leads_on=False
                )
                trail.fix(names, key, Domain.PACKAGE)
                if found is MISSING:
                    found = dict.get(of, key, MISSING)
            value = found

    # --- Modules ---

    def follow_module(self, value: types.ModuleType, domain: Domain) -> None:
        """Of a package's the program's code alone counts, until code of it has run."""
        trail = self._trail
        trail.holds_code = True
        attributes = classes.attributes_of(value)
        name = classes.name_of_module(value)
        owner = classes.owner_of_module(name)
        by_program = domain is not Domain.PACKAGE
        if by_program:
            self.takers.note_module(name)
        if attributes is None or owner == Owner.REPRISE:
            return
        if owner == Owner.LIBRARY and not by_program:
            return
        trail.hold(Instance(name, value, attributes, kept=True))
        is_own = owner == Owner.PROGRAM
        scope = trail.scopes.named if is_own or by_program else trail.scopes.nothing
        inner = Domain.PROGRAM if is_own else Domain.PACKAGE
        leads_on = owner != Owner.LIBRARY
        names = trail.names_in(name, attributes, scope, inner, leads_on=leads_on)
        if is_own:
            trail.fix(names, "__getattr__", inner)

    def _take_whole(self, value: Any) -> None:
        """Of a module of the program's, named where code reads by any name."""
        if not issubclass(type(value), types.ModuleType):
            return
        attributes, name = classes.attributes_of(value), classes.name_of_module(value)
        if attributes is None or classes.owner_of_module(name) != Owner.PROGRAM:
            return
        trail = self._trail
        names = trail.names_in(name, attributes, trail.scopes.all, Domain.PROGRAM)
        trail.take_all(names)
