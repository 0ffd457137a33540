"""Elements of HTML, tables and lines of the program. All text is escaped as it is put into a tag."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from reprise._words import of_number, source_line

Row = TypeVar("Row")

_ROWS_SHOWN = 8  # of a table, before the rest is collapsed
_ROWS_KEPT = 50  # of a table, the collapsed ones included
_TEXT_SHOWN = 160  # characters
_PATH_SHOWN = 400
_CODE_SHOWN = 80
_PARTS_SHOWN = 2  # of a path: the file and its folder
_PLACE = re.compile(r"(.+?):([0-9]{1,9})( \(.+\))?", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class Html(str):
    """Text that is HTML already. Only `tag`, and functions that join its results, make it."""


def tag(name: str, *content: str, **attributes: str) -> Html:
    """Return an element.

    Args:
        name: the element's name.
        content: `Html` is put in as it is; other text is escaped.
        attributes: their values are escaped. `class_` stands for `class`, `aria_label` for
            `aria-label`.
    """
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
    )
    inner = "".join(
        each if isinstance(each, Html) else _escaped(each) for each in content
    )
    return Html(f"<{name}{head}>{inner}</{name}>")


def _escaped(text: str) -> str:
    return html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


# --- Texts -------------------------------------------------------------------------


def cut_short(text: str, most: int = _TEXT_SHOWN) -> str:
    """Cut the text to a limited number of characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def number(value: int) -> str:
    """Return the number with a comma before each third digit."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """Return the number with its noun."""
    return f"{number(value)} {of_number(value, noun)}"


def share(part: int, whole: int) -> str:
    """Return a share in percent; empty if there is no whole."""
    if 0 < part < 0.0005 * whole:
        return "< 0.1%"
    return f"{part / whole:.1%}" if whole else ""


def muted(*content: str) -> Html:
    """Return a line in small letters, or nothing if the line is empty."""
    return tag("div", *content, class_="muted") if any(content) else Html()


def code(text: str) -> Html:
    """Return a name of the program's or of torch's, as code."""
    return tag("code", cut_short(text))


def section(title: str, *content: str) -> Html:
    """Return content under a heading."""
    return tag("section", tag("h3", title), *content)


def collapsed(title: str, *content: str) -> Html:
    """Return content that a click on its title opens."""
    return tag("details", tag("summary", title), *content)


def left_out(count: int) -> Html:
    """Return a line that says how many rows were left out."""
    return muted(f"{number(count)} more in to_dict()")


# --- Tables ------------------------------------------------------------------------


def number_cell(value: int | str, *more: str) -> Html:
    """A number, and lines below it."""
    text = value if isinstance(value, str) else number(value)
    return tag("td", text, *more, class_="number")


def short_cell(*content: str) -> Html:
    """A few words, which stay on one line."""
    return tag("td", *content, class_="short")


def long_cell(*content: str) -> Html:
    """Text that may be broken anywhere."""
    return tag("td", *content, class_="long")


def table(heads: Sequence[str], rows: Iterable[Sequence[Html]]) -> Html:
    """Rows of cells. The head of a column of numbers begins with '#'."""
    cells = [
        tag("th", head[1:], class_="number") if head[0] == "#" else tag("th", head)
        for head in heads
    ]
    body = [tag("tr", *row) for row in rows]
    parts = tag("thead", tag("tr", *cells)), tag("tbody", *body)
    return tag("div", tag("table", *parts), class_="wide")


def capped_table(
    heads: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[Html]]
) -> list[Html]:
    """The first rows, the next ones collapsed, and how many are left out."""
    shown, more = rows[:_ROWS_SHOWN], rows[_ROWS_SHOWN:_ROWS_KEPT]
    parts = [table(heads, map(cells, shown))]
    if more:
        rest = table(heads, map(cells, more))
        parts.append(collapsed(f"{len(more)} more", rest))
    if len(rows) > _ROWS_KEPT:
        parts.append(left_out(len(rows) - _ROWS_KEPT))
    return parts


# --- Lines of the program ----------------------------------------------------------


def place_cell(places: Sequence[str], *more: Html) -> Html:
    """Return a cell with several places, and notes below them."""
    return long_cell(*map(place_line, places), *more)


def place_line(place: str) -> Html:
    """Return a file and line, with the whole path as title, and the source if it can be read."""
    match = _PLACE.fullmatch(place)
    if not match:
        return tag("div", cut_short(place))
    file, line, package = match[1], match[2], match[3] or ""
    short = "/".join(file.split(os.sep)[-_PARTS_SHOWN:])
    shown = cut_short(f"{short}:{line}{package}")
    source = source_line(f"{file}:{line}")
    return tag(
        "div",
        tag("span", shown, title=cut_short(place, _PATH_SHOWN), class_="place"),
        tag("code", cut_short(source, _CODE_SHOWN)) if source else "",
    )
