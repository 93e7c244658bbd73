"""``twoway count``: the tables of all pairs of variables; they can be added."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from twoway.cli.options import Force, Json, Reading
from twoway.cli.schema_file import read_schema
from twoway.cli.terminal import check_output, say, say_json
from twoway.data.sql.connections import is_address, opened_table
from twoway.errors import DataError
from twoway.storage.container import alone_in_folder

if TYPE_CHECKING:
    from twoway.schema import Schema
    from twoway.tables.tables import Tables


def count(
    data: Annotated[
        str,
        Argument(
            metavar="DATA",
            help="Records: a CSV, TSV, Parquet, Arrow or JSON lines file; or the address of a database, such as "
            "postgres://user@host/db, duckdb:///file.db or sqlite:///file.db.",
        ),
    ],
    reading: Annotated[
        Reading,
        *("only", "drop", "missing", "missing_only", "bins", "counts", "weights", "where"),
        *("unseen", "extend", "max_categories"),
    ],
    out: Path | None = Option(None, "-o", "--out", metavar="TABLES", help="The file to write."),
    add: Path | None = Option(
        None, metavar="TABLES", help="Add to the counts in this file and replace it, unless -o is given."
    ),
    table: str | None = Option(None, metavar="NAME", help="The table of the database."),
    inside: bool = Option(
        False, "--inside", help="Let the database count. No row leaves it, but it is several times slower."
    ),
    order: int | None = Option(None, help="2 for all pairs, 3 for all triples (default: 2, or that of --add)."),
    schema: Path | None = Option(
        None,
        metavar="FILE",
        help='The variables and categories to count: JSON such as {"vote": ["no", "yes"], "income": '
        '{"cuts": [10000, 20000]}}, or a file of tables or a model.',
    ),
    epsilon: float | None = Option(None, help="Add noise that hides single records: the privacy loss ε; 1 is usual."),
    delta: float = Option(
        1e-6, help="With --epsilon, the probability of a larger loss; far below 1 / number of records."
    ),
    max_weight: float | None = Option(
        None, metavar="W", help="With --epsilon and --weights, the largest possible weight."
    ),
    public_schema: bool = Option(
        False,
        "--public-schema",
        help="With --epsilon: the categories found in the data, which noise does not hide, may be public.",
    ),
    seed: int | None = Option(None, help="For tests of --epsilon only: anyone who knows it can remove the noise."),
    force: Force = False,
    json: Json = False,
) -> None:
    """Count all pairs of variables. Tables can be shared where records cannot, and `twoway fit` reads them.

    [bold]Examples[/bold]

    twoway count monday.csv -o week.tables

    twoway count tuesday.csv --add week.tables

    twoway count postgres://ann@localhost/surveys --table survey --where "year >= 2020" --inside -o survey.tables

    twoway count monday.csv -o public.tables --schema categories.json --epsilon 1 --delta 1e-6
    """
    from twoway.tables.tables import Tables

    target = out or add
    if target is None:
        raise BadParameter("name the file to write with -o, or the file to add to with --add")
    check_output(out, force, data, schema, is_model=True)
    before = None if add is None else Tables.load(add)
    chooses = reading.only or reading.drop or reading.bins
    if before is not None and chooses:
        raise DataError("--add counts the variables of the file; it cannot be combined with --only, --drop or --bins")
    if before is not None and order not in (None, before.order):
        raise DataError(f"--order {order} does not match --add {str(add)!r}, whose tables have order {before.order}")
    if epsilon is None and (max_weight is not None or seed is not None or public_schema):
        raise DataError("--max-weight, --public-schema and --seed need --epsilon")
    if schema is not None and (before is not None or chooses):
        raise DataError(
            "--schema gives all variables and categories; it cannot be combined with --add, --only, --drop or --bins"
        )
    if epsilon is not None:
        _check_cuts(reading.bins)
    declared = read_schema(schema) if schema is not None else None if before is None else before.schema
    order = order or (2 if before is None else before.order)
    if is_address(data):
        tables, n_records = _count_table(data, table, declared, order, reading, inside)
    elif table is not None or inside:
        raise DataError(f"--table and --inside need the address of a database, and {data!r} is not one")
    else:
        path = Path(data)
        records = reading.records(path) if declared is None else reading.open_by(declared, path)
        tables, n_records = Tables.count(records, order), records.n_records
    if epsilon is not None:
        tables = tables.with_noise(epsilon, delta, max_weight=max_weight, public_schema=public_schema, seed=seed)
    with alone_in_folder(target):  # keeps what another process added in the meantime
        tables = tables if add is None else Tables.load(add) + tables
        tables.save(target)
    if json:
        say_json(
            {
                "tables": len(tables),
                "variables": len(tables.schema),
                "records": n_records,
                "largest_total": float(tables.totals.max(initial=0.0)),
                "out": str(target),
            }
        )
        return
    added = "added to" if add is not None else "counted:"
    what = f"{len(tables)} {'table' if len(tables) == 1 else 'tables'} of {len(tables.schema)} variables"
    say(f"{n_records:,} records {added} {what} in {target}")
    if epsilon is not None:
        say(str(tables.releases[-1]))
        if len(tables.releases) > 1:
            say(f"{tables.privacy or 'there is no guarantee for the counts as a whole'}")


def _check_cuts(bins: list[str] | None) -> None:
    """Reject bins with edges from the data, which noise does not hide."""
    for text in bins or ():
        if "," not in text.rpartition("=")[2]:
            raise DataError(
                f"--bins {text} would take the edges of the bins from the data, and noise does not hide them: give the "
                f"edges, as in --bins {text.partition('=')[0]}=10000,20000"
            )


def _count_table(
    address: str, name: str | None, schema: Schema | None, order: int, reading: Reading, inside: bool
) -> tuple[Tables, int]:
    """Return the tables of a database's table, and the number of its records."""
    from twoway.data.sql.records import DatabaseTable, read_rows
    from twoway.tables.counting_inside import count_inside
    from twoway.tables.tables import Tables

    if reading.extend:
        raise DataError("--extend is not available for databases")
    if reading.bins:
        raise DataError("--bins is not available for databases: create a view with the bins")
    if name is None:
        raise DataError("name the table of the database with --table")
    with opened_table(address, name) as table:
        source = DatabaseTable(
            table,
            schema=schema,
            columns=reading.choose(list(table.columns)),
            unseen=reading.unseen,  # type: ignore[arg-type]  # checked there
            max_categories=reading.max_categories,
            inside=inside or None,
            **reading.options,
        )
        if source.is_counted_inside:
            return count_inside(source, order)
        records = read_rows(source)
    return Tables.count(records, order), records.n_records
