"""What libreprise_torch_*.so needs and what it shows, read from the file itself.

library_test.py <path of the library> <path of libtbb.so.12>
"""

from __future__ import annotations

import re
import subprocess
import sys
import unittest

NEEDED = {
    # torch, which has loaded them before
    "libc10.so",
    "libc10_cuda.so",
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_cuda.so",
    # beside the library in the wheel
    "libtbb.so.12",
    # the C++ and C libraries
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libc.so.6",
    "ld-linux-x86-64.so.2",
}
# Must neither be needed from elsewhere nor be seen by others: each would meet
# torch's own, or another, in the same process. (Python's own names are C's:
# c10::impl::PyInterpreter is torch's.)
PRIVATE = re.compile(r"\b(fmt::|spdlog::|nlohmann::|XXH)|(?<![:\w])_?Py[A-Z_]")
DRIVER = re.compile(r"^(cu[A-Z]|cupti|nvrtc)\w*$")


# The newest versions of symbols of the C and C++ libraries.
NEWEST = {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13"}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def read(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class LibraryTest(unittest.TestCase):
    file = ""
    tbb = ""

    def symbols(self, which: str) -> list[str]:
        lines = read("nm", "-DC", which, self.file).splitlines()
        return [
            line.split(maxsplit=2 if which == "--defined-only" else 1)[-1]
            for line in lines
        ]

    def test_needs_only_what_is_there(self) -> None:
        needed = set(
            re.findall(r"\(NEEDED\).*\[(.+)\]", read("readelf", "-d", self.file))
        )
        self.assertIn("libtorch_cpu.so", needed)
        self.assertLessEqual(needed, NEEDED)

    def test_loads_on_systems_of_2021(self) -> None:
        """RHEL 9, its relatives and Amazon Linux 2023 have none that are newer."""
        for file in (self.file, self.tbb):
            wanted = read("nm", "-D", "--undefined-only", file)
            for name, newest in NEWEST.items():
                versions = re.findall(rf"@+{name}_([\d.]+)$", wanted, re.MULTILINE)
                self.assertTrue(versions)
                found = max(map(_numbers, versions))
                self.assertLessEqual(found, _numbers(newest), f"{name} in {file}")

    def test_cuda_is_loaded_at_run_time(self) -> None:
        wanted = self.symbols("--undefined-only")
        self.assertTrue(wanted)
        self.assertEqual(
            [name for name in wanted if DRIVER.match(name.split("@")[0])], []
        )

    def test_private_libraries_stay_inside(self) -> None:
        names = self.symbols("--undefined-only") + self.symbols("--defined-only")
        self.assertEqual([name for name in names if PRIVATE.search(name)], [])

    def test_our_own_names_stay_inside(self) -> None:
        shown = self.symbols("--defined-only")
        # Instances of torch's exported templates are named after torch.
        ours = [name for name in shown if re.match(r"([\w -]+ for )?reprise::", name)]
        self.assertEqual(ours, [])


if __name__ == "__main__":
    LibraryTest.tbb = sys.argv.pop()
    LibraryTest.file = sys.argv.pop()
    sys.exit(unittest.main())
