"""What Reprise did and when: every pass once, on the clock of torch's profiler."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import models
import pytest
import reprise
import torch
from torch.profiler import ProfilerActivity, profile, record_function
from watching import rest, watched

PASSES = 30
SLACK_US = 2000.0  # of two clocks that are compared in one process
SPANS = {
    "recording",
    "recording again",
    "build",
    "validation op by op",
    "validation of whole segments",
    "replay",
    "squash",
}


def passes(device: str, turns_off: int = -1) -> Callable[[], None]:
    """A step that is another one at the pass that is named."""
    model = models.mlp().to(device)
    count = iter(range(1000))

    @torch.no_grad()
    def step() -> None:
        h = model(torch.randn(4, 32, device=device))
        if next(count) == turns_off:
            h = torch.tanh(h)  # once
        (h + 1).sum().item()

    return step


def noted(
    device: str, step: Callable[[], None], number: int = PASSES
) -> tuple[reprise.Timeline, reprise.Stats]:
    """The timeline of so many passes, and what was counted meanwhile."""
    with reprise.timeline() as timeline, watched(device) as session:
        for _ in range(number):
            step()
            rest(session)
        assert session.wait(120)
        stats = session.stats()
    return timeline, stats


def written(
    timeline: reprise.Timeline, path: pathlib.Path, **more: Any
) -> dict[str, Any]:
    timeline.export_chrome_trace(path, **more)
    text = (
        gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
    )
    trace: dict[str, Any] = json.loads(text)
    return trace


def ours(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in trace["traceEvents"] if row.get("cat") == "reprise"]


def test_it_has_each_pass_once(device: str) -> None:
    timeline, stats = noted(device, passes(device))
    events = timeline.to_dict()["events"]
    counts = collections.Counter(event["doing"] for event in events)
    assert set(counts) <= SPANS | {"rejection", "eviction"}
    assert counts["replay"] == stats.replays > 0
    assert counts["squash"] == stats.squashes
    assert counts["build"] >= stats.builds > 0
    kept = [e for e in events if e["doing"].startswith("recording") and "note" not in e]
    assert len(kept) >= stats.recorded > 0
    validated = counts["validation op by op"] + counts["validation of whole segments"]
    assert validated >= stats.validated > 0
    assert all(event["begin_ns"] <= event["end_ns"] for event in events)
    assert events[-1]["plan_bytes"] == stats.plan_bytes > 0


def test_a_squash_has_its_op_and_its_line(device: str, tmp_path: pathlib.Path) -> None:
    timeline, stats = noted(device, passes(device, turns_off=PASSES - 2))
    assert stats.squashes == 1
    (squash,) = [e for e in timeline.to_dict()["events"] if e["doing"] == "squash"]
    assert squash["note"] == "aten::tanh"
    assert 0 < squash["left_at"] < squash["ops"]
    (place,) = squash["places"]
    assert place.startswith(f"{__file__}:")
    (row,) = [
        row
        for row in ours(written(timeline, tmp_path / "trace.json"))
        if row["name"].startswith("squash")
    ]
    assert row["args"]["found"] == "aten::tanh"
    assert row["args"]["places"] == place


def test_the_file_has_tracks_spans_and_the_memory_of_plans(
    device: str, tmp_path: pathlib.Path
) -> None:
    timeline, _ = noted(device, passes(device))
    events = timeline.to_dict()["events"]
    trace = written(timeline, tmp_path / "trace.json")
    assert written(timeline, tmp_path / "trace.json.gz") == trace
    rows = ours(trace)
    spans = [row for row in rows if row["ph"] == "X"]
    assert len(spans) == sum(event["doing"] in SPANS for event in events)
    names = {
        (row["pid"], row["tid"]): row["args"]["name"]
        for row in trace["traceEvents"]
        if row["name"] == "thread_name"
    }
    where = {row["name"].split()[0]: names[row["pid"], row["tid"]] for row in spans}
    assert where["build"].startswith("builds on thread ")
    assert (
        where["replay"]
        == where["recording"]
        == ("host" if device == "cpu" else "cuda:0, default stream")
    )
    memory = [row["args"]["bytes"] for row in rows if row["ph"] == "C"]
    assert memory[-1] == events[-1]["plan_bytes"] > 0
    assert all(before != after for before, after in itertools.pairwise(memory))
    # A track does one thing after the other.
    for track in {row["tid"] for row in spans}:
        on_it = sorted(
            (row["ts"], row["ts"] + row["dur"]) for row in spans if row["tid"] == track
        )
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(on_it))


def test_it_lies_beside_a_trace_of_the_profiler(
    device: str, tmp_path: pathlib.Path
) -> None:
    """Each replay within the range that the program has put round its pass."""
    step = passes(device)
    path, merged = tmp_path / "profile.json", tmp_path / "both.json"
    with watched(device) as session:
        for _ in range(PASSES):
            step()
            rest(session)
        with (
            reprise.timeline() as timeline,
            profile(activities=[ProfilerActivity.CPU]) as profiler,
        ):
            for number in range(3):
                time.sleep(0.02)
                with record_function(f"pass {number}"):
                    step()
    profiler.export_chrome_trace(str(path))
    before = json.loads(path.read_text())
    after = written(timeline, merged, beside=path)
    assert json.loads(path.read_text()) == before
    assert after["traceEvents"][: len(before["traceEvents"])] == before["traceEvents"]
    assert after | {"traceEvents": []} == before | {"traceEvents": []}
    replays = [row for row in ours(after) if row["name"].startswith("replay")]
    ranges = [row for row in before["traceEvents"] if row["name"].startswith("pass ")]
    ranges = [row for row in ranges if row["cat"] == "user_annotation"]
    assert len(replays) == len(ranges) == 3
    for replay, around in zip(replays, ranges, strict=True):
        assert replay["ts"] > around["ts"] - SLACK_US
        assert replay["ts"] + replay["dur"] < around["ts"] + around["dur"] + SLACK_US
    theirs = {row["pid"] for row in before["traceEvents"]}
    assert not theirs & {row["pid"] for row in ours(after)}
    # By itself it has the profiler's time base, too.
    alone = written(timeline, tmp_path / "alone.json")
    assert alone["baseTimeNanoseconds"] == before["baseTimeNanoseconds"]
    assert ours(alone) == ours(after)


@pytest.mark.parametrize("text", ["[1]", "{}", "no trace", '{"traceEvents": 3}'])
def test_what_is_no_trace_is_named(text: str, tmp_path: pathlib.Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(text)
    with reprise.timeline() as timeline:
        pass
    with pytest.raises(
        ValueError, match=r"beside does not accept '.*wrong.json': give"
    ):
        timeline.export_chrome_trace(tmp_path / "out.json", beside=wrong)
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress(b'{"traceEvents": []}')[:-9])
    with pytest.raises(ValueError, match="beside does not accept"):
        timeline.export_chrome_trace(tmp_path / "out.json", beside=cut)
    assert not (tmp_path / "out.json").exists()
    with pytest.raises(FileNotFoundError):
        timeline.export_chrome_trace(
            tmp_path / "out.json", beside=tmp_path / "none.json"
        )


def test_timelines_lie_within_each_other_and_end() -> None:
    step = passes("cpu")
    with reprise.timeline() as outer, watched("cpu") as session:
        for _ in range(PASSES):
            step()
            assert session.wait(60)
        with reprise.timeline() as inner:
            step()
            assert [e["doing"] for e in inner.to_dict()["events"]] == ["replay"]
        step()
    step()
    assert [e["doing"] for e in inner.to_dict()["events"]] == ["replay"]
    events = outer.to_dict()["events"]
    assert events[-2] == pytest.approx(inner.to_dict()["events"][0], abs=10**6)
    assert sum(e["doing"] == "replay" for e in events) == session.stats().replays


def test_it_ends_where_its_stretch_raises() -> None:
    with pytest.raises(KeyError), reprise.timeline() as timeline:
        raise KeyError
    assert timeline.to_dict()["events"] == []


def test_evictions_are_noted() -> None:
    with (
        reprise.timeline() as timeline,
        reprise.session("cpu", policy="always", plan_budget_bytes="420KiB") as session,
    ):
        session.reset()
        before = session.stats()
        for _ in range(8):
            for rows in (64, 96, 128):
                x = torch.ones(rows, 64)
                for _ in range(3):
                    x = (x * 2).relu() + 1
                x.sum().item()
                assert session.wait(60)
        evictions = session.stats().since(before).evictions
    evicted = [e for e in timeline.to_dict()["events"] if e["doing"] == "eviction"]
    assert len(evicted) == evictions > 0
    assert {timeline.to_dict()["tracks"][e["track"]] for e in evicted} == {"plans"}


def test_each_cache_of_plans_has_a_counter(tmp_path: pathlib.Path) -> None:
    """Other options, other plans: their memory is not added up."""
    step = passes("cpu")

    def some(margin: float) -> None:
        with reprise.session("cpu", policy="always", margin=margin) as session:
            session.reset()
            for _ in range(PASSES):
                step()
                assert session.wait(60)

    def counters(timeline: reprise.Timeline) -> set[Any]:
        rows = ours(written(timeline, tmp_path / "trace.json"))
        return {row.get("id") for row in rows if row["ph"] == "C"}

    with reprise.timeline() as timeline:
        some(0.125)
        assert counters(timeline) == {None}
        some(0.25)
    tracks = timeline.to_dict()["tracks"]
    assert [tracks[plans] for plans in counters(timeline)] == ["plans", "plans"]


def run(script: str, folder: pathlib.Path, *given: str, **more: str) -> Any:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(script))
    command = [sys.executable, "-m", "reprise", "run", "--device", "cpu", *given]
    root = pathlib.Path(reprise.__file__).resolve().parents[1]
    return subprocess.run(
        [*command, str(path)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), **more},
        capture_output=True,
        text=True,
        check=False,
    )


SCRIPT = """
    import os, torch, reprise
    os.chdir("/")
    for _ in range(20):
        (torch.ones(3, 3) * 2).relu().sum().item()
        reprise.wait()
"""


def test_the_command_line_writes_one(tmp_path: pathlib.Path) -> None:
    done = run(SCRIPT, tmp_path, "--timeline", "out.json")
    assert done.returncode == 0, done.stderr
    trace = json.loads((tmp_path / "out.json").read_text())
    assert any(row["name"].startswith("replay") for row in ours(trace))


def test_the_command_line_writes_one_of_a_script_that_raises(
    tmp_path: pathlib.Path,
) -> None:
    done = run(SCRIPT + "    raise SystemExit(3)\n", tmp_path, "--timeline", "out.json")
    assert done.returncode == 3, done.stderr
    assert ours(json.loads((tmp_path / "out.json").read_text()))


def test_the_command_line_names_a_file_that_cannot_be(tmp_path: pathlib.Path) -> None:
    done = run("print('ran')", tmp_path, "--timeline", "no/out.json")
    assert done.returncode == 1
    assert (
        "--timeline does not accept 'no/out.json': name a file in a folder"
        in done.stderr
    )
    assert "ran" not in done.stdout


def test_switched_off_it_is_empty(tmp_path: pathlib.Path) -> None:
    done = run(SCRIPT, tmp_path, "--timeline", "out.json", REPRISE="0")
    assert done.returncode == 0, done.stderr
    assert ours(json.loads((tmp_path / "out.json").read_text())) == []
