"""What the recipes share: the device, and the comparison with eager at their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import reprise
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def leaves(value: Any) -> Iterator[Any]:
    """The tensors, numbers and strings in a nest of dicts, lists and tuples, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def same(left: Any, right: Any) -> bool:
    """Equal in every bit: nan equals itself, and 0 is not -0."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and bool(left == right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    as_bytes = (
        t.detach().contiguous().view(-1).view(torch.uint8) for t in (left, right)
    )
    return torch.equal(*as_bytes)


def finish(found: Any, expected: Any, least: float) -> None:
    """Ends the recipe: what Reprise gave must be what eager gave, and replayed.

    `found` and `expected` are nests of results. `least` is the share of all ops, from 0
    to 1, that replays must have answered. Prints one line, or exits with 1.
    """
    stats = reprise.stats()
    reprise.disable()
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    wrong = sum(not same(left, right) for left, right in pairs)
    if wrong or not any(isinstance(left, torch.Tensor) for left, _ in pairs):
        raise SystemExit(
            f"{wrong} of {len(pairs)} results have other bits than eager's"
        )
    share = stats.followed / max(stats.ops, 1)
    said = f"{stats.replays} replays answered {share:.0%} of {stats.ops} ops"
    if stats.replays == 0 or share < least:
        raise SystemExit(f"{said}; {least:.0%} were expected")
    print(f"all {len(pairs)} results have eager's bits; {said}")
