"""``twoway count``: the tables of all pairs of variables, which add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twoway.cli.options import (
    MAX_CATEGORIES,
    Bins,
    Drop,
    Force,
    Json,
    MaxCategories,
    Missing,
    Only,
    Unseen,
    Weights,
    Where,
    markers,
    open_by,
    open_records,
    split_names,
)
from twoway.cli.terminal import check_output, say, say_json
from twoway.container import alone_in_folder
from twoway.engines.connections import is_address, opened_table
from twoway.errors import DataError

if TYPE_CHECKING:
    from twoway.tables import Tables


def count(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Records: CSV, TSV, Parquet, Arrow or JSON lines; or the address of a database, such as "
            "postgres://user@host/db, duckdb:///file.db or sqlite:///file.db.",
        ),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="TABLES", help="The file to write.")] = None,
    add: Annotated[
        Path | None,
        typer.Option(metavar="TABLES", help="Add to the counts of this file; it is replaced unless -o names another."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table of the database; its rows stay there.")
    ] = None,
    order: Annotated[int, typer.Option(help="2 for all pairs, 3 for all triples.")] = 2,
    only: Only = None,
    drop: Drop = None,
    missing: Missing = None,
    bins: Bins = None,
    weights: Weights = None,
    where: Where = None,
    unseen: Unseen = "error",
    max_categories: MaxCategories = MAX_CATEGORIES,
    force: Force = False,
    json: Json = False,
) -> None:
    """Count all pairs of variables: tables can be shared where records cannot, and `twoway fit` takes them.

    [bold]Examples[/bold]

    twoway count monday.csv -o week.tables

    twoway count tuesday.csv --add week.tables

    twoway count postgres://ann@localhost/surveys --table survey --where "year >= 2020" -o survey.tables
    """
    from twoway.tables import Tables

    if out is None and add is None:
        raise typer.BadParameter("name the file to write with -o, or one to add to with --add")
    check_output(out, force)
    before = None if add is None else Tables.load(add)
    if before is not None and (only or drop or bins):
        raise DataError("--add counts the variables that are in the file already; --only, --drop and --bins do not go")
    if is_address(data):
        if table is None or bins:
            raise DataError(
                "--bins does not go with a database: make a view that has the bins"
                if bins
                else "name the table of the database with --table"
            )
        tables, n_records = _count_inside(
            data, table, where, before, order, only, drop, missing, weights, unseen, max_categories
        )
    elif table is not None:
        raise DataError(f"--table goes with the address of a database, which {data!r} is not")
    elif before is None:
        records = open_records(
            Path(data),
            only=only,
            drop=drop,
            missing=missing,
            weights=weights,
            bins=bins,
            max_categories=max_categories,
            where=where,
        )
        tables, n_records = Tables.count(records, order), records.n_records
    else:
        records = open_by(before.schema, Path(data), missing, unseen, weights, where)
        tables, n_records = Tables.count(records, before.order), records.n_records
    target = out or add
    assert target is not None
    with alone_in_folder(target):  # what another process added while this one counted is kept
        tables = tables if add is None else Tables.load(add) + tables
        tables.save(target)
    content = {
        "tables": len(tables),
        "variables": len(tables.schema),
        "records": n_records,
        "largest_total": float(tables.totals.max(initial=0.0)),
        "out": str(target),
    }
    if json:
        say_json(content)
    else:
        added = "added to" if add is not None else "counted:"
        say(f"{n_records:,} records {added} {len(tables)} tables of {len(tables.schema)} variables in {target}")


def _count_inside(
    address: str,
    name: str,
    where: str | None,
    before: Tables | None,
    order: int,
    only: list[str] | None,
    drop: list[str] | None,
    missing: list[str] | None,
    weights: str | None,
    unseen: str,
    max_categories: int,
) -> tuple[Tables, int]:
    """Return the tables of a database's table, and the number of its records."""
    from twoway.engines.sql import DatabaseTable, count_inside

    with opened_table(address, name) as table:
        known = list(table.columns)
        dropped = split_names(drop, known)
        source = DatabaseTable(
            table,
            schema=None if before is None else before.schema,
            columns=[column for column in split_names(only, known) or known if column not in dropped],
            missing=markers(missing),
            weights=weights,
            where=where,
            unseen=unseen,  # type: ignore[arg-type]  # checked there
            max_categories=max_categories,
        )
        return count_inside(source, order if before is None else before.order)
