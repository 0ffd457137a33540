"""The shared libraries behind the package: where they are, and why one does not load.

Needs no torch: `reprise doctor` looks for them even if torch is missing.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

_PATTERN = "libreprise_torch_*.so"  # one for each minor version of torch: 211 is 2.11
_BUILD = "build Reprise for this torch: run `pip install .` in its source"
_MISSING = re.compile(r"(\S+\.so\S*): cannot open shared object file")
# A part of the loader's reason -> what helps. The first that fits.
_REMEDIES = (
    (r"libtbb\.so", "install TBB (`apt-get install libtbb12`)"),
    (
        r"lib(cu|nv|c10_cuda|torch_cuda)\S*\.so",
        "install torch for CUDA 13, or " + _BUILD,
    ),
    (r"libtorch|libc10", "install torch anew, or " + _BUILD),
    (r"undefined symbol", _BUILD + "; the library is of another build of torch"),
    (r"GLIBC_|GLIBCXX_", "use a system with glibc 2.34 or later, or " + _BUILD),
    (r"[Pp]ermission denied", "let the program read the file"),
    (r"invalid ELF header|file too short", "install Reprise anew, or " + _BUILD),
)


def folders() -> Iterator[pathlib.Path]:
    """Yield the folders where libraries may be, best first."""
    if named := os.environ.get("REPRISE_LIBRARY"):
        yield pathlib.Path(named)
        return
    package = pathlib.Path(__file__).resolve().parent
    yield package
    if package.parts[-3:] == ("bindings", "python", "reprise"):  # a source checkout
        built = package.parents[2].glob(f"build/*/python/reprise/{_PATTERN}")
        newest = sorted(built, key=lambda path: path.stat().st_mtime, reverse=True)
        yield from dict.fromkeys(path.parent for path in newest)


def versions() -> list[str]:
    """Return the minor versions of torch for which there is a library, oldest first."""
    digits = {
        file.stem.rpartition("_")[2]
        for each in folders()
        for file in each.glob(_PATTERN)
    }
    found = [each for each in digits if each.isdecimal()]
    return [f"{each[0]}.{each[1:]}" for each in sorted(found, key=lambda n: int(n[1:]))]


def library_for(version: str) -> pathlib.Path:
    """Return the library that was built for this torch.

    Torch's C++ interface differs between minor versions. Another version's library would
    crash.

    Raises:
        RuntimeError: there is none. The message says which there are, and what to do.
    """
    minor = ".".join(version.split("+")[0].split(".")[:2])
    name = _PATTERN.replace("*", minor.replace(".", ""))
    looked_in = list(folders())
    for folder in looked_in:
        if (folder / name).is_file():
            return folder / name
    there = versions()
    raise RuntimeError(
        f"reprise has no library for torch {version}: there is no {name} in "
        f"{', '.join(map(str, looked_in))} (there is one for torch: "
        f"{', '.join(there) or 'none'}). {_remedy(there)}"
    )


def _remedy(there: list[str]) -> str:
    named = os.environ.get("REPRISE_LIBRARY")
    if named and not os.path.isdir(named):
        return "Let REPRISE_LIBRARY name the folder that the library is in, or unset it"
    if named and not there:
        return f"Unset REPRISE_LIBRARY, or {_BUILD}"
    if not there:
        return _BUILD[0].upper() + _BUILD[1:]
    return f"Run `pip install 'torch=={there[-1]}.*'`, or {_BUILD}"


def why_not_loaded(library: pathlib.Path, error: BaseException) -> str:
    """Return a sentence with the loader's own reason, and what to do."""
    reason = " ".join(str(error.__cause__ or error).split())
    remedies = (remedy for part, remedy in _REMEDIES if re.search(part, reason))
    remedy = next(remedies, "install Reprise anew, or " + _BUILD)
    missing = _MISSING.search(reason)
    if missing and missing[1] != str(library):
        reason = f"it needs {missing[1]}, which is not found"
    return (
        f"reprise cannot load {library}: {reason.removeprefix(f'{library}: ')}. "
        f"{remedy[0].upper()}{remedy[1:]}"
    )
