"""What a program may change if something keeps it from being replayed."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from reprise._words import source_line

_READS = "hands data to the host"

# A part of a cut's reason -> what helps. The first that fits.
_ADVICE = (
    (
        _READS,
        "keep the number on the device, without .item(), bool() or print (an "
        "optimizer: with fused=True), or look at it less often",
    ),
    ("copies to the host", "copy less often, or after the loop"),
    (
        "copies from the host, between traces",
        "make it on the device, or copy it there in the middle of a pass",
    ),
    ("host operand", "make it on the device, once"),
    ("the host waits", "wait for the device less often"),
    (
        "a new op each time",
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


# In a place: torch's distributions look at their arguments.
_DISTRIBUTIONS = "(torch/distributions/"
_UNCHECKED = (
    "torch.distributions checks its arguments there: pass validate_args=False, or call "
    "torch.distributions.Distribution.set_default_validate_args(False)"
)
# The call of an optimizer, by what programs name it.
_STEP = re.compile(
    r"(opt\w*|adam\w*|sgd\w*|scaler\w*)(\[[^]]*\])?\.step\(", re.IGNORECASE
)
# Of torch's optimizers: those that read no numbers with foreach=True; those that keep numbers
# and lists for themselves, which no replay changes.
_BY_FOREACH = frozenset({"ASGD"})
_NEVER = frozenset({"LBFGS", "SparseAdam"})
_FUSED = (
    "the optimizer reads a number of its own there: make it with fused=True, or on a GPU "
    "with capturable=True"
)


def advice(reason: str, places: Iterable[str] = ()) -> str:
    """Return a remedy for a cut's reason, met at these lines; empty if there is none."""
    places = list(places)
    if _READS in reason and any(map(is_optimizers_step, places)):
        return _FUSED
    if _READS in reason and places and all(map(is_check, places)):
        return _UNCHECKED
    return next((help for part, help in _ADVICE if part in reason), "")


def is_check(place: str) -> bool:
    """Return whether torch's distributions look at their arguments at that place."""
    return _DISTRIBUTIONS in place


def for_reader(place: str, optimizers: Iterable[Any]) -> str:
    """Return a remedy for what reads a number in a region there; empty: nobody knows.

    `optimizers`: to which the region leads.
    """
    if is_check(place):
        return _UNCHECKED
    return for_optimizers(optimizers) if is_optimizers_step(place) else ""


def is_optimizers_step(place: str) -> bool:
    """Return whether the program's line ("train.py:42") calls an optimizer."""
    return bool(_STEP.search(source_line(place)))


def for_optimizers(optimizers: Iterable[Any]) -> str:
    """Return a remedy if the step of one of these has read a number of a tensor."""
    remedies = {_for_optimizer(each) for each in optimizers}
    return "; ".join(sorted(remedies - {""}))


def _for_optimizer(optimizer: Any) -> str:
    """Empty: it reads none."""
    name, takes = type(optimizer).__name__, optimizer.defaults.keys()
    if any(group.get("fused") for group in optimizer.param_groups):
        return ""
    rates = [group.get("lr") for group in optimizer.param_groups]
    # Else it is a tensor.
    floats = all(rate is None or isinstance(rate, (int, float)) for rate in rates)
    helps = [] if floats else ["keep its learning rate a float"]
    if "fused" in takes:
        helps.append("make it with fused=True")
    elif name in _BY_FOREACH:
        helps.append("make it with foreach=True")
    if "capturable" in takes:
        helps.append("on a GPU make it with capturable=True")
    if not takes & {"fused", "capturable"} or not (helps[:-1] or "fused" in takes):
        helps.append("call it outside of the region")
    return f"{name} reads numbers in each step: {', or '.join(helps)}"


def for_changed(
    what: str, optimizers: Iterable[Any], schedules: Container[str] = ()
) -> str:
    """Return a remedy if what a call has changed is an optimizer's, or a schedule's.

    `schedules`: names of their classes. Empty: it is none's.
    """
    if what.partition(".")[0] in schedules:
        return "call the step of the scheduler outside of the region, behind it"
    for each in optimizers:
        name = type(each).__name__
        if what.startswith(f"{name}.state.") and name in _NEVER:
            return (
                f"call the step of {name} outside of the region; the closure that it takes may "
                "be one"
            )
    return ""
