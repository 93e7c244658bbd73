"""``twoway impute``: holes filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import DataFile, Force, Json, Missing, Model, ReadFile, Seed, Unseen, read_by
from twoway.cli.terminal import check_output, say, say_json, write_result

if TYPE_CHECKING:
    from twoway.pmf import JointPMF
    from twoway.records import Records


def impute(
    model: Model,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="CSV, TSV, Parquet, Arrow or JSON lines; standard output if not given."),
    ] = None,
    how: Annotated[
        str,
        typer.Option(
            help="mode: the most probable category; mean: the expected number; sample: drawn, a record's together."
        ),
    ] = "mode",
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of each category for each hole instead.")
    ] = False,
    seed: Seed = 0,
    missing: Missing = None,
    unseen: Unseen = "error",
    force: Force = False,
    json: Json = False,
) -> None:
    """Fill the holes of records, given what each record shows. Observed cells stay as they are.

    [bold]Examples[/bold]

    twoway impute survey.twoway survey.csv -o complete.csv

    twoway impute survey.twoway survey.csv --how sample --seed 1 -o drawn.parquet

    twoway impute survey.twoway survey.csv --proba -o probabilities.csv
    """
    from twoway.engines.file_set import format_of
    from twoway.engines.files import read_as_written
    from twoway.pmf import JointPMF

    check_output(out, force, model, data)
    pmf = JointPMF.load(model)
    read = read_by(pmf.schema, data, missing, unseen)
    present = [index for index, name in enumerate(pmf.schema.names) if name in read.table.column_names]
    if proba:
        result = _shares(pmf, read.records, present)
    else:
        is_text = not json if out is None else format_of(out) in ("csv", "tsv")
        result = _filled(pmf, read, present, how, seed, read_as_written(data) if is_text else None)
    write_result(result, out, as_json=json)
    holes = read.records.n_records * len(present) - read.records.n_observed
    told = {"records": read.records.n_records, "filled": holes, "out": None if out is None else str(out)}
    if out is not None and json:
        say_json(told)
    elif out is not None:
        say(f"{holes:,} holes in {read.records.n_records:,} records {'told' if proba else 'filled'}: {out}")


def _filled(pmf: JointPMF, read: ReadFile, present: list[int], how: Any, seed: int, written: Any) -> Any:
    """Return the table with its holes filled; where it is text from beginning to end, all other cells as written."""
    import numpy as np

    from twoway.frames import fill
    from twoway.imputation import fills

    found = fills(read.records, pmf.weights, pmf.stacked, present, how, seed)
    found = read.binning.to_numbers(found, pmf.schema, read.table)
    if written is None:
        return fill(read.table, found, read.table.column_names)
    texts = {
        name: (rows, np.array([str(label) for label in labels.tolist()], dtype=object))
        for name, (rows, labels) in found.items()
    }
    return fill(written, texts, written.column_names)


def _shares(pmf: JointPMF, records: Records, present: list[int]) -> Any:
    """Return a line for each hole and category: the record's number, the variable, the category, its probability."""
    import numpy as np
    import pyarrow as pa

    from twoway.imputation import hole_shares

    parts = []
    for index, rows, shares in hole_shares(records, pmf.weights, pmf.stacked, present):
        variable = pmf.schema.variables[index]
        labels = pa.array([str(label) for label in variable.categories])
        parts.append(
            pa.table(
                {
                    "record": np.repeat(rows + 1, len(variable)),
                    "variable": pa.array([variable.name]).take(pa.array(np.zeros(shares.size, dtype=np.int64))),
                    "category": labels.take(pa.array(np.tile(np.arange(len(variable)), len(rows)))),
                    "probability": shares.ravel(),
                }
            )
        )
    empty = {"record": pa.int64(), "variable": pa.string(), "category": pa.string(), "probability": pa.float64()}
    whole = pa.concat_tables(parts) if parts else pa.schema(empty.items()).empty_table()
    return whole.take(np.argsort(whole["record"].to_numpy(), kind="stable"))
