"""Long work says on a terminal what it does, and nothing in a file."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
import sys
import textwrap

import fresh
import pytest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
CLEAR = "\r\x1b[K"

# The library's part is played: its builds end with the `slices`-th wait, and time passes
# only while it is waited for. Five builds had ended before, one ends in each second, and
# one more is begun in the second one.
WAIT = """
import sys
import reprise
from reprise import _native, _progress

class Library:
    now, slices = 0.0, int(sys.argv[1])
    def wait(self, runtime, seconds):
        self.now += seconds
        self.slices -= 1
        return self.slices == 0

    def builds(self, runtime):
        return [5 + int(self.now), 8 + (self.now > 1.5)]

library = Library()
_native.loaded = lambda: True
_native._ops = lambda: library
_progress.time.monotonic = lambda: library.now
print(reprise.wait(), round(library.now, 1))
"""

MEASURE = """
import progress

for number, name in enumerate(["first", "second"], 1):
    with progress.row(number, 2, name):
        progress.stage("settling")
        progress.tell("told of", name)
        progress.stage("round 1 of 9")
    print("record of", name, flush=True)
progress.stage("nothing is measured")
"""


def shown(
    program: str, *args: str, terminal: bool, **variables: str | None
) -> tuple[str, str]:
    """What a program writes to stdout, and to stderr, which may be a terminal."""
    given = {
        "PYTHONPATH": os.pathsep.join([str(fresh.PACKAGE_ROOT), str(PERF)]),
        "PYTEST_CURRENT_TEST": None,
        "TERM": "xterm",
        "COLUMNS": "60",
        **variables,
    }
    env = {name: value for name, value in {**os.environ, **given}.items() if value}
    ours, theirs = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-c", textwrap.dedent(program), *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=env, text=True
    ) as process:
        os.close(theirs)
        said = b""
        while part := _read(ours):
            said += part
        os.close(ours)
        assert process.stdout
        printed = process.stdout.read()
    assert process.returncode == 0, said
    return printed, said.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # so a terminal ends
        return b""


def test_a_wait_is_told_of_on_a_terminal_each_second_and_cleared() -> None:
    printed, told = shown(WAIT, "35", terminal=True)
    assert printed == "True 3.5\n"
    line = f"{CLEAR}Reprise: building graphs, "
    counts = ("1 of 3, 1 s", "2 of 4, 2 s", "3 of 4, 3 s")
    assert told == "".join(line + count for count in counts) + CLEAR


@pytest.mark.parametrize(
    ("slices", "terminal", "variables"),
    [
        ("35", False, {}),
        ("9", True, {}),  # it is over before a second has passed
        ("35", True, {"TERM": "dumb"}),
        ("35", True, {"PYTEST_CURRENT_TEST": "test"}),
    ],
)
def test_a_wait_is_silent_where_nobody_looks_or_it_is_short(
    slices: str, terminal: bool, variables: dict[str, str]
) -> None:
    printed, told = shown(WAIT, slices, terminal=terminal, **variables)
    assert printed == f"True {int(slices) / 10}\n"
    assert told == ""


def test_a_wait_without_stderr_ends_as_ever() -> None:
    program = "import sys; sys.stderr = None" + WAIT
    assert shown(program, "35", terminal=True) == ("True 3.5\n", "")


def test_what_is_measured_is_a_line_on_a_terminal() -> None:
    printed, told = shown(MEASURE, terminal=True)
    assert printed == "record of first\nrecord of second\n"
    begin = r"\r\x1b\[K +\d+ s  "
    rows = [
        rf"{begin}{row}{begin}{row}: settling\r\x1b\[Ktold of {name}\n"
        rf"{begin}{row}{begin}{row}: round 1 of 9\r\x1b\[K"
        for row, name in (("1 of 2, first", "first"), ("2 of 2, second", "second"))
    ]
    assert re.fullmatch("".join(rows), told), repr(told)


def test_a_line_is_cut_to_the_terminals_width() -> None:
    _, told = shown("import progress; progress.say('x' * 200)", terminal=True)
    assert len(told) == len(CLEAR) + 59


def test_in_a_file_only_what_is_told_is_there() -> None:
    printed, told = shown(MEASURE, terminal=False)
    assert printed == "record of first\nrecord of second\n"
    assert told == "told of first\ntold of second\n"


def test_each_program_that_measures_says_what() -> None:
    """Those that keep a record for a commit take minutes.

    front_page.py says it for front_rows.py, which it starts, and programs.py for
    program_runs.py.
    """
    silent = []
    started = {PERF / "front_rows.py", PERF / "program_runs.py"}
    for path in sorted({*PERF.glob("*.py")} - started):
        text = path.read_text()
        measures = '"--commit"' in text or "policies.parser(" in text
        says = re.search(r"progress\.(row|say)\(|policies\.run\(", text)
        if measures and not says:
            silent.append(path.name)
        assert "isatty" not in text or path.name == "progress.py", path
    assert not silent
