"""What Reprise did, and when, in a file for trace viewers."""

from __future__ import annotations

import copy
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

# Of Chrome's trace event format: process and thread are numbers. Ours are none that the
# system gives (its largest is 2**22), so that they meet nobody's in a merged file.
_OURS = 1 << 22
# As torch.profiler does it: times in a file count from a multiple of three months, for
# which a float of microseconds keeps its nanoseconds.
_BASE_S = 7889238
_SIGNATURE_SHOWN = 8
_WITHOUT_LENGTH = frozenset({"rejection", "eviction"})

Fields = dict[str, Any]


class Timeline:
    """What Reprise did since the beginning of the block, from `timeline`.

    It is usable after the block has ended, too. Programs get it only from `timeline`.
    """

    def __init__(self, read: Callable[[], Fields]) -> None:
        self._read: Callable[[], Fields] | None = read
        self._fields: Fields = {}

    def _end(self) -> None:
        self._fields, self._read = self._now(), None

    def _now(self) -> Fields:
        return self._fields if self._read is None else self._read()

    def to_dict(self) -> Fields:
        """Return `events` in the order of their ends, `tracks`, and how many events were `lost`.

        Times are in nanoseconds since the epoch of Unix. docs/report.md explains all fields.
        """
        return copy.deepcopy(self._now())

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        *,
        beside: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write a file for ui.perfetto.dev or chrome://tracing.

        Its clock is that of torch.profiler's traces. A path that ends in `.gz` is compressed.

        Args:
            path: of the file.
            beside: a trace that torch.profiler exported. It stays as it is, and the file has
                its events too.

        Raises:
            ValueError: `beside` is no such trace.
            OSError: a file cannot be read or written.
        """
        trace = _empty_trace() if beside is None else _read_trace(beside)
        trace["traceEvents"].extend(
            _chrome_events(self._now(), trace.get("baseTimeNanoseconds", 0))
        )
        with _open(path, "wt") as file:
            json.dump(trace, file)


def _open(path: str | os.PathLike[str], mode: str) -> Any:
    if os.fspath(path).endswith(".gz"):
        return gzip.open(path, mode, encoding="utf-8")
    return open(path, mode, encoding="utf-8")


def _empty_trace() -> Fields:
    base = int(time.time()) // _BASE_S * _BASE_S
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base * 10**9,
        "traceEvents": [],
    }


def _read_trace(path: str | os.PathLike[str]) -> Fields:
    try:
        with _open(path, "rt") as file:
            trace = json.load(file)
        if isinstance(trace["traceEvents"], list):
            return dict(trace)
    except (ValueError, KeyError, TypeError, EOFError, gzip.BadGzipFile):
        pass
    raise ValueError(
        f"reprise: beside does not accept '{os.fspath(path)}': give a file that "
        "export_chrome_trace of torch.profiler has written"
    )


def _chrome_events(timeline: Fields, base_ns: int) -> Iterator[Fields]:
    """What was done, the names of its tracks, and the memory of plans."""
    process = _OURS + os.getpid()
    events = timeline["events"]

    def microseconds(time_ns: int) -> float:
        return (time_ns - base_ns) / 1e3

    yield _metadata(
        "process_name", process, 0, name=f"Reprise in process {os.getpid()}"
    )
    yield _metadata("process_sort_index", process, 0, sort_index=os.getpid())
    names: dict[int, str] = {}
    for event in events:
        thread = _thread(event)
        names[thread] = (
            f"builds on thread {event['thread']}"
            if event["doing"] == "build"
            else timeline["tracks"][event["track"]]
        )
        row = _chrome_event(event, timeline["tracks"], microseconds)
        yield row | {"pid": process, "tid": thread}
    for thread, name in names.items():
        yield _metadata("thread_name", process, thread, name=name)
        yield _metadata("thread_sort_index", process, thread, sort_index=thread)
    for row in _memory(events, microseconds):
        yield row | {"pid": process, "tid": 0}


def _memory(
    events: list[Fields], microseconds: Callable[[int], float]
) -> Iterator[Fields]:
    """A counter for each cache of plans, wherever it changes."""
    several = len({event["plans"] for event in events}) > 1
    known: dict[int, int] = {}
    for event in events:
        plans, now = event["plans"], event["plan_bytes"]
        if known.get(plans) == now:
            continue
        known[plans] = now
        row = {
            "ph": "C",
            "cat": "reprise",
            "name": "memory of plans",
            "ts": microseconds(event["end_ns"]),
            "args": {"bytes": now},
        }
        yield row | ({"id": plans} if several else {})


def _thread(event: Fields) -> int:
    """A number for the track: a stream's, or of a thread that builds."""
    track: int = event["track"]
    return _OURS + int(event["thread"]) if event["doing"] == "build" else track + 1


def _chrome_event(
    event: Fields, tracks: list[str], microseconds: Callable[[int], float]
) -> Fields:
    doing = event["doing"]
    args: Fields = {
        name: event[name] for name in ("signature", "ops", "left_at") if name in event
    }
    if "note" in event:
        args["found" if doing == "squash" else "note"] = event["note"]
    if "places" in event:
        args["places"] = ", ".join(event["places"])
    if doing == "build":
        args["for"] = tracks[event["track"]]
    row = {
        "ph": "X",
        "cat": "reprise",
        "name": f"{doing} {event['signature'][:_SIGNATURE_SHOWN]}",
        "ts": microseconds(event["begin_ns"]),
        "args": args,
    }
    if doing in _WITHOUT_LENGTH:
        return row | {"ph": "i", "s": "t"}
    return row | {"dur": (event["end_ns"] - event["begin_ns"]) / 1e3}


def _metadata(what: str, process: int, thread: int, **told: str | int) -> Fields:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": told}
