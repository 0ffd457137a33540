"""The environment variables that Reprise reads. Needs no torch."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

# Variables that are no options: of the build, of tests and of measurements.
_OTHERS = frozenset(
    {
        "REPRISE_CACHE_DIR",
        "REPRISE_COMMIT",
        "REPRISE_ENV_DIR",
        "REPRISE_FAILING_BATCHES",
        "REPRISE_LIBRARY",
        "REPRISE_RANDOM_BATCHES",
        "REPRISE_RANDOM_OPS",
        "REPRISE_RANDOM_SECONDS",
        "REPRISE_RANDOM_SEED",
        "REPRISE_ROOT",
        "REPRISE_TORCH_DIR",
        "REPRISE_UPDATE_DOCS",
    }
)
_SWITCH = "REPRISE"
_OFF = frozenset({"0", "off", "false", "no"})
_ON = frozenset({"on", "true", "yes"})


def switched_off() -> bool:
    """Return whether `REPRISE=0` is set: nothing is loaded, nothing is done."""
    return os.environ.get(_SWITCH, "").strip().lower() in _OFF


def is_switch(value: str) -> bool:
    """Return whether `REPRISE` may have that value."""
    return value.strip().lower() in _OFF | _ON | {"", "1"}


def settle_switch() -> None:
    """Turn `REPRISE=on` into `REPRISE=1`, which is the library's word for it."""
    if os.environ.get(_SWITCH, "").strip().lower() in _ON:
        os.environ[_SWITCH] = "1"


def ours() -> list[str]:
    """Return the set variables that look like ours, in order."""
    return sorted(
        name for name in os.environ if name == _SWITCH or name.startswith("REPRISE_")
    )


def unknown(options: Iterable[str]) -> dict[str, str]:
    """Return variables that look like ours and are not, each with a proposal, or "".

    `options`: the variables of options.
    """
    known = sorted({*options} | _OTHERS)
    return {
        name: near(name, known)
        for name in ours()
        if name != _SWITCH and name not in known
    }


def near(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant; empty if none is similar."""
    found = difflib.get_close_matches(name, list(known), 1)
    return found[0] if found else ""
