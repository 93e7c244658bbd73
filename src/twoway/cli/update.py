"""``twoway update``: new records into a model that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import (
    Counts,
    DataFile,
    Extend,
    Force,
    Json,
    Missing,
    MissingOnly,
    Model,
    Unseen,
    Weights,
    Where,
    all_of,
    missing_labels,
    open_by,
)
from twoway.cli.terminal import check_output, say, say_json, shows_progress
from twoway.report import StopReason


def update(
    model: Model,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="MODEL", help="The file to write; the model itself is replaced if not given."
        ),
    ] = None,
    extend: Extend = False,
    unseen: Unseen = "error",
    missing: Missing = None,
    missing_only: MissingOnly = None,
    counts: Counts = None,
    weights: Weights = None,
    where: Where = None,
    threads: Annotated[int | None, typer.Option(help="All cores by default.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add a day's records to a model, at the cost of the day, not of all the records before it.

    [bold]Examples[/bold]

    twoway update survey.twoway tuesday.csv

    twoway update survey.twoway tuesday.csv -o survey-2.twoway --extend
    """
    from twoway.fitting.update import update as update_model
    from twoway.model.pmf import JointPMF

    check_output(out, force, data)
    pmf = JointPMF.load(model)
    records = open_by(
        pmf.schema, data, missing_labels(missing, missing_only), unseen, counts, weights, all_of(where), extend
    )
    updated = update_model(pmf, records, extend=extend, threads=threads, monitor=shows_progress() or None)
    target = out or model
    updated.save(target)
    new = [
        {"variable": after.name, "category": label}
        for before, after in zip(pmf.schema, updated.schema, strict=True)
        for label in after.categories
        if before.find(label) is None
    ]
    report = updated.report
    assert report is not None
    start = report.starts[report.best]
    if json:
        say_json(
            {
                "model": str(target),
                "records": records.n_records,
                "total": report.n_records,
                "passes": start.n_iter,
                "stop_reason": start.stop_reason.value,
                "new_categories": new,
            }
        )
    else:
        say(f"{records.n_records:,} records added to {target}, in {start.n_iter} passes over them")
        if start.stop_reason is StopReason.INTERRUPTED:
            say("interrupted by Ctrl-C: the model is the best found until then")
        for one in new:
            say(f"new category of {one['variable']!r}: {one['category']!r}")
    if start.stop_reason is StopReason.INTERRUPTED:
        raise typer.Exit(130)
