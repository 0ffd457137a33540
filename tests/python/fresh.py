"""Programs and commands in a fresh interpreter that finds this package."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import reprise

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]


def python(
    *args: str, cwd: pathlib.Path | None = None, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Runs `python *args`. A variable that is None is not set."""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), **variables}
    return subprocess.run(
        [sys.executable, *args],
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
    )


def program(
    text: str, *args: str, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Runs the program's text."""
    return python("-c", textwrap.dedent(text), *args, **variables)
