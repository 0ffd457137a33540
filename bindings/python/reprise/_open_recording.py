"""A recording of a region's calls. It ends with the block that began it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch

from reprise import _native


class Learned(NamedTuple):
    """What a recording has shown; see `EndRegion` in bindings/torch/region_library.cc."""

    verdict: int  # see `Verdict`
    tape: int
    calls: int  # of operators
    draws: bool  # random numbers
    calls_others: bool  # functions that run each time, or operators of others
    writes_outside: bool  # memory, or gradients, of tensors from outside
    reads: int  # operators whose values each replay reads
    reason: str  # of the verdict
    place: str  # of that, in the program; "" if it is not known
    no_node: str  # why it is no forward pass
    saved: list[int]  # by tensor that autograd has saved, which output it is
    written: list[torch.Tensor]  # from outside
    dropped: list[int]  # tapes that have gone


class OpenRecording:
    """From `begin` to `end`, or until its owner leaves.

        with OpenRecording(variants.handle) as opened:
            if opened.begin(arguments, numbers, watched, len(numbers)):
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
        seen: int,
    ) -> bool:
        """Begin. Returns False if another recording is open.

        `seen`: how many of the numbers, the first ones, the program's code may look at. Only
        torch's optimizers look at the others.
        """
        self._may_be_open = True
        begun: bool = _native._ops().begin_region(
            self._variants, self._owner, tensors, numbers, seen, watched
        )
        return begun

    def note_arithmetic(self, nodes: list[int], values: list[float]) -> None:
        """Before `end`: what Python computed; see `Arithmetic`."""
        _native._ops().note_arithmetic(self._variants, nodes, values)

    def end(
        self, outputs: Sequence[torch.Tensor], computed: list[bool], own: int
    ) -> Learned:
        """End the recording.

        `computed`: for each number, whether Python did anything with it but pass it on. `own`:
        how many of the outputs are the callable's; autograd has saved the others.
        """
        found = _native._ops().end_region(self._variants, outputs, computed, own)
        self._may_be_open = False
        verdict, tape, calls, draws, calls_others, writes_outside, reads = found[0]
        reasons, saved, written, dropped = found[1:]
        reason, place, no_node = reasons
        return Learned(
            verdict=verdict,
            tape=tape,
            calls=calls,
            draws=bool(draws),
            calls_others=bool(calls_others),
            writes_outside=bool(writes_outside),
            reads=reads,
            reason=reason,
            place=place,
            no_node=no_node,
            saved=saved,
            written=written,
            dropped=dropped,
        )

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
