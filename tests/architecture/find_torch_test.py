"""A torch that does not fit is refused by CMake in one sentence.

find_torch_test.py <path of cmake>
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FindTorchTest(unittest.TestCase):
    cmake = "cmake"

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def configure(self, *arguments: str, **environment: str) -> str:
        """The message of a configuration that must fail, on one line."""
        hidden = {"REPRISE_TORCH_DIR", "VIRTUAL_ENV", "CONDA_PREFIX"}
        clean = {
            name: value for name, value in os.environ.items() if name not in hidden
        }
        done = subprocess.run(
            [
                *(self.cmake, "-G", "Ninja", "-S", ROOT, "-B", self.folder / "build"),
                *("-DREPRISE_TESTS=OFF", *arguments),
            ],
            env=clean | environment,
            capture_output=True,
            text=True,
        )
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return " ".join(done.stderr.split())

    def make_torch(self, site: str, version: str, *libraries: str) -> pathlib.Path:
        torch = self.folder / site / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "version.py").write_text(f"__version__ = '{version}'\ndebug = False\n")
        for library in libraries:
            (torch / "lib" / library).touch()
        return torch

    def test_no_torch(self) -> None:
        self.assertIn("no torch was found; install", self.configure())

    def test_cpu_only(self) -> None:
        torch = self.make_torch("site", "2.11.0+cpu", "libtorch_cpu.so")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.11.0+cpu) is for CPUs alone", message)

    def test_older_version(self) -> None:
        torch = self.make_torch("site", "2.10.1+cu130", "libtorch_cuda.so")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn(
            "(2.10.1+cu130) is too old; install torch 2.11 or newer for CUDA", message
        )

    def test_newer_version_is_tried(self) -> None:
        torch = self.make_torch("site", "2.110.0", "libtorch_cuda.so")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.110.0) is newer than 2.11", message)
        self.assertIn("no cuda.h", message)  # it went on

    def test_another_cuda(self) -> None:
        torch = self.make_torch("site", "2.11.0+cu128", "libtorch_cuda.so")
        with (torch / "version.py").open("a") as file:
            file.write("cuda: Optional[str] = '12.8'\n")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.11.0+cu128) is for CUDA 12.8; install torch", message)
        self.assertNotIn("cuda.h", message)  # headers are not at fault

    def test_all_packages_are_told_in_one_line(self) -> None:
        message = self.configure(
            "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include",
            "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON",
            "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON",
        )
        self.assertIn(
            "sudo apt-get install -y libexpected-dev libxxhash-dev libspdlog-dev "
            "libfmt-dev libtbb-dev nlohmann-json3-dev - no torch was found",
            message,
        )

    def test_headers_missing(self) -> None:
        torch = self.make_torch("site", "2.11.0+cu130", "libtorch_cuda.so")
        self.assertIn("no cuda.h", self.configure(f"-DREPRISE_TORCH_DIR={torch}"))

    def test_found_by_environment(self) -> None:
        torch = self.make_torch("site", "2.10.0", "libtorch_cuda.so")
        self.assertIn(str(torch), self.configure(REPRISE_TORCH_DIR=str(torch)))

    def test_found_in_virtual_environment(self) -> None:
        torch = self.make_torch("venv/lib/python3.11/site-packages", "2.10.0")
        message = self.configure(VIRTUAL_ENV=str(self.folder / "venv"))
        self.assertIn(str(torch), message)


if __name__ == "__main__":
    FindTorchTest.cmake = sys.argv.pop()
    sys.exit(unittest.main())
