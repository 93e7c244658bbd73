"""``twoway count``: the tables of all pairs of variables, which add."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import (
    MAX_CATEGORIES,
    Bins,
    DataFile,
    Drop,
    Force,
    Json,
    MaxCategories,
    Missing,
    Only,
    Unseen,
    Weights,
    read_by,
    read_records,
)
from twoway.cli.terminal import check_output, say, say_json
from twoway.container import alone_in_folder
from twoway.errors import DataError


def count(
    data: DataFile,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="TABLES", help="The file to write.")] = None,
    add: Annotated[
        Path | None,
        typer.Option(metavar="TABLES", help="Add to the counts of this file; it is replaced unless -o names another."),
    ] = None,
    order: Annotated[int, typer.Option(help="2 for all pairs, 3 for all triples.")] = 2,
    only: Only = None,
    drop: Drop = None,
    missing: Missing = None,
    bins: Bins = None,
    weights: Weights = None,
    unseen: Unseen = "error",
    max_categories: MaxCategories = MAX_CATEGORIES,
    force: Force = False,
    json: Json = False,
) -> None:
    """Count all pairs of variables: tables can be shared where records cannot, and `twoway fit` takes them.

    [bold]Examples[/bold]

    twoway count monday.csv -o week.tables

    twoway count tuesday.csv --add week.tables

    twoway fit week.tables -o week.twoway
    """
    from twoway.tables import Tables

    if out is None and add is None:
        raise typer.BadParameter("name the file to write with -o, or one to add to with --add")
    check_output(out, force)
    if add is None:
        records = read_records(
            data, only=only, drop=drop, missing=missing, weights=weights, bins=bins, max_categories=max_categories
        )
        tables = Tables.count(records, order)
    else:
        if only or drop or bins:
            raise DataError(
                "--add counts the variables that are in the file already; --only, --drop and --bins do not go"
            )
        before = Tables.load(add)
        records = read_by(before.schema, data, missing, unseen, weights).records
        tables = Tables.count(records, before.order)
    target = out or add
    assert target is not None
    with alone_in_folder(target):  # what another process added while this one counted is kept
        tables = tables if add is None else Tables.load(add) + tables
        tables.save(target)
    content = {
        "tables": len(tables),
        "variables": len(tables.schema),
        "records": records.n_records,
        "largest_total": float(tables.totals.max(initial=0.0)),
        "out": str(target),
    }
    if json:
        say_json(content)
    else:
        added = "added to" if add is not None else "counted:"
        say(f"{records.n_records:,} records {added} {len(tables)} tables of {len(tables.schema)} variables in {target}")
