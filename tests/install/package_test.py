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

    def test_examples_build_with_what_is_installed(self) -> None:
        self.configure(ROOT / "examples/cpp", "examples")
        run(self.cmake, "--build", self.folder / "examples")
        program = self.folder / "examples/conjugate_gradient"
        said = run(program, "1", "1", check=False)
        self.assertIn("usage: conjugate_gradient", said)
        said = run(program, "8", "32", check=False)
        if "8 x 8 grid" not in said:  # a sentence of one line says why not
            self.assertRegex(said, r"\Aconjugate_gradient\.h:\d+: .*: .*\n\Z")

    def test_first_program_of_the_documentation_builds(self) -> None:
        text = (ROOT / "docs/cpp.md").read_text()
        program = text.split("```cpp\n", 1)[1].split("```", 1)[0]
        source = self.folder / "first.cc"
        source.write_text(program)
        library = self.installed_library()
        run(
            *(self.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror"),
            *(*self.flags(), source, *self.pkg_config("--cflags", "--libs").split()),
            *(f"-Wl,-rpath,{library.parent}", "-o", self.folder / "first"),
        )
        said = run(self.folder / "first", check=False)
        self.assertRegex(said, r"\A(y\[0\] = 49\.5|first\.cc:\d+: .*)\n\Z")

    def test_static_library_is_all_that_a_program_needs(self) -> None:
        source = self.folder / "static"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(static LANGUAGES CXX)\n"
            "find_package(reprise 0.1 REQUIRED)\n"
            f"add_executable(embedding {ROOT}/examples/cpp/embedding/embedding.cc)\n"
            "target_link_libraries(embedding PRIVATE reprise::reprise_static)\n"
        )
        self.configure(source, "static-build")
        run(self.cmake, "--build", self.folder / "static-build")
        program = self.folder / "static-build/embedding"
        self.assertIn("the bits of plain loops", run(program, "5"))
        self.assertNotIn("libreprise", run("readelf", "-d", program))

    def pkg_config(self, *arguments: str) -> str:
        (file,) = self.prefix.glob("lib*/**/reprise.pc")
        os.environ["PKG_CONFIG_PATH"] = str(file.parent)
        return run("pkg-config", *arguments, "reprise").strip()

    def test_pkg_config_tells_how_to_compile_and_link(self) -> None:
        program = self.folder / "by-hand"
        source = ROOT / "examples/cpp/embedding/embedding.cc"
        library = self.installed_library()
        compiled = (self.compiler, "-std=c++20", *self.flags(), source)
        run(
            *(*compiled, *self.pkg_config("--cflags", "--libs").split()),
            *(f"-Wl,-rpath,{library.parent}", "-o", program),
        )
        self.assertIn("the bits of plain loops", run(program, "5"))
        self.assertIn("libreprise.so", run("readelf", "-d", program))
        # The archive by its name: -lreprise is the shared library where both are.
        static = self.pkg_config("--cflags", "--libs", "--static")
        run(
            *(*compiled, *static.replace("-lreprise", "-l:libreprise.a").split()),
            *("-o", program),
        )
        self.assertIn("the bits of plain loops", run(program, "5"))
        self.assertNotIn("libreprise.so", run("readelf", "-d", program))

    def test_versions_are_one(self) -> None:
        version = self.pkg_config("--modversion")
        header = (self.prefix / "include/reprise/version.h").read_text()
        self.assertIn(f'#define REPRISE_VERSION "{version}"', header)
        self.assertTrue(
            self.installed_library().resolve().name.endswith(f".so.{version}")
        )
        project = (ROOT / "pyproject.toml").read_text()
        self.assertIn(f'\nversion = "{version}"\n', project)
        package = (ROOT / "bindings/python/reprise/__init__.py").read_text()
        self.assertIn(f'\n__version__ = "{version}"\n', package)

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
