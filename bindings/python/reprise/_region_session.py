"""The session of a region's calls while the program has enabled none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reprise import _enabled, _native
from reprise._region_standing import Standing


class OwnSession:
    """A runtime that is active during single calls. It is made at the first of these."""

    def __init__(self, standing: Standing) -> None:
        """`standing`: it is turned off if no runtime can be had."""
        self._standing = standing
        self._runtime: int | None = None

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Return a block in which the runtime is active."""
        with _enabled.block(self._begin, brief=True) as runtime:
            self._standing.off |= runtime is None  # it cannot be had
            yield

    def _begin(self) -> None:
        if self._runtime is not None:
            _native.activate(self._runtime)
            return
        try:
            _native.enable(None, {})
        except (RuntimeError, ValueError) as error:
            self._standing.cannot_replay(str(error))
        self._runtime = _native.active()
