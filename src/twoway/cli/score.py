"""``twoway score``: how probable each record is, and what is odd about the least probable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import DataFile, Force, Json, Missing, MissingOnly, Model, Unseen, missing_labels, read_by
from twoway.cli.terminal import check_output, say, say_json, write_result

if TYPE_CHECKING:
    from twoway.data.records import Records
    from twoway.model.pmf import JointPMF

_CELLS_SHOWN = 3


def score(
    model: Model,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="CSV, TSV, Parquet, Arrow or JSON lines; standard output if not given."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Show the N least probable records and their surprising cells instead."),
    ] = None,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    unseen: Unseen = "error",
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the log-probability of each record, holes summed out; or show the least probable ones.

    Records are numbered from 1. A surprising cell is one that is improbable given the rest of its record.

    [bold]Examples[/bold]

    twoway score survey.twoway survey.csv -o scores.csv

    twoway score survey.twoway survey.csv --top 10
    """
    import numpy as np
    import pyarrow as pa

    from twoway.model.pmf import JointPMF

    check_output(out, force, model, data, is_records=True)
    pmf = JointPMF.load(model)
    records = read_by(pmf.schema, data, missing_labels(missing, missing_only), unseen).records
    scores = pmf.log_prob(records)
    if top is None:
        write_result(pa.table({"record": np.arange(1, len(scores) + 1), "log_prob": scores}), out, as_json=json)
        return
    for row in np.argsort(scores, kind="stable")[:top]:
        odd = _surprising(pmf, records, int(row))
        if json:
            say_json({"record": int(row) + 1, "log_prob": float(scores[row]), "surprising": odd})
            continue
        say(f"record {row + 1}: log-probability {scores[row]:.3f}")
        for cell in odd[:_CELLS_SHOWN]:
            expected = "" if cell["expected"] is None else f"; {cell['expected']} would be expected"
            say(f"    {cell['variable']} = {cell['category']} has probability {cell['probability']:.2g} here{expected}")


def _surprising(pmf: JointPMF, records: Records, row: int) -> list[dict[str, Any]]:
    """Return a record's cells, each with its probability given the rest of the record, least probable first."""
    import numpy as np

    from twoway.errors import ImpossibleEvidenceError

    codes = records.take(np.array([row])).codes()[0]
    shown = {v.name: v.categories[code] for v, code in zip(pmf.schema, codes, strict=True) if code >= 0}
    cells: list[dict[str, Any]] = []
    for name, label in shown.items():
        rest = {other: known for other, known in shown.items() if other != name}
        try:
            shares = pmf.given(rest).marginal(name)
        except ImpossibleEvidenceError:
            continue  # the rest is impossible already, whatever this cell says
        expected = pmf.schema[name].categories[int(shares.array.argmax())]
        cells.append(
            {
                "variable": name,
                "category": label,
                "probability": shares[label],
                "expected": None if expected == label else expected,
            }
        )
    return sorted(cells, key=lambda cell: cell["probability"])
