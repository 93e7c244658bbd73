"""``twoway impute``: holes filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import (
    DataFile,
    Force,
    Json,
    Missing,
    MissingOnly,
    Model,
    ReadFile,
    Seed,
    Unseen,
    missing_labels,
    read_by,
)
from twoway.cli.terminal import check_output, say, say_json, write_result
from twoway.errors import DataError

if TYPE_CHECKING:
    from twoway.data.frames import Fill
    from twoway.data.records import Records
    from twoway.model.pmf import JointPMF
    from twoway.uncertainty.bootstrap import Bootstrap


def impute(
    model: Model,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="CSV, TSV, Parquet, Arrow or JSON lines; standard output if not given."),
    ] = None,
    how: Annotated[
        str | None,
        typer.Option(
            help="mode: the most probable category (the default); mean: the expected number; "
            "sample: drawn, a record's together."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Write so many completed copies below one another, for multiple imputation: columns .imp (the copy) "
            "and .id (the record) come first. Needs a model of `twoway fit --intervals`.",
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of each category for each hole instead.")
    ] = False,
    seed: Seed = 0,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    unseen: Unseen = "error",
    force: Force = False,
    json: Json = False,
) -> None:
    """Fill the holes of records, given what each record shows. Observed cells stay as they are.

    [bold]Examples[/bold]

    twoway impute survey.twoway survey.csv -o complete.csv

    twoway impute survey.twoway survey.csv --draws 20 -o completed.parquet

    twoway impute survey.twoway survey.csv --proba -o probabilities.csv
    """
    from twoway.data.files.file_set import format_of
    from twoway.data.files.reading import read_as_written
    from twoway.model.imputation import fills
    from twoway.model.pmf import JointPMF

    check_output(out, force, model, data, is_records=True)
    if draws is not None and (proba or how not in (None, "sample")):
        raise DataError(f"--draws draws whole copies: it does not go with {'--proba' if proba else f'--how {how}'}")
    boot = None if draws is None else _with_replicates(model, draws)
    pmf = JointPMF.load(model) if boot is None else boot.pmf
    read = read_by(pmf.schema, data, missing_labels(missing, missing_only), unseen)
    present = [index for index, name in enumerate(pmf.schema.names) if name in read.table.column_names]
    holes = read.records.n_records * len(present) - read.records.n_observed
    if proba:
        result = _shares(pmf, read.records, present)
    else:
        is_text = not json if out is None else format_of(out) in ("csv", "tsv")
        written = read_as_written(data) if is_text else None
        several = (
            [fills(read.records, pmf.weights, pmf.stacked, present, how or "mode", seed)]  # type: ignore[arg-type]
            if boot is None or draws is None
            else list(boot.draws(read.records, present, draws, seed=seed))
        )
        holes = sum(len(rows) for rows, _ in several[0].values())
        copies = [_filled(pmf, read, found, written) for found in several]
        result = copies[0] if draws is None else _below_one_another(copies)
    write_result(result, out, as_json=json)
    told = {"records": read.records.n_records, "filled": holes, "out": None if out is None else str(out)}
    if draws is not None:
        told["draws"] = draws
    if out is not None and json:
        say_json(told)
    elif out is not None:
        times = "" if draws is None else f", in {draws} copies"
        done = "with the probability of each category" if proba else "filled"
        say(f"{holes:,} holes in {read.records.n_records:,} records {done}{times}: {out}")


def _with_replicates(model: Path, draws: int) -> Bootstrap:
    """Return a model with at least as many replicates as copies are to be drawn."""
    from twoway.model.pmf import JointPMF
    from twoway.uncertainty.bootstrap import load_model

    found = load_model(model)
    if isinstance(found, JointPMF):
        raise DataError(
            f"--draws needs a model with replicates, and {str(model)!r} has none: copies drawn from one model differ "
            "too little. `twoway fit --intervals` writes one with them"
        )
    if draws > len(found.replicates):
        raise DataError(f"--draws {draws} is more than the {len(found.replicates)} replicates in {str(model)!r}")
    return found


def _below_one_another(copies: list[Any]) -> Any:
    """Return completed copies as one table, with the numbers of copy and record in front, as R's mice writes them."""
    import numpy as np
    import pyarrow as pa

    taken = [name for name in (".imp", ".id") if name in copies[0].column_names]
    if taken:
        raise DataError(f"the file has a column {taken[0]!r}, which --draws adds; rename it first")
    whole = pa.concat_tables(copies, promote_options="permissive")
    ids = np.tile(np.arange(1, copies[0].num_rows + 1), len(copies))
    numbers = np.repeat(np.arange(1, len(copies) + 1), copies[0].num_rows)
    return whole.add_column(0, ".id", pa.array(ids)).add_column(0, ".imp", pa.array(numbers))


def _filled(pmf: JointPMF, read: ReadFile, found: dict[str, Fill], written: Any) -> Any:
    """Return the table with its holes filled; where it is text from beginning to end, all other cells as written."""
    import numpy as np

    from twoway.data.frames import fill

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

    from twoway.model.imputation import hole_shares

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
