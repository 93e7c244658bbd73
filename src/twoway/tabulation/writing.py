"""Tables as text, Markdown and long tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.text import aligned_text, markdown_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.tabulation.result import BannerColumn, BannerTable, Tabulation

NUMBERS = ("observed", "observed_low", "observed_high", "modelled", "low", "high")
"""The arrays of a table with a row for each row and a column for each column."""
LineKind = Literal["base", "main", "beside"]


class Line(NamedTuple):
    """A line of a table as text."""

    kind: LineKind
    label: str
    cells: list[str]


def share_text(number: float, *, is_mean: bool, bare: bool = False) -> str:
    """Return a share in percent or a mean; "–" where there is none."""
    if not np.isfinite(number):
        return "–"
    return f"{number:.2f}" if is_mean else f"{100 * number:.1f}{'' if bare else '%'}"


def table_lines(table: BannerTable) -> Iterator[Line]:
    """Yield the bases, and for each row what was observed and what is modelled."""
    if np.isfinite(table.records).any():
        yield Line("base", "Base", [_base_text(n) for n in table.records.tolist()])
        if table.is_weighted:
            yield Line("base", "Effective base", [_base_text(n) for n in table.effective.tolist()])
    for place, row in enumerate(table.rows):
        is_mean, label = row.kind == "mean", str(row.label)
        modelled = _cells((table.modelled, table.low, table.high), place, is_mean)
        if not table.is_observed:
            yield Line("main", label, modelled)
            continue
        letters = table.higher_than[place].tolist()
        seen = _cells((table.observed, table.observed_low, table.observed_high), place, is_mean)
        yield Line("main", label, [" ".join(filter(None, cell)) for cell in zip(seen, letters, strict=True)])
        yield Line("beside", "modelled", modelled)


def _base_text(number: float) -> str:
    return f"{number:,.0f}" if np.isfinite(number) else "–"


def _cells(numbers: tuple[Floats, Floats, Floats], row: int, is_mean: bool) -> list[str]:
    """Return the numbers of a row as text, with their intervals where there are some."""
    texts = []
    for number, *ends in zip(*(own[row].tolist() for own in numbers), strict=True):
        shown = " to ".join(share_text(end, is_mean=is_mean, bare=True) for end in ends)
        interval = f" ({shown})" if np.isfinite(ends[0]) else ""
        texts.append(share_text(number, is_mean=is_mean) + interval)
    return texts


def table_title(table: BannerTable) -> str:
    """Return the name of a question, and what it asks."""
    return f"{table.name}: {table.title}" if table.title and table.title != table.name else table.name


def banner_groups(columns: tuple[BannerColumn, ...]) -> list[tuple[str, int]]:
    """Return the variables of a banner, each with its number of columns; that of the total is empty."""
    return [(name, len(list(group))) for name, group in groupby(columns, key=lambda column: column.variable)]


def explained(tabulation: Tabulation) -> list[str]:
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
    return "\n\n".join([*map(_text_of_table, tabulation), *explained(tabulation)])


def _text_of_table(table: BannerTable) -> str:
    names = [name if count == 0 else "" for name, own in banner_groups(table.columns) for count in range(own)]
    head = [["", *map(printable, names)], ["", *(printable(column.label) for column in table.columns)]]
    # The total stands in the first line of the head, and above no letter.
    head[0][1], head[1][1] = head[1][1], ""
    letters = [["", *(column.letter for column in table.columns)]] if table.tests else []
    lines = [
        [("  " if line.kind == "beside" else "") + printable(line.label), *line.cells] for line in table_lines(table)
    ]
    tests = [printable(test, None) for test in table.tests]
    notes = [f"note: {printable(note, None)}" for note in table.notes]
    return "\n".join([printable(table_title(table), None), aligned_text([*head, *letters, *lines]), *tests, *notes])


# Markdown


def tabulation_markdown(tabulation: Tabulation) -> str:
    """Return the tables in Markdown, as GitHub and most other programs read it."""
    return "\n\n".join([*map(_markdown_of_table, tabulation), *explained(tabulation)]) + "\n"


def _markdown_of_table(table: BannerTable) -> str:
    head = ["", *(_markdown_head(column, bool(table.tests)) for column in table.columns)]
    rows = [head, ["---", *["---:"] * len(table.columns)]]
    for line in table_lines(table):
        label = markdown_text(line.label)
        rows.append([{"main": f"**{label}**", "beside": f"*{label}*", "base": label}[line.kind], *line.cells])
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    below = [
        *(markdown_text(test) for test in table.tests),
        *(f"Note: {markdown_text(note)}" for note in table.notes),
    ]
    return "\n\n".join(
        [f"### {markdown_text(table_title(table))}", body, "\n".join(f"- {text}" for text in below)]
    ).rstrip()


def _markdown_head(column: BannerColumn, has_letters: bool) -> str:
    name = f"{markdown_text(column.variable)}: " if column.variable else ""
    return f"{name}{markdown_text(column.label)}{f' ({column.letter})' if has_letters and column.letter else ''}"


# Long tables


def long_table(tabulation: Tabulation) -> pa.Table:
    """Return an Arrow table with a row for each number."""
    import pyarrow as pa

    rows = [row for table in tabulation for row in _long_rows(table)]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def _long_rows(table: BannerTable) -> Iterator[dict[str, Any]]:
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
