"""Regions of a sheet: each a title, a header and a body of numbers, with the labels of its rows and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.tables.crosstabs.cells import printed_number
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheet_lines import Line, clean_line_label
from twoway.tables.crosstabs.sheet_words import is_measure_word

_LETTER = re.compile(r"\(?[A-Za-z]\)?")
_YEAR = re.compile(r"(19|20)\d\d")
_SMALL_NUMBER = re.compile(r"\d{1,4}(\s?[-–]\s?\d{1,4}|\s?\+)?")  # such as 0, 1-2 or 3+ children


@dataclass
class Region:
    """A part of a sheet with one table or banner: its titles, header and body."""

    grid: Grid
    titles: list[str] = field(default_factory=list)
    header: list[int] = field(default_factory=list)
    body: list[int] = field(default_factory=list)
    headings: dict[int, str] = field(default_factory=dict)
    """Lines of text alone, between rows of numbers."""
    letters: bool = False
    is_draft: bool = False
    """Whether variables without a name get a sign of it, to be replaced by hand."""

    def number(self, row: int, column: int) -> float:
        """Return the number in a cell, NaN where there is none."""
        return printed_number(self.grid.cells[row][column], self.letters)

    def numbers(self, rows: Sequence[int], columns: Sequence[int]) -> Floats:
        """Return the numbers of some rows and columns."""
        numbers = [self.number(row, column) for row in rows for column in columns]
        return np.array(numbers).reshape(len(rows), len(columns))

    def lines(self, at: Sequence[int], across: Sequence[int], is_rows: bool) -> Floats:
        """Return the numbers of some rows, or of some columns as if they were rows."""
        return self.numbers(at, across) if is_rows else self.numbers(across, at).T

    def fail(self, text: str, row: int | None = None, column: int | None = None) -> DataError:
        """Return the error for a sheet that may be read in several ways, or in none.

        Without a row, its place is the label of the column, or the first row of numbers.
        """
        if row is None:
            row = self.header[-1] if self.header and column is not None else self.body[0]
        return DataError(
            f"{self.grid.place(row, column)}: {text}; `twoway tables read` and --layout can say what it is"
        )

    def fail_line(self, is_rows: bool, at: int, text: str) -> DataError:
        """Return the error for a row, or for a column."""
        return self.fail(text, row=at) if is_rows else self.fail(text, column=at)

    @property
    def all_titles(self) -> list[str]:
        """What is written above the table."""
        return [self.grid.heading, *self.titles] if self.grid.heading else self.titles

    def count_label_columns(self) -> int:
        """Return the number of columns at the left that hold labels."""
        for column in range(1, self.grid.width - 1):
            is_empty = not any(self.grid.cells[row][column].strip() for row in self.body)
            if is_empty or any(not np.isnan(self.number(row, column)) for row in self.body):
                return column
        return max(self.grid.width - 1, 1)

    def find_number_columns(self, n_labels: int) -> list[int]:
        """Return the columns that have numbers."""
        columns: list[int] = []
        for column in range(n_labels, self.grid.width):
            texts = [text for row in self.body if (text := self.grid.cells[row][column].strip())]
            words = [text for text in texts if np.isnan(printed_number(text, self.letters))]
            n_words = sum(len(text) > 3 for text in words)
            if n_words and columns and n_words * 2 >= len(texts):
                problem = f"{texts[0]!r} is a label beside numbers: there may be two tables side by side"
                raise self.fail(problem, self.body[0], column)
            if len(words) < len(texts):
                columns.append(column)
        return columns

    def row_lines(self, n_labels: int) -> list[Line]:
        """Return the rows of numbers with their labels."""
        cells, lines = self.grid.cells, []
        outer: list[str] = [""] * n_labels
        heading = ""
        indents = {row: len(cells[row][0]) - len(cells[row][0].lstrip()) for row in [*self.body, *self.headings]}
        is_indented = n_labels == 1 and len({indents[row] for row in self.body if cells[row][0].strip()}) > 1
        stack: list[tuple[int, str]] = []
        for row in sorted(indents):
            texts = [clean_line_label(cells[row][column]) for column in range(n_labels)]
            if is_indented:
                stack = [*(entry for entry in stack if entry[0] < indents[row]), (indents[row], texts[0])]
                if row in self.body:
                    lines.append(Line(row, tuple(text for _, text in stack if text)))
                continue
            if row in self.headings:
                if row < self.body[-1]:
                    heading, outer = " ".join(cells[row][0].split()), [""] * n_labels
                continue
            filled = [place for place, text in enumerate(texts) if text]
            if not filled:
                if lines and n_labels == 1 and self._is_share_below(row, lines[-1].at):
                    lines.append(Line(row, lines[-1].path, "skip"))
                elif all(cell.strip().casefold().lstrip("( ").startswith("n") for cell in cells[row] if cell.strip()):
                    lines.append(Line(row, ("Base",)))
                else:
                    raise self.fail("it has numbers but no label", row)
                continue
            # A label stands for the rows below it until the next one.
            outer = [*outer[: filled[0]], *texts[filled[0] :]]
            lines.append(Line(row, tuple(filter(None, [heading, *outer]))))
        return lines

    def _is_share_below(self, row: int, above: int) -> bool:
        """Return whether a line without a label gives the percentages of the counts above it."""
        own, other = ([cell for cell in self.grid.cells[line] if cell.strip()] for line in (row, above))
        return all("%" in cell for cell in own) and not any("%" in cell for cell in other)

    def column_lines(self, n_labels: int, columns: Sequence[int]) -> list[Line]:
        """Return the columns of numbers with their labels."""
        cells = self.grid.cells
        if not self.header and len(columns) > 1:
            raise self.fail("no line above the numbers says what the columns are", column=columns[0])
        lines = []
        for column in columns:
            path = []
            for place, row in enumerate(self.header):
                text = cells[row][column].strip()
                below = any(cells[lower][column].strip() for lower in self.header[place + 1 :])
                if not text and below:
                    text = self._label_from_left(row, column, n_labels)
                if text:
                    path += [clean_line_label(part) for part in text.split("!!")]
            if self.header and not path:
                raise self.fail("its numbers have no label above them", self.body[0], column)
            lines.append(Line(column, tuple(path)))
        tops = {line.path[0] for line in lines if len(line.path) > 1}
        if len(tops) == 1 and is_measure_word(*tops):
            for line in lines:
                line.path = line.path[1:] or line.path
        return lines

    def is_numeric_header(self, cells: Sequence[str], filled: Sequence[int]) -> bool:
        """Return whether a line of numbers names columns: the first line of a table, or years."""
        if self.body or any("%" in cells[column] for column in filled):
            return False
        texts = [cells[column].strip() for column in filled if column > 0]
        if all(map(_YEAR.fullmatch, texts)) and not (filled[0] == 0 and self.header):
            return True
        return not self.header and len(texts) > 1 and all(map(_SMALL_NUMBER.fullmatch, texts))

    def _label_from_left(self, row: int, column: int, least: int) -> str:
        """Return the label that covers a column from its left, unless merged cells end before it."""
        for left in range(column - 1, least - 1, -1):
            if text := self.grid.cells[row][left].strip():
                spans = [span for span in self.grid.merged if span[0] <= row <= span[2] and span[1] <= left <= span[3]]
                return text if not spans or spans[0][3] >= column else ""
        return ""


def find_regions(grid: Grid) -> Iterator[Region]:
    """Yield the parts of a sheet that have numbers."""
    letters = _has_region_letters(grid)
    region = Region(grid, letters=letters)
    after: dict[int, str] = {}  # lines of text below numbers: headings of more rows, or titles of the next part
    for row, cells in enumerate(grid.cells):
        filled = [column for column, cell in enumerate(cells) if cell.strip()]
        has_numbers = any(column > 0 and not np.isnan(printed_number(cells[column], letters)) for column in filled)
        is_lone_cell = bool(region.body) and len(filled) == 1 and filled != [0]
        if (has_numbers and not region.is_numeric_header(cells, filled)) or is_lone_cell:
            region.headings |= after
            region.body.append(row)
            after = {}
        elif filled == [0]:
            if region.body:
                after[row] = cells[0].strip()
            elif region.header:
                region.headings[row] = cells[0]
            else:
                region.titles.append(cells[0].strip())
        elif filled:
            if region.body:
                yield region
                region, after = Region(grid, list(after.values()), letters=letters), {}
            if not (region.header and all(_LETTER.fullmatch(cells[column].strip()) for column in filled)):
                region.header.append(row)
    if region.body:
        yield region


def _has_region_letters(grid: Grid) -> bool:
    """Return whether a line below a header gives each column a letter."""
    for above, cells in zip(grid.cells, grid.cells[1:], strict=False):
        filled = [column for column, cell in enumerate(cells) if cell.strip()]
        if len(filled) > 1 and all(above[c].strip() and _LETTER.fullmatch(cells[c].strip()) for c in filled):
            return all(np.isnan(printed_number(above[c])) for c in filled)
    return False
