"""How objects look at a prompt, in notebooks and on pages: short text, a short table with bars, or a template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from jinja2 import Template

_MOST_LINES, _MOST_CHARACTERS = 40, 4000
# Seen on white and on black.
_BLUE = "rgba(70,130,180,{})"
_LEFT = "text-align:left;padding:.2em .5em"


class Shown:
    """An object that shows its text, at a prompt and in notebooks; of a long one the beginning."""

    __slots__ = ()

    def __repr__(self) -> str:
        return notebook_text(str(self))

    def _repr_html_(self) -> str:
        return f"<pre style='white-space:pre-wrap;word-break:normal'>{html_text(repr(self))}</pre>"


def html_text(text: str) -> str:
    """Return a text as HTML."""
    import html  # its list of entities takes a millisecond, which the command line would feel

    return html.escape(text)


@cache
def page_template(package: str, name: str, finalize: Callable[[object], object] | None = None) -> Template:
    """Return a template in a package, which escapes what fills it; ``finalize`` is applied to that first."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(package, ".")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=finalize)
    pages.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return pages.get_template(name)


def notebook_text(text: str) -> str:
    """Return a text, cut where it is too long to read at a glance.

    Examples
    --------
    >>> notebook_text("line\\n" * 50).splitlines()[-1]
    '… 12 more lines'
    """
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"… {len(lines) - _MOST_LINES + 1} more lines"]
    short = "\n".join(lines)
    return short if len(short) <= _MOST_CHARACTERS else f"{short[: _MOST_CHARACTERS - 1]}…"


def notebook_table(rows: Sequence[Sequence[str]], bars: ArrayLike, note: str = "") -> str:
    """Return rows of text, the first of which is the head, as a table with bars in the last columns.

    ``bars`` has a row for each row of text but the first, and the length of a bar from 0 to 1 for each of the last
    columns; NaN for none.
    """
    lengths = np.atleast_2d(np.asarray(bars, dtype=np.float64))
    n_labels = len(rows[0]) - lengths.shape[1]
    head = "".join(f"<th style='{_LEFT}'>{html_text(text)}</th>" for text in rows[0])
    lines = [f"<thead><tr>{head}</tr></thead>"]
    for row, of_row in zip(rows[1:], lengths, strict=True):
        cells = [f"<th style='{_LEFT}'>{html_text(text)}</th>" for text in row[:n_labels]]
        cells += [_notebook_bar(text, length) for text, length in zip(row[n_labels:], of_row, strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>" + (f"<p>{html_text(note)}</p>" if note else "")


def _notebook_bar(text: str, length: float) -> str:
    style = "text-align:right;min-width:5em;padding:.2em .5em"
    if length == length:
        percent = 100.0 * min(max(length, 0.0), 1.0)
        style += f";background:linear-gradient(90deg,{_BLUE.format(0.4)} {percent:.1f}%,transparent {percent:.1f}%)"
    return f"<td style='{style}'>{html_text(text)}</td>"
