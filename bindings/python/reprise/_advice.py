"""What a program may change where something keeps it from being replayed."""

from __future__ import annotations

# A part of a cut's reason -> what helps. The first that fits.
_ADVICE = (
    (
        "hands data to the host",
        "keep the number on the device (.item(), bool(), print), or look at it less often",
    ),
    ("copies to the host", "copy less often, or behind the loop"),
    (
        "copies from the host, between traces",
        "make it on the device, or bring it there in the middle of a pass",
    ),
    ("host operand", "make it on the device, once"),
    ("the host waits", "wait for the device less often"),
    (
        "another one each time",
        "a size or a number is new at each pass: pad to a few sizes, or keep the number in a tensor",
    ),
    ("memory is used without an op", "take addresses and arrays outside the loop"),
    ("memory is used by an op that is not watched", "use dense tensors in the loop"),
    ("explicit generator", "draw from the default generator"),
    ("draws random numbers", "draw from the default generator"),
    ("keeps a generator of its own", "draw from the default generator"),
    ("changes a storage", "allocate once, at its full size"),
    ("moves its operands", "flatten weights once, outside the loop"),
    ("the stream waits for an event", "use one stream for the pass"),
    ("an event is recorded", "record events outside the pass"),
    ("copies to another device", "keep a pass on one device"),
    ("operands on several devices", "keep a pass on one device"),
)


def advice(reason: str) -> str:
    """For a cut's reason; empty where there is none."""
    return next((help for part, help in _ADVICE if part in reason), "")
