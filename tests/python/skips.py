"""Why a test may be skipped. Any other skip fails it (conftest.py).

A run that skips what it should have tested would look like one in which all is well.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
from collections.abc import Callable

import torch


def gpus() -> int:
    """How many torch sees."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _no_gpu() -> bool:
    """None that torch sees, and none that it should have seen."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    devices = pathlib.Path("/dev").glob("nvidia[0-9]*")
    return gpus() == 0 and (hidden or not any(devices))


def has_compiler() -> bool:
    """Whether there is what torch compiles with."""
    return shutil.which(os.environ.get("CXX", "c++")) is not None


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


NO_GPU = "no GPU"
NO_COMPILER = "no C++ compiler"
NO_MATPLOTLIB = "no matplotlib"
FEW_GPUS = "fewer than two GPUs"
A_GPU = "there is a GPU"
PROFILED = "torch keeps CUPTI for the rest of the process: a documented limit"
NO_LIBRARY = "the library {} is not installed (requirements/recipes.txt)"
NO_PROGRAM_LIBRARY = "the library {} is not installed (requirements/programs.txt)"
NO_TOOL = "there is no {} on the path, in /usr/local/cuda* or in nvidia's wheels"
NO_ATTENTION = "torch itself runs no {} with these libraries"

# Reasons, with a place for a word, and whether they hold here.
_ALLOWED: dict[str, Callable[[], bool]] = {
    NO_GPU: _no_gpu,
    FEW_GPUS: lambda: gpus() == 1 or _no_gpu(),
    NO_COMPILER: lambda: not has_compiler(),
    NO_MATPLOTLIB: lambda: not has_matplotlib(),
    A_GPU: lambda: gpus() > 0,
    PROFILED: lambda: gpus() > 0,
    NO_LIBRARY: lambda: os.environ.get("RECIPES") != "all",  # the caller has looked
    NO_PROGRAM_LIBRARY: lambda: True,  # likewise
    NO_TOOL: lambda: True,  # likewise
    # Where torch and cuDNN came together, as with 2.11, it runs.
    NO_ATTENTION: lambda: not torch.__version__.startswith("2.11."),
}


def allowed(reason: str) -> bool:
    """Whether a test may be skipped for it on this machine."""
    return any(
        re.fullmatch(re.escape(known).replace(r"\{\}", r"[\w-]+"), reason) and holds()
        for known, holds in _ALLOWED.items()
    )
