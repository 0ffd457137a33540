"""Whether a region's calls are replayed, and why some of them run their Python."""

from __future__ import annotations

import logging

from reprise._call_form import Following
from reprise._region_functions import warn_once
from reprise._region_report import RegionReport
from reprise._region_rest import Rest
from reprise._variables import switched_off

_MOST_NOTES = 64  # of each kind
_log = logging.getLogger("reprise")


class Standing:
    """Whether a region is on, and what it notes of its calls.

    A region that is off runs its callable from now on. Regions of one callable, for other
    objects among its arguments, have a standing each and share the report, the rest, and what
    is followed. Not
    locked: two threads that note the same reason at once may count one.
    """

    def __init__(self, report: RegionReport, beside: Standing | None = None) -> None:
        """`beside`: another region's."""
        self.report = report
        self.rest: Rest = beside.rest if beside else Rest(report)
        self.following: Following = beside.following if beside else Following()
        self.off = switched_off()

    def note(self, reason: str, place: str = "") -> None:
        """Note why a call runs its Python. `place`: the program's line."""
        reasons = self.report.reasons
        times, known = reasons.get(reason, (0, ""))
        if times or len(reasons) < _MOST_NOTES:
            reasons[reason] = times + 1, place or known

    def note_guard(self, what: str) -> None:
        """Note what is another one than in the call before."""
        guards = self.report.guards
        if what in guards or len(guards) < _MOST_NOTES:
            guards[what] = guards.get(what, 0) + 1

    def turn_off(self, reason: str, place: str = "") -> None:
        """Run the callable from now on."""
        self.off = True
        self.note(reason, place)

    def cannot_replay(self, why: str) -> None:
        """Run the callable from now on: nothing can be replayed in this process."""
        self.turn_off(f"nothing can be replayed: {why}")
        warn_once(why)

    def withdraw(self, reason: str, place: str) -> None:
        """Run the callable from now on: a sample has shown another behaviour."""
        self.turn_off("withdrawn: " + reason, place)
        _log.error(
            "reprise: region %s does something else than what was replayed: %s%s. "
            "Results since the sample before may be wrong; from now on its Python "
            "runs",
            self.report.name,
            reason,
            f" at {place}" if place else "",
        )
