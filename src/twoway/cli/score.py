"""``twoway score``: how probable each record is, and what is unusual about the least probable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

import twoway as tw
from twoway.cli.output import check_output, say, say_json, write_output
from twoway.cli.reading import Reading

_CELLS_SHOWN = 3


def score(
    model: Path,
    data: Path,
    *,
    reading: Annotated[Reading, "missing", "missing_only", "unseen"],
    out: Path | None = None,
    top: Annotated[int | None, Option(min=1)] = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write the log-probability of each record, with missing cells summed out; or show the least probable records.

    Records are numbered from 1. A surprising cell is improbable given the rest of its record. With --top, a file gets
    a row for each cell.

    Parameters
    ----------
    top : N
        Instead, show the N least probable records and their surprising cells.

    Examples
    --------
    twoway score survey.twoway survey.csv -o scores.csv

    twoway score survey.twoway survey.csv --top 10
    """
    import numpy as np
    import pyarrow as pa

    check_output(out, force, model, data, is_records=True)
    pmf = tw.JointPMF.load(model)
    _, records = reading.read_by(pmf.schema, data)
    if top is None:
        scores = pmf.log_prob(records)
        write_output(pa.table({"record": np.arange(1, len(scores) + 1), "log_prob": scores}), out, as_json=json)
        return
    least = tw.surprises(pmf, records, top)
    if out is not None:
        rows = [
            {"record": surprise.record + 1, "log_prob": surprise.log_prob, **asdict(cell)}
            for surprise in least
            for cell in surprise.cells
        ]
        for row in rows:  # a column of a file cannot hold labels of several types
            row |= {key: str(row[key]) for key in ("category", "expected") if row[key] is not None}
        write_output(pa.Table.from_pylist(rows), out)
        return
    for surprise in least:
        number = surprise.record + 1
        if json:
            say_json({"record": number, "log_prob": surprise.log_prob, "surprising": surprise.cells})
            continue
        say(f"record {number}: log-probability {surprise.log_prob:.3f}")
        for cell in surprise.cells[:_CELLS_SHOWN]:
            expected = "" if cell.expected is None else f"; expected {cell.expected}"
            say(f"    {cell.variable} = {cell.category} has probability {cell.probability:.2g} here{expected}")
