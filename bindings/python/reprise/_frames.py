"""Python's frames: whose code they run, and where in it."""

from __future__ import annotations

import functools
import os
import sysconfig
import types

import torch

_PACKAGES = ("site-packages", "dist-packages")
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
# Wherever it is installed: who builds torch has it in a checkout.
_TORCH = os.path.dirname(torch.__file__) + os.sep
_REPRISE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# What these do is no part of a result: they tell people, or find code.
_TELLING = frozenset(
    {
        *("logging", "warnings", "linecache", "traceback", "tokenize", "inspect"),
        *("importlib", "pkgutil", "zipimport", "runpy"),
    }
)


class Owner:
    """The owner of code. PROGRAM: not an installed package, not the library, not Reprise."""

    PROGRAM, PACKAGE, LIBRARY, REPRISE = range(4)


@functools.lru_cache(maxsize=4096)
def owner_of(file: str) -> int:
    """Return the owner of the code in that file."""
    if file.startswith(_REPRISE):
        return Owner.REPRISE
    if file.startswith(_TORCH) or any(part in file for part in _PACKAGES):
        return Owner.PACKAGE
    if file.startswith(("<frozen", _STANDARD)):
        return Owner.LIBRARY
    return Owner.PROGRAM


def is_programs(code: types.CodeType) -> bool:
    """Return whether the code is the program's own."""
    return owner_of(code.co_filename) == Owner.PROGRAM


def is_torchs(file: str) -> bool:
    """Return whether the code is of torch's package."""
    return file.startswith(_TORCH)


@functools.lru_cache(maxsize=4096)
def _tells(file: str) -> bool:
    name = file.removeprefix("<frozen ").rstrip(">").removeprefix(_STANDARD)
    return name.replace(os.sep, ".").removesuffix(".py").split(".")[0] in _TELLING


def caller_of(frame: types.FrameType | None) -> types.FrameType | None:
    """The program's frame that asked the standard library for what `frame` does.

    None: a package or Reprise asked, or the library told people or found code.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        owner = owner_of(file)
        if owner == Owner.PROGRAM:
            return frame
        asks_itself = owner == Owner.PACKAGE or owner == Owner.REPRISE
        if asks_itself or (owner == Owner.LIBRARY and _tells(file)):
            return None
        frame = frame.f_back
    return None


def place_of(frame: types.FrameType | None) -> str:
    """Return the innermost line of the program's from there; "" if there is none."""
    while frame is not None:
        if owner_of(frame.f_code.co_filename) == Owner.PROGRAM:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
