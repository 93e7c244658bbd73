"""Columns of a table of records: where --bins cuts them, and which of them are no categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import twoway as tw
from twoway.cli.options import bins_option, missing_option_hint
from twoway.data.binning import make_bins, numbers_to_bin
from twoway.data.missing import Markers
from twoway.errors import DataError
from twoway.text import counted, shortlist

_MOST_NAMED = 6


def binned_table_columns(
    table: Any, requests: Sequence[str], missing: tw.MissingLabels, weighed: Mapping[str, Any]
) -> tw.Columns:
    """Return the columns that --bins names, cut into bins of about equally many records, or as given.

    Counts and weights are taken into account.
    """
    columns = [table.column(name) for name in weighed.values() if name is not None and requests]
    weights = [numbers_to_bin(column, Markers()) for column in columns]
    # Invalid ones are reported when the records are read.
    known = [np.where(np.isfinite(numbers), numbers, 0.0) for numbers in weights if numbers is not None]
    found: dict[str, Any] = {}
    for request in requests:
        name, wanted = bins_option(request, table.column_names)
        column = table.column(name)
        numbers = numbers_to_bin(column, missing.markers(name))
        if numbers is None:
            odd = missing_option_hint(column.unique().to_pylist())
            shown = " ".join(f"--missing {label!r}" for label in odd[:3])
            also = f": it also holds {shortlist(odd, 3)}; {shown} reads that as missing" if odd else ""
            raise DataError(f"column {name!r} does not hold numbers, which --bins needs{also}")
        options: dict[str, Any] = {"n_bins": wanted} if isinstance(wanted, int) else {"cuts": wanted}
        bins = make_bins(name, numbers, np.prod(known, axis=0) if known else None, **options).variable
        if len(bins) == 1:
            raise DataError(f"column {name!r} has too few different numbers for {wanted} bins")
        found[name] = {"cuts": bins.edges}
    return tw.Columns(found)


def check_table_columns(table: Any, names: Sequence[str], most: int) -> None:
    """Reject columns that are not categorical, all of them in one error: free text, identifiers, measurements."""
    import pyarrow as pa

    many: dict[str, int] = {}
    numbers = []
    for name in names:
        column = table.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_nested(kind):
            raise DataError(f"column {name!r} has type {kind}, which is not categorical; --drop {name!r} leaves it out")
        n_distinct = len(column.cast(kind).unique().drop_null())
        if n_distinct > most:
            many[name] = n_distinct
            # A whole number for each record is an identifier.
            is_identifier = pa.types.is_integer(kind) and n_distinct == table.num_rows
            if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not is_identifier):
                numbers.append(name)
    if not many:
        return
    shown = [f"column {name!r} has {n:,} distinct values in {table.num_rows:,} records" for name, n in many.items()]
    more = len(shown) - _MOST_NAMED
    shown = [*shown[:_MOST_NAMED], *([f"{counted(more, 'more column')} with too many"] if more > 0 else [])]
    texts = [name for name in many if name not in numbers]
    kinds = ["free text"] * bool(texts) + ["measurements"] * bool(numbers)
    ways = []
    for group in filter(None, (texts, numbers)):
        it = "it" if len(group) == 1 else "them"
        some = [*group[:_MOST_NAMED], *(["…"] if len(group) > _MOST_NAMED else [])]
        bins = f"{' '.join(f'--bins {name!r}' for name in some)} bins {it}, " if group is numbers else ""
        ways.append(f"{bins}--drop {','.join(some)!r} leaves {it} out")
    raise DataError(
        f"{'; '.join(shown)}: {', '.join(kinds)} or an identifier? {'; '.join(ways)}; "
        f"--max-categories {max(many.values())} keeps every value as a category"
        f"{'; `twoway columns` writes a file that bins them or leaves them out' if more > 0 else ''}"
    )
