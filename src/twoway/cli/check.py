"""``twoway check``: whether the joint can be known from two-way tables, and where a model is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from twoway.cli.options import (
    Counts,
    Drop,
    Json,
    Missing,
    MissingOnly,
    Only,
    Reading,
    Seed,
    Weights,
    missing_labels,
    read_by,
)
from twoway.cli.terminal import is_terminal, say, say_json, shows_progress


def check(
    source: Annotated[
        Path, typer.Argument(metavar="DATA|TABLES|MODEL", help="Records, what `twoway count` wrote, or a model.")
    ],
    rank: Annotated[int | None, typer.Option(help="The number of components; chosen if not given.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DATA|TABLES", help="Compare a model with these instead: where is it wrong?")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", metavar="QUESTION", help="The least and greatest answer that any joint with the tables can give."
        ),
    ] = None,
    only: Only = None,
    drop: Drop = None,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    counts: Counts = None,
    weights: Weights = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say whether the joint can be known from two-way tables, what stands in the way, and what would help.

    [bold]Examples[/bold]

    twoway check survey.tables --rank 5

    twoway check survey.csv --drop id

    twoway check survey.twoway --data survey.csv

    twoway check survey.tables --range "P(vote = yes | age = old, region = north)"
    """
    from twoway.checks.fit_quality import FitQuality, fit_quality
    from twoway.diagnosis.diagnose import diagnose
    from twoway.errors import DataError
    from twoway.model.pmf import JointPMF
    from twoway.questions.answer import asked_event
    from twoway.storage.container import kind_of
    from twoway.tables.tables import Tables

    given: Any
    match kind_of(source):
        case "model":
            given = JointPMF.load(source)
        case "tables":
            given = Tables.load(source)
        case _:
            given = Reading(only, drop, missing_labels(missing, missing_only), counts, weights).records(source)
    if ranges and data is not None:
        raise DataError("--range is about tables, and --data compares a model with them; give one of the two")
    found: Any
    events = [asked_event(given.schema, question) for question in ranges or ()]
    if data is None:
        found = diagnose(given, rank, seed=seed, monitor=shows_progress() or None)
    elif isinstance(given, JointPMF):
        beside = (
            Tables.load(data)
            if kind_of(data) == "tables"
            else read_by(given.schema, data, missing_labels(missing, missing_only)).records
        )
        found = fit_quality(given, beside)
    else:
        raise DataError(f"--data is compared with a model, and {str(source)!r} is none")
    answers = [found.range(event, known) for event, known in events]
    if json:
        say_json(found.to_dict() | ({"ranges": [answer.to_dict() for answer in answers]} if answers else {}))
        return
    whole = isinstance(found, FitQuality) and not is_terminal(sys.stdout)
    say(found.to_text() if whole else str(found))
    for answer in answers:
        say(f"\n{answer}")
