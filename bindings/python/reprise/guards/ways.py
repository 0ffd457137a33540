"""Ways that lead from arguments, results and what a call sets to what is in them."""

from __future__ import annotations

from typing import Any


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


def _item_of(value: Any, key: Any) -> Any:
    """That of a container. What its class overrides is not asked."""
    for base in (tuple, list, dict):
        if issubclass(type(value), base):
            return base.__getitem__(value, key)
    raise TypeError(type(value))
