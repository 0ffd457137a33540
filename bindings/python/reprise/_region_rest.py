"""When a region that replays nothing leaves its callable alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from reprise._region_report import RegionReport

# So many calls in a row that were neither replayed nor recorded show that looks are in vain.
_CALLS_IN_VAIN = 256
_SHARE = 0.01  # of the callable's time, for looks, from then on
_FIRST = 16  # calls that rest first, at most; then twice as many each time ...
_MOST = 1 << 20  # ... until so many
_TIMED = -1

_clock = time.perf_counter


class Rest:
    """Which calls run the callable without a look at what they come with.

    Where a tape cannot be, each call would take its arguments apart, and look at what the
    callable reads, for nothing. Behind many such calls one is timed, and so many run the
    callable alone that looks take a hundredth of its time. The next one is looked at, and
    timed again:

        0 ─(many in vain)─► timed ─► left: each call takes one ─► timed ...
        └◄──(looks take little, or a call was replayed or recorded)─┘

    At first few calls rest, and from one timing to the next at most twice as many: a call that
    could be replayed waits for no more calls than rested before. Not locked: threads that call at once may rest longer or shorter.
    """

    __slots__ = (
        "_answered",
        "_began",
        "_longest",
        "_report",
        "_rested",
        "_since",
        "left",
    )

    def __init__(self, report: RegionReport) -> None:
        """`report`: what it says of calls, of all regions of this callable."""
        self.left = 0  # calls that rest; below 0: the next one is timed
        self._report = report
        self._answered = 0  # calls that were replayed or recorded
        self._since = 0  # the number of calls when one was answered last
        self._began = 0.0
        self._rested = 0
        self._longest = _FIRST

    def takes(self) -> bool:
        """Return whether the call that comes rests. Asked where `left` is not 0."""
        if self.left > 0:
            self.left = self.left - 1 or _TIMED
            return True
        if self._is_answered():
            self.left = 0
        else:
            self._began = _clock()
        return False

    def run(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call that was looked at in vain."""
        if self.left != _TIMED:
            if self._is_answered():
                self.left = 0
            elif self._report.calls - self._since >= _CALLS_IN_VAIN:
                self.left = _TIMED
            return fn(*args, **kwargs)
        looked = _clock()
        result = fn(*args, **kwargs)
        takes = _clock() - looked
        looks = max(looked - self._began, 0.0)  # a call within may have begun later
        calls = int(min(looks / (_SHARE * takes), _MOST)) if takes > 0 else _MOST
        calls = min(calls, self._longest)
        self._longest = min(2 * self._longest, _MOST)
        self.left = calls
        self._rested += calls
        if calls == 0:
            self._since = self._report.calls
        return result

    @property
    def rested(self) -> int:
        """The number of calls that have rested."""
        return self._rested - max(self.left, 0)

    def _is_answered(self) -> bool:
        answered = self._report.replayed + self._report.recorded
        if answered == self._answered:
            return False
        self._answered = answered
        self._longest = _FIRST
        self._since = self._report.calls
        return True
