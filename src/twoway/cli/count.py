"""``twoway count``: the tables of all pairs of variables; they can be added."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter

import twoway as tw
from twoway.cli.output import check_output, print_output
from twoway.cli.reading import Reading
from twoway.data.sql.connections import is_database_address
from twoway.errors import DataError, FileFormatError, missing_file_error
from twoway.storage.atomic_files import lock_folder
from twoway.storage.container import container_kind
from twoway.text import brief, counted

_SCHEMA_SHAPE = '{"vote": ["no", "yes"], "income": {"cuts": [10000, 20000]}}'


def count(
    data: str,
    *,
    reading: Annotated[
        Reading,
        *("only", "drop", "missing", "missing_only", "bins", "counts", "weights", "where", "columns"),
        *("unseen", "extend", "max_categories"),
    ],
    out: Path | None = None,
    add: Path | None = None,
    table: str | None = None,
    inside: bool = False,
    order: int | None = None,
    schema: Path | None = None,
    epsilon: float | None = None,
    delta: float = 1e-06,
    max_weight: float | None = None,
    public_schema: bool = False,
    seed: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Count all pairs of variables. Tables can be shared where records cannot, and `twoway fit` reads them.

    Parameters
    ----------
    data : DATA
        Records: a CSV, TSV, Parquet, Arrow or JSON lines file; or the address of a database, such as
        postgres://user@host/db, duckdb:///file.db or sqlite:///file.db.
    out : TABLES
        The file to write.
    add : TABLES
        Add to the counts in this file and replace it, unless -o is given.
    table : NAME
        The table of the database.
    inside
        Let the database count. No row leaves it, but it is several times slower.
    order
        2 for all pairs, 3 for all triples (default: 2, or that of --add).
    schema : FILE
        The variables and categories to count: JSON such as {"vote": ["no", "yes"], "income": {"cuts": [10000, 20000]}},
        or a file of tables or a model.
    epsilon
        Add noise that hides single records: the privacy loss ε; 1 is usual.
    delta
        With --epsilon, the probability of a larger loss; far below 1 / number of records.
    max_weight : W
        With --epsilon and --weights, the largest possible weight.
    public_schema
        With --epsilon: the categories found in the data, which noise does not hide, may be public.
    seed
        For tests of --epsilon only: anyone who knows it can remove the noise.

    Examples
    --------
    twoway count monday.csv -o week.tables

    twoway count tuesday.csv --add week.tables

    twoway count postgres://ann@localhost/surveys --table survey --where "year >= 2020" --inside -o survey.tables

    twoway count monday.csv -o public.tables --schema categories.json --epsilon 1 --delta 1e-6
    """
    target = out or add
    if target is None:
        raise BadParameter("name the file to write with -o, or the file to add to with --add")
    check_output(out, force, data, schema, reading.columns, is_model=True)
    before = None if add is None else tw.Tables.load(add)
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
    for text in reading.bins or () if epsilon is not None else ():
        if "," not in text.rpartition("=")[2]:  # edges from the data
            raise DataError(
                f"--bins {text} would take the edges of the bins from the data, and noise does not hide them: give the "
                f"edges, as in --bins {text.partition('=')[0]}=10000,20000"
            )
    order = order or (2 if before is None else before.order)
    declared, columns = (None, {}) if before is None else (before.schema, before.number_columns)
    if schema is not None:
        declared, columns = _count_command_schema(schema)
    if declared is not None:
        reading = reading.like(columns, None if is_database_address(data) else Path(data))
    if is_database_address(data):
        tables, n_records = _count_command_database(data, table, declared, order, reading, inside)
    elif table is not None or inside:
        raise DataError(f"--table and --inside need the address of a database, and {data!r} is not one")
    else:
        path = Path(data)
        records = reading.records(path) if declared is None else reading.open_by(declared, path)
        tables, n_records = tw.Tables.count(records, order), records.n_records
    if epsilon is not None:
        tables = tables.with_noise(epsilon, delta, max_weight=max_weight, public_schema=public_schema, seed=seed)
    with lock_folder(target):  # keeps what another process added in the meantime
        tables = tables if add is None else tw.Tables.load(add) + tables
        tables.save(target)
    content: dict[str, Any] = {"tables": len(tables), "variables": len(tables.schema), "records": n_records}
    content |= {"largest_total": float(tables.totals.max(initial=0.0)), "out": str(target)}
    added = "added to" if add is not None else "counted:"
    what = f"{counted(len(tables), 'table')} of {counted(len(tables.schema), 'variable')}"
    lines = [f"{counted(n_records, 'record')} {added} {what} in {target}"]
    if epsilon is not None:
        lines.append(str(tables.releases[-1]))
        if len(tables.releases) > 1:
            lines.append(str(tables.privacy or "the counts as a whole have no privacy guarantee"))
    print_output(content, "\n".join(lines), json=json)


def _count_command_schema(path: Path) -> tuple[tw.Schema, Mapping[str, str]]:
    """Return the schema in a file, and the columns of weights and counts that it remembers.

    The file has tables, a model, or JSON with the categories or cut points of each variable.
    """
    match container_kind(path):
        case "tables":
            tables = tw.Tables.load(path)
            return tables.schema, tables.number_columns
        case "published":
            return tw.PublishedTables.load(path).schema, {}
        case "model":
            pmf = tw.JointPMF.load(path)
            return pmf.schema, {} if pmf.report is None else pmf.report.columns
    try:
        described = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{str(path)!r} is neither JSON nor a twoway file: {error}") from error
    if not isinstance(described, dict) or not described:
        raise FileFormatError(f"{str(path)!r} does not hold a schema, such as {_SCHEMA_SHAPE}")
    try:
        return tw.Schema(tuple(_count_command_variable(name, listed) for name, listed in described.items())), {}
    except DataError as error:
        raise FileFormatError(f"{str(path)!r}: {error}") from error


def _count_command_variable(name: str, described: Any) -> tw.Variable:
    from twoway.data.binning import bin_labels

    match described:
        case list():
            return tw.Variable(name, tuple(described))
        case {"cuts": [*cuts], **others} if not others and _are_count_command_cuts(cuts):
            return tw.Variable(name, bin_labels(cuts), edges=tuple(cuts))
    raise DataError(
        f"{name!r} needs a list of categories, or ascending numbers between bins, as in {_SCHEMA_SHAPE}; got "
        f"{brief(described)}"
    )


def _are_count_command_cuts(cuts: list[Any]) -> bool:
    """Return whether cuts are finite numbers that ascend, at least one."""
    is_numeric = {type(cut) for cut in cuts} in ({int}, {float}, {int, float})
    most = sys.float_info.max
    return is_numeric and all(low < high for low, high in pairwise([-most, *cuts, most]))


def _count_command_database(
    address: str, name: str | None, schema: tw.Schema | None, order: int, reading: Reading, inside: bool
) -> tuple[tw.Tables, int]:
    """Return the tables of a database's table, and the number of its records."""
    from twoway.data.sql.database_table import read_database_table
    from twoway.tables.counting_inside import count_inside

    with reading.database(address, name, schema, inside) as source:
        if source.is_counted_inside:
            return count_inside(source, order)
        records = read_database_table(source)
    return tw.Tables.count(records, order), records.n_records
