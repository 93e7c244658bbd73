"""``twoway update``: new records into an existing model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit

import twoway as tw
from twoway.cli.output import check_output, has_progress_output, print_note, print_output
from twoway.cli.reading import Reading
from twoway.model.pmf import pmf_of
from twoway.text import counted


def update(
    model: Path,
    data: Path,
    *,
    reading: Annotated[Reading, "extend", "unseen", "missing", "missing_only", "counts", "weights", "where"],
    out: Path | None = None,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Add new records to a model, at the cost of the new records, not of all the records before.

    Parameters
    ----------
    out : MODEL
        The file to write (default: replace the model).

    Examples
    --------
    twoway update survey.twoway tuesday.csv

    twoway update survey.twoway tuesday.csv -o survey-2.twoway --extend
    """
    check_output(out, force, data, is_model=True)
    loaded = tw.load(model)
    pmf = pmf_of(loaded)
    records = reading.like_model(pmf, data).open_by(pmf.schema, data)
    updated = tw.update(pmf, records, extend=reading.extend, threads=threads, monitor=has_progress_output() or None)
    target = out or model
    updated.save(target)
    if loaded is not pmf:
        print_note(f"{target} has no replicates for intervals: those of {model} do not include the new records")
    new = [
        {"variable": after.name, "category": label}
        for before, after in zip(pmf.schema, updated.schema, strict=True)
        for label in after.categories
        if before.find(label) is None
    ]
    report = updated.report
    assert report is not None
    passes, was_interrupted = report.starts[report.best].n_iter, report.stop_reason == "interrupted"
    lines = [f"{counted(records.n_records, 'record')} added to {target} in {counted(passes, 'pass')}"]
    lines += ["interrupted by Ctrl-C: the model is the best one found so far"] if was_interrupted else []
    lines += [f"new category of {added['variable']!r}: {added['category']!r}" for added in new]
    content = {"model": str(target), "records": records.n_records, "total": report.n_records, "passes": passes}
    content |= {"stop_reason": report.stop_reason.value, "new_categories": new}
    print_output(content, "\n".join(lines), json=json)
    if was_interrupted:
        raise Exit(130)
