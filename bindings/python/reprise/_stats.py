"""The counters that `reprise.stats()` returns."""

from __future__ import annotations

import dataclasses

_GAUGES = frozenset({"plans", "plan_bytes", "trace_bytes"})


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters since `enable` or `reset`; `plans` and what ends in `_bytes` are gauges."""

    ops: int = 0  #: seen by hooks
    followed: int = 0  #: ops answered from a replay
    unshown: int = 0  #: of these, ops of regions that were not shown one by one
    traces: int = 0  #: traces closed
    signatures: int = 0  #: distinct signatures
    recorded: int = 0  #: recordings kept
    builds: int = 0  #: instances of plans built
    rejected: int = 0  #: builds or plans given up
    validated: int = 0  #: validation passes that found equal bits
    replays: int = 0  #: plans launched in place of eager
    squashes: int = 0  #: replays that the program left
    saved_us: int = 0  #: microseconds that replays saved, where measured
    escapes: int = 0  #: outputs written to fresh memory
    effects: int = 0  #: followed ops that wrote memory of the program's
    evictions: int = 0  #: plans evicted
    forgotten: int = 0  #: traces, cuts and notes forgotten to stay within bounds
    plans: int = 0  #: plans now in the cache
    plan_bytes: int = 0  #: bytes of arenas, graphs and recordings now held
    trace_bytes: int = 0  #: bytes of the host now kept of traces without a plan

    def since(self, before: Stats) -> Stats:
        """These counters less those of `before`; gauges as they are.

        Counters that were reset in between count from the reset.
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
