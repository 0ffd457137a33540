"""The figure of a timeline in docs/report.md.

`python perf/timeline_figure.py` runs a small model on the host executor, exports its
timeline, and draws the file as docs/images/timeline-light.svg and timeline-dark.svg.
`--trace FILE` draws a file that `export_chrome_trace` has written, of one stream. Needs no
GPU. Times are those of this machine, so no two runs draw the same bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import tempfile
import warnings
from typing import Any

import figures

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images"
FIGURES = {theme: IMAGES / f"timeline-{theme}.svg" for theme in ("light", "dark")}
PASSES = 16
OTHER_PASS = 12  # it takes another way, once
_SIGNATURE_DIGITS = set("0123456789abcdef")

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours for one background."""

    text: str
    lines: str
    spans: dict[str, str]
    memory: str


THEMES = {
    "light": Theme(
        text="#1f2328",
        lines="#d1d9e0",
        spans={
            "recording": "#d4a72c",
            "recording again": "#eac54f",
            "build": "#8c959f",
            "validation op by op": "#1a7f37",
            "validation of whole segments": "#4ac26b",
            "replay": "#0969da",
            "squash": "#cf222e",
        },
        memory="#54aeff",
    ),
    "dark": Theme(
        text="#e6edf3",
        lines="#3d444d",
        spans={
            "recording": "#e3b341",
            "recording again": "#f2cc60",
            "build": "#8b949e",
            "validation op by op": "#3fb950",
            "validation of whole segments": "#7ee787",
            "replay": "#388bfd",
            "squash": "#ff7b72",
        },
        memory="#79c0ff",
    ),
}


@dataclasses.dataclass(frozen=True)
class Span:
    """Something that was done, in milliseconds since the first one began."""

    doing: str
    track: str
    begin: float
    length: float
    found: str  # of a squash: the op that came instead


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What the figure shows of a trace."""

    tracks: list[str]
    spans: list[Span]
    memory: list[tuple[float, float]]  # milliseconds, KiB


def main() -> None:
    """Draw both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=pathlib.Path, help="a file to draw")
    given = parser.parse_args().trace
    with tempfile.TemporaryDirectory() as folder:
        path = given or pathlib.Path(folder) / "reprise.json"
        if given is None:
            run(path)
        drawn = read(path)
    lacking = THEMES["light"].spans.keys() - {span.doing for span in drawn.spans}
    if given is None and lacking:
        # A build that took long, say.
        raise SystemExit(f"no {', '.join(sorted(lacking))} in this run: run it again")
    for theme, figure in FIGURES.items():
        figure.write_text(svg(drawn, THEMES[theme]))


def run(path: pathlib.Path) -> None:
    """Export the timeline of a model's passes, of which one goes another way."""
    import reprise
    import torch
    from torch import nn

    warnings.filterwarnings("ignore", message="reprise: on the CPU")
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
    model = nn.Sequential(*layers)

    @torch.no_grad()
    def step(number: int) -> float:
        y = model(torch.randn(64, 256))
        if number == OTHER_PASS:
            y = y.clamp(-1, 1)
        return y.softmax(-1).sum().item()

    for _ in range(3):  # torch's first calls take long
        step(0)
    with reprise.timeline() as timeline, reprise.session("cpu", policy="always"):
        for number in range(PASSES):
            step(number)
    timeline.export_chrome_trace(path)


def read(path: pathlib.Path) -> Drawn:
    """Read what `export_chrome_trace` has written."""
    rows: list[Row] = json.loads(path.read_text())["traceEvents"]
    names = {
        row["tid"]: row["args"]["name"] for row in rows if row["name"] == "thread_name"
    }
    lasting = [row for row in rows if row["ph"] == "X"]
    begin = min(row["ts"] for row in lasting)
    spans = [
        Span(
            doing=_without_signature(row["name"]),
            track=_without_number(names[row["tid"]]),
            begin=(row["ts"] - begin) / 1e3,
            length=row["dur"] / 1e3,
            found=row["args"].get("found", ""),
        )
        for row in lasting
    ]
    memory = [
        ((row["ts"] - begin) / 1e3, row["args"]["bytes"] / 1024)
        for row in rows
        if row["ph"] == "C"
    ]
    tracks = sorted({span.track for span in spans}, key=lambda name: "builds" in name)
    return Drawn(tracks, spans, sorted(memory))


def _without_signature(name: str) -> str:
    doing, _, signature = name.rpartition(" ")
    return doing if doing and set(signature) <= _SIGNATURE_DIGITS else name


def _without_number(track: str) -> str:
    """A thread's number is another one each time."""
    return "builds" if track.startswith("builds on thread ") else track


def svg(drawn: Drawn, theme: Theme) -> str:
    """The figure as text."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    with matplotlib.rc_context(figures.settings(theme.text)):
        figure = Figure(figsize=(9, 3), layout="constrained")
        FigureCanvasSVG(figure)
        above, below = figure.subplots(2, sharex=True, height_ratios=[2, 1])
        end = max(span.begin + span.length for span in drawn.spans)
        _draw_spans(above, drawn, theme, end)
        _draw_memory(below, drawn, theme, end)
        for axes in (above, below):
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.spines["bottom"].set_color(theme.lines)
            axes.tick_params(length=0)
            axes.set_axisbelow(True)
            axes.xaxis.grid(True, color=theme.lines, linewidth=0.6)
        below.set_xlim(-0.01 * end, 1.01 * end)
        below.set_xlabel("milliseconds", fontsize=8)
        seen = {span.doing for span in drawn.spans}
        shown = [doing for doing in theme.spans if doing in seen]
        figure.legend(
            handles=[Patch(color=theme.spans[doing], label=doing) for doing in shown],
            loc="outside upper center",
            ncols=len(shown),
            frameon=False,
            fontsize=8,
            handlelength=1,
            columnspacing=1.1,
        )
        return figures.as_svg(figure, "perf/timeline_figure.py")


def _draw_spans(axes: Any, drawn: Drawn, theme: Theme, end: float) -> None:
    """A row for each track. A span is a line wide at least."""
    for span in drawn.spans:
        row = len(drawn.tracks) - 1 - drawn.tracks.index(span.track)
        (bar,) = axes.barh(
            row,
            max(span.length, end / 400),
            0.55,
            left=span.begin,
            color=theme.spans[span.doing],
            linewidth=0,
        )
        bar.set_gid(f"{span.doing} at {span.begin:.3f} ms")
        if span.found:
            axes.annotate(
                f"found {span.found}",
                (span.begin, row + 0.28),
                (0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=theme.spans["squash"],
            )
    axes.set_yticks(range(len(drawn.tracks)), reversed(drawn.tracks))
    axes.set_ylim(-0.5, len(drawn.tracks) - 0.2)


def _draw_memory(axes: Any, drawn: Drawn, theme: Theme, end: float) -> None:
    times = [0.0, *(time for time, _ in drawn.memory), end]
    sizes = [size for _, size in drawn.memory]
    levels = [0.0, *sizes, sizes[-1] if sizes else 0.0]
    axes.fill_between(times, levels, step="post", color=theme.memory, linewidth=0)
    most = max(levels)
    axes.set_yticks([most / 2], ["memory\nof plans"])
    axes.set_ylim(0, 1.3 * most or 1)
    axes.text(end, 1.05 * most, f"{most:,.0f} KiB", ha="right", va="bottom", size=8)


if __name__ == "__main__":
    main()
