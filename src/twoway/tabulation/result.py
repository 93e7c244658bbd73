"""Tables of a survey as data: numbers by row and column, from which every format is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.checks.sampled_table import DesignTest
from twoway.data.files.writing import write_data_file, written_ending
from twoway.data.frames import LIBRARIES
from twoway.errors import check_known
from twoway.notebook import Shown
from twoway.storage.atomic_files import atomic_file
from twoway.tabulation import writing
from twoway.text import plain_data

RowKind = Literal["category", "net", "mean"]


@dataclass(frozen=True)
class BannerRow:
    """A row of a table."""

    label: Label
    kind: RowKind


@dataclass(frozen=True)
class BannerColumn:
    """A column of a banner: a category of a variable; the first, of no variable, is the total."""

    variable: str
    """With what it is nested in: "age = 18-39 > gender"."""
    label: Label
    letter: str
    """By which other columns refer to it; empty for the total."""


@dataclass(frozen=True, eq=False)
class BannerTable:
    """One question by a banner; arrays have a row for each of ``rows`` and a column for each of ``columns``."""

    name: str
    """The variable in the rows."""
    title: str
    """What it asks, in words, where that is known."""
    rows: tuple[BannerRow, ...]
    """Its categories, then nets, then the mean if it has numbers or an order."""
    columns: tuple[BannerColumn, ...] = field(repr=False)
    """The same for all tables of a banner."""
    observed: Floats
    """Shares of records, and means; NaN where the model keeps no counts or no record is in the column."""
    observed_low: Floats
    """The ends of the intervals of what was observed, by the design of the records; NaN without a design."""
    observed_high: Floats
    modelled: Floats
    low: Floats
    """The ends of the intervals of what is modelled; NaN without replicates."""
    high: Floats
    higher_than: NDArray[np.str_]
    """The letters of the columns than which this one is higher by more than chance, all of the table considered."""
    records: Floats
    """(n_columns,): the number of records behind each column; NaN where it is not known."""
    effective: Floats
    """(n_columns,): how many records without weights would tell as much."""
    tests: tuple[DesignTest, ...]
    """Tests of whether the question depends on each variable of the banner; empty if no counts are kept."""
    notes: tuple[str, ...]

    @property
    def is_observed(self) -> bool:
        """Whether something was observed."""
        return bool(np.isfinite(self.observed).any())

    @property
    def has_observed_intervals(self) -> bool:
        """Whether there are intervals of what was observed."""
        return bool(np.isfinite(self.observed_low).any())

    @property
    def is_weighted(self) -> bool:
        """Whether records count as fewer because of their weights."""
        return not np.allclose(self.effective, self.records, rtol=1e-9, equal_nan=True)

    @property
    def bases(self) -> dict[str, Floats]:
        """The number of records behind each column, and their effective number if they have weights, by name."""
        if not np.isfinite(self.records).any():
            return {}
        return {"Base": self.records} | ({"Effective base": self.effective} if self.is_weighted else {})


@dataclass(frozen=True, eq=False, repr=False)
class Tabulation(Shown):
    """Tables of several questions by one banner."""

    tables: tuple[BannerTable, ...]
    level: float | None
    """How often the intervals should contain the truth; None where there are none."""

    @property
    def columns(self) -> tuple[BannerColumn, ...]:
        """The columns that all tables have."""
        return self.tables[0].columns

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[BannerTable]:
        return iter(self.tables)

    def __getitem__(self, name: str) -> BannerTable:
        """Return the table of a question."""
        check_known("table", [table.name for table in self.tables], name)
        return next(table for table in self.tables if table.name == name)

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a frame of one row for each number: question, row, column, observed, modelled, interval, letters.

        Parameters
        ----------
        library
            "pandas", "polars" or "pyarrow".
        """
        import narwhals as nw

        check_known("library", LIBRARIES, library)
        return nw.from_arrow(writing.written_long_table(self), backend=library).to_native()  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain data, as JSON can hold them."""
        content: dict[str, Any] = plain_data({"columns": self.columns, "level": self.level, "tables": self.tables})
        return content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to a file whose ending says how: .xlsx, .html, .md, .txt, .csv, .tsv, .parquet or .json.

        Excel needs ``pip install "twoway[survey]"``.
        """
        ending = tabulation_ending(path)
        if ending in _LONG:
            write_data_file(writing.written_long_table(self), path)
            return
        content = _WRITERS[ending](self)
        with atomic_file(path) as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())

    def to_text(self) -> str:
        """Return the tables as text."""
        return writing.tabulation_text(self)

    def to_markdown(self) -> str:
        """Return the tables in Markdown."""
        return writing.tabulation_markdown(self)

    def to_html(self) -> str:
        """Return the tables as a page."""
        return writing.tabulation_html(self, is_page=True)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return writing.tabulation_html(self, is_page=False)


def tabulation_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file of tables; one that is not written is an error."""
    endings = (*_WRITERS, *_LONG)
    return written_ending(path, endings, f"tables are written to {', '.join(endings)}")


# What writes tables, by the ending of the file; those of a row per number are written as records are.
_LONG = (".csv", ".tsv", ".parquet", ".arrow")
_WRITERS: dict[str, Callable[[Tabulation], str | bytes]] = {
    ".xlsx": writing.tabulation_excel,
    ".html": Tabulation.to_html,
    ".md": writing.tabulation_markdown,
    ".txt": lambda tables: f"{tables}\n",
    ".json": lambda tables: json.dumps(tables.to_dict(), ensure_ascii=False, allow_nan=False) + "\n",
}
