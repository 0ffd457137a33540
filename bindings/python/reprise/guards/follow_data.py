"""From objects, containers, torch's modules and classes to what they hold."""

from __future__ import annotations

import array
import collections
import enum
import functools
import mmap
import sys
import threading
import types
import weakref
from typing import Any

import torch
from torch.optim import optimizer as _optimizer

from reprise._dynamo import codes_of
from reprise._frames import Owner
from reprise.guards import classes
from reprise.guards.code import named_by
from reprise.guards.holders import Dictionary, Fixed, Holder, Sequence, Slice
from reprise.guards.names import Scope
from reprise.guards.object_holders import Bases, Instance, Memory, Slots
from reprise.guards.tokens import SIMPLE, is_simple
from reprise.guards.trail import Domain, Refused, Trail
from reprise.guards.tree import Foreign, is_tensor

# Their elements are attributes, whose names torch's code makes.
_OF_ELEMENTS = (torch.nn.ParameterList, torch.nn.ParameterDict)
_MOST_COUNTED = 1 << 20  # elements of a container
_FREE = (torch.Tensor, torch.nn.Module)
_BUFFERS = (bytearray, array.array, memoryview, mmap.mmap)
_MOST_BYTES = 4096  # of an array, that are compared in each call
_LIBRARIES = frozenset({"torch", "builtins", "numpy", "typing", "collections"})
_LOCKS = ("lock", "RLock")
# Of generators the states are compared.
_LEFT_OUT = (classes.CLOSED | {"random"}) - {"weakref", "threading", "concurrent"}
# By type: what reads its elements, and whether they may be others some day.
_SEQUENCES: tuple[tuple[type, bool], ...] = (
    (list, True),
    (set, True),
    (collections.deque, True),
    (tuple, False),
    (frozenset, False),
)
_DICTS = classes.ids_of(dict, collections.OrderedDict, collections.defaultdict)
PLAIN = _DICTS | classes.ids_of(list, tuple, set)


class DataFollower:
    """Follows what is no code. Of an object the attributes count that code names.

    All do of what is given, of torch's own modules, and where the program's code reads
    attributes that it does not name.
    """

    def __init__(self, trail: Trail, *, with_classes: bool) -> None:
        """`with_classes`: methods and attributes of classes count."""
        self.optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        self.modules: list[weakref.ref[torch.nn.Module]] = []
        self.tensors: list[weakref.ref[torch.Tensor]] = []
        self.kinds: list[type] = []  # of objects, and classes that are led to
        self._trail = trail
        self.with_classes = with_classes
        self._known_kinds: set[int] = set()
        self._scope_by_kind: dict[int, Scope] = {}
        self._own_locks: set[int] = set()  # ids of those that Python's library makes

    # --- Torch's ---

    def follow_tensor(self, name: str, value: torch.Tensor, domain: Domain) -> None:
        """What Python has set on it; what it is the library looks at."""
        trail, given = self._trail, domain is Domain.GIVEN
        self.tensors.append(weakref.ref(value))
        if not is_tensor(type(value)):  # its class has methods
            self.follow_class(type(value))
            trail.holds_code |= given
        scope = trail.scopes.all if given else trail.scopes.program
        trail.names_in(name if given else "a tensor", value.__dict__, scope, domain)

    def follow_module(self, value: torch.nn.Module) -> None:
        """Parameters, submodules, hooks, and attributes that code names."""
        kind = type(value)
        trail, scopes = self._trail, self._trail.scopes
        trail.holds_code = True
        self.modules.append(weakref.ref(value))
        self.follow_class(kind)
        scope = scopes.modules
        if classes.root_of(kind) == "torch" or issubclass(kind, _OF_ELEMENTS):
            scope = scopes.torch_modules
        elif any(
            base is not torch.nn.Module
            and classes.owner_of_class(base) == Owner.PACKAGE
            for base in classes.mro_of(kind)
            if classes.is_written_in_python(base)
        ):
            scope = scopes.package_modules
        name = classes.short_name_of(kind)
        attributes = value.__dict__
        self._hold_instance(name, value, attributes)
        trail.names_in(name, attributes, scope, Domain.PROGRAM)
        buffers = attributes.get("_buffers")
        if type(buffers) is dict:  # of which calls may set some
            trail.is_new(buffers, Domain.GIVEN)
            where = f"{name}._buffers"
            trail.names_in(where, buffers, scopes.all, Domain.PACKAGE)

    def follow_optimizer(self, value: torch.optim.Optimizer, domain: Domain) -> None:
        """What its groups hold is looked at in each call, by who asks for them.

        What it keeps for its parameters counts if code may come to that.
        """
        kind, trail = type(value), self._trail
        trail.holds_code = True
        self.optimizers.append(weakref.ref(value))
        self.follow_class(kind)
        name = classes.short_name_of(kind)
        attributes = value.__dict__
        self._hold_instance(name, value, attributes)
        trail.apart.add((id(attributes), "param_groups"))
        of_package = domain is Domain.PACKAGE
        scope = trail.scopes.all if of_package else trail.scopes.optimizers
        names = trail.names_in(name, attributes, scope, Domain.PACKAGE)
        names.torchs = _private_of_optimizers()
        for group in value.param_groups:
            trail.add(name, list(group["params"]), Domain.PACKAGE)

    def follow_what_torch_asks_for(self) -> None:
        """In each call, whatever the callable is."""
        trail = self._trail
        for of in (torch.nn.modules.module, _optimizer):
            for name, hooks in vars(of).items():
                if name.startswith("_global_") and isinstance(hooks, dict):
                    trail.add(name, hooks, Domain.PACKAGE)
        self.follow_class(torch.Tensor)
        mha = torch.backends.mha
        of_mha = mha.__name__, vars(mha), trail.scopes.nothing
        names = trail.names_in(*of_mha, Domain.PACKAGE)
        trail.fix(names, "_is_fastpath_enabled", Domain.PACKAGE)

    def forget_own_locks(self) -> None:
        """Those that guard what a property keeps: no code of the program's takes them."""
        for each in self._own_locks:
            self._trail.locks.pop(each, None)

    # --- Classes ---

    def follow_class(self, kind: type) -> None:
        """Its attributes and methods that code names, or operators call."""
        if id(kind) in self._known_kinds:
            return
        self._known_kinds.add(id(kind))
        self.kinds.append(kind)
        if not self.with_classes:
            return
        if type(kind) is not type:
            self.follow_class(type(kind))
        for base in classes.mro_of(kind):
            if classes.is_of_library(base):  # its code is not read elsewhere
                for code in classes.codes_of(base):
                    self._trail.by_packages |= named_by(code).read
                    self._trail.not_counted |= named_by(code).read
        for base in classes.open_bases(kind):
            self._follow_namespace(base)

    def _follow_namespace(self, kind: type) -> None:
        """What a class has itself."""
        trail, scopes = self._trail, self._trail.scopes
        name, of = classes.short_name_of(kind), classes.dict_of(kind)
        trail.hold(Bases(name, kind))
        if classes.owner_of_class(kind) != Owner.PROGRAM:
            scope, domain = scopes.package_classes, Domain.PACKAGE
            trail.names_in(name, of, scope, domain, leads_on=False)
            return
        names = trail.names_in(name, of, scopes.classes, Domain.PROGRAM)
        for key in classes.MAKING:  # it counts, and its code is read where it runs
            names.fixed.add(key)
            names.done.setdefault(key, Domain.PROGRAM)
        if issubclass(type(kind), enum.EnumMeta):  # by which members are found
            trail.fix(names, "_member_map_", Domain.PROGRAM)
            trail.fix(names, "_member_names_", Domain.PROGRAM)
            trail.by_packages.add("_value_")
        for key in classes.called_unnamed(kind):
            trail.fix(names, key, Domain.PROGRAM)
        if "__getattr__" in of or "__getattribute__" in of:
            trail.by_program.add("getattr")

    # --- Data ---

    def follow(self, name: str, value: Any, domain: Domain) -> None:
        """A container, an array, or an object."""
        kind = type(value)
        if domain is Domain.PROGRAM:
            self._trail.note_led(name, value)
        for base, changes in _SEQUENCES:
            if issubclass(kind, base):
                if domain is Domain.GIVEN:
                    _check_given(name, value)
                make = Sequence if changes else Fixed
                self._follow_container(make(name, value, base), base, domain)
                if kind is not base:
                    self._follow_object(name, value, domain, holds=True)
                return
        if kind is slice:
            holder = Slice(name, value)
            self._trail.spend(1, name)
            self._trail.hold(holder)
            self._trail.add_all(holder, domain)
        elif issubclass(kind, dict):
            self._follow_container(Dictionary(name, value), dict, domain)
            if id(kind) not in _DICTS:
                self._follow_object(name, value, domain, holds=True)
            elif kind is collections.OrderedDict:
                self.follow_attributes(name, value, domain)
        elif domain is not Domain.GIVEN and is_array(kind):
            self.follow_array(name, value, domain)
            if classes.attributes_of(value) is not None:
                self._follow_object(name, value, domain, holds=True)
        else:
            holds = issubclass(kind, SIMPLE)
            self._follow_object(name, value, domain, holds=holds)

    def follow_attributes(
        self, name: str, value: collections.OrderedDict[Any, Any], domain: Domain
    ) -> None:
        """Packages have many such dicts. Attributes may come where code names them."""
        if domain is not Domain.PACKAGE or value.__dict__:
            self._follow_object(name, value, domain, holds=True)

    def _follow_container(self, holder: Holder, base: Any, domain: Domain) -> None:
        trail = self._trail
        count = base.__len__(holder.of)
        if count <= _MOST_COUNTED:  # tensors and modules cost nothing
            values = holder.values(holder.of)
            count -= sum(issubclass(type(each), _FREE) for each in values)
        trail.spend(count, holder.name)
        trail.hold(holder)
        trail.add_all(holder, domain)

    def follow_array(self, name: str, value: Any, domain: Domain) -> None:
        """Numbers on the host: their bytes are compared.

        Of a package's those that can be: what it reads of others nobody knows.
        """
        what = f"it leads to {name}, a {classes.name_of(type(value))}"
        try:
            view = memoryview(value)
            size = view.nbytes
            if "O" in view.format:  # who changes an object changes no byte
                raise TypeError
        except (TypeError, ValueError, BufferError):
            if domain is Domain.PACKAGE:
                return
            raise Refused(
                f"{what} of what cannot be compared as bytes (give the callable what "
                "it takes of it as an argument)"
            ) from None
        if size > _MOST_BYTES:
            if domain is Domain.PACKAGE:
                return
            raise Refused(
                f"{what}, which is too large to be looked at in each call (give it as "
                "a tensor)"
            )
        self._trail.hold(Memory(name, value))

    def _follow_object(
        self, name: str, value: Any, domain: Domain, *, holds: bool
    ) -> None:
        """By its attributes. `holds`: what else it holds is looked at."""
        kind = type(value)
        trail = self._trail
        attributes = classes.attributes_of(value)
        slots = classes.slots_of(kind)
        if domain is Domain.GIVEN:
            if not holds and _is_closed(name, kind, attributes):
                return
            more = not holds and classes.holds_more(kind, len(slots))
            if more or (attributes is None and not slots and not holds):
                raise Foreign(f"{name}, a {classes.name_of(kind)}")
        elif issubclass(kind, threading.local):
            if domain is Domain.PACKAGE or kind is threading.local:
                return  # which calls compare by value, if it is the program's
            raise Refused(
                f"it leads to {name}, of which each thread has its own (give the "
                "callable what is read there, as an argument)"
            )
        elif classes.root_of(kind) == "functools":  # it holds what it calls
            domain = Domain.PROGRAM
        elif classes.root_of(kind) in _LEFT_OUT or (
            classes.root_of(kind) in _LIBRARIES and attributes is None
        ):
            return
        trail.spend(1, name)
        self.follow_class(kind)
        short = classes.short_name_of(kind)
        if attributes is not None:
            if issubclass(kind, functools.cached_property):
                self._own_locks.add(id(attributes.get("lock")))
            self._hold_instance(short, value, attributes)
            trail.names_in(short, attributes, self._scope_of(domain, kind), domain)
            if classes.root_of(kind) == "functools":  # by whatever names
                for each in list(attributes.values()):
                    trail.add(short, each, domain)
        if slots:
            holder = Slots(short, value, slots, kept=self._is_kept(value))
            trail.hold(holder)
            trail.add_all(holder, domain)

    def _hold_instance(self, name: str, value: Any, attributes: Any) -> None:
        kept = self._is_kept(value)
        self._trail.hold(Instance(name, value, attributes, kept=kept))

    def _is_kept(self, value: Any) -> bool:
        is_root = id(value) in self._trail.roots
        return not is_root or not classes.has_references(type(value))

    def _scope_of(self, domain: Domain, kind: type) -> Scope:
        """What counts of an object's attributes."""
        scopes = self._trail.scopes
        if domain is Domain.GIVEN:
            return scopes.all
        known = self._scope_by_kind.get(id(kind))
        if known is None:
            others = any(
                classes.owner_of_class(base) in (Owner.PACKAGE, Owner.LIBRARY)
                for base in classes.mro_of(kind)
                if classes.is_written_in_python(base)
            )
            known = scopes.package if others else scopes.program
            if classes.is_read_whole(kind) or (others and _makes_attributes(kind)):
                known = scopes.all
            self._scope_by_kind[id(kind)] = known
        return known


@functools.cache
def _private_of_optimizers() -> frozenset[str]:
    """Attributes of optimizers by which torch's own code goes, and no program's."""
    kinds = torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler
    named = {
        name
        for kind in kinds
        for function in vars(kind).values()
        if isinstance(function, types.FunctionType)
        for code in codes_of(function.__code__)
        for name in code.co_names
    }
    return frozenset(
        name for name in named if name.startswith("_") and not name.startswith("__")
    )


def is_array(kind: type) -> bool:
    """Of numbers on the host."""
    numpy = sys.modules.get("numpy")
    return issubclass(kind, _BUFFERS) or (
        numpy is not None and issubclass(kind, _arrays_of(numpy))
    )


@functools.cache
def _arrays_of(numpy: types.ModuleType) -> tuple[type, ...]:
    return numpy.ndarray, numpy.void


def _makes_attributes(kind: type) -> bool:
    """By code of its own, which may read others by any name."""
    return any(
        name in classes.names_of(base)
        for base in classes.open_bases(kind)
        for name in ("__getattr__", "__getattribute__")
    )


def _check_given(name: str, value: Any) -> None:
    """Raises Foreign: who has it may change it unseen."""
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        return
    sets = issubclass(kind, (set, frozenset))
    if not sets or not all(is_simple(type(each)) for each in value):
        raise Foreign(f"{name}, a {classes.name_of(kind)}")


def _is_closed(name: str, kind: type, attributes: Any) -> bool:
    """It holds nothing that torch is asked for. Raises Foreign: it may."""
    root = classes.root_of(kind)
    if root in classes.SHARING and classes.short_name_of(kind) not in _LOCKS:
        raise Foreign(f"{name}, a {classes.name_of(kind)}")
    if root in classes.CLOSED:
        return True
    if root in _LIBRARIES and attributes is None:
        hashes: Any = kind.__hash__
        if hashes is None or hashes is object.__hash__ or kind is memoryview:
            raise Foreign(f"{name}, a {classes.name_of(kind)}")
        return True
    return False
