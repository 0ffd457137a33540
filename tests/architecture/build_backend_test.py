"""pip is told what a build lacks before it downloads what the package needs.

build_backend_test.py <folder torch/ of an installed wheel>

Needs scikit-build-core, which the environment of the scripts has.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As pip asks: in a process in the source's folder, with the backend's folder on the path.
ASK = """
import sys
sys.path.insert(0, "scripts")
import build_backend
assert build_backend.build_wheel and build_backend.get_requires_for_build_sdist
print(build_backend.prepare_metadata_for_build_wheel(*eval(sys.argv[1])))
"""


class BuildBackendTest(unittest.TestCase):
    torch = ""

    def ask(
        self, settings: dict[str, str], **environment: str
    ) -> subprocess.CompletedProcess[str]:
        hidden = {"REPRISE_TORCH_DIR", "VIRTUAL_ENV", "CONDA_PREFIX", "CMAKE_ARGS"}
        clean = {
            name: value for name, value in os.environ.items() if name not in hidden
        }
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [sys.executable, "-c", ASK, repr((folder, settings))],
                cwd=ROOT,
                env=clean | environment,
                capture_output=True,
                text=True,
            )

    def refusal(self, settings: dict[str, str], **environment: str) -> str:
        done = self.ask(settings, **environment)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_all_that_is_lacking_is_told_and_nothing_else(self) -> None:
        told = self.refusal(
            {
                "cmake.define.REPRISE_TORCH_DIR": "/nowhere",
                "cmake.define.CMAKE_DISABLE_FIND_PACKAGE_TBB": "ON",
            }
        )
        first, packages, torch = told.rstrip().split("\n", maxsplit=2)
        self.assertEqual(first, "reprise cannot be built here yet:")
        self.assertIn("apt-get install -y libtbb-dev", packages)
        self.assertIn("no torch was found", torch)
        self.assertNotIn("Call Stack", torch)

    def test_the_environments_arguments_are_heard(self) -> None:
        told = self.refusal(
            {"cmake.define.REPRISE_TORCH_DIR": self.torch},
            CMAKE_ARGS="-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON",
        )
        self.assertIn("libtbb-dev", told)
        self.assertNotIn("no torch", told)

    def test_where_nothing_is_lacking_there_is_metadata(self) -> None:
        done = self.ask({"cmake.define.REPRISE_TORCH_DIR": self.torch})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], r"^reprise-.*\.dist-info$")


if __name__ == "__main__":
    BuildBackendTest.torch = sys.argv.pop()
    sys.exit(unittest.main())
