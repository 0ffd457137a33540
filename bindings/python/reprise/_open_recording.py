"""A recording of a region's calls. It ends with the block that began it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from reprise import _native


class OpenRecording:
    """From `begin` to `end`, or until its owner leaves.

        with OpenRecording(variants.handle) as opened:
            if opened.begin(arguments, numbers, watched):
                ...
                learned = opened.end(outputs, computed, own)

    One is open at a time in a process, so that one which nobody ends keeps all regions
    from being recorded. It is abandoned where the block is left without `end`, and at the
    latest where the object goes: an error may come between any two instructions.
    """

    _numbers = itertools.count(1)

    def __init__(self, variants: int) -> None:
        self._variants = variants
        self._owner = next(self._numbers)
        self._may_be_open = False

    def begin(
        self,
        tensors: list[torch.Tensor],
        numbers: list[float],
        watched: list[torch.Tensor],
    ) -> bool:
        """Begin. Returns False if another recording is open."""
        self._may_be_open = True
        begun: bool = _native._ops().begin_region(
            self._variants, self._owner, tensors, numbers, watched
        )
        return begun

    def end(
        self, outputs: Sequence[torch.Tensor], computed: list[bool], own: int
    ) -> Any:
        """See `EndRegion` in bindings/torch/region_library.cc."""
        found = _native._ops().end_region(self._variants, outputs, computed, own)
        self._may_be_open = False
        return found

    def abandon(self) -> None:
        """Abandon the recording. Does nothing if it has ended or never begun."""
        if self._may_be_open:
            self._may_be_open = False
            _native._ops().abandon_region(self._variants, self._owner)

    def __enter__(self) -> OpenRecording:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def __del__(self) -> None:
        self.abandon()
