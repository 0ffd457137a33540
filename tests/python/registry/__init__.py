"""The registry sweep: every hooked operator on random inputs (sweep.py)."""

import sys
import types
import unittest

try:
    import expecttest  # noqa: F401
except ModuleNotFoundError:
    # Torch's lists of samples lie beside test cases of its own, which derive from this one.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
