"""``twoway check``: whether the joint can be known from two-way tables, and where a model is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import twoway as tw
from twoway.cli.options import Json, Reading, Seed
from twoway.cli.output import is_terminal, say, say_json, shows_progress
from twoway.errors import DataError
from twoway.storage.container import container_kind


def check(
    source: Annotated[
        Path, Argument(metavar="DATA|TABLES|MODEL", help="Records, tables from `twoway count`, or a model.")
    ],
    reading: Annotated[Reading, "only", "drop", "missing", "missing_only", "counts", "weights"],
    rank: int | None = Option(None, help="The number of components (default: chosen)."),
    data: Path | None = Option(
        None, metavar="DATA|TABLES", help="Instead, compare a model with these: where is it wrong?"
    ),
    ranges: list[str] | None = Option(
        None, "--range", metavar="QUESTION", help="The smallest and largest answer of any joint with these tables."
    ),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Tell whether the joint can be known from two-way tables, what prevents it, and what would help.

    [bold]Examples[/bold]

    twoway check survey.tables --rank 5

    twoway check survey.csv --drop id

    twoway check survey.twoway --data survey.csv

    twoway check survey.tables --range "P(vote = yes | age = old, region = north)"
    """
    from twoway.questions.answer import asked_event

    if ranges and data is not None:
        raise DataError("--range is about tables, --data compares a model with them; give one of the two")
    evidence: Any
    match container_kind(source):
        case "model":
            evidence = tw.JointPMF.load(source)
        case "tables":
            evidence = tw.Tables.load(source)
        case _:
            evidence = reading.records(source)
    events = [asked_event(evidence.schema, question) for question in ranges or ()]
    result: Any
    if data is None:
        result = tw.diagnose(evidence, rank, seed=seed, monitor=shows_progress() or None)
    elif isinstance(evidence, tw.JointPMF):
        is_tables = container_kind(data) == "tables"
        observed = tw.Tables.load(data) if is_tables else reading.read_by(evidence.schema, data)[1]
        result = tw.fit_quality(evidence, observed)
    else:
        raise DataError(f"--data is compared with a model, and {str(source)!r} is not a model")
    answers = [result.range(event, known) for event, known in events]
    if json:
        say_json(result.to_dict() | ({"ranges": [answer.to_dict() for answer in answers]} if answers else {}))
        return
    is_whole = isinstance(result, tw.FitQuality) and not is_terminal(sys.stdout)
    say("\n\n".join([result.to_text() if is_whole else str(result), *map(str, answers)]))
