"""Torch's operators that take functions (`torch.ops.higher_order`) inside of recorded calls.

They choose their kernel in Python, by the keys of the dispatcher that are on. While calls
are recorded, two more are on, which those operators know no kernel for: they would raise
an error. What they call is seen as what any Python calls.
"""

from __future__ import annotations

from typing import Any

import torch

_OF_RECORDINGS = ("Fake", "TESTING_ONLY_GenericMode")


def let_recordings_pass() -> None:
    """Have all of these operators, and those that come later, go past those keys."""
    ops = getattr(torch, "_ops", None)
    passed: Any = getattr(
        ops, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", None
    )
    if passed is None:
        return
    keys = [torch._C._dispatch_key_parse(name) for name in _OF_RECORDINGS]
    new = [key for key in keys if key not in passed]
    passed.extend(new)
    for op in list(getattr(ops, "_higher_order_ops", {}).values()):
        for key in new:
            op.fallthrough(key)
