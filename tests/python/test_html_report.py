"""The report as a page: well formed, safe from names, with the report's own numbers."""

from __future__ import annotations

import html.parser
import pathlib
import re
from typing import Any

import models
import pytest
import reprise
import torch
from watching import rest, watched

PASSES = 20
HOSTILE = "<script>alert(\"x\")</script> & 'y' </td></table>"
SINGLE = {"meta"}  # elements without an end


class Page(html.parser.HTMLParser):
    """Reads a page; what is open at another element's end is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.style = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in SINGLE:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
            return
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] in ("h2", "h3", "summary"):
            self.titles.append(data)

    @property
    def tags(self) -> set[str]:
        return {name for name, _ in self.elements}

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def attributes(self, name: str) -> list[str]:
        return [each[name] or "" for _, each in self.elements if name in each]

    def classed(self, name: str) -> list[dict[str, str | None]]:
        return [
            each
            for _, each in self.elements
            if name in (each.get("class") or "").split()
        ]

    def rows_with(self, text: str) -> list[list[str]]:
        return [row for row in self.rows if any(text in cell for cell in row)]


def read(report: reprise.Report) -> Page:
    """Both forms; the page of the file."""
    page = Page(report.to_html())
    assert Page(report._repr_html_()).text in page.text
    return page


def plan(number: int = 0, **changed: Any) -> dict[str, Any]:
    return {
        "signature": f"{number:032x}",
        "state": "ready",
        "ops": 9,
        "seen": 20,
        "replays": 7,
        "squashes": 0,
        "arena_bytes": 2048,
        "mechanism": "calls",
        "operators": ["aten::relu"],
        "places": ["/home/me/train.py:12"],
        **changed,
    }


def cut(op: str = "aten::item", count: int = 1, **changed: Any) -> dict[str, Any]:
    row = {"op": op, "reason": "hands data to the host", "places": [], "count": count}
    return row | changed


def report(**fields: Any) -> reprise.Report:
    stats = {"ops": 1000, "followed": 700}
    return reprise.Report({"mode": "host", "stats": stats, **fields})


# --- Real programs -----------------------------------------------------------------


@pytest.fixture
def training(device: str) -> reprise.Report:
    model = models.mlp().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(device) as session:
        for _ in range(PASSES):
            loss = model(torch.randn(4, 32, device=device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            rest(session)
        return session.explain()


def test_a_training_loop_has_the_numbers_of_its_report(
    training: reprise.Report,
) -> None:
    page, fields = read(training), training.to_dict()
    stats = fields["stats"]
    assert f"of {stats['ops']:,} ops were replayed" in page.text
    assert f"{stats['followed']:,} followed" in page.text
    for each in (row for row in fields["plans"] if row["mechanism"]):
        (row,) = (r for r in page.rows_with(each["signature"][:8]) if len(r) == 8)
        assert row[2:4] == [f"{each['ops']:,}", f"{each['replays']:,}"]
        assert each["state"] in row[1]
        assert row[6] == each["mechanism"]
    for each in fields["cuts"]:
        assert any(
            each["reason"] in row[1] and row[0].startswith(f"{each['count']:,}")
            for row in page.rows_with(each["op"])
        )
    for name, value in stats.items():
        assert any(row[:2] == [name, f"{value:,}"] for row in page.rows_with(name))


def test_a_cut_shows_the_source_of_its_line(training: reprise.Report) -> None:
    rows = read(training).rows_with("hands data to the host")
    assert any("test_html_report.py:" in row[2] for row in rows)
    assert any("loss.item()" in row[2] for row in rows)


def test_a_region_says_why_its_python_ran() -> None:
    region = reprise.RegionReport("step", calls=1500, replayed=1200, variants=2)
    region.reasons = {f"reason {i}": (i, "/home/me/a.py:3") for i in range(1, 9)}
    region.guards = {"a list": 11}
    page = read(reprise.Report({}, regions=[region]))
    (row,) = page.rows_with("step")
    assert row[1:3] == ["1,500", "1,20080.0%"]
    assert row[6].index("11 x changed since the call before: a list") == 0
    assert "8 x reason 8" in row[6] and "me/a.py:3" in row[6]
    assert "4 more in to_dict()" in row[6]
    assert "Regions" in page.titles


# --- The bar -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("followed", "cuts", "told"),
    [
        (700, [cut(count=100)], "700 followed, 100 cut, 200 new"),
        (700, [cut(count=100), cut("(no op)", 50)], "700 followed, 100 cut, 200 new"),
        (700, [cut(count=400)], "700 followed, 300 cut, 0 new"),  # met, and not ops
        (1000, [], "1,000 followed, 0 cut, 0 new"),
        (0, [], "0 followed, 0 cut, 1,000 new"),
    ],
)
def test_the_bar_adds_up(followed: int, cuts: list[Any], told: str) -> None:
    page = read(report(stats={"ops": 1000, "followed": followed}, cuts=cuts))
    assert page.attributes("aria-label") == [told]
    widths = re.findall(r"flex-grow: (\d+)", " ".join(page.attributes("style")))
    assert sum(map(int, widths)) == 1000 and "0" not in widths
    assert all(part in page.text for part in told.split(", "))


# --- Sections ----------------------------------------------------------------------


def test_sections_are_there_if_they_have_something_to_say() -> None:
    squash = {"signature": "a" * 32, "op": 3, "found": "aten::tanh", "count": 2}
    rejection = {"signature": "b" * 32, "reason": "other bits", "count": 1}
    page = read(
        report(
            plans=[plan(), plan(1, mechanism="", state="seen")],
            cuts=[cut()],
            squashes=[squash],
            rejections=[rejection],
            notes=["a profiler runs"] * 113,
        )
    )
    assert [title.strip() for title in page.titles[1:]] == [
        *("What is most in the way", "Plans", "Squashes", "Rejections"),
        *("1 note", "1 trace without a plan", "Counters"),
    ]
    assert page.rows_with("a profiler runs") == [["113", "a profiler runs"]]
    assert page.rows_with("aten::tanh")[0][:3] == ["2", "aaaaaaaa", "3"]
    assert page.rows_with("other bits") == [["1", "bbbbbbbb", "other bits"]]
    assert read(report()).titles[1:] == ["What is most in the way", "Counters"]


def test_a_measured_plan_says_what_it_saves() -> None:
    times = {"eager_us": 1250.0, "replay_us": 250.0, "saving_us": 1000.0}
    saves = plan(1, **times, finding="saves time")
    page = read(report(plans=[saves, plan(2)]))
    assert page.rows_with("saves time")[0][4] == "1.0 mseager 1,250.0 usreplay 250.0 us"
    assert "\N{EN DASH}" in page.rows[2][4]


def test_cuts_come_with_a_remedy_the_commonest_first() -> None:
    page = read(report(cuts=[cut("aten::a", 3), cut("aten::b", 40)]))
    rows = page.rows_with("aten::")
    assert [row[0] for row in rows] == ["404.0% of ops", "30.3% of ops"]
    assert "Keep the number on the device" in rows[0][1]
    assert page.classed("obstacle") == []  # the first row is that


def test_what_is_in_the_way_is_no_cut_always() -> None:
    new = {"ops": 1000, "followed": 0, "traces": 100, "signatures": 90}
    page = read(report(stats=new, cuts=[cut()]))
    assert "90 of 100 traces were new" in page.text
    assert len(page.classed("obstacle")) == 1


# --- Safety ------------------------------------------------------------------------


def test_names_cannot_break_the_page() -> None:
    place = f"/a/{HOSTILE}/{HOSTILE}.py:3"
    bad = {"signature": HOSTILE, "found": HOSTILE, "op": 1, "reason": HOSTILE}
    bad |= {"count": 1, "places": [place, HOSTILE], "expected": HOSTILE}
    region = reprise.RegionReport(HOSTILE, 2, 1)
    region.reasons = {HOSTILE: (1, place)}
    region.guards = {HOSTILE: 1}
    hostile = plan(
        signature=HOSTILE,
        state=HOSTILE,
        mechanism=HOSTILE,
        reason=HOSTILE,
        notes=[HOSTILE] * 5,
        operators=[HOSTILE],
        places=[place],
    )
    fields: dict[str, Any] = {
        "mode": HOSTILE,
        "stats": {"ops": 10, "followed": 1, HOSTILE: 3},
        "plans": [hostile, plan(state=HOSTILE, mechanism="", reason=HOSTILE)],
        "cuts": [cut(HOSTILE, reason=HOSTILE, places=[place])],
        "squashes": [bad],
        "rejections": [bad],
        "notes": [HOSTILE],
    }
    text = reprise.Report(fields, regions=[region]).to_html()
    page = Page(text)
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 15
    assert "<script" not in text
    assert any(place in title for title in page.attributes("title"))


def test_what_cannot_be_shown_is_replaced(tmp_path: pathlib.Path) -> None:
    odd = "a\x00b\ud800c"
    row = cut(odd, reason=odd, places=[f"/{odd}.py:1"])
    odd_report = report(cuts=[row], notes=[odd])
    odd_report.export_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert text == odd_report.to_html()
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c" in Page(text).text


def test_a_page_needs_nothing_else() -> None:
    text = report(plans=[plan()], cuts=[cut(places=["/a.py:1"])]).to_html()
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?:|url\(|@import|javascript:| on\w+=", text)
    assert "prefers-color-scheme: dark" in page.style
    assert "data-jp-theme-light" in page.style


# --- Small and empty ---------------------------------------------------------------


def test_a_large_report_stays_small() -> None:
    count = 5000
    place = ["/" + "long/" * 200 + "train.py:1"] * 4
    row = {"signature": "a" * 32, "op": 1, "found": "x" * 999, "places": place}
    page_of = report(
        plans=[
            *(plan(i, places=place, notes=["n" * 999] * 99) for i in range(count)),
            *(plan(i, mechanism="", places=place) for i in range(count)),
        ],
        cuts=[cut(f"aten::{i}" + "x" * 999, 1, places=place) for i in range(count)],
        squashes=[row | {"count": 1}] * count,
        rejections=[row | {"count": 1, "reason": "y" * 9999}] * count,
        notes=[f"{i} " + "z" * 9999 for i in range(count)],
    )
    page = read(page_of)
    assert page.text.count("4,950 more in to_dict()") == 6
    assert len(page.rows) < 6 * 60
    assert len(page_of.to_html()) < 600_000


def test_a_report_of_nothing_is_a_sentence() -> None:
    page = read(reprise.Report({}))
    assert page.titles[-1].lower() == f"{reprise.Report({})}.".lower()
    assert "table" not in page.tags
    idle = {"mode": "host", "stats": {"ops": 0, "followed": 0}, "plans": []}
    page = read(reprise.Report(idle))
    (title,) = page.titles
    assert title.startswith("No op has come yet")
    assert "table" not in page.tags and page.classed("bar") == []
