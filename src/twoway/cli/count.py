"""``twoway count``: the tables of all pairs of variables, which add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twoway.cli.options import (
    MAX_CATEGORIES,
    Bins,
    Counts,
    Drop,
    Extend,
    Force,
    Json,
    MaxCategories,
    Missing,
    MissingOnly,
    Only,
    Reading,
    Unseen,
    Weights,
    Where,
    all_of,
    missing_labels,
    open_by,
    split_names,
)
from twoway.cli.schema_file import read_schema
from twoway.cli.terminal import check_output, say, say_json
from twoway.data.sql.connections import is_address, opened_table
from twoway.errors import DataError
from twoway.storage.container import alone_in_folder

if TYPE_CHECKING:
    from twoway.data.missing import MissingLabels
    from twoway.schema import Schema
    from twoway.tables.tables import Tables


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
    table: Annotated[str | None, typer.Option(metavar="NAME", help="The table of the database.")] = None,
    inside: Annotated[
        bool, typer.Option("--inside", help="Let the database count: no row leaves it; it takes several times as long.")
    ] = False,
    order: Annotated[
        int | None, typer.Option(help="2 for all pairs, 3 for all triples; 2 by default, with --add that of the file.")
    ] = None,
    only: Only = None,
    drop: Drop = None,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    bins: Bins = None,
    counts: Counts = None,
    weights: Weights = None,
    where: Where = None,
    unseen: Unseen = "error",
    extend: Extend = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Read by the variables and categories of this file: JSON such as {"vote": ["no", "yes"], "income": '
            '{"cuts": [10000, 20000]}}, tables or a model.',
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Add noise so that no single record shows: how much it may; 1 is usual.")
    ] = None,
    delta: Annotated[
        float,
        typer.Option(help="With --epsilon, the chance that it shows more; far below one in the number of records."),
    ] = 1e-6,
    max_weight: Annotated[
        float | None, typer.Option(metavar="W", help="With --epsilon and --weights, the largest weight there can be.")
    ] = None,
    public_schema: Annotated[
        bool,
        typer.Option(
            "--public-schema",
            help="With --epsilon: everybody may know the categories found in the data, which noise does not hide.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="For tests of --epsilon only: who knows it can take the noise off.")
    ] = None,
    max_categories: MaxCategories = MAX_CATEGORIES,
    force: Force = False,
    json: Json = False,
) -> None:
    """Count all pairs of variables: tables can be shared where records cannot, and `twoway fit` takes them.

    [bold]Examples[/bold]

    twoway count monday.csv -o week.tables

    twoway count tuesday.csv --add week.tables

    twoway count postgres://ann@localhost/surveys --table survey --where "year >= 2020" --inside -o survey.tables

    twoway count monday.csv -o public.tables --schema categories.json --epsilon 1 --delta 1e-6
    """
    from twoway.tables.tables import Tables

    if out is None and add is None:
        raise typer.BadParameter("name the file to write with -o, or one to add to with --add")
    check_output(out, force, data, schema)
    before = None if add is None else Tables.load(add)
    if before is not None and (only or drop or bins):
        raise DataError("--add counts the variables that are in the file already; --only, --drop and --bins do not go")
    if before is not None and order not in (None, before.order):
        raise DataError(
            f"--order {order} does not go with --add {str(add)!r}, whose tables are of order {before.order}"
        )
    if order is None:
        order = 2 if before is None else before.order
    if epsilon is None and (max_weight is not None or seed is not None or public_schema):
        raise DataError("--max-weight, --public-schema and --seed are about the noise that --epsilon adds")
    if schema is not None and (before is not None or only or drop or bins):
        raise DataError(
            "--schema names all variables and categories; --add, --only, --drop and --bins do not go with it"
        )
    declared = read_schema(schema) if schema is not None else None if before is None else before.schema
    if epsilon is not None:
        _check_cuts(bins)
    if is_address(data):
        if extend:
            raise DataError("--extend does not go with a database")
        if table is None or bins:
            raise DataError(
                "--bins does not go with a database: make a view that has the bins"
                if bins
                else "name the table of the database with --table"
            )
        tables, n_records = _count_table(
            data,
            table,
            all_of(where),
            declared,
            order,
            only,
            drop,
            missing_labels(missing, missing_only),
            counts,
            weights,
            unseen,
            max_categories,
            inside,
        )
    elif table is not None or inside:
        raise DataError(f"--table and --inside go with the address of a database, which {data!r} is not")
    elif declared is None:
        reading = Reading(
            only, drop, missing_labels(missing, missing_only), counts, weights, bins, max_categories, all_of(where)
        )
        records = reading.records_of_any_size(Path(data))
        tables, n_records = Tables.count(records, order), records.n_records
    else:
        records = open_by(
            declared, Path(data), missing_labels(missing, missing_only), unseen, counts, weights, all_of(where), extend
        )
        tables, n_records = Tables.count(records, order), records.n_records
    if epsilon is not None:
        tables = tables.with_noise(epsilon, delta, max_weight=max_weight, public_schema=public_schema, seed=seed)
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
        if epsilon is not None:
            say(str(tables.releases[-1]))
            if len(tables.releases) > 1:
                say(f"{tables.privacy or 'nothing is promised of all counts together'}")


def _check_cuts(bins: list[str] | None) -> None:
    """Refuse bins whose ends would be found in the data, which noise does not hide."""
    for text in bins or ():
        if "," not in text.rpartition("=")[2]:
            name = text.partition("=")[0]
            raise DataError(
                f"--bins {text} finds the numbers between bins in the data, and noise does not hide them: give them, "
                f"as in --bins {name}=10000,20000"
            )


def _count_table(
    address: str,
    name: str,
    where: str | None,
    schema: Schema | None,
    order: int,
    only: list[str] | None,
    drop: list[str] | None,
    missing: MissingLabels,
    counts: str | None,
    weights: str | None,
    unseen: str,
    max_categories: int,
    inside: bool,
) -> tuple[Tables, int]:
    """Return the tables of a database's table, and the number of its records."""
    from twoway.data.sql.records import DatabaseTable, read_rows
    from twoway.tables.counting_inside import count_inside
    from twoway.tables.tables import Tables

    with opened_table(address, name) as table:
        known = list(table.columns)
        dropped = split_names(drop, known)
        source = DatabaseTable(
            table,
            schema=schema,
            columns=[column for column in split_names(only, known) or known if column not in dropped],
            missing=missing,
            counts=counts,
            weights=weights,
            where=where,
            unseen=unseen,  # type: ignore[arg-type]  # checked there
            max_categories=max_categories,
            inside=inside or None,
        )
        if source.is_counted_inside:
            return count_inside(source, order)
        records = read_rows(source)
    return Tables.count(records, order), records.n_records
