"""README's figure, drawn from the record of README's first table alone.

`python perf/front_page.py --draw` writes docs/images/front-light.svg and
docs/images/front-dark.svg. The same record gives the same bytes with the same
matplotlib. The file holds the numbers of its bars, which perf/tables.py compares with
the record.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import figures
import tables


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours for one background."""

    text: str
    lines: str
    bars: dict[str, str]


THEMES = {
    "light": Theme(
        text="#1f2328",
        lines="#d1d9e0",
        bars={
            "eager": "#8c959f",
            "enable": "#54aeff",
            "region": "#0969da",
            "graph": "#1a7f37",
            "compile": "#d4a72c",
            "reduce_overhead": "#bc4c00",
        },
    ),
    "dark": Theme(
        text="#e6edf3",
        lines="#3d444d",
        bars={
            "eager": "#8b949e",
            "enable": "#79c0ff",
            "region": "#388bfd",
            "graph": "#3fb950",
            "compile": "#e3b341",
            "reduce_overhead": "#f0883e",
        },
    ),
}
LABELS = {
    "eager": "eager",
    "enable": "reprise.enable()",
    "region": "reprise.region",
    "graph": "hand-written graph",
    "compile": "torch.compile",
    "reduce_overhead": "reduce-overhead",
}
OTHER_BITS = "////"  # hatched: not eager's bits


def draw(
    records: tables.FrontRecord, paths: dict[str, pathlib.Path] | None = None
) -> list[pathlib.Path]:
    """Draw the figure for each theme, and give the files."""
    bars = tables.front_bars(records)
    written = []
    for theme, path in (paths or tables.FRONT_FIGURES).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg(bars, where(records), THEMES[theme]))
        written.append(path)
    return written


def where(records: tables.FrontRecord) -> str:
    """On what it was measured."""
    first = next(iter(records.values()))
    return f"{first['gpu']}, torch {first['torch']}, commit {first['commit']}"


def svg(bars: dict[str, Any], where: str, theme: Theme) -> str:
    """The figure as text."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    modes = [mode for mode in LABELS if any(mode in of for of in bars.values())]
    settings = figures.settings(theme.text, **{"hatch.linewidth": 0.8})
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        width = 0.84 / max(1, len(modes))
        for group, (name, of) in enumerate(bars.items()):
            for place, mode in enumerate(modes):
                if mode not in of:
                    continue
                x = group + (place - (len(modes) - 1) / 2) * width
                if of[mode] is None:
                    axes.text(
                        x, 0.05, "failed", rotation=90, ha="center", va="bottom", size=7
                    )
                    continue
                height, same = of[mode]
                (bar,) = axes.bar(
                    x,
                    height,
                    0.9 * width,
                    color=theme.bars[mode],
                    edgecolor=theme.text,
                    linewidth=0,
                    hatch=None if same else OTHER_BITS,
                )
                bar.set_gid(f"{name}: {LABELS[mode]}")
                axes.text(
                    x, height, f"{height:.1f}", ha="center", va="bottom", size=7.5
                )
        axes.set_xticks(range(len(bars)), list(bars))
        axes.set_ylabel("times as fast as eager")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(theme.lines)
        axes.tick_params(length=0)
        axes.yaxis.grid(True, color=theme.lines, linewidth=0.6)
        axes.set_axisbelow(True)
        handles = [Patch(color=theme.bars[mode], label=LABELS[mode]) for mode in modes]
        if any(b and not b[1] for of in bars.values() for b in of.values()):
            hatched = Patch(facecolor="none", edgecolor=theme.text, hatch=OTHER_BITS)
            hatched.set_label("not eager's bits")
            handles.append(hatched)
        figure.legend(
            handles=handles,
            loc="outside upper center",
            ncols=len(handles),
            frameon=False,
            fontsize=8,
            handlelength=1.2,
            columnspacing=1.2,
        )
        axes.set_title(f"batch 1, {where}", fontsize=8, loc="right")
        return figures.as_svg(
            figure, "perf/front_page.py", Description=json.dumps(bars)
        )
