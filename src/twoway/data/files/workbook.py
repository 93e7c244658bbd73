"""Excel workbooks with text that stays text, and numbers with formats.

XlsxWriter writes them: maintained, without dependencies, and it does formats, panes and groups of rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from twoway.lazy_imports import import_extra
from twoway.text import printable

_MOST_NAME = 31
_NOT_IN_NAMES = str.maketrans("", "", "[]:*?/\\")


class Workbook:
    """A workbook to be filled."""

    def __init__(self) -> None:
        xlsxwriter = import_extra("xlsxwriter", "Excel files need XlsxWriter", "survey")
        self._stream = io.BytesIO()
        # Labels are text, whatever they begin with.
        texts = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
        self._book = xlsxwriter.Workbook(self._stream, {**texts, "in_memory": True})
        self._formats: dict[tuple[Any, ...], Any] = {}

    def add_sheet(self, name: str) -> WorkbookSheet:
        """Return a new sheet, named as far as Excel allows."""
        return WorkbookSheet(self, self._book.add_worksheet(name.translate(_NOT_IN_NAMES)[:_MOST_NAME]))

    def format(self, **properties: Any) -> Any:
        """Return a format, the same one for the same properties."""
        key = tuple(sorted(properties.items()))
        if key not in self._formats:
            self._formats[key] = self._book.add_format(properties)
        return self._formats[key]

    def content(self) -> bytes:
        """Return the bytes of the file; nothing can be added then."""
        self._book.close()
        return self._stream.getvalue()


class WorkbookSheet:
    """A sheet of a workbook."""

    def __init__(self, book: Workbook, sheet: Any) -> None:
        self.sheet, self.format = sheet, book.format

    def set_view(self, n_head_rows: int, n_label_columns: int = 0) -> None:
        """Keep the first rows and columns in view; print in landscape, one page wide, with these rows on each page."""
        self.sheet.freeze_panes(n_head_rows, n_label_columns)
        self.sheet.repeat_rows(0, n_head_rows - 1)
        self.sheet.set_landscape()
        self.sheet.fit_to_pages(1, 0)

    def text(self, row: int, column: int, text: object, **properties: Any) -> None:
        """Write text, or anything as text."""
        self.sheet.write_string(row, column, printable(text, None), self.format(**properties))

    def numbers(self, row: int, column: int, numbers: Iterable[float], **properties: Any) -> None:
        """Write numbers from a cell to the right; an empty cell where there is none."""
        for place, number in enumerate(numbers, start=column):
            if np.isfinite(number):
                self.sheet.write_number(row, place, number, self.format(**properties))
            else:
                self.sheet.write_blank(row, place, None, self.format(**properties))
