"""What happens if the package cannot be imported: one sentence, and `reprise doctor` works.

`python -m reprise` imports the package before its own module. So a command that works
without torch begins here. Needs no torch.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from reprise import _library


def refuse(error: Exception) -> NoReturn:
    """The import has failed with that error.

    Raises:
        SystemExit: the import is a command's; `doctor` has reported by then.
        ImportError: it is a program's.
    """
    sentence = _sentence(error)
    if not _is_command():
        raise ImportError(sentence, name=getattr(error, "name", None)) from error
    if sys.argv[1:2] == ["doctor"]:
        from reprise import _doctor

        raise SystemExit(_doctor.main(as_json="--json" in sys.argv[2:]))
    raise SystemExit(sentence)


def _sentence(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        run = _library.install_torch()
        return f"reprise needs torch, which is not installed: run {run}"
    told = " ".join(str(error).split())
    return (
        f"reprise cannot be imported here ({type(error).__name__}: {told}): "
        "`python -m reprise doctor` says what is wrong"
    )


def _is_command() -> bool:
    """Python sets the first argument to "-m" while it looks for the module to run."""
    argv = getattr(sys, "argv", None) or [""]
    return os.path.basename(argv[0]) == "reprise" or (
        argv[0] == "-m" and "reprise" in sys.orig_argv
    )
