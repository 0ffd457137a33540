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
    """Its words, and how many ops came. Other numbers hang on how fast builds come."""
    parts = re.split(r"\b\d+\b(?! ops)", text.strip())
    return re.compile(r"\d+".join(map(re.escape, parts)))


def test_its_programs_do_what_it_says(device: str) -> None:
    """On a GPU they run, and are replayed; what they print there has other words."""
    variables: dict[str, object] = {}
    replays = []
    said = ""
    with watched(device, replays=False), reprise.session(device) as session:
        session.reset()  # the programs' own, in which other tests were, too
    try:
        for number, (kind, text) in enumerate(BLOCK.findall(PAGE.read_text())):
            if kind == "text":
                if device == "cuda":
                    continue
                assert as_pattern(text).search(said), said
                continue
            text = text.replace('device = "cpu"', f'device = "{device}"')
            name = f"<tutorial {number}>"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, name, "exec"), variables)
            said = out.getvalue()
            with reprise.session(device) as session:
                replays.append(session.explain().to_dict()["stats"]["replays"])
    finally:
        reprise.disable()
    if device == "cuda":
        assert replays[0] > 0
        return
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
