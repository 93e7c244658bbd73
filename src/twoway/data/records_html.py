"""Records in a notebook: a row for each variable, and how much of it was observed."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from twoway.data.distribution import MAX_ROWS
from twoway.notebook import notebook_table
from twoway.text import printable

if TYPE_CHECKING:
    from twoway.data.records import Records


def records_html(records: Records) -> str:
    """Return the variables of records as a table with bars: how many records show each."""
    schema, cells = records.schema, records.cells[records.pointers[0] : records.pointers[-1]]
    by_cell = np.bincount(cells, minlength=schema.n_categories)
    rows, bars = [["variable", "", "categories", "observed"]], []
    for index, variable in enumerate(schema.variables[:MAX_ROWS]):
        share = int(by_cell[schema.cells(index)].sum()) / max(records.n_records, 1)
        rows.append([printable(variable.name), printable(variable.label, 60), str(len(variable)), f"{share:.1%}"])
        bars.append([share])
    more = len(schema) - len(bars)
    note = f"… {more} more variables" if more > 0 else ""
    return f"<p>{html.escape(repr(records))}</p>{notebook_table(rows, bars, note)}"
