"""The tapes of one callable for arguments of one structure, and what is said of them."""

from __future__ import annotations

import weakref

from reprise import _native
from reprise._enums import TapePass
from reprise.guards import tree
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
        self.builders: dict[int, tuple[tree.Form, tree.Builder]] = {}
        self.refusals = 0
        self.off = False

    def end(self) -> None:
        """Drop its tapes. Nothing of it is called again."""
        self.off = True
        self.builders = {}
        self._end()


def _drop(handle: int) -> None:
    _native._ops().drop_region(handle)
    forget_ended()
