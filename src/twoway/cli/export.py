"""``twoway export``: a model as SQL that a database runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter

import twoway as tw
from twoway.cli.output import check_output, write_text_output
from twoway.cli.reading import Reading
from twoway.text import shortlist


def export(
    model: Path,
    *,
    reading: Annotated[Reading, "missing", "missing_only"],
    sql: bool = False,
    table: str | None = None,
    what: str = "score",
    dialect: str = "postgres",
    view: str | None = None,
    keep: list[str] | None = None,
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Write a model as SQL: a view that scores or completes the rows of a table in the database.

    Parameters
    ----------
    sql
        Export as a database view, the only format so far.
    table : NAME
        The table that the view reads.
    what : score|impute
        The log-probability of each row, or rows with missing cells filled.
    dialect : NAME
        The SQL dialect: postgres, duckdb, sqlite, …
    view : NAME
        The name of the view (default: TABLE_scored or TABLE_imputed).
    keep : COLUMN
        A further column to keep, such as a key. Repeatable.
    out
        The file to write (default: standard output).

    Examples
    --------
    twoway export survey.twoway --sql --table survey --keep id -o scored.sql

    twoway export survey.twoway --sql --table survey --what impute --dialect duckdb
    """
    if not sql or not table:
        raise BadParameter("give --sql, and the table that the view reads with --table")
    check_output(out, force, model)
    pmf = tw.JointPMF.load(model)
    binned = [variable.name for variable in pmf.schema if variable.edges is not None]
    if binned:
        raise tw.DataError(
            f"binned numbers cannot be exported: {shortlist(binned)}; fit a table that has the bins as labels"
        )
    options: dict[str, Any] = {"what": what, "dialect": dialect, "view": view, "keep": keep or ()}
    text = tw.sql_view(pmf, table, missing=reading.labels, **options)
    write_text_output(text, out, f"a view for {dialect}, {len(text):,} characters")
