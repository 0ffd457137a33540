"""What the figures in docs/images have in common: SVG text, without dates, on any background."""

from __future__ import annotations

import io
from typing import Any


def settings(text: str, **more: Any) -> dict[str, Any]:
    """Return matplotlib's settings for a figure with this colour of text."""
    return {
        "svg.hashsalt": "reprise",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "text.color": text,
        "axes.labelcolor": text,
        "xtick.color": text,
        "ytick.color": text,
        **more,
    }


def as_svg(figure: Any, creator: str, **metadata: str) -> str:
    """Return the figure, of `FigureCanvasSVG`, as text."""
    out = io.StringIO()
    figure.savefig(
        out,
        format="svg",
        transparent=True,
        metadata={"Date": None, "Creator": creator, **metadata},
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
