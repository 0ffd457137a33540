"""The tapes of one callable for arguments of one structure, and what is said of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from reprise import _native
from reprise._enums import TapePass
from reprise.guards import making, tree
from reprise.nodes.history import forget_ended

_CHECKS = {"sample": 0, "always": 1, "never": -1}


class Variants:
    """The tapes of something; see bindings/torch/region/region_variants.h."""

    def __init__(self, check: str, part: int = TapePass.WHOLE) -> None:
        ops = _native._ops()
        self.handle: int = ops.make_region(_CHECKS[check], part)
        self._end = weakref.finalize(self, _drop, self.handle)
        self._end.atexit = False
        # By tape, the form of what it returns, and what makes it.
        self.builders: dict[int, tuple[tree.Form, making.Builder]] = {}
        self.refusals = 0
        self.off = False
        self._gone: list[int] = []  # tapes, whose builders are still here

    def uses(self) -> int:
        """Return how many calls a tape was run or recorded for."""
        uses: int = _native._ops().uses_of_region(self.handle)
        return uses

    def forget(self, tapes: Sequence[int]) -> None:
        """Forget what makes the results of tapes that have gone.

        Calls under way have the builders that there were when they began. Those of other
        threads may have run a tape that is newer: then nothing is forgotten yet.
        """
        self._gone += tapes
        if self._gone and threading.active_count() == 1:
            gone, self._gone = set(self._gone), []
            self.builders = {
                tape: builder
                for tape, builder in self.builders.items()
                if tape not in gone
            }

    def end(self) -> None:
        """Drop its tapes. Nothing of it is called again."""
        self.off = True
        self.builders = {}
        self._end()


def _drop(handle: int) -> None:
    _native._ops().drop_region(handle)
    forget_ended()
