"""Tables as text, Markdown, HTML, Excel workbooks and long tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.data.files.workbook import Workbook, WorkbookSheet
from twoway.notebook import page_template
from twoway.text import aligned_text, counted, markdown_table, markdown_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.tabulation.result import BannerColumn, BannerTable, Tabulation

NUMBERS = ("observed", "observed_low", "observed_high", "modelled", "low", "high")
"""The arrays of a table with a row for each row and a column for each column."""
LineKind = Literal["base", "main", "beside"]
_MOST_IN_NOTEBOOK = 10


class Line(NamedTuple):
    """A line of a table as text."""

    kind: LineKind
    label: str
    cells: list[str]


def written_lines(table: BannerTable) -> Iterator[Line]:
    """Yield the bases, and for each row what was observed and what is modelled."""
    for name, numbers in table.bases.items():
        yield Line("base", name, [f"{number:,.0f}" if np.isfinite(number) else "–" for number in numbers.tolist()])
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


def _written_cells(numbers: tuple[Floats, Floats, Floats], row: int, is_mean: bool) -> list[str]:
    """Return the shares in percent or the means of a row as text, with their intervals; "–" where there is none."""
    unit, form = (1.0, "{:.2f}") if is_mean else (100.0, "{:.1f}%")
    texts = []
    for number, *ends in zip(*((unit * array[row]).tolist() for array in numbers), strict=True):
        both_ends = " to ".join(form.rstrip("%").format(end) for end in ends)
        interval = f" ({both_ends})" if np.isfinite(ends[0]) else ""
        texts.append(form.format(number) + interval if np.isfinite(number) else "–")
    return texts


def written_title(table: BannerTable) -> str:
    """Return the name of a question, and what it asks."""
    return f"{table.name}: {table.title}" if table.title and table.title != table.name else table.name


def written_banner(columns: tuple[BannerColumn, ...]) -> list[tuple[str, int]]:
    """Return the variables of a banner, each with its number of columns; that of the total is empty."""
    return [(name, len(list(group))) for name, group in groupby(columns, key=lambda column: column.variable)]


def written_notes(tabulation: Tabulation) -> list[str]:
    """Return what a reader of the tables should know."""
    notes = []
    if any(table.tests for table in tabulation):
        notes.append(
            "Letters name the columns of the same variable whose share or mean is lower by more than chance (at 5 %, "
            "corrected by Holm for all comparisons of a table). Below each table, a test of all its columns."
        )
    if tabulation.level is not None:
        by_design = any(table.has_observed_intervals for table in tabulation)
        of = "; those of observed shares are by the design of the survey" if by_design else " of modelled shares"
        notes.append(f"In brackets: {100 * tabulation.level:g} % intervals{of}.")
    return notes


# Text


def tabulation_text(tabulation: Tabulation) -> str:
    """Return the tables as text with aligned columns."""
    return "\n\n".join([*map(_text_of_table, tabulation), *written_notes(tabulation)])


def _text_of_table(table: BannerTable) -> str:
    names = [name if place == 0 else "" for name, count in written_banner(table.columns) for place in range(count)]
    head = [["", *map(printable, names)], ["", *(printable(column.label) for column in table.columns)]]
    # The total is in the first line of the head, and has no letter.
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
    rows = [head]
    for line in written_lines(table):
        label = markdown_text(line.label)
        rows.append([{"main": f"**{label}**", "beside": f"*{label}*", "base": label}[line.kind], *line.cells])
    below = [*map(markdown_text, table.tests), *(f"Note: {markdown_text(note)}" for note in table.notes)]
    listed = "\n".join(f"- {text}" for text in below)
    return f"### {markdown_text(written_title(table))}\n\n{markdown_table(rows)}\n\n{listed}".rstrip()


def _markdown_head(column: BannerColumn, has_letters: bool) -> str:
    name = f"{markdown_text(column.variable)}: " if column.variable else ""
    return f"{name}{markdown_text(column.label)}{f' ({column.letter})' if has_letters and column.letter else ''}"


# HTML: for notebooks, and as a page of its own

_FINALIZE = partial(printable, width=None)


def tabulation_html(tabulation: Tabulation, *, is_page: bool) -> str:
    """Return the tables as a page; or the first ones as a part of a page, such as a notebook."""
    tables, notes = tabulation.tables, written_notes(tabulation)
    if not is_page and (n_more := len(tables) - _MOST_IN_NOTEBOOK) > 0:
        tables, notes = tables[:_MOST_IN_NOTEBOOK], [f"… {counted(n_more, 'more table')}", *notes]
    template = page_template("twoway.tabulation", "tables.html", _FINALIZE)
    functions = {"title_of": written_title, "banner_of": written_banner, "lines_of": written_lines}
    return template.render(tables=tables, notes=notes, is_page=is_page, **functions)


# Excel: cells are numbers with formats, and headers stay in view

_HEAD_ROWS, _LABEL_COLUMNS = 3, 2
_GREY, _HEAD_SHADE = "#666666", "#DCE6F1"


def tabulation_excel(tabulation: Tabulation) -> bytes:
    """Return a workbook with the tables below one another, their tests, and notes."""
    book = Workbook()
    _excel_tables(book.add_sheet("Tables"), tabulation)
    _excel_tests(book.add_sheet("Tests"), tabulation)
    _excel_notes(book.add_sheet("Notes"), tabulation)
    return book.content()


def _excel_tables(sheet: WorkbookSheet, tabulation: Tabulation) -> None:
    columns = tabulation.columns
    at = _LABEL_COLUMNS
    for name, count in written_banner(columns):
        head = {"bold": True, "align": "center", "bottom": 1, "bg_color": _HEAD_SHADE}
        if count > 1:
            sheet.sheet.merge_range(0, at, 0, at + count - 1, printable(name, None), sheet.format(**head))
        else:
            sheet.text(0, at, name, **head)
        at += count
    for place, column in enumerate(columns, start=_LABEL_COLUMNS):
        sheet.text(
            1, place, column.label, bold=True, align="center", text_wrap=True, valign="top", bg_color=_HEAD_SHADE
        )
        sheet.text(2, place, column.letter, align="center", bottom=1, font_color=_GREY, bg_color=_HEAD_SHADE)
    for row, column in np.ndindex(_HEAD_ROWS, _LABEL_COLUMNS):
        sheet.text(row, column, "", bg_color=_HEAD_SHADE, bottom=int(row == _HEAD_ROWS - 1))
    sheet.set_view(_HEAD_ROWS, _LABEL_COLUMNS)
    labels = [str(row.label) for table in tabulation for row in table.rows]
    sheet.sheet.set_column(0, 0, min(max(map(len, [*labels, "Effective base"])) + 2, 45))
    sheet.sheet.set_column(1, 1, 14)
    sheet.sheet.set_column(2, 1 + len(columns), 11)
    sheet.sheet.outline_settings(symbols_below=False)
    line = _HEAD_ROWS
    for table in tabulation:
        line = _excel_table(sheet, table, line) + 1


def _excel_table(sheet: WorkbookSheet, table: BannerTable, line: int) -> int:
    """Write a table that starts at a line; return the line after it."""
    sheet.text(line, 0, written_title(table), bold=True, font_size=12)
    line += 1
    for name, numbers in table.bases.items():
        sheet.text(line, 0, name, italic=True)
        sheet.numbers(line, _LABEL_COLUMNS, numbers.tolist(), num_format="#,##0", italic=True)
        line += 1
    parts = {name.replace("_", " "): getattr(table, name) for name in NUMBERS}
    parts = {name: numbers for name, numbers in parts.items() if np.isfinite(numbers).any()}
    for place, row in enumerate(table.rows):
        number_format = "0.00" if row.kind == "mean" else "0.0%"
        for part, (name, numbers) in enumerate(parts.items()):
            is_first = part == 0
            look: dict[str, Any] = {"top": 4} if is_first else {"font_color": _GREY}
            look |= {"bold": True} if is_first and row.kind != "category" else {}
            sheet.text(line, 0, row.label if is_first else "", **look)
            sheet.text(line, 1, name, **look | {"font_color": _GREY})
            sheet.numbers(line, _LABEL_COLUMNS, numbers[place].tolist(), num_format=number_format, **look)
            if not is_first:
                sheet.sheet.set_row(line, None, None, {"level": 1})
            line += 1
            if name == "observed" and table.higher_than[place].any():
                sheet.text(line, 1, "higher than", font_color=_GREY)
                for at, letters in enumerate(table.higher_than[place].tolist(), start=_LABEL_COLUMNS):
                    sheet.text(line, at, letters, align="right", font_color="#1F4E79", bold=True)
                line += 1
    return line


def _excel_tests(sheet: WorkbookSheet, tabulation: Tabulation) -> None:
    for place, head in enumerate(("Question", "By", "F", "Degrees 1", "Degrees 2", "p-value")):
        sheet.text(0, place, head, bold=True, bottom=1, bg_color=_HEAD_SHADE)
    sheet.set_view(1)
    sheet.sheet.set_column(0, 1, 20)
    tests = [(table, test) for table in tabulation for test in table.tests]
    for line, (table, test) in enumerate(tests, start=1):
        sheet.text(line, 0, table.name)
        sheet.text(line, 1, test.variables[-1])
        sheet.numbers(line, 2, (test.statistic, test.degrees, test.other_degrees), num_format="0.00")
        sheet.numbers(line, 5, [test.p_value], num_format="0.0000")


def _excel_notes(sheet: WorkbookSheet, tabulation: Tabulation) -> None:
    sheet.sheet.set_column(0, 0, 20)
    sheet.sheet.set_column(1, 1, 110)
    sheet.sheet.fit_to_pages(1, 0)
    notes = [("", text) for text in written_notes(tabulation)]
    notes += [(table.name, note) for table in tabulation for note in table.notes]
    for line, (name, text) in enumerate(notes):
        sheet.text(line, 0, name, bold=True, valign="top")
        sheet.text(line, 1, text, text_wrap=True)


# Long tables


def written_long_table(tabulation: Tabulation) -> pa.Table:
    """Return an Arrow table with a row for each number."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for table in tabulation:
        for (place, row), (at, column) in product(enumerate(table.rows), enumerate(table.columns)):
            rows.append(
                {
                    "question": table.name,
                    "row": str(row.label),
                    "kind": row.kind,
                    "variable": column.variable,
                    "column": str(column.label),
                    "letter": column.letter,
                    **{name: float(getattr(table, name)[place, at]) for name in NUMBERS},
                    "higher_than": str(table.higher_than[place, at]),
                    "records": float(table.records[at]),
                    "effective_records": float(table.effective[at]),
                }
            )
    return pa.table({name: pa.array([row[name] for row in rows], from_pandas=True) for name in rows[0]})
