"""The tutorial's programs run, as they stand, and print what it says."""

from __future__ import annotations

import contextlib
import io
import linecache
import pathlib
import re

import reprise
from watching import watched

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def as_pattern(text: str) -> re.Pattern[str]:
    """Its words, whatever the numbers: they hang on how fast builds come."""
    return re.compile(r"\d+".join(map(re.escape, re.split(r"\d+", text.strip()))))


def test_its_programs_do_what_it_says() -> None:
    variables: dict[str, object] = {}
    replays = []
    said = ""
    with watched("cpu", replays=False), reprise.session("cpu") as session:
        session.reset()  # the programs' own, in which other tests were, too
    try:
        for number, (kind, text) in enumerate(BLOCK.findall(PAGE.read_text())):
            if kind == "text":
                assert as_pattern(text).search(said), said
                continue
            name = f"<tutorial {number}>"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, name, "exec"), variables)
            said = out.getvalue()
            with reprise.session("cpu") as session:
                replays.append(session.explain().to_dict()["stats"]["replays"])
    finally:
        reprise.disable()
    # Each but the one whose shapes never come again.
    assert [count > 0 for count in replays] == [
        True,
        True,
        True,
        False,
        True,
        True,
        True,
    ]
