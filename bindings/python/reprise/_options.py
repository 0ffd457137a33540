"""Options as Python gives them. The library has their table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

Device = str | int | torch.device | None
OptionValue = str | int | float | bool


@dataclasses.dataclass(frozen=True)
class Option:
    """One row of the table of options."""

    name: str  #: as `enable(name=value)` takes it
    variable: str  #: in the environment
    default: str
    accepted: str
    meaning: str


def as_text(given: Mapping[str, OptionValue]) -> dict[str, str]:
    """Values in the words of the library's parser: True is "1", 0.5 is "0.5"."""
    return {
        name: str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
