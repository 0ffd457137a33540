"""Removes launch and Python overhead from PyTorch programs, with eager's own bits.

    import reprise
    reprise.enable()

From then on, sequences of operations that a program repeats are replayed as CUDA graphs.
Each graph holds the same launches that eager made. A sequence is replayed if that was
measured to be faster. Nothing else changes: results are eager's, bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reprise import _start

try:
    from reprise import _dynamo, _enabled, _native
    from reprise._compiler import reprise as backend
    from reprise._eager import eager
    from reprise._options import Device, Option, OptionValue
    from reprise._region import Region
    from reprise._region_report import RegionReport
    from reprise._regions import region, regions
    from reprise._report import Report
    from reprise._stats import Stats
    from reprise._timeline import Timeline
except Exception as error:
    _start.refuse(error)

__version__ = "0.1.0"

__all__ = [
    "Option",
    "Region",
    "RegionReport",
    "Report",
    "Session",
    "Stats",
    "Timeline",
    "backend",
    "disable",
    "eager",
    "enable",
    "explain",
    "options",
    "region",
    "reset",
    "session",
    "stats",
    "timeline",
    "wait",
]


class Session:
    """The counters and the report of one enabled block, from `session`.

    It is usable after the block has ended, too. Programs get it only from `session`.
    """

    def __init__(self, runtime: int | None) -> None:
        self._runtime = runtime
        self._before = self._read()

    def _read(self) -> Stats:
        return Stats() if self._runtime is None else _native.stats(self._runtime)

    def stats(self) -> Stats:
        """Counters since the session began or was reset; gauges as they are now."""
        return self._read().since(self._before)

    def explain(self) -> Report:
        """The report of the runtime that served this session."""
        if self._runtime is None:
            return Report({})
        return _native.explain(self._runtime)

    def wait(self, timeout: float | None = None) -> bool:
        """`reprise.wait` for this session."""
        return self._runtime is None or _native.wait(self._runtime, timeout)

    def reset(self) -> None:
        """`reprise.reset` for this session."""
        if self._runtime is not None:
            _native.reset(self._runtime)
        self._before = self._read()


def enable(device: Device = None, **options: OptionValue) -> None:
    """Watch the ops of this process, and replay sequences that repeat if that is faster.

    A second call is harmless. With another device or other options it starts afresh with
    these; earlier plans come back when the earlier options do. It does nothing with
    `REPRISE=0` in the environment, and in a forked child. `enabled=False` is `disable()`.

    Args:
        device: "cuda" for all GPUs, one GPU (1 or "cuda:1", say), or "cpu" for the host
            executor, which shows correctness and not speed. None is "cuda" if torch has
            a GPU, else "cpu". With one GPU, ops on the others are watched, and run as
            in eager.
        **options: see `reprise.options()`. They win over `REPRISE_*` variables.

    Raises:
        ValueError: an option or a variable has an unknown name or a bad value. The
            message names it, and says what it accepts.
        RuntimeError: there is no library for this version of torch, or it does not
            load, or `device="cuda"` was given and a GPU, the driver, CUPTI or NVRTC is
            missing. With device None that is a warning, and the program runs as
            without Reprise.
    """
    _enabled.change(lambda: _native.enable(device, options))


def disable() -> None:
    """Stop watching and replaying. Plans are kept for the next `enable`."""
    _enabled.change(lambda: _native.activate(None))


@contextlib.contextmanager
def session(device: Device = None, **options: OptionValue) -> Iterator[Session]:
    """`enable` on entry; on exit, restore what was enabled before, or nothing.

    Blocks of several threads or coroutines may overlap: the newest one that has not
    ended says what is enabled. Also a decorator, which does so for each call of a
    function.

    Raises what `enable` raises.
    """
    with _enabled.block(lambda: _native.enable(device, options)) as runtime:
        yield Session(runtime)


def options() -> tuple[Option, ...]:
    """Return every option that `enable` takes, in the order of the documentation."""
    return tuple(Option(*row) for row in _native.option_rows())


def wait(timeout: float | None = None) -> bool:
    """Block until no build is queued or running.

    Args:
        timeout: seconds, or None for as long as it takes.

    Returns:
        False if `timeout` passed first.

    Raises:
        TypeError, ValueError: `timeout` is not a number, or is nan.
    """
    return _native.wait(None, timeout)


def reset() -> None:
    """Forget all plans and counters. Tensors stay valid."""
    _native.reset(None)


def stats() -> Stats:
    """Return counters since the first `enable` with these options, or the last `reset`."""
    return _native.stats(None)


def explain() -> Report:
    """Return a report of every plan, cut, rejection, squash and region, with reasons.

    `str()` of it is for people, `to_dict()` for programs.
    """
    return _native.explain(None, regions())


@contextlib.contextmanager
def timeline() -> Iterator[Timeline]:
    """Note what Reprise does, on all streams, until the end of the block.

        with reprise.timeline() as timeline:
            train()
        timeline.export_chrome_trace("reprise.json")

    It notes recordings, builds, validations, replays, squashes and evictions, and the
    memory of plans. Each pass has an event, and the last 65536 are kept, so a timeline
    may stay on. It may begin before `enable`. Timelines may be nested.

    Raises:
        RuntimeError: there is no library for this torch, as for `enable`.
    """
    begin = _native.start_timeline()
    noted = Timeline(lambda: _native.timeline(begin))
    try:
        yield noted
    finally:
        try:
            noted._end()
        finally:
            _native.stop_timeline(begin)


_dynamo.hide(__name__)
