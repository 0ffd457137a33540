"""What a region learns of recorded calls: tapes, refusals, and that it must not go on."""

from __future__ import annotations

import re
from typing import Any

from torch.optim.lr_scheduler import LRScheduler

from reprise._advice import for_changed, for_reader
from reprise._call_form import NUMBERS
from reprise._enums import Verdict
from reprise._open_recording import Learned
from reprise._region_standing import Standing
from reprise._region_structures import MOST_CHANGES
from reprise._variants import Variants
from reprise.guards import making, tree
from reprise.guards.reading import Reading
from reprise.nodes.differentiable import Differentiable

NODES = "operators have nodes of their own"
CHANGES = "it changes {}, which no replay would"
_ANEW = "it sets {} to another constant again and again ({})"
_KEEP = (
    "keep a number that calls change in a tensor, and what else they change outside of the "
    "callable"
)
FOLLOWS = "it changes {}: such changes are followed from the next call on"
_ANOTHER = "it returns another structure"
_MOST_SET = 32  # calls in a row that have set other places than those before
_MOST_REFUSALS = 3  # of one structure of arguments
# By a part of why a call cannot be written down: what helps.
_READS = "hands data to the host"
_REMEDIES = {
    "behind a write to memory": "read it before the callable writes anything, or behind the "
    "call; where no backward pass is inside, have what reads it and returns tensors run in "
    "each call, by @reprise.eager",
    "which is other data each time": "if the number is only compared, compare the tensor "
    "itself, as in `if x.sum() > 0`; else keep it on the device, and read it behind the call, "
    "or have what reads it and returns tensors run in each call, by @reprise.eager",
    _READS: "keep the number on the device, and read it behind the call, "
    "or have what reads it and returns tensors run in each call, by @reprise.eager",
    "Python computes with a number that is another one": "compare it, write it into texts "
    "and make integers of it outside of the callable",
    "a tensor may be made of a number": "set elements by fill_ or masked_fill, make such "
    "tensors outside, or give the number as a tensor",
    "works with other processes": "leave it outside: of a step, let the module be the "
    "region",
    "a function of TorchScript is called": "take the module or function that it was made "
    "of",
    _ANOTHER: "return containers of one structure, and numbers as tensors",
    "copies to the host": "copy behind it",
    "torch.tensor of tensors": "put tensors together by torch.stack, or by view and cat",
    "is made that is no ordinary one": "leave what makes it outside; "
    "nn.TransformerEncoder makes none with enable_nested_tensor=False",
    "is used that is no ordinary one": "leave what uses it outside",
    "gives other sizes or numbers each time": "pad to one size, or let what needs it return "
    "tensors of one size, and run in each call, by @reprise.eager",
    "the size of its result depends on data": "let what needs it return tensors of one "
    "size, and run in each call, by @reprise.eager",
}
ARGUMENT = "let it return what it changes, and leave the argument as it is"
# Of a number that an operator was given, and no argument is.
_COMPUTED = re.compile(r"'\w+' is -?[0-9.e+-]+, was -?[0-9.e+-]+$")
_COMPUTE_OUTSIDE = (
    "compute this number outside of the callable, and give it as an argument, or as a "
    "tensor"
)
_COUNTS = "that counts on the host"
_OPTIMIZERS = "; of an optimizer, take fused=True or capturable=True"


def _another(before: Any, now: Any) -> str:
    """Return how two forms of what a call returns differ."""
    left = [(before, now)]
    while left:
        one, other = left.pop()
        if isinstance(one, type) and isinstance(other, type) and one is not other:
            if one.__qualname__ == other.__qualname__:
                return (
                    f"it returns a {one.__name__}, a class that it makes anew in each call "
                    "(make the class once, outside)"
                )
        elif type(one) is tuple is type(other) and len(one) == len(other):
            left += zip(one, other, strict=True)
    return _ANOTHER


class Learning:
    """Applies verdicts on recorded calls to variants and to the region's standing."""

    def __init__(self, reads: Reading, standing: Standing) -> None:
        self._reads = reads
        self._standing = standing
        self._changes = 0  # by the callable, since it was trusted
        self._sets = 0  # calls in a row that have set other places

    def learn(self, variants: Variants, learned: Learned, form: tree.Form) -> None:
        """Learn a verdict on a call. `form`: of what a replay is to return."""
        verdict, reason, place = learned.verdict, learned.reason, learned.place
        self._sets = 0
        variants.forget(learned.dropped)
        if verdict == Verdict.WITHDRAWN:
            self._standing.withdraw(reason, place)
        elif verdict in (Verdict.REFUSED, Verdict.DIFFERS):
            self.refuse(variants, reason or "it cannot be written down", place)
            variants.off |= verdict == Verdict.DIFFERS
        elif verdict != Verdict.AGAIN:
            if reason:
                self._standing.note("not as the call before: " + reason, place)
            known = variants.builders.get(learned.tape)
            if known is None or known[0] != form:
                if known is not None and verdict != Verdict.SEEN:
                    self.refuse(variants, _another(known[0], form))
                    variants.off = True
                    return
                variants.builders[learned.tape] = form, making.builder(form)
            self._standing.report.samples += verdict == Verdict.SAME
            if verdict == Verdict.TRUSTED:
                self._changes = 0

    def learn_backward(self, verdict: int, reason: str, place: str) -> None:
        """Learn a verdict on a backward pass."""
        if verdict == Verdict.WITHDRAWN:
            self._standing.withdraw(reason, place)
        elif verdict in (Verdict.REFUSED, Verdict.DIFFERS):
            self._standing.note(f"{NODES}: {reason}", place)

    def note_set(self, what: str) -> None:
        """Note that the callable has set places that no call before has. `what`: one."""
        self._sets += 1
        if self._sets > _MOST_SET:
            self.note_changed(what, "set the same attributes and items in each call")

    def note_changed(self, what: str, remedy: str) -> None:
        """Note that the callable has changed what it reads. Often: it is run from now on."""
        remedy = self._remedy_for(what) or remedy
        # The first one may be what the first call does, and none behind it.
        remedy = f" ({remedy})" if remedy and self._changes else ""
        self._standing.note(CHANGES.format(what) + remedy)
        self._changes += 1
        self._standing.off |= self._changes >= MOST_CHANGES

    def note_anew(self, what: str) -> None:
        """Note that a place holds other constants again and again."""
        self._standing.note(_ANEW.format(what, self._remedy_for(what) or _KEEP))

    def _remedy_for(self, changed: str) -> str:
        walk = self._reads.walk
        if walk is None:
            return ""
        schedules = {
            each.__name__ for each in walk.kinds if issubclass(each, LRScheduler)
        }
        if changed == NUMBERS:  # a schedule has set these, where there is one
            changed = next(iter(schedules), changed)
        return for_changed(changed, walk.optimizers, schedules)

    def refuse(self, variants: Variants, reason: str, place: str = "") -> None:
        """Note why a call is not learned. After some of these, the variants are off."""
        remedy = next(
            (helps for part, helps in _REMEDIES.items() if part in reason), ""
        )
        if not remedy and _COMPUTED.search(reason):
            remedy = _COMPUTE_OUTSIDE
        if _READS in reason:
            walk = self._reads.walk
            optimizers = walk.optimizers if walk is not None else ()
            if helps := for_reader(place, optimizers):
                remedy = helps
            elif _COUNTS in reason and optimizers:
                remedy += _OPTIMIZERS
        self._standing.note(reason + (f" ({remedy})" if remedy else ""), place)
        variants.refusals += 1
        # Where one node cannot stand for all, operators have their own.
        variants.off |= variants.refusals >= _MOST_REFUSALS or isinstance(
            variants, Differentiable
        )
