#!/usr/bin/env python3
"""Packs another torch for a machine that has a GPU and torch, and no network.

    scripts/pack_torch.py FOLDER torch==2.15.0 triton==3.9.0 nvidia-cudnn-cu13==9.26.0.51 ...
    python3 FOLDER/unpack.py VENV [FOLDER...]   # on the machine with the GPU
    . VENV/bin/activate

FOLDER gets pieces of at most ``--piece`` bytes, and unpack.py, which makes VENV: an
environment over the machine's own, in which the packages that were named are found first,
and their libraries before its own. What is not named is the machine's: a record names such a
mixture. Only what is named is packed, nothing that it requires.

The wheels are those of Python ``--python`` on Linux (x86-64). Machine code for other devices
than ``--device`` (90: Hopper) is overwritten with zeros, and its PTX, if there is code for
this device: libraries of CUDA compress to a fifth of their size so. Headers of C++ are left
out, but for Triton's.

Needs pip and the program zstd. Raises if a package is not found.
"""

from __future__ import annotations

import argparse
import mmap
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator

# A fat binary, as cuobjdump lists them: a header, then an entry for each device.
MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes behind it
ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of the header, bytes behind it
DEVICE_AT = 28  # where in an entry's header the device stands
PTX, CODE = 1, 2
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 25, 18, 17)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"),
)


def download(packages: list[str], python: str, folder: pathlib.Path) -> None:
    """Wheels of just these packages."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp"]
    command += [f"--python-version={python}", f"--dest={folder}"]
    command += [f"--platform={name}" for name in PLATFORMS]
    subprocess.run([*command, *packages], check=True)


def is_needed(name: str) -> bool:
    """Whether a running program may open that file of a wheel."""
    return name.startswith("triton/") or not (
        name.endswith(".a") or "/include/" in name
    )


def entries(code: mmap.mmap, at: int) -> list[tuple[int, int, int, int]] | None:
    """Kind, first byte, bytes and device of all in a fat binary; None: it is none."""
    _, version, header, size = HEADER.unpack_from(code, at)
    at += header
    end = at + size
    if version != 1 or header != HEADER.size or not size or end > len(code):
        return None
    found = []
    while at < end:
        kind, _, header, size = ENTRY.unpack_from(code, at)
        (device,) = struct.unpack_from("<I", code, at + DEVICE_AT)
        if kind not in (PTX, CODE) or at + header + size > end:
            return None
        found.append((kind, at + header, size, device))
        at += header + size
    return found


def fat_binaries(code: mmap.mmap) -> Iterator[list[tuple[int, int, int, int]]]:
    """All in a library."""
    at = code.find(MAGIC)
    while 0 <= at < len(code) - HEADER.size:
        found = entries(code, at)
        if found:
            yield found
            at = found[-1][1] + found[-1][2] - 1
        at = code.find(MAGIC, at + 1)


def empty(path: pathlib.Path, device: int) -> None:
    """Overwrite a library's code for other devices."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as code:
        for found in fat_binaries(code):
            served = any((kind, d) == (CODE, device) for kind, _, _, d in found)
            for kind, at, size, of in found:
                if (of != device) if kind == CODE else served:
                    code[at : at + size] = bytes(size)


def pack(packages: pathlib.Path, folder: pathlib.Path, piece: int) -> None:
    """Archive the packages, in pieces."""
    tar = subprocess.Popen(
        ["tar", "-C", packages, "-cf", "-", "."], stdout=subprocess.PIPE
    )
    zstd = subprocess.Popen(
        ["zstd", "-q", "-T0", "-12"], stdin=tar.stdout, stdout=subprocess.PIPE
    )
    assert zstd.stdout is not None
    for number in range(10_000):
        part = zstd.stdout.read(piece)
        if not part:
            break
        (folder / f"part.{number:04}").write_bytes(part)
    if tar.wait() or zstd.wait():
        raise RuntimeError("the packages could not be archived: see above")


def main() -> None:
    """Pack what was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("packages", nargs="+", metavar="PACKAGE==VERSION")
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--device", type=int, default=90, help="compute capability")
    parser.add_argument("--piece", type=int, default=50_000_000, help="bytes")
    given = parser.parse_args()
    if not shutil.which("zstd"):
        parser.error("there is no zstd: apt-get install zstd")
    if given.folder.exists():
        parser.error(f"{given.folder} is there already: name another folder")
    with tempfile.TemporaryDirectory() as name:
        wheels, packages = pathlib.Path(name, "wheels"), pathlib.Path(name, "packages")
        download(given.packages, given.python, wheels)
        for path in sorted(wheels.iterdir()):
            with zipfile.ZipFile(path) as wheel:
                names = [each for each in wheel.namelist() if is_needed(each)]
                wheel.extractall(packages, names)
        for path in packages.rglob("*.so*"):
            if path.is_file() and path.stat().st_size > HEADER.size:
                empty(path, given.device)
        given.folder.mkdir(parents=True)
        pack(packages, given.folder, given.piece)
    # What unpacks it is a package, too: the machine may have no program that does.
    download(["zstandard"], given.python, given.folder)
    shutil.copy(
        pathlib.Path(__file__).with_name("unpack_torch.py"), given.folder / "unpack.py"
    )


if __name__ == "__main__":
    main()
