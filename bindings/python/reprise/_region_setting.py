"""Sets places behind a replay, and keeps watches quiet that were so."""

from __future__ import annotations

import threading
from typing import Any

from reprise._enums import Step
from reprise._region_functions import Run
from reprise.guards.places import Held
from reprise.guards.reading import SETTING, At, Reading
from reprise.guards.settings import Behind, set_to, sets_nothing


def set_behind(
    reads: Reading, at: At, before: Held, made: tuple[Any, Behind], run: Run
) -> Any:
    """Set what a replayed call of a region sets, and return its result.

    What is set changes dictionaries that are watched: those of other regions, too, of which
    one begins where another has left off (`train()` and `eval()` in turn). A watch that was
    quiet before is quiet afterwards, if all that is set are places of its region as well.

    `reads`, `at`: of the region, and the state that the call has begun in.
    """
    if sets_nothing(made[1]):
        return made[0]
    # What another thread changes meanwhile no watch would tell.
    alone = threading.active_count() == 1
    quiet = _quiet(reads, at, run) if alone else []
    if not set_to(before, made):
        for reading, found in quiet:
            reading.is_quiet_again(found)
    return made[0]


def _quiet(reads: Reading, at: At, run: Run) -> list[tuple[Reading, At]]:
    """Return regions of which nothing has changed, and nothing will."""
    others = [
        (each, each.at)
        for each in SETTING
        if each is not reads and each.at is not None and each.at[0].leaves_out(at[0])
    ]
    return [
        (each, found)
        for each, found in ((reads, at), *others)
        if run(0, found[1], [], [], 0)[0] != Step.LOOK
    ]
