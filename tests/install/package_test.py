"""The installed C++ package, used by a program that has nothing else.

package_test.py <cmake> <build folder> <compiler> <sanitizers>
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The C++ and C libraries, and the one that Reprise schedules builds with.
NEEDED = re.compile(r"lib(tbb|stdc\+\+|gcc_s|m|c|asan|ubsan|tsan)\.so\.|ld-linux")


def run(*command: str | pathlib.Path, check: bool = True) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout}")
    return done.stdout


class PackageTest(unittest.TestCase):
    cmake, build, compiler, sanitizers = "", "", "", ""
    folder: pathlib.Path
    prefix: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.prefix = cls.folder / "prefix"
        run(
            *(cls.cmake, "--install", cls.build),
            *("--component", "cpp", "--prefix", cls.prefix),
        )

    def flags(self) -> list[str]:
        return [f"-fsanitize={self.sanitizers}"] if self.sanitizers else []

    def configure(self, source: pathlib.Path, name: str, check: bool = True) -> str:
        return run(
            *(self.cmake, "-S", source, "-B", self.folder / name),
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={self.compiler}",
            f"-DCMAKE_CXX_FLAGS={' '.join(['-Wall -Wextra -Werror', *self.flags()])}",
            check=check,
        )

    def installed_library(self) -> pathlib.Path:
        (library,) = self.prefix.glob("lib*/**/libreprise.so")
        return library

    def test_example_finds_builds_and_runs(self) -> None:
        self.configure(ROOT / "examples/cpp/embedding", "embedding")
        run(self.cmake, "--build", self.folder / "embedding")
        said = run(self.folder / "embedding/embedding", "5")
        self.assertIn("5 batches, 3 of them replayed", said)
        self.assertIn("the bits of plain loops", said)

    def test_every_header_compiles_alone(self) -> None:
        headers = sorted((self.prefix / "include").rglob("*.h"))
        self.assertIn(self.prefix / "include/reprise.h", headers)
        for header in headers:
            name = header.relative_to(self.prefix / "include")
            source = self.folder / "alone.cc"
            source.write_text(f"#include <{name}>\n")
            run(
                *(self.compiler, "-std=c++20", "-fsyntax-only", "-Werror"),
                *("-I", self.prefix / "include", source),
            )

    def test_other_version_is_refused(self) -> None:
        source = self.folder / "other"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(other LANGUAGES CXX)\n"
            "find_package(reprise 0.99 REQUIRED)\n"
        )
        said = self.configure(source, "other-build", check=False)
        self.assertIn(
            'compatible with requested version "0.99"', " ".join(said.split())
        )

    def test_library_has_its_version_and_needs_little(self) -> None:
        real = self.installed_library().resolve()
        self.assertRegex(real.name, r"^libreprise\.so\.\d+\.\d+\.\d+$")
        dynamic = run("readelf", "-d", real)
        soname = re.search(r"\(SONAME\).*\[(.+)\]", dynamic)
        assert soname is not None
        self.assertRegex(soname[1], r"^libreprise\.so\.\d+\.\d+$")
        self.assertTrue((real.parent / soname[1]).exists())
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
        self.assertEqual([name for name in needed if not NEEDED.match(name)], [])
        self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")

    def test_library_shows_its_interface_only(self) -> None:
        lines = run(
            "nm", "-DC", "--defined-only", self.installed_library()
        ).splitlines()
        shown = [line.split(maxsplit=2)[2] for line in lines]
        self.assertTrue(any("reprise::Batch::Submit()" in name for name in shown))
        headers = [
            header.read_text() for header in (self.prefix / "include").rglob("*.h")
        ]
        marked = " ".join(re.findall(r"REPRISE_EXPORT([^;]*);", "".join(headers)))
        words = set(re.findall(r"\w+", marked))
        for name in shown:
            match = re.match(r"reprise::(?:~?\w+::)*~?(\w+)[=([]", name)
            self.assertIsNotNone(match, name)
            assert match is not None
            self.assertIn(match[1], words, name)


if __name__ == "__main__":
    PackageTest.sanitizers = sys.argv.pop()
    PackageTest.compiler = sys.argv.pop()
    PackageTest.build = sys.argv.pop()
    PackageTest.cmake = sys.argv.pop()
    os.environ.pop("CPLUS_INCLUDE_PATH", None)
    sys.exit(unittest.main())
