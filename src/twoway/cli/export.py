"""``twoway export``: a model as something that other systems run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import Force, Missing, MissingOnly, Model, missing_labels
from twoway.cli.terminal import check_output, say
from twoway.errors import DataError
from twoway.text import shortlist


def export(
    model: Model,
    sql: Annotated[bool, typer.Option("--sql", help="As a view of a database; what there is so far.")] = False,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="The table whose rows the view reads.")] = None,
    what: Annotated[
        str, typer.Option(metavar="score|impute", help="The log-probability of each row, or rows with holes filled.")
    ] = "score",
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="The database's SQL: postgres, duckdb, sqlite, …")
    ] = "postgres",
    view: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The view; the table's name with _scored or _imputed if not given."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Another column to take over, such as a key; may be given several times."),
    ] = None,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file to write; standard output if not given.")
    ] = None,
    force: Force = False,
) -> None:
    """Write a model as SQL: a view that scores or completes the rows of a table inside the database.

    [bold]Examples[/bold]

    twoway export survey.twoway --sql --table survey --keep id -o scored.sql

    twoway export survey.twoway --sql --table survey --what impute --dialect duckdb
    """
    from twoway.model.pmf import JointPMF
    from twoway.model.sql_view import sql_view
    from twoway.storage.container import whole_or_not_at_all

    if not sql or not table:
        raise typer.BadParameter("name the form with --sql, and the table that the view reads with --table")
    check_output(out, force, model)
    pmf = JointPMF.load(model)
    binned = [variable.name for variable in pmf.schema if variable.edges is not None]
    if binned:
        raise DataError(f"numbers in bins cannot be exported: {shortlist(binned)}; fit to a table that has the bins")
    text = sql_view(
        pmf,
        table,
        what=what,  # type: ignore[arg-type]  # checked there
        dialect=dialect,
        view=view,
        keep=keep or (),
        missing=missing_labels(missing, missing_only),
    )
    if out is None:
        print(text, end="")
        return
    with whole_or_not_at_all(out) as stream:
        stream.write(text.encode())
    say(f"a view for {dialect}, {len(text):,} characters: {out}")
