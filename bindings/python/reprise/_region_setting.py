"""Sets places behind a replay, and keeps watches quiet that were so."""

from __future__ import annotations

import threading
from typing import Any

from reprise._enums import Step
from reprise._region_functions import Run
from reprise.guards import tree
from reprise.guards.contents import ArgumentSettings, set_in
from reprise.guards.places import Held
from reprise.guards.reading import SETTING, At, Reading
from reprise.guards.settings import Behind, set_to, sets_items, sets_nothing


def set_behind(
    reads: Reading, at: At, before: Held, parts: tree.Parts, made: Any, run: Run
) -> Any:
    """Set what a replayed call of a region sets of places and arguments, and return its result.

    `reads`, `at`: of the region, and the state that the call has begun in; `parts`: of its
    arguments; `made`: what the tape's builder has made.
    """
    settings: ArgumentSettings = ()
    if (containers := parts.containers) is not None:
        made, settings = made
    if before.written:
        made = _set_places(reads, at, before, made, run)
    if containers is not None:
        set_in(containers, settings)
    return made


def _set_places(
    reads: Reading, at: At, before: Held, made: tuple[Any, Behind], run: Run
) -> Any:
    """Set what a call sets of places, and return its result.

    What is set changes dictionaries that are watched: those of other regions, too, of which
    one begins where another has left off (`train()` and `eval()` in turn). A watch that was
    quiet before is quiet afterwards, if all that is set are places of its region as well.
    """
    if sets_nothing(made[1]):
        return made[0]
    # What another thread changes meanwhile no watch would tell.
    alone = threading.active_count() == 1
    quiet = _quiet(reads, at, made[1], run) if alone else []
    if not set_to(before, made):
        for reading, found in quiet:
            reading.is_quiet_again(found)
    return made[0]


def _quiet(
    reads: Reading, at: At, behind: Behind, run: Run
) -> list[tuple[Reading, At]]:
    """Return regions of which nothing has changed, and nothing will."""
    others = [
        (each, each.at)
        for each in (() if sets_items(behind) else SETTING)
        if each is not reads and each.at is not None and each.at[0].leaves_out(at[0])
    ]
    return [
        (each, found)
        for each, found in ((reads, at), *others)
        if run(0, found[1], [], [], 0)[0] != Step.LOOK
    ]
