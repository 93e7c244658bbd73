"""Counts of groups of rows inside a database, many groupings in one statement.

What comes out is a wide table: a column for each variable, of which a row fills only those that it was grouped by.
Databases with GROUPING SETS read the table once for all of them. For the others the table is summed over blocks of
variables first, once for every two (or three) blocks; what is left of it is small, and is read again for each grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

from twoway.lazy_imports import sge, sqlglot

Groups: TypeAlias = Sequence[tuple[str, ...]]
Sums: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""From an ibis table to what is computed for each group of its rows."""

_WITH_GROUPING_SETS = frozenset(
    ["athena", "bigquery", "databricks", "duckdb", "mssql", "oracle", "postgres", "pyspark", "snowflake", "trino"]
)
# PostgreSQL takes 4096 grouping sets in a statement, SQLite 500 queries in a union.
_MOST_GROUPING_SETS = 2000
_MOST_QUERIES = 400
_MOST_CELLS = 2**25
"""Wide rows times columns that one statement may return."""
_SMALL = 2**16
"""A table that is summed over some variables counts as small up to this many rows."""


def grouped(backend: Any, rows: Any, groups: Groups, sums: Sums, limit: int | None = None) -> Any:
    """Return an Arrow table with a row for each group of each grouping, in one statement.

    Parameters
    ----------
    backend
        Of ibis, where the table is.
    rows
        An ibis table.
    groups
        The columns of each grouping; ``()`` takes all rows as one group.
    sums
        What to compute for each group.
    limit
        The most rows to return, any of them.
    """
    used = [name for name in rows.columns if any(name in group for group in groups)]
    plain = rows.group_by(used).agg(**sums(rows)) if used else rows.agg(**sums(rows))
    statement: Any = sqlglot.parse_one(backend.compile(plain), dialect=backend.dialect)
    if used:
        # ibis cannot express several groupings: its statement gets another GROUP BY, or is repeated.
        select = statement.find(sge.Group).parent
        regrouped = _sets_of_groups if backend.name in _WITH_GROUPING_SETS else _union_of_groups
        statement = regrouped(statement, select, groups)
    wide = backend.sql(statement.sql(dialect=backend.dialect), schema=plain.schema())
    return backend.to_pyarrow(wide if limit is None else wide.limit(limit))


def grouped_sets(
    backend: Any, rows: Any, sizes: Mapping[str, int], order: int, sums: Sums, again: Sums
) -> Iterator[Any]:
    """Yield wide tables: the groups of all sets of ``order`` columns, and all rows as one, from few scans.

    Parameters
    ----------
    backend, rows, sums
        As in `grouped`.
    sizes
        The number of categories of each column.
    order
        How many columns a set has.
    again
        As ``sums``, of groups that are sums already.
    """
    if backend.name in _WITH_GROUPING_SETS:
        for part in _group_parts(list(combinations(sizes, order)), sizes):
            yield grouped(backend, rows, [(), *part], sums)
        return
    done: set[tuple[str, ...]] = set()
    for columns in _covering_groups(sizes, order):
        missing = [group for group in combinations(columns, order) if group not in done]
        small = rows.group_by(columns).agg(**sums(rows)) if columns else rows
        for start in range(0, max(len(missing), 1), _MOST_QUERIES):
            part = missing[start : start + _MOST_QUERIES]
            yield grouped(backend, small, [(), *part], again if columns else sums)
        done.update(missing)


def _group_parts(groups: Groups, sizes: Mapping[str, int]) -> Iterator[Groups]:
    """Yield the groupings in as many parts as a database and this process can take; one, most often."""
    part: list[tuple[str, ...]] = []
    n_rows = 0
    for group in groups:
        more = prod(sizes[name] + 1 for name in group)
        if part and (len(part) == _MOST_GROUPING_SETS or (n_rows + more) * len(sizes) > _MOST_CELLS):
            yield part
            part, n_rows = [], 0
        part.append(group)
        n_rows += more
    yield part


def _covering_groups(sizes: Mapping[str, int], order: int) -> list[tuple[str, ...]]:
    """Return groups of columns that hold every set of ``order`` columns, each with few combinations of categories.

    Examples
    --------
    >>> _covering_groups({"a": 2, "b": 2, "c": 400, "d": 400}, 2)
    [('a', 'b', 'c'), ('a', 'b', 'd'), ('c', 'd')]
    """
    blocks: list[tuple[str, ...]] = []
    n_cells = 0
    for name in sizes:
        # Missing is one more.
        if blocks and n_cells * (sizes[name] + 1) <= _SMALL ** (1 / order):
            blocks[-1] += (name,)
            n_cells *= sizes[name] + 1
        else:
            blocks.append((name,))
            n_cells = sizes[name] + 1
    # Sets that lie within fewer blocks are held, too.
    return [sum(together, ()) for together in combinations(blocks, min(order, len(blocks)))]


def _sets_of_groups(statement: Any, select: Any, groups: Groups) -> Any:
    """Return a statement of which a part, ``select``, groups rows in several ways at once."""
    column_of = {column.alias_or_name: column.unalias() for column in select.expressions}
    sets = [sge.Tuple(expressions=[column_of[name].copy() for name in group]) for group in groups]
    select.set("group", sge.Group(expressions=[sge.GroupingSets(expressions=sets)]))
    return statement


def _union_of_groups(statement: Any, select: Any, groups: Groups) -> Any:
    """Return a query for each grouping, one after the other, over rows that are computed once."""
    assert statement is select
    names = {name for group in groups for name in group}
    source = select.find(sge.From).this
    queries = []
    for group in groups:
        columns = []
        for expression in select.expressions:
            name = expression.alias_or_name
            blank = sge.Null() if name in names and name not in group else expression.unalias().copy()
            columns.append(sge.alias_(blank, name, quoted=True))
        rows = sge.to_table("rows_once", alias=source.alias_or_name) if isinstance(source, sge.Subquery) else source
        query = sge.select(*columns, copy=False).from_(rows.copy(), copy=False)
        queries.append(query.group_by(*(column.unalias().copy() for column in columns if column.alias in group)))
    whole = queries[0] if len(queries) == 1 else sge.union(*queries, distinct=False, copy=False)
    return whole.with_("rows_once", as_=source.this, copy=False) if isinstance(source, sge.Subquery) else whole
