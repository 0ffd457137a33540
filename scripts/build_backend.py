"""The package's build backend: scikit-build-core's, which says early what a build lacks.

pip downloads all that a package needs, torch's gigabytes among it, before it builds the
package. So CMake looks for what the build needs when pip asks for the metadata.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from scikit_build_core import build as _own

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_DEFINE = "cmake.define."
# As cmake/RepriseMissing.cmake writes it.
_LACKING = re.compile(
    r"reprise cannot be built here yet:.*?(?=\n\s*Call Stack|\Z)", re.S
)

Settings = Mapping[str, Any] | None


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """As PEP 517 has it. Raises SystemExit with all that the build lacks."""
    _check(config_settings or {})
    return _own.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """As PEP 660 has it. Raises SystemExit with all that the build lacks."""
    _check(config_settings or {})
    return _own.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def __getattr__(name: str) -> Any:
    """All else is scikit-build-core's."""
    return getattr(_own, name)


def _check(settings: Mapping[str, Any]) -> None:
    """Configure with the settings of the build; what else may fail is the build's."""
    given = [
        f"-D{key.removeprefix(_DEFINE)}={value}"
        for key, value in settings.items()
        if key.startswith(_DEFINE)
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *("cmake", "-G", "Ninja", "-S", str(_ROOT), "-B", folder),
                *("-DREPRISE_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}"),
                *(*shlex.split(os.environ.get("CMAKE_ARGS", "")), *given),
            ],
            capture_output=True,
            text=True,
        )
    if lacking := _LACKING.search(done.stderr):
        raise SystemExit(re.sub(r"\n\s*\n", "\n", lacking[0].rstrip()))
