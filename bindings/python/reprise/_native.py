"""The shared library behind the package: found, checked, loaded, called.

It is loaded by the first call that needs it, so that importing the package costs
nothing and works without it.
"""

from __future__ import annotations

import atexit
import functools
import json
import math
import numbers
import sys
import time
import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from reprise import _higher_order, _observers, _profilers, _progress, _torchs_kernels
from reprise._library import library_for, why_not_loaded
from reprise._options import Device, OptionValue, as_text
from reprise._region_report import RegionReport
from reprise._report import Report
from reprise._stats import Stats
from reprise._variables import near, settle_switch, switched_off, unknown
from reprise._words import shown

_WAIT_SLICE_S = 0.1  # how long Ctrl-C may take
_EXIT_WAIT_S = 5.0  # for builds that are running when the interpreter exits
_LISTS = "`python -m reprise options` lists all"
# Packages that lead from the program to `warn`.
_WAYS_IN = ("reprise", "contextlib", "torch")


@functools.cache
def _ops() -> Any:
    """`torch.ops.reprise`, after loading the library once."""
    library = library_for(torch.__version__)
    _observers.check_layout()
    ops: Any = torch.ops
    try:
        ops.load_library(str(library))
    except OSError as error:
        raise RuntimeError(why_not_loaded(library, error)) from None
    _torchs_kernels.tell(ops.reprise)
    return ops.reprise


def are_ordinary(tensors: list[torch.Tensor]) -> bool:
    """Return whether these tensors are neither wrapped nor batched."""
    try:
        ordinary: bool = _ops().are_ordinary(tensors)
    except RuntimeError:  # of batches of tensors it cannot be asked
        return False
    return ordinary


def loaded() -> bool:
    """Whether the library has been loaded by this process."""
    return _ops.cache_info().currsize > 0


def enable(device: Device, options: Mapping[str, OptionValue]) -> None:
    """See `reprise.enable`."""
    if switched_off():
        return
    settle_switch()
    ops = _ops()
    before = active()
    name = _best_device() if device is None else _device_named(device)
    given = as_text(options)
    _check_names(given)
    if failure := ops.enable(name, given):
        code, sentence = failure
        if code == "invalid_argument":
            raise ValueError(f"reprise: {sentence}")
        if code == "unavailable" and device is None:
            warn(f"{sentence}; the program runs as without it")
            return
        raise RuntimeError(f"reprise: {sentence}")
    if given.get("enabled") == "0":  # off, also where it was on
        activate(None)
    runtime = active()
    if runtime is None:  # by option, or in a forked child
        return
    _at_first_enable()
    try:
        _name_unknown_variables()
        if name == "cpu":
            _at_first_enable_of_the_host()
    except Warning:  # the program has made errors of warnings
        activate(before)
        raise
    ops.prepare()  # now that graphs of the program's are seen


def _check_names(options: Iterable[str]) -> None:
    known = [row[0] for row in option_rows()]
    for name in options:
        if name not in known:
            proposal = near(name, known)
            meant = f"did you mean '{proposal}'? " if proposal else ""
            raise ValueError(
                f"reprise: there is no option '{name}': {meant}the options are "
                f"{', '.join(known)}"
            )


def _device_named(device: Device) -> str:
    """In the library's words. The only GPU is all GPUs.

    Raises ValueError for a GPU that torch does not find, and for what is no device.
    """
    if not isinstance(device, (str, int, float, torch.device)):
        raise ValueError(
            f"reprise: option 'device' does not accept {shown(device)}: give cpu, cuda, "
            "cuda:<index> or None, and no model, because the whole program is watched"
        )
    text = f"cuda:{device}" if type(device) is int else str(device)
    kind, _, index = text.partition(":")
    if text == "cpu:0":
        return kind
    if kind != "cuda" or not index.isdecimal():
        return text
    count = torch.cuda.device_count()
    if int(index) >= max(count, 1):
        raise ValueError(
            f"reprise: device does not accept {device!r} where torch finds {count} "
            f"GPU{'s' * (count != 1)}: give 'cuda' for all of them, or an index below {count}"
        )
    return f"cuda:{int(index)}" if count > 1 else kind


def _best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def observe() -> None:
    """Observe, from now on, what the program does without an op."""
    _at_first_enable()


@functools.cache
def _at_first_enable() -> None:
    atexit.register(_leave_quietly)
    _profilers.wrap(
        pause=lambda: _ops().pause_recording(),
        resume=lambda: _ops().resume_recording(),
    )
    _higher_order.let_recordings_pass()
    _observers.wrap(_ops().plain_functions())
    _observers.pass_trace_on(lambda: _ops().pass_gpu_trace_on())


@functools.cache
def _name_unknown_variables() -> None:
    """One that looks like ours, and is none, may be misspelt."""
    for variable, proposal in unknown(row[1] for row in option_rows()).items():
        warn(
            f"there is no variable {variable}"
            + (f": {proposal}?" if proposal else f"; {_LISTS}")
        )


def _leave_quietly() -> None:
    """No build may run while the process takes torch and the driver down."""
    activate(None)
    wait(None, _EXIT_WAIT_S)


@functools.cache
def _at_first_enable_of_the_host() -> None:
    warn(
        "on the CPU, replays run on the host executor, which shows correctness and "
        "not speed"
    )


def warn(sentence: str) -> None:
    """Warn at the program's line that called, whichever function it called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and _root_of(frame) in _WAYS_IN:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"reprise: {sentence}", stacklevel=level)


def _root_of(frame: types.FrameType) -> str:
    """The package whose code it runs."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def active() -> int | None:
    """Return the id of the runtime that serves the hooks."""
    if not loaded():
        return None
    runtime: int = _ops().active()
    return runtime if runtime >= 0 else None


def activate(runtime: int | None) -> None:
    """Let that runtime serve the hooks, or none. Warns if none can."""
    if not loaded():
        return
    if failure := _ops().activate(-1 if runtime is None else runtime):
        warn(f"{failure[1]}; the program runs as without it")


def wait(runtime: int | None, timeout: float | None) -> bool:
    """See `reprise.wait`. Waits in slices, so that Ctrl-C is heard.

    On a terminal a line says how many builds have ended, of how many.
    """
    if timeout is not None:
        _check_seconds(timeout)
    if not loaded():
        return True
    deadline = None if timeout is None else time.monotonic() + timeout

    def builds() -> tuple[int, int]:
        ended, posted = _ops().builds(_id(runtime))
        return ended, posted

    with _progress.Waiting("building graphs", builds) as waiting:
        while True:
            left = _WAIT_SLICE_S if deadline is None else deadline - time.monotonic()
            if _ops().wait(_id(runtime), min(_WAIT_SLICE_S, max(0.0, left))):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            waiting.tick()


def _check_seconds(timeout: object) -> None:
    sentence = f"reprise: timeout does not accept {timeout!r}: give seconds or None"
    if not isinstance(timeout, numbers.Real):
        raise TypeError(sentence)
    if math.isnan(timeout):
        raise ValueError(sentence)


def reset(runtime: int | None) -> None:
    """See `reprise.reset`."""
    if loaded():
        _ops().reset(_id(runtime))


def stats(runtime: int | None) -> Stats:
    """See `reprise.stats`."""
    return Stats(**_ops().stats(_id(runtime))) if loaded() else Stats()


def explain(runtime: int | None, regions: Iterable[RegionReport] = ()) -> Report:
    """See `reprise.explain`."""
    text = _ops().explain_json(_id(runtime)) if loaded() else ""
    fields = json.loads(text) if text else {}
    return Report(fields, lambda key: _plan(runtime, key), regions)


def _plan(runtime: int | None, signature: str) -> dict[str, Any] | None:
    """What it is made of; None: there is none of that trace now."""
    text = _ops().plan_json(_id(runtime), signature)
    return json.loads(text) if text else None


def start_timeline() -> int | None:
    """Return where the timeline begins; None if nothing will ever happen."""
    if switched_off():
        return None
    begin: int = _ops().start_timeline()
    return begin


def stop_timeline(begin: int | None) -> None:
    """Stop the timeline. Called as often as `start_timeline`."""
    if begin is not None:
        _ops().stop_timeline()


def timeline(begin: int | None) -> dict[str, Any]:
    """Return what was done since then; see `reprise.Timeline.to_dict`."""
    if begin is None:
        return {"events": [], "lost": 0, "tracks": []}
    fields: dict[str, Any] = json.loads(_ops().timeline_json(begin))
    return fields


def option_rows() -> list[list[str]]:
    """Return name, variable, default, accepted values and meaning of every option."""
    rows: list[list[str]] = _ops().option_table()
    return rows


def _id(runtime: int | None) -> int:
    return -1 if runtime is None else runtime
