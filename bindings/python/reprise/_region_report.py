"""What became of the calls of a region."""

from __future__ import annotations

import dataclasses
from typing import Any

from reprise._words import fold, plural


@dataclasses.dataclass
class RegionReport:
    """What became of the calls of a region.

    Attributes:
        name: the callable's name.
        calls, replayed: the number of all calls, and of those that skipped their Python.
        backward: the number of backward passes that were replayed as one.
        recorded: the number of calls that ran their Python while they were recorded.
        seconds: time until the replayed calls returned, all together.
        operators: operator calls in the variant that was recorded last.
        reads: how many of these read a value for Python. Each replay reads it, too, and waits
            for the device there, as without the region.
        variants: the number of structures of arguments, and states of modules.
        samples: the number of recorded calls that agreed with the replayed ones.
        reasons: why calls ran their Python: how often, and the program's line.
        guards: what had changed since the call before: how often.
    """

    name: str
    calls: int = 0
    replayed: int = 0
    backward: int = 0
    recorded: int = 0
    seconds: float = 0.0
    operators: int = 0
    reads: int = 0
    variants: int = 0
    samples: int = 0
    reasons: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    guards: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        each = (
            f" in {1e6 * self.seconds / self.replayed:.0f} us each"
            if self.replayed
            else ""
        )
        passes = (
            f" and {plural(self.backward, 'backward pass')}" if self.backward else ""
        )
        reads = f" ({plural(self.reads, 'read')})" if self.reads else ""
        lines = [
            f"region {self.name}: {self.replayed} of {plural(self.calls, 'call')}{passes} "
            f"replayed{each}, {plural(self.operators, 'operator')} a call{reads}, "
            f"{plural(self.variants, 'variant')}, {plural(self.samples, 'sample')} the same"
        ]
        for reason, (times, place) in self.reasons.items():
            where = f" at {place}" if place else ""
            lines.append(f"  {times} x {reason}{where}")
        for guard, times in self.guards.items():
            lines.append(f"  {times} x changed since the call before: {guard}")
        return "\n".join(part for line in lines for part in fold(line))

    def to_dict(self) -> dict[str, Any]:
        """Return the same in types that JSON knows."""
        fields = dataclasses.asdict(self)
        fields["reasons"] = [
            {"reason": reason, "count": times, "place": place}
            for reason, (times, place) in self.reasons.items()
        ]
        return fields
