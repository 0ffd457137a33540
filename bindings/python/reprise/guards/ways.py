"""Ways that lead from arguments, results and what a call sets to what is in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from reprise.guards.classes import attributes_of


class GivenBack:
    """A container among the arguments, in a result: by the way that leads to it."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[bool, Any], ...]) -> None:
        """Each is an attribute's name, or a key or index; True: an attribute's."""
        self.steps = steps

    def of(self, arguments: Any) -> Any:
        """It, in these."""
        value = arguments
        for is_attribute, key in self.steps:
            value = getattr(value, key) if is_attribute else _item_of(value, key)
        return value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GivenBack)
            and type(other) is type(self)
            and self.steps == other.steps
        )

    def __hash__(self) -> int:
        return hash(self.steps)


class Shared(GivenBack):
    """What a call sets, that is a part of its result, or what was set before.

    By the way that leads to it from both; see `set_to`.
    """

    __slots__ = ()


# In a form, before the number of a container among the arguments; see `Containers`.
AT = "at"
# Where something stands in a container.
ITEMS, KEYS, NAMES = "items", "keys", "names"


class Before(NamedTuple):
    """What stood in a container among the arguments before the call."""

    container: int
    where: str  # ITEMS, KEYS or NAMES
    key: Any

    def of(self, call: Any) -> Any:
        """It, of a call's parts."""
        value = call.containers.values[self.container]
        if self.where == NAMES:
            attributes = attributes_of(value)
            assert attributes is not None
            return attributes[self.key]
        return _item_of(value, self.key)


class Setting(NamedTuple):
    """What a call sets of one container among its arguments."""

    container: int
    where: str  # ITEMS, KEYS or NAMES
    keys: tuple[Any, ...] | None  # that are set, in this order; None: all items anew
    gone: tuple[Any, ...] = ()  # keys that go before


# In the place of a form, each stands for itself.
ARE_FORMS = frozenset(map(id, (GivenBack, Shared, Before, Setting)))


def _item_of(value: Any, key: Any) -> Any:
    """That of a container. What its class overrides is not asked."""
    for base in (tuple, list, dict):
        if issubclass(type(value), base):
            return base.__getitem__(value, key)
    raise TypeError(type(value))
