"""``twoway impute``: fill missing cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

from typer import Option

import twoway as tw
from twoway.cli.output import check_output, print_output, write_output
from twoway.cli.reading import Reading
from twoway.text import counted


def impute(
    model: Path,
    data: Path,
    *,
    reading: Annotated[Reading, "missing", "missing_only", "unseen"],
    out: Path | None = None,
    how: str | None = None,
    draws: Annotated[int | None, Option(min=2)] = None,
    proba: bool = False,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Fill the missing cells of records, given what each record shows. Observed cells stay as they are.

    Parameters
    ----------
    how
        mode: the most probable category (the default); mean: the expected number; sample: drawn, all cells of a record
        together.
    draws
        Write this many completed copies below one another, for multiple imputation: columns .imp (the copy) and .id
        (the record) come first. Needs a model of `twoway fit --intervals`.
    proba
        Write the probability of each category for each missing cell instead.

    Examples
    --------
    twoway impute survey.twoway survey.csv -o complete.csv

    twoway impute survey.twoway survey.sav -o complete.sav

    twoway impute survey.twoway survey.csv --draws 20 -o completed.parquet

    twoway impute survey.twoway survey.csv --proba -o probabilities.csv
    """
    import numpy as np
    import pyarrow.compute as pc

    from twoway.data.files.file_table import FileTable
    from twoway.data.files.formats import format_of
    from twoway.data.frames import fill_frame
    from twoway.model.imputation import imputed_codes, imputed_values

    check_output(out, force, model, data, is_records=True)
    if draws is not None and (proba or how not in (None, "sample")):
        raise tw.DataError(
            f"--draws draws whole copies: it cannot be combined with {'--proba' if proba else f'--how {how}'}"
        )
    if proba and how is not None:
        raise tw.DataError("--proba cannot be combined with --how: it writes the probability of each category")
    bootstrap = None if draws is None else tw.Bootstrap.load(model)
    pmf = tw.JointPMF.load(model) if bootstrap is None else bootstrap.pmf
    files = reading.files(data)
    table, records = reading.read_by(pmf.schema, data)
    column_of = pmf.schema.columns_among(table.column_names)
    names = list(column_of)
    present = pmf.schema.indices(names)
    if proba:
        n_filled = records.n_records * len(names) - records.n_observed
        shares = pmf.impute_proba(records, names, "pyarrow")
        result = shares.set_column(0, "record", pc.add(shares.column("record"), 1))  # as people count them
    else:
        is_text = not json if out is None else format_of(out) in ("csv", "tsv")
        written = FileTable.as_written(files) if is_text else None
        if bootstrap is not None and draws is not None:
            codes = list(bootstrap.draws(records, present, draws, seed=seed))
        else:
            codes = [imputed_codes(pmf, records, present, how or "mode", seed)]  # type: ignore[arg-type]
        n_filled = sum(len(rows) for rows, _ in codes[0].values())
        values = [imputed_values(table, pmf.schema, fill_codes, column_of) for fill_codes in codes]
        if written is not None:  # all other cells stay as they are in the file
            table, as_text = written, cast("Any", np.frompyfunc(str, 1, 1))
            values = [{name: (rows, as_text(cells)) for name, (rows, cells) in fills.items()} for fills in values]
        copies = [fill_frame(table, fills, table.column_names) for fills in values]
        result = copies[0] if draws is None else _impute_command_copies(copies)
    write_output(result, out, as_json=json, like=None if proba else files)
    if out is not None:
        content = {"records": records.n_records, "filled": n_filled, "out": str(out)}
        content |= {} if draws is None else {"draws": draws}
        done = "with the probability of each category" if proba else "filled"
        done += "" if draws is None else f", in {draws} copies"
        cells = f"{counted(n_filled, 'missing cell')} in {counted(records.n_records, 'record')}"
        print_output(content, f"{cells} {done}: {out}", json=json)


def _impute_command_copies(copies: list[Any]) -> Any:
    """Return completed copies as one table, with the numbers of copy and record in front, as R's mice writes them."""
    import numpy as np
    import pyarrow as pa

    for name in (".imp", ".id"):
        if name in copies[0].column_names:
            raise tw.DataError(f"the file has a column {name!r}, which --draws adds; rename it first")
    whole = pa.concat_tables(copies, promote_options="permissive")
    ids = np.tile(np.arange(1, copies[0].num_rows + 1), len(copies))
    numbers = np.repeat(np.arange(1, len(copies) + 1), copies[0].num_rows)
    return whole.add_column(0, ".id", pa.array(ids)).add_column(0, ".imp", pa.array(numbers))
