"""Tables as text, Markdown, HTML and long tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.text import aligned_text, counted, markdown_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.tabulation.result import BannerColumn, BannerTable, Tabulation

NUMBERS = ("observed", "observed_low", "observed_high", "modelled", "low", "high")
"""The arrays of a table with a row for each row and a column for each column."""
LineKind = Literal["base", "main", "beside"]
_MOST_IN_NOTEBOOK = 10
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
:root { color-scheme: light dark; }
"""
# Colours that are seen on white and on black.
_RULE, _SHADE = "1px solid rgba(128,128,128,.5)", "rgba(70,130,180,.12)"


class Line(NamedTuple):
    """A line of a table as text."""

    kind: LineKind
    label: str
    cells: list[str]


def written_share(number: float, *, is_mean: bool, bare: bool = False) -> str:
    """Return a share in percent or a mean; "–" where there is none."""
    if not np.isfinite(number):
        return "–"
    return f"{number:.2f}" if is_mean else f"{100 * number:.1f}{'' if bare else '%'}"


def written_lines(table: BannerTable) -> Iterator[Line]:
    """Yield the bases, and for each row what was observed and what is modelled."""
    if np.isfinite(table.records).any():
        yield Line("base", "Base", [_written_base(n) for n in table.records.tolist()])
        if table.is_weighted:
            yield Line("base", "Effective base", [_written_base(n) for n in table.effective.tolist()])
    for place, row in enumerate(table.rows):
        is_mean, label = row.kind == "mean", str(row.label)
        modelled = _written_cells((table.modelled, table.low, table.high), place, is_mean)
        if not table.is_observed:
            yield Line("main", label, modelled)
            continue
        letters = table.higher_than[place].tolist()
        seen = _written_cells((table.observed, table.observed_low, table.observed_high), place, is_mean)
        yield Line("main", label, [" ".join(filter(None, cell)) for cell in zip(seen, letters, strict=True)])
        yield Line("beside", "modelled", modelled)


def _written_base(number: float) -> str:
    return f"{number:,.0f}" if np.isfinite(number) else "–"


def _written_cells(numbers: tuple[Floats, Floats, Floats], row: int, is_mean: bool) -> list[str]:
    """Return the numbers of a row as text, with their intervals where there are some."""
    texts = []
    for number, *ends in zip(*(own[row].tolist() for own in numbers), strict=True):
        shown = " to ".join(written_share(end, is_mean=is_mean, bare=True) for end in ends)
        interval = f" ({shown})" if np.isfinite(ends[0]) else ""
        texts.append(written_share(number, is_mean=is_mean) + interval)
    return texts


def written_title(table: BannerTable) -> str:
    """Return the name of a question, and what it asks."""
    return f"{table.name}: {table.title}" if table.title and table.title != table.name else table.name


def written_banner(columns: tuple[BannerColumn, ...]) -> list[tuple[str, int]]:
    """Return the variables of a banner, each with its number of columns; that of the total is empty."""
    return [(name, len(list(group))) for name, group in groupby(columns, key=lambda column: column.variable)]


def written_notes(tabulation: Tabulation) -> list[str]:
    """Return what a reader of the tables should know."""
    said = []
    if any(table.tests for table in tabulation):
        said.append(
            "Letters name the columns of the same variable whose share or mean is lower by more than chance (at 5 %, "
            "corrected by Holm for all comparisons of a table). Below each table, a test of all its columns."
        )
    if tabulation.level is not None:
        by_design = any(table.has_observed_intervals for table in tabulation)
        of = "; those of what was observed are by the design of the survey" if by_design else " of what is modelled"
        said.append(f"In brackets: {100 * tabulation.level:g} % intervals{of}.")
    return said


# Text


def tabulation_text(tabulation: Tabulation) -> str:
    """Return the tables as text with aligned columns."""
    return "\n\n".join([*map(_text_of_table, tabulation), *written_notes(tabulation)])


def _text_of_table(table: BannerTable) -> str:
    names = [name if count == 0 else "" for name, own in written_banner(table.columns) for count in range(own)]
    head = [["", *map(printable, names)], ["", *(printable(column.label) for column in table.columns)]]
    # The total stands in the first line of the head, and above no letter.
    head[0][1], head[1][1] = head[1][1], ""
    letters = [["", *(column.letter for column in table.columns)]] if table.tests else []
    lines = [
        [("  " if line.kind == "beside" else "") + printable(line.label), *line.cells] for line in written_lines(table)
    ]
    tests = [printable(test, None) for test in table.tests]
    notes = [f"note: {printable(note, None)}" for note in table.notes]
    return "\n".join([printable(written_title(table), None), aligned_text([*head, *letters, *lines]), *tests, *notes])


# Markdown


def tabulation_markdown(tabulation: Tabulation) -> str:
    """Return the tables in Markdown, as GitHub and most other programs read it."""
    return "\n\n".join([*map(_markdown_of_table, tabulation), *written_notes(tabulation)]) + "\n"


def _markdown_of_table(table: BannerTable) -> str:
    head = ["", *(_markdown_head(column, bool(table.tests)) for column in table.columns)]
    rows = [head, ["---", *["---:"] * len(table.columns)]]
    for line in written_lines(table):
        label = markdown_text(line.label)
        rows.append([{"main": f"**{label}**", "beside": f"*{label}*", "base": label}[line.kind], *line.cells])
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    below = [
        *(markdown_text(test) for test in table.tests),
        *(f"Note: {markdown_text(note)}" for note in table.notes),
    ]
    return "\n\n".join(
        [f"### {markdown_text(written_title(table))}", body, "\n".join(f"- {text}" for text in below)]
    ).rstrip()


def _markdown_head(column: BannerColumn, has_letters: bool) -> str:
    name = f"{markdown_text(column.variable)}: " if column.variable else ""
    return f"{name}{markdown_text(column.label)}{f' ({column.letter})' if has_letters and column.letter else ''}"


# HTML: for notebooks, and as a page of its own


def tabulation_page(tabulation: Tabulation) -> str:
    """Return the tables as a page."""
    body = "".join([*map(_html_table, tabulation), *(f"<p>{escape(text)}</p>" for text in written_notes(tabulation))])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tables</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def tabulation_html(tabulation: Tabulation) -> str:
    """Return the first tables as a part of a page, such as a notebook."""
    shown = tabulation.tables[:_MOST_IN_NOTEBOOK]
    more = len(tabulation) - len(shown)
    last = [*([f"… {counted(more, 'more table')}"] if more else []), *written_notes(tabulation)]
    return "".join([*map(_html_table, shown), *(f"<p>{escape(text)}</p>" for text in last)])


def _html_table(table: BannerTable) -> str:
    has_letters = bool(table.tests)
    names = "".join(
        f"<th colspan='{count}' style='text-align:center;border-left:{_RULE}'>{_html_text(name)}</th>"
        for name, count in written_banner(table.columns)
    )
    labels = "".join(
        f"<th style='text-align:right;vertical-align:bottom'>{_html_text(column.label)}"
        f"{f'<br><small>{column.letter}</small>' if has_letters else ''}</th>"
        for column in table.columns
    )
    body = "".join(map(_html_line, written_lines(table)))
    below = [*map(str, table.tests), *(f"Note: {note}" for note in table.notes)]
    said = "".join(f"<p style='margin:.2em 0'><small>{_html_text(text)}</small></p>" for text in below)
    head = f"<thead><tr><th></th>{names}</tr><tr><th></th>{labels}</tr></thead>"
    return (
        f"<h3>{_html_text(written_title(table))}</h3><div style='overflow-x:auto'>"
        f"<table style='border-collapse:collapse'>{head}<tbody>{body}</tbody></table></div>{said}"
    )


def _html_line(line: Line) -> str:
    style = {"base": "", "main": f"border-top:{_RULE};background:{_SHADE}", "beside": "opacity:.75;font-size:85%"}
    indent = "padding-left:1.5em" if line.kind == "beside" else "padding-left:.3em"
    cells = "".join(
        f"<td style='text-align:right;padding:.1em .7em;white-space:nowrap'>{_html_text(c)}</td>" for c in line.cells
    )
    weight = 600 if line.kind == "main" else 400
    label = f"<th style='text-align:left;font-weight:{weight};{indent}'>{_html_text(line.label)}</th>"
    return f"<tr style='{style[line.kind]}'>{label}{cells}</tr>"


def _html_text(text: object) -> str:
    return escape(printable(text, None))


# Long tables


def written_long_table(tabulation: Tabulation) -> pa.Table:
    """Return an Arrow table with a row for each number."""
    import pyarrow as pa

    rows = [row for table in tabulation for row in _written_long_rows(table)]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def _written_long_rows(table: BannerTable) -> Iterator[dict[str, Any]]:
    for place, row in enumerate(table.rows):
        for at, column in enumerate(table.columns):
            numbers = {name: float(getattr(table, name)[place, at]) for name in NUMBERS}
            yield {
                "question": table.name,
                "row": str(row.label),
                "kind": row.kind,
                "variable": column.variable,
                "column": str(column.label),
                "letter": column.letter,
                **numbers,
                "higher_than": str(table.higher_than[place, at]),
                "records": float(table.records[at]),
                "effective_records": float(table.effective[at]),
            }
