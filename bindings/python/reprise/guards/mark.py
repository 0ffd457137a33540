"""By what a state is known again that is no longer kept: a module was put in another one's place."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch

from reprise.guards.classes import attributes_of
from reprise.guards.follow_data import PLAIN
from reprise.guards.holders import Child, Holder
from reprise.guards.names import Names
from reprise.guards.object_holders import Instance, Partial, Slots
from reprise.guards.tokens import Is, TensorRef, Token, described, is_simple


class Mark:
    """What a state is of, by its tokens, and what they are. Keeps nothing alive.

    Modules and tensors are told by weak references; their dictionaries, and containers that
    stand in those of modules, by their places among the holders; numbers and texts by value;
    and all else by its id, which tells it as long as somebody keeps it. So a mark is of use while
    there is always a state that keeps all of `shared`.
    """

    def __init__(
        self,
        holders: list[Holder],
        modules: Iterable[weakref.ref[torch.nn.Module]],
        tensors: Iterable[weakref.ref[torch.Tensor]],
    ) -> None:
        """Of a state with these holders, which have their tokens."""
        self.shared: set[int] = set()  # ids
        self.held: set[int] = set()  # ids of all that the state keeps
        places: dict[int, int] = {}
        for number, holder in enumerate(holders):
            places.setdefault(id(holder.of), number)
        self._owned = {
            number: places[number]
            for number in _ids_in(modules, tensors)
            if number in places
        }
        self._parts: list[Any] | None = []  # None: it is not to be known
        try:
            for holder in holders:
                self._parts.append(self._part(holder))
        except TypeError:
            self._parts = None

    def is_known(self) -> bool:
        """Whether it can be compared."""
        return self._parts is not None

    def is_of(self, other: Mark) -> bool:
        """Both are of one state, and all of its modules and tensors are there."""
        return self._parts is not None and self._parts == other._parts

    def _part(self, holder: Holder) -> Any:
        """Raises TypeError: who holds it cannot be told."""
        if holder.apart:
            raise TypeError
        of: Any = holder.of
        self.held.add(id(of))
        if isinstance(holder, (Instance, Partial, Slots)):
            of = holder.object()
            of = self._token(of) if holder.kept else Is(of)
        else:
            of = self._token(of)
        if isinstance(holder, Names):
            items = [*holder.present.items()]
            keys = [*holder.present, *holder.left_out]
            if any(type(key) is not str for key in keys):
                raise TypeError
            items = [(key, self._token(token)) for key, token in items]
            return Names, of, holder.keys, holder.left_out, items
        return type(holder), of, list(map(self._token, holder.tokens))

    def _token(self, token: Token) -> Any:
        kind = type(token)
        if kind is Child:
            token = token.holder.of
            kind = type(token)
        if kind is TensorRef:
            token = token()
            return Is(token), self._owned.get(id(attributes_of(token)))
        if is_simple(kind):
            return described(token)
        if issubclass(kind, (torch.nn.Module, torch.Tensor)):
            return Is(token)
        number = id(token)
        self.held.add(number)
        if number in self._owned:
            return "in a module", self._owned[number]
        self.shared.add(number)
        return number


def _ids_in(
    modules: Iterable[weakref.ref[torch.nn.Module]],
    tensors: Iterable[weakref.ref[torch.Tensor]],
) -> set[int]:
    """Of their dictionaries, and of containers that stand in those of modules."""
    found = set()
    for ref in tensors:
        if (tensor := ref()) is not None:
            found.add(id(attributes_of(tensor)))
    for ref in modules:
        if (module := ref()) is not None:
            attributes = attributes_of(module) or {}
            found.add(id(attributes))
            values = [*dict.values(attributes)]
            found.update([id(each) for each in values if id(type(each)) in PLAIN])
    return found
