"""Removes launch and Python overhead from PyTorch programs, with eager's own bits.

    import reprise
    reprise.enable()

From then on, stretches of operations that a program repeats are replayed as CUDA
graphs of the very launches that eager made, wherever that was measured to be
faster. Nothing else changes: results are eager's, bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reprise import _start

try:
    from reprise import _dynamo, _native
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
    """What `session` yields: the counters and the report of one enabled stretch.

    Usable after the stretch has ended, too. Programs get it from `session` only.
    """

    def __init__(self, runtime: int | None) -> None:
        self._runtime = runtime
        self._before = self._read()

    def _read(self) -> Stats:
        return Stats() if self._runtime is None else _native.stats(self._runtime)

    def stats(self) -> Stats:
        """Counters since the session began or was reset; gauges as they are."""
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
    """Watch the op stream of this process and replay what pays.

    Calling it again is harmless; with another device or other options it starts
    afresh with those, and comes back to the plans it had when they are restored.
    With `REPRISE=0` in the environment, and in a forked child, it does nothing;
    `enabled=False` is `disable()`.

    Args:
        device: "cuda" for all GPUs, or "cpu" for the host executor, which shows
            correctness and not speed. None takes "cuda" where torch has a GPU, else
            "cpu". A GPU's index, 0 or "cuda:0", where it is the only one.
        **options: see `reprise.options()`; they win over `REPRISE_*` variables.

    Raises:
        ValueError: an option (or variable) of an unknown name or value; the
            message names it and what it accepts.
        RuntimeError: there is no library for this version of torch, or it does
            not load, or `device="cuda"` was asked for where a GPU, the driver, CUPTI or NVRTC
            is missing. With device None that is a warning, and the program runs
            as without Reprise.
    """
    _native.enable(device, options)


def disable() -> None:
    """Stop watching and replaying; plans are kept for the next `enable`."""
    _native.activate(None)


@contextlib.contextmanager
def session(device: Device = None, **options: OptionValue) -> Iterator[Session]:
    """`enable` on entry; on exit, whatever was enabled before, or nothing.

    Raises what `enable` raises.
    """
    before = _native.active()
    _native.enable(device, options)
    try:
        yield Session(_native.active())
    finally:
        _native.activate(before)


def options() -> tuple[Option, ...]:
    """Every option that `enable` takes, in the order of the documentation."""
    return tuple(Option(*row) for row in _native.option_rows())


def wait(timeout: float | None = None) -> bool:
    """Block until no build is queued or running.

    Args:
        timeout: seconds, or None for as long as it takes.

    Returns:
        False if `timeout` passed first.

    Raises:
        TypeError, ValueError: `timeout` is no number, or nan.
    """
    return _native.wait(None, timeout)


def reset() -> None:
    """Forget all plans and counters. Tensors stay valid."""
    _native.reset(None)


def stats() -> Stats:
    """Counters since the first `enable` with these options, or the last `reset`."""
    return _native.stats(None)


def explain() -> Report:
    """Every plan, cut, rejection, squash and region, with reasons and counts.

    `str()` of it is for people, `to_dict()` for programs.
    """
    return _native.explain(None, regions())


@contextlib.contextmanager
def timeline() -> Iterator[Timeline]:
    """Note what Reprise does, on all streams, until the end of the stretch.

        with reprise.timeline() as timeline:
            train()
        timeline.export_chrome_trace("reprise.json")

    Recordings, builds, validations, replays, squashes and evictions, and the memory of
    plans: an event a pass, of which the last 65536 are kept, so that it may stay on.
    May be begun before `enable`; timelines may lie within each other.

    Raises:
        RuntimeError: as `enable` does, where there is no library for this torch.
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
