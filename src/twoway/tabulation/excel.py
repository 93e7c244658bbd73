"""Tables as an Excel workbook: cells are numbers with formats, and headers stay in view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.data.files.workbook import Workbook, WorkbookSheet
from twoway.tabulation.writing import written_banner, written_notes, written_title
from twoway.text import printable

if TYPE_CHECKING:
    from twoway.tabulation.result import BannerTable, Tabulation

_SHARE, _MEAN, _BASE, _STATISTIC, _P_VALUE = "0.0%", "0.00", "#,##0", "0.00", "0.0000"
_HEAD_ROWS, _LABEL_COLUMNS = 3, 2
_GREY = "#666666"


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
        head = {"bold": True, "align": "center", "bottom": 1, "bg_color": "#DCE6F1"}
        if count > 1:
            sheet.sheet.merge_range(0, at, 0, at + count - 1, printable(name, None), sheet.format(**head))
        else:
            sheet.text(0, at, name, **head)
        at += count
    for place, column in enumerate(columns, start=_LABEL_COLUMNS):
        sheet.text(1, place, column.label, bold=True, align="center", text_wrap=True, valign="top", bg_color="#DCE6F1")
        sheet.text(2, place, column.letter, align="center", bottom=1, font_color=_GREY, bg_color="#DCE6F1")
    for row, column in np.ndindex(_HEAD_ROWS, _LABEL_COLUMNS):
        sheet.text(row, column, "", bg_color="#DCE6F1", bottom=int(row == _HEAD_ROWS - 1))
    sheet.sheet.freeze_panes(_HEAD_ROWS, _LABEL_COLUMNS)
    labels = [str(row.label) for table in tabulation for row in table.rows]
    sheet.sheet.set_column(0, 0, min(max(map(len, [*labels, "Effective base"])) + 2, 45))
    sheet.sheet.set_column(1, 1, 14)
    sheet.sheet.set_column(2, 1 + len(columns), 11)
    sheet.sheet.outline_settings(symbols_below=False)
    sheet.sheet.set_landscape()
    sheet.sheet.fit_to_pages(1, 0)
    sheet.sheet.repeat_rows(0, _HEAD_ROWS - 1)
    line = _HEAD_ROWS
    for table in tabulation:
        line = _excel_table(sheet, table, line) + 1


def _excel_table(sheet: WorkbookSheet, table: BannerTable, line: int) -> int:
    """Write a table from a line on; return the line behind it."""
    sheet.text(line, 0, written_title(table), bold=True, font_size=12)
    line += 1
    if np.isfinite(table.records).any():
        bases = {"Base": table.records} | ({"Effective base": table.effective} if table.is_weighted else {})
        for name, numbers in bases.items():
            sheet.text(line, 0, name, italic=True)
            for place, number in enumerate(numbers.tolist(), start=_LABEL_COLUMNS):
                sheet.number(line, place, number, num_format=_BASE, italic=True)
            line += 1
    for place, row in enumerate(table.rows):
        shown = _MEAN if row.kind == "mean" else _SHARE
        parts = {"observed": table.observed} if table.is_observed else {}
        if table.has_observed_intervals:
            parts |= {"observed low": table.observed_low, "observed high": table.observed_high}
        parts |= {"modelled": table.modelled} | ({"low": table.low, "high": table.high} if table.has_intervals else {})
        for number_of, (name, numbers) in enumerate(parts.items()):
            is_first = number_of == 0
            look: dict[str, Any] = {"top": 4} if is_first else {"font_color": _GREY}
            look |= {"bold": True} if is_first and row.kind != "category" else {}
            sheet.text(line, 0, row.label if is_first else "", **look)
            sheet.text(line, 1, name, **look, **({"font_color": _GREY} if is_first else {}))
            for at, number in enumerate(numbers[place].tolist(), start=_LABEL_COLUMNS):
                sheet.number(line, at, number, num_format=shown, **look)
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
    heads = ("Question", "By", "F", "Degrees 1", "Degrees 2", "p-value")
    for place, head in enumerate(heads):
        sheet.text(0, place, head, bold=True, bottom=1, bg_color="#DCE6F1")
    sheet.sheet.freeze_panes(1, 0)
    sheet.sheet.set_column(0, 1, 20)
    sheet.sheet.fit_to_pages(1, 0)
    line = 1
    for table in tabulation:
        for test in table.tests:
            sheet.text(line, 0, table.name)
            sheet.text(line, 1, test.variables[-1])
            numbers = (test.statistic, test.degrees, test.other_degrees, test.p_value)
            formats = (_STATISTIC, _STATISTIC, _STATISTIC, _P_VALUE)
            for place, (number, shown) in enumerate(zip(numbers, formats, strict=True), start=2):
                sheet.number(line, place, number, num_format=shown)
            line += 1


def _excel_notes(sheet: WorkbookSheet, tabulation: Tabulation) -> None:
    sheet.sheet.set_column(0, 0, 20)
    sheet.sheet.set_column(1, 1, 110)
    sheet.sheet.fit_to_pages(1, 0)
    said = [("", text) for text in written_notes(tabulation)]
    said += [(table.name, note) for table in tabulation for note in table.notes]
    for line, (name, text) in enumerate(said):
        sheet.text(line, 0, name, bold=True, valign="top")
        sheet.text(line, 1, text, text_wrap=True)
