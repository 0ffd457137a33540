"""Programs as users of libraries write them, which ../programs.py measures.

A program is a function with `@program` (program.py), in the module of its kind. ``ALL``
has them by name, in the order of the modules and of the functions in these. A module of
programs imports torch alone; the libraries are imported where a program is built, so
that a program whose library is missing can be named and left out.
"""

from __future__ import annotations

from . import (
    generation,
    generative,
    geometry,
    language,
    methods,
    numerics,
    probability,
    reinforcement,
    sequences,
    solvers,
    trainers,
    vision,
)
from .program import Built, Program, Setting, missing

_MODULES = (
    language,
    generation,
    trainers,
    vision,
    generative,
    sequences,
    geometry,
    probability,
    solvers,
    numerics,
    reinforcement,
    methods,
)
ALL: dict[str, Program] = {
    found.name: found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, Program)
}

__all__ = ["ALL", "Built", "Program", "Setting", "missing"]
