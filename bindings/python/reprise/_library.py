"""The shared libraries behind the package: where they are, and why one does not load.

Also which versions of torch a message proposes. Needs no torch: `reprise doctor` looks for
libraries even if torch is missing.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

_PATTERN = "libreprise_torch_*.so"  # one for each minor version of torch: 211 is 2.11
# The versions of torch that the source compiles with. A test compares them with
# CMakeLists.txt.
OLDEST, NEWEST = "2.11", "2.15"
_BUILD = "build Reprise for this torch: run `pip install .` in its source"
_MISSING = re.compile(r"(\S+\.so\S*): cannot open shared object file")
# A part of the loader's reason -> what helps. The first that fits.
_REMEDIES = (
    (r"libtbb\.so", "install TBB (`apt-get install libtbb12`)"),
    (r"lib(cu|nv|c10_cuda|torch_cuda)\S*\.so", "install torch for CUDA 13: {torch}"),
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
    found = [_version(each) for each in digits if each.isdecimal()]
    return sorted(found, key=_number)


def install_torch(near: str = "", flags: str = "") -> str:
    """Return the command that installs a torch that fits, and what other versions fit.

    They are those that there is a library for. If there is no library at all, they are
    those that the source compiles with. The command names the one next to the version
    `near`.
    """
    there = versions() or list(_compiled_versions())
    best = there[0]
    if near:
        best = min(there, key=lambda each: abs(_number(each) - _number(near)))
    others = [each for each in there if each != best]
    return f"`pip install 'torch=={best}.*'{flags and ' '}{flags}`" + (
        f" (or {_listed(others)})" if others else ""
    )


def _compiled_versions() -> Iterator[str]:
    major, first = OLDEST.split(".")
    _, last = NEWEST.split(".")
    for minor in range(int(first), int(last) + 1):
        yield f"{major}.{minor}"


def _version(digits: str) -> str:
    return f"{digits[0]}.{digits[1:]}"


def _number(version: str) -> int:
    """Order minor versions, and measure how far apart they are."""
    major, minor, *_ = (*map(int, re.findall(r"\d+", version)), 0, 0)
    return 1000 * major + minor


def _listed(items: list[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} or {last}" if most else last


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
        f"{', '.join(there) or 'none'}). {_remedy(version, there)}"
    )


def _remedy(version: str, there: list[str]) -> str:
    named = os.environ.get("REPRISE_LIBRARY")
    if named and not os.path.isdir(named):
        return "Let REPRISE_LIBRARY name the folder that the library is in, or unset it"
    is_too_old = _number(version) < _number(OLDEST)
    ways = []
    if named and not there:
        ways.append("unset REPRISE_LIBRARY")
    if there or is_too_old:
        ways.append(f"run {install_torch(version)}")
    if is_too_old and not there:
        ways[-1] += " and build Reprise: run `pip install .` in its source"
    elif not is_too_old:
        is_newer = _number(version) > _number(NEWEST)
        ways.append(_BUILD + f", made for torch up to {NEWEST}" * is_newer)
    return _sentence(", or ".join(ways))


def why_not_loaded(library: pathlib.Path, error: BaseException) -> str:
    """Return a sentence with the loader's own reason, and what to do."""
    reason = " ".join(str(error.__cause__ or error).split())
    remedies = (remedy for part, remedy in _REMEDIES if re.search(part, reason))
    remedy = next(remedies, "install Reprise anew, or " + _BUILD)
    digits = library.stem.rpartition("_")[2]
    remedy = remedy.format(
        torch=install_torch(_version(digits), "--force-reinstall"),
    )
    missing = _MISSING.search(reason)
    if missing and missing[1] != str(library):
        reason = f"it needs {missing[1]}, which is not found"
    return (
        f"reprise cannot load {library}: {reason.removeprefix(f'{library}: ')}. "
        f"{_sentence(remedy)}"
    )


def _sentence(remedy: str) -> str:
    return remedy[0].upper() + remedy[1:]
