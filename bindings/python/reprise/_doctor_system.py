"""Checks of `reprise doctor` without torch: Python, the system, the environment."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import re
import stat
import sys
import sysconfig
import tempfile
from typing import Literal

from reprise import _variables

Status = Literal["ok", "warning", "error"]

_OLDEST_GLIBC = (2, 34)


@dataclasses.dataclass(frozen=True)
class Row:
    """What one check has found."""

    check: str
    status: Status
    found: str
    remedy: str = ""


def python() -> Row:
    """Check the build and version of Python."""
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.implementation.name != "cpython":
        return Row("Python", "error", found, "use CPython 3.10 or later")
    if sys.version_info < (3, 10):  # noqa: UP036
        return Row("Python", "error", found, "use Python 3.10 or later")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return Row(
            "Python",
            "error",
            f"{found}, a free-threaded build",
            "use the ordinary build (python3.13, not python3.13t)",
        )
    return Row("Python", "ok", found)


def system() -> Row:
    """Check Linux, the processor and glibc."""
    found = f"{platform.system()} on {platform.machine()}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return Row("system", "error", found, "use Linux on x86-64")
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        glibc = ""
    if not glibc:
        return Row("system", "error", f"{found}, without glibc", "use one with glibc")
    found += f", {glibc}"
    if numbers(glibc) < _OLDEST_GLIBC:
        return Row("system", "error", found, "use a system with glibc 2.34 or later")
    return Row("system", "ok", found)


def switch() -> Row:
    """Check whether `REPRISE` switches everything off."""
    value = os.environ.get("REPRISE", "")
    if _variables.switched_off():
        return Row(
            "switch",
            "warning",
            f"REPRISE={value} switches everything off",
            "`unset REPRISE` to have programs replayed",
        )
    return Row("switch", "ok", "not switched off")


def cache() -> Row:
    """Check the folder of compiled kernels, found as kernels/disk_cache.h finds it."""
    path = _cache_folder()
    remedy = "let REPRISE_CACHE_DIR name a folder that you alone may write to"
    if path is None:
        return Row("cache", "warning", "the kernel cache has no home folder", remedy)
    why = _why_not_kept(path)
    if why:
        found = f"{path}: {why}; kernels are compiled again at each start"
        return Row("cache", "warning", found, remedy)
    return Row("cache", "ok", f"{path}{'' if path.exists() else ' (not made yet)'}")


def _cache_folder() -> pathlib.Path | None:
    if own := os.environ.get("REPRISE_CACHE_DIR"):
        return pathlib.Path(own)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if caches.startswith("/"):
        return pathlib.Path(caches) / "reprise"
    home = os.environ.get("HOME")
    return pathlib.Path(home) / ".cache" / "reprise" if home else None


def _why_not_kept(path: pathlib.Path) -> str:
    """Empty: kernels can be kept there. Makes no folder."""
    try:
        if not path.exists():
            above = next(each for each in path.absolute().parents if each.exists())
            if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
                return ""
            return f"it cannot be made in {above}"
        if not path.is_dir():
            return "it is not a folder"
        info = path.stat()
        if info.st_uid != os.geteuid():
            return "it belongs to somebody else"
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "others may write to it"
        with tempfile.TemporaryFile(dir=path):
            return ""
    except OSError as error:
        return f"it cannot be written to ({error.strerror})"


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def first(pattern: str, path: pathlib.Path) -> str:
    """Return what the pattern's group finds in a file; empty if nothing."""
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def short(error: BaseException) -> str:
    """Return the error's type and message, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
