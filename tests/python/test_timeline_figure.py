"""The figure of a timeline in docs/report.md is drawn from a file that was exported."""

from __future__ import annotations

import importlib
import pathlib
import re
import sys
from types import ModuleType

import pytest
import skips
import test_timeline

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERF = str(ROOT / "perf")
KINDS = test_timeline.SPANS

draws = pytest.mark.skipif(not skips.has_matplotlib(), reason=skips.NO_MATPLOTLIB)


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """The program that draws."""
    sys.path.insert(0, PERF)  # other modules there have names of the tests' own
    module = importlib.import_module("timeline_figure")
    sys.path.remove(PERF)
    return module


def bars(text: str) -> list[str]:
    """What each bar of a figure shows."""
    return re.findall(r'<g id="([a-z ]+) at [\d.]+ ms">', text)


@draws
def test_each_span_of_a_file_is_a_bar(
    figures: ModuleType, tmp_path: pathlib.Path
) -> None:
    turns_off = test_timeline.PASSES - 2
    step = test_timeline.passes("cpu", turns_off=turns_off)
    timeline, stats = test_timeline.noted("cpu", step)
    path = tmp_path / "reprise.json"
    timeline.export_chrome_trace(path)
    drawn = figures.read(path)
    assert drawn.tracks == ["host", "builds"]
    assert {span.doing for span in drawn.spans} == KINDS
    assert {span.track for span in drawn.spans if span.doing == "build"} == {"builds"}
    assert min(span.begin for span in drawn.spans) == 0
    assert [span.found for span in drawn.spans if span.found] == ["aten::tanh"]
    assert drawn.memory[-1][1] * 1024 == stats.plan_bytes
    for theme in figures.THEMES.values():
        assert theme.spans.keys() == KINDS
        text = figures.svg(drawn, theme)
        assert sorted(bars(text)) == sorted(span.doing for span in drawn.spans)
        assert ">found aten::tanh<" in text


def test_the_page_shows_what_was_drawn() -> None:
    page = (ROOT / "docs" / "report.md").read_text()
    shown = []
    for theme in ("light", "dark"):
        assert f'"images/timeline-{theme}.svg"' in page
        text = (ROOT / "docs" / "images" / f"timeline-{theme}.svg").read_text()
        assert set(bars(text)) == KINDS
        shown.append(bars(text))
    assert shown[0] == shown[1]
