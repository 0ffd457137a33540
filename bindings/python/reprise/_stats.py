"""The counters that `reprise.stats()` returns."""

from __future__ import annotations

import dataclasses
from typing import Any

_GAUGES = frozenset({"plans", "plan_bytes", "trace_bytes"})


def _counter(meaning: str) -> Any:
    return dataclasses.field(default=0, metadata={"meaning": meaning})


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters since `enable` or `reset`. `plans` and the `_bytes` fields are gauges.

    `str()` is a table with a sentence for each.
    """

    ops: int = _counter("Operations that Reprise saw.")
    followed: int = _counter("Operations among these whose results came from a replay.")
    unshown: int = _counter(
        "Operations of regions among the followed ones that were not shown one by one."
    )
    traces: int = _counter("Sequences of operations that were completed: traces.")
    signatures: int = _counter("Different ones among these traces.")
    recorded: int = _counter("Recordings of eager's launches that were kept.")
    builds: int = _counter(
        "Copies of plans that were built, each with memory of its own."
    )
    rejected: int = _counter("Builds and plans that were given up.")
    validated: int = _counter(
        "Comparisons of a plan with eager that found the same bits."
    )
    replays: int = _counter("Passes that a plan ran in place of eager.")
    squashes: int = _counter(
        "Replays that were rolled back, because the program went another way."
    )
    saved_us: int = _counter(
        "Microseconds that replays saved, where that was measured."
    )
    recording_us: int = _counter(
        "Microseconds that recorded passes took beyond others; by policy always, in all."
    )
    validating_us: int = _counter(
        "Microseconds that passes took beyond others because a plan was compared with eager."
    )
    escapes: int = _counter(
        "Outputs that were written to fresh memory, because earlier ones were in use."
    )
    effects: int = _counter("Followed operations that wrote the program's own memory.")
    evictions: int = _counter(
        "Plans that were dropped to stay within the budget of memory."
    )
    forgotten: int = _counter(
        "Traces, cuts and notes that were forgotten to stay within bounds."
    )
    plans: int = _counter("Plans that exist now.")
    plan_bytes: int = _counter(
        "Bytes that plans hold now: arenas, graphs and recordings."
    )
    trace_bytes: int = _counter(
        "Bytes of the host that are kept now for traces without a plan."
    )

    def __str__(self) -> str:
        rows = [
            (each.name, f"{getattr(self, each.name):,}", each.metadata["meaning"])
            for each in dataclasses.fields(self)
        ]
        names, numbers, _ = (
            max(map(len, column)) for column in zip(*rows, strict=True)
        )
        return "\n".join(
            f"{name:<{names}}  {number:>{numbers}}  {meaning}"
            for name, number, meaning in rows
        )

    def since(self, before: Stats) -> Stats:
        """Subtract the counters of `before`. Gauges stay as they are now.

        If counters were reset in between, they count from the reset.
        """
        if not isinstance(before, Stats):
            raise TypeError(
                f"reprise: since() does not accept {before!r}: "
                "give what stats() returned before"
            )
        now = dataclasses.asdict(self)
        then = dataclasses.asdict(before)
        if any(now[name] < then[name] for name in now if name not in _GAUGES):
            return self
        return Stats(
            **{
                name: value if name in _GAUGES else value - then[name]
                for name, value in now.items()
            }
        )
