"""What a build lacks is told at once, with what to do, before anything is compiled.

missing_test.py <cmake> <compiler>
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHOUT_PACKAGES = (
    "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include",
    "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON",
    "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON",
)
INSTALL = "run: sudo apt-get install -y "


class MissingTest(unittest.TestCase):
    cmake = ""
    compiler = ""

    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)

    def torch(self, version: str, cuda: str | None) -> pathlib.Path:
        """As an installed wheel looks."""
        folder = self.work / "torch"
        (folder / "lib").mkdir(parents=True)
        (folder / "version.py").write_text(
            f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\n"
        )
        if cuda is not None:
            (folder / "lib" / "libtorch_cuda.so").touch()
        return folder

    def told(self, *options: str) -> str:
        """By configuring, which must fail."""
        hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "REPRISE_TORCH_DIR")
        done = subprocess.run(
            [
                *(self.cmake, "-S", str(ROOT), "-B", str(self.work / "build")),
                *(f"-DCMAKE_CXX_COMPILER={self.compiler}", "-DREPRISE_TESTS=OFF"),
                *options,
            ],
            env={key: value for key, value in os.environ.items() if key not in hidden},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("reprise cannot be built here yet:", done.stdout)
        return done.stdout

    def test_all_packages_in_one_line_and_torch_beside_them(self) -> None:
        told = self.told(*WITHOUT_PACKAGES)
        line = next(line for line in told.splitlines() if INSTALL in line)
        self.assertEqual(
            sorted(line.partition(INSTALL)[2].split()),
            [
                "libexpected-dev",
                "libfmt-dev",
                "libspdlog-dev",
                "libtbb-dev",
                "libxxhash-dev",
                "nlohmann-json3-dev",
            ],
        )
        self.assertIn("no torch was found", told)
        self.assertIn("pip install 'torch>=2.11'", told)
        self.assertNotIn("cuda.h", told)

    def test_a_torch_that_does_not_fit(self) -> None:
        for version, cuda, fault in (
            ("2.10.0+cu130", "13.0", "is too old"),
            ("2.11.0+cpu", None, "is for CPUs alone"),
            ("2.11.0+cu128", "12.8", "is for CUDA 12.8"),
            ("2.11.0+cu130", "13.0", "there is no cuda.h in"),
        ):
            with self.subTest(fault):
                torch = self.torch(version, cuda)
                told = self.told(f"-DREPRISE_TORCH_DIR={torch}")
                self.assertIn(fault, told)
                self.assertEqual(told.count("\n    - "), 1, told)
                torch.rename(self.work / f"was {version}")


if __name__ == "__main__":
    MissingTest.compiler = sys.argv.pop()
    MissingTest.cmake = sys.argv.pop()
    sys.exit(unittest.main())
