"""A torch that does not fit is refused by CMake in one sentence.

find_torch_test.py <path of cmake>
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

WITHOUT_PACKAGES = (
    "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include",
    "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON",
    "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON",
)
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
            "(2.10.1+cu130) is too old; install torch 2.11 for CUDA 13: pip install "
            "'torch==2.11.*' 'cuda-toolkit[crt,cccl]' (2.11 to 2.15 compile)",
            message,
        )

    def test_version_that_compiles(self) -> None:
        torch = self.make_torch("site", "2.15.1", "libtorch_cuda.so")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.15.1) is newer than 2.11, the newest that passes", message)
        self.assertIn("no cuda.h", message)  # it went on

    def test_newer_version_is_tried(self) -> None:
        torch = self.make_torch("site", "2.110.0", "libtorch_cuda.so")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.110.0) is newer than 2.15, the newest that Reprise", message)
        self.assertIn("no cuda.h", message)  # it went on

    def test_another_cuda(self) -> None:
        torch = self.make_torch("site", "2.11.0+cu128", "libtorch_cuda.so")
        with (torch / "version.py").open("a") as file:
            file.write("cuda: Optional[str] = '12.8'\n")
        message = self.configure(f"-DREPRISE_TORCH_DIR={torch}")
        self.assertIn("(2.11.0+cu128) is for CUDA 12.8; install torch", message)
        self.assertNotIn("cuda.h", message)  # headers are not at fault

    def test_all_packages_are_told_in_one_line(self) -> None:
        message = self.configure(*WITHOUT_PACKAGES)
        self.assertIn(
            "run as root: apt-get update && apt-get install -y libexpected-dev "
            "libxxhash-dev libspdlog-dev "
            "libfmt-dev libtbb-dev nlohmann-json3-dev - no torch was found",
            message,
        )

    def test_the_readme_names_the_packages_that_are_told(self) -> None:
        readme = (ROOT / "README.md").read_text()
        (line,) = re.findall("^apt-get install -y ([^#]*)", readme, re.MULTILINE)
        named = subprocess.run(  # the shell expands its braces
            ["bash", "-c", f"echo {line}"], check=True, capture_output=True, text=True
        )
        packages = set(named.stdout.split()) - {"g++"}
        told = re.search(
            r"apt-get install -y (.*?) - ", self.configure(*WITHOUT_PACKAGES)
        )
        assert told
        self.assertEqual(packages, set(told[1].split()))

    def test_a_missing_compiler_is_told_with_the_rest(self) -> None:
        """Also where the C++ that Python names is not there."""
        for environment in ({}, {"CXX": "x86_64-linux-gnu-g++ -pthread"}):
            message = self.configure(
                "-DCMAKE_IGNORE_PATH=/usr/include;/usr/bin;/usr/local/bin;/bin",
                f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
                PATH="/nothing",
                **environment,
            )
            self.assertIn("apt-get install -y g++ libexpected-dev", message)
            self.assertIn("nlohmann-json3-dev - no torch was found", message)

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
