"""Who uses a pass's host time: Python, torch, Reprise, the driver, the C library."""

from __future__ import annotations

import collections
import ctypes
import pathlib
import tempfile
import time
from collections.abc import Callable

# By what the name of a library begins with; Python is the rest.
OWNERS = {
    "libreprise": "own",
    "libtbb": "own",
    "libtorch": "torch",
    "libc10": "torch",
    "libcud": "driver",
    "libcub": "driver",
    "libcupti": "driver",
    "libnv": "driver",
    "libc.": "libc",
    "libm.": "libc",
    "libstdc++": "libc",
    "libgcc": "libc",
    "ld-linux": "libc",
    "linux-vdso": "libc",
}


class Sampler:
    """Samples the calling thread by the library that `pc_sampler.cc` is built into."""

    def __init__(self, library: pathlib.Path) -> None:
        self._library = ctypes.CDLL(str(library.resolve()))
        self._library.pc_sampler_stop.argtypes = [ctypes.c_char_p]
        self._library.pc_sampler_stop.restype = ctypes.c_long

    def shares(
        self, run: Callable[[], object], seconds: float = 1.0
    ) -> dict[str, float]:
        """Call `run` for some seconds; give each owner's share of the time."""
        with tempfile.NamedTemporaryFile("r", suffix=".samples") as file:
            if self._library.pc_sampler_start() != 0:
                raise RuntimeError("the system gives no timer to sample with")
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                run()
            taken = self._library.pc_sampler_stop(file.name.encode())
            if taken <= 0:
                raise RuntimeError("no sample was taken")
            counts = collections.Counter(
                owner(line.split(" ", 1)[0]) for line in file if line.strip()
            )
        return {
            name: counts[name] / taken
            for name in sorted(set(OWNERS.values()) | {"python"})
        }


def owner(path: str) -> str:
    """Say whose library it is."""
    name = path.rsplit("/", 1)[-1]
    if name.startswith("libtorch_python"):
        return "torch"
    return next(
        (who for prefix, who in OWNERS.items() if name.startswith(prefix)), "python"
    )
