"""Torch's own lists of samples, each as a program of some passes (run.py)."""

import registry  # noqa: F401  # stands in for the package expecttest, if it is missing
