"""Conditions in SQL that records meet, as DuckDB understands them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.arrays import Ints
from twoway.data.files.duck import first_lines, is_of_duckdb
from twoway.errors import DataError
from twoway.text import shortlist

if TYPE_CHECKING:
    import pyarrow as pa

# Text, comments and the fields of a struct are skipped; names are in double quotes or are words.
_PARTS_OF_SQL = re.compile(
    r"""'(?:[^']|'')*' | --[^\n]* | /\*.*?\*/ | \.\s*(?:"(?:[^"]|"")*"|\w+) | "(?:[^"]|"")*" | [^\W\d][\w$]*""",
    re.DOTALL | re.VERBOSE,
)


def condition_columns(where: str | None, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition may use: those whose names it contains."""
    if where is None:
        return []
    text = where.replace('""', '"').casefold()
    return [name for name in names if name.casefold() in text]


def rows_that_meet(table: pa.Table, where: str, known: Sequence[str], connection: Any) -> Ints:
    """Return the positions of the rows that meet a condition in SQL, ascending.

    ``known`` are the columns of the files, for the error.
    """
    import pyarrow as pa

    names, condition = _distinct_names(table.column_names, where)
    number = _unused_name("row number", names)
    numbered = table.rename_columns(names).append_column(number, pa.array(np.arange(table.num_rows)))
    try:
        with connection.cursor() as cursor:
            rows_met = cursor.from_arrow(numbered).filter(condition).project(f'"{number}"').to_arrow_table().column(0)
    except Exception as error:
        if not is_of_duckdb(error):
            raise
        message = f"the condition where={where!r} cannot be used: {first_lines(error)}"
        raise DataError(f"{message} The columns are {shortlist(known)}") from error
    rows: Ints = np.sort(rows_met.to_numpy())
    return rows


def _distinct_names(names: Sequence[str], where: str) -> tuple[list[str], str]:
    """Return names that are distinct for DuckDB, and the condition in their terms.

    DuckDB ignores the case of names. Names that differ in case alone are replaced, in the condition too, where they
    mean columns exactly as they are written.
    """
    times = Counter(map(fold_case, names))
    new = dict(zip(names, names, strict=True))
    for name in names:
        if times[fold_case(name)] > 1:
            new[name] = _unused_name(f"column {len(new)}", new.values())

    def replaced(part: re.Match[str]) -> str:
        name = part[0][1:-1].replace('""', '"') if part[0].startswith('"') else part[0]
        return part[0] if new.get(name, name) == name else f'"{new[name]}"'

    return list(new.values()), _PARTS_OF_SQL.sub(replaced, where)


def _unused_name(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among some names, as DuckDB compares them."""
    taken = set(map(fold_case, names))
    while fold_case(name) in taken:
        name += "_"
    return name


def fold_case(name: str) -> str:
    """Return a name as DuckDB compares names: the letters of ASCII in lower case."""
    return name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")
