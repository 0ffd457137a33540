"""The assertions in the kernels of torch's library, read from their machine code.

An assertion that fails stops the device, and with it the program. A replay launches ops
before the program asks for them, so an op whose data may fail one has to be gated
(`may_trap` in bindings/torch/runtime/op_info.h). NVIDIA's compiler keeps the text of each
assertion in the module of its kernel, which cuobjdump takes out of the library.
"""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import torch

ASSERT_FAIL = b"__assertfail"
ARCHITECTURES = ("sm_90", "sm_80")  # the first that the library has
SYMBOL_TABLE = 2  # SHT_SYMTAB


class Section(NamedTuple):
    """Of a 64-bit ELF file: its name, where it lies and what it links to."""

    name: str
    kind: int
    at: int
    size: int
    link: int


def cuobjdump() -> str | None:
    """The one on the path, or that of Triton, which torch's wheels for CUDA bring."""
    if found := shutil.which("cuobjdump"):
        return found
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    tool = (
        pathlib.Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    )
    return str(tool) if tool.exists() else None


def libraries() -> list[pathlib.Path]:
    """Torch's libraries of kernels: none where torch was built without CUDA."""
    return sorted(
        (pathlib.Path(torch.__file__).parent / "lib").glob("libtorch_cuda*.so")
    )


def texts(tool: str, library: pathlib.Path) -> set[str]:
    """What the kernels of one architecture say where an assertion of theirs fails.

    The names of their source files are left out, and so is what is printed beside.
    """
    listed = subprocess.run(
        [tool, "-lelf", library], capture_output=True, text=True, check=True
    ).stdout
    architecture = next(
        (name for name in ARCHITECTURES if f".{name}." in listed), ARCHITECTURES[0]
    )
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [tool, "-xelf", f".{architecture}.", library],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        for module in pathlib.Path(folder).iterdir():
            found.update(_of_module(module.read_bytes()))
    return {
        text
        for text in found
        if not text.endswith((".cu", ".cuh", ".h"))
        and not text.startswith("[CUDA_KERNEL_ASSERT]")
    }


def _of_module(code: bytes) -> Iterator[str]:
    """The constants that the compiler calls $str, if anything in it asserts."""
    sections = list(_sections(code))
    symbols = next(each for each in sections if each.kind == SYMBOL_TABLE)
    names = sections[symbols.link]
    names_of = code[names.at : names.at + names.size]
    if ASSERT_FAIL not in names_of:
        return
    for at in range(symbols.at, symbols.at + symbols.size, 24):
        name, _, _, index, value, size = struct.unpack_from("<IBBHQQ", code, at)
        if not 0 < index < len(sections) or not names_of.startswith(b"$str", name):
            continue
        begin = sections[index].at + value
        text = code[begin : begin + size].rstrip(b"\0").decode(errors="replace")
        if sections[index].name.startswith(".nv.global.init"):
            yield " ".join(text.split())


def _sections(code: bytes) -> Iterator[Section]:
    (table,) = struct.unpack_from("<Q", code, 0x28)
    step, count, of_names = struct.unpack_from("<HHH", code, 0x3A)
    rows = [
        struct.unpack_from("<IIQQQQI", code, table + step * k) for k in range(count)
    ]
    names = rows[of_names][4]
    for name, kind, _, _, at, size, link in rows:
        begin = names + name
        yield Section(
            code[begin : code.index(b"\0", begin)].decode(), kind, at, size, link
        )
