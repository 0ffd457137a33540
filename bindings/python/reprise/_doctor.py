"""`reprise doctor`: what works on this machine and with this Python, and what to do if not.

Each check looks at one thing and never raises. Torch is imported only by a check that
needs it, so the others report even if that import fails.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator

from reprise._doctor_system import Row, cache, python, short, switch, system
from reprise._doctor_torch import Here

_WIDTH = 100
_CHECK_WIDTH = 10
_NEEDED = ("torch", "library", "trial")  # without which Reprise does not work


def main(*, as_json: bool) -> int:
    """Print all rows. Return 0 if Reprise works here, else 1."""
    found = list(rows())
    works = all(row.status != "error" for row in found)
    if as_json:
        fields = [dataclasses.asdict(row) for row in found]
        print(json.dumps({"works": works, "rows": fields}, indent=2))
        return 0 if works else 1
    for row in found:
        print(_text(row))
    errors = sum(row.status == "error" for row in found)
    told = sum(row.status == "warning" for row in found)
    of_warnings = f", with {told} warning{'s' * (told != 1)}" if told else ""
    print(
        f"Reprise works here{of_warnings}"
        if works
        else f"Reprise does not work here: {errors} error{'s' * (errors != 1)}"
    )
    return 0 if works else 1


def rows() -> Iterator[Row]:
    """Yield all checks. Checks that others need come first."""
    here = Here()
    for name, check in (
        ("Python", python),
        ("system", system),
        ("torch", here.torch_row),
        ("CUDA", here.cuda),
        ("GPU", here.gpu),
        ("CUPTI", here.cupti),
        ("NVRTC", here.nvrtc),
        ("library", here.library),
        ("switch", switch),
        ("variables", here.variables),
        ("cache", cache),
        ("trial", here.trial),
    ):
        yield from _guarded(name, check)


def _text(row: Row) -> str:
    head = f"{row.status:<8} {row.check:<{_CHECK_WIDTH}} "
    inner = " " * len(head)
    texts = [row.found, *([f"what helps: {row.remedy}"] if row.remedy else [])]
    lines = [
        line
        for text in texts
        for line in textwrap.wrap(
            text,
            _WIDTH - len(head),
            break_long_words=False,
            break_on_hyphens=False,
            subsequent_indent="  ",
        )
    ]
    return head + f"\n{inner}".join(lines)


def _guarded(name: str, check: Callable[[], Row | Iterable[Row]]) -> Iterator[Row]:
    """A check that fails has found nothing; the others go on."""
    try:
        found = check()
        yield from [found] if isinstance(found, Row) else list(found)
    except Exception as error:
        yield Row(
            name,
            "error" if name in _NEEDED else "warning",
            f"this check has failed itself: {short(error)}",
            "report it as a bug of `reprise doctor`",
        )
