"""Makes an environment of what pack_torch.py has packed.

    python3 FOLDER/unpack.py VENV [FOLDER...]
    . VENV/bin/activate

All FOLDERs are unpacked, the last one over the others, or the one that this file is in. VENV
lies over the environment of the Python that runs this. Raises if VENV is there.
"""

from __future__ import annotations

import pathlib
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from typing import IO, Any

HERE = pathlib.Path(__file__).resolve().parent


class Pieces:
    """One file, of all pieces in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._left = sorted(folder.glob("part.*"))
        self._open: IO[bytes] | None = None

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer; none at the end."""
        while True:
            if self._open is not None:
                if part := self._open.read(size):
                    return part
                self._open.close()
            if not self._left:
                return b""
            self._open = self._left.pop(0).open("rb")


def zstandard() -> Any:
    """The package that lies here, too."""
    folder = tempfile.mkdtemp()
    (path,) = HERE.glob("zstandard-*.whl")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder)
    sys.path.insert(0, folder)
    import zstandard as package

    return package


def unpack(folders: Iterable[pathlib.Path], packages: pathlib.Path) -> None:
    """All that was packed."""
    decompressor = zstandard().ZstdDecompressor()
    for folder in folders:
        with (
            decompressor.stream_reader(Pieces(folder)) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            archive.extractall(packages, filter="tar")
    for pattern in ("torch/bin/*", "triton/backends/*/bin/*"):
        for path in packages.glob(pattern):  # a wheel is unpacked without modes
            path.chmod(path.stat().st_mode | stat.S_IXUSR)


def main() -> None:
    """Make it."""
    venv, *folders = map(pathlib.Path, sys.argv[1:])
    if venv.exists():
        sys.exit(f"{venv} is there already: name another folder")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = venv.absolute() / "lib" / python / "site-packages"
    unpack(folders or [HERE], packages)
    # What lies below comes behind it.
    lower = sysconfig.get_path("purelib")
    (packages / "lower.pth").write_text(f"import site; site.addsitedir({lower!r})\n")
    places = [packages, pathlib.Path(lower)]
    libraries = [path for at in places for path in sorted(at.glob("nvidia/*/lib"))]
    with (venv / "bin" / "activate").open("a") as file:
        joined = ":".join(map(str, libraries))
        file.write(f'\nexport LD_LIBRARY_PATH="{joined}:${{LD_LIBRARY_PATH:-}}"\n')


if __name__ == "__main__":
    main()
