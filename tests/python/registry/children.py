"""Work in a child process, which may end there or never come to an end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

LIMIT_S = 60


def in_a_child(found: Callable[[], Iterable[Any]]) -> list[Any]:
    """What it finds, sorted, as JSON has it; nothing where the child ends before.

    Arguments that an operator does not check may end the process, or keep it. The child
    is a copy without the parent's other threads, for which an operator may wait: the
    parent is to have none.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(LIMIT_S)
            with os.fdopen(write, "w") as out:
                json.dump(sorted(found()), out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    os.waitpid(child, 0)
    return list(json.loads(text or "[]"))
