"""``twoway check``: whether the joint can be known from two-way tables, and where a model is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import twoway as tw
from twoway.cli.output import has_progress_output, is_terminal, output_wording, print_note, say, say_json
from twoway.cli.reading import OF_DESIGN, OF_PUBLISHED, OF_RULES, TO_READ, Reading
from twoway.storage.container import container_kind


def check(
    source: list[Path] | None = None,
    *,
    reading: Annotated[Reading, *TO_READ, *OF_DESIGN],
    rank: int | None = None,
    data: Path | None = None,
    ranges: Annotated[list[str] | None, Option("--range")] = None,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Tell whether the joint can be known from two-way tables, what prevents it, and what would help.

    Parameters
    ----------
    source : [MODEL|DATA]...
        A model; or records or tables, in one file or several, as in `fit`.
    rank
        The number of components (default: chosen).
    data : DATA|TABLES
        Instead, compare a model with these: where is it wrong?
    ranges : QUESTION
        The smallest and largest answer of any joint with these tables.

    Examples
    --------
    twoway check survey.tables --rank 5

    twoway check survey.csv --drop id

    twoway check --tables crosstabs/ --kind row --range "P(vote = yes | trust = high)"

    twoway check survey.twoway --data survey.csv

    twoway check survey.twoway --data survey.csv --strata region --units town

    twoway check survey.twoway --range "P(vote = yes | age = old, region = north)"
    """
    from twoway.questions.answer import event_to_answer

    if reading.design_columns and data is None:
        raise tw.DataError("the design of a survey is used to compare a model with its records; add --data")
    if ranges and data is not None:
        raise tw.DataError("--range cannot be combined with --data; give one of the two")
    evidence: Any
    if source and len(source) == 1 and reading.tables is None and container_kind(source[0]) == "model":
        reading.reject(TO_READ if data is None else (*OF_PUBLISHED, *OF_RULES, "db", "table"), "with a model")
        evidence = tw.JointPMF.load(source[0])
        if ranges and evidence.counts is None:
            raise tw.DataError(
                f"{str(source[0])!r} does not keep the tables it was fitted to, which --range needs; "
                "check these tables, or the records, instead"
            )
    else:
        united = reading.source(source or [])
        evidence = united.source
        tables_notes = evidence.notes if isinstance(evidence, tw.Tables | tw.PublishedTables) else ()
        for note in (*united.warnings, *tables_notes):
            print_note(output_wording(note))
    events = [event_to_answer(evidence, question) for question in ranges or ()]
    result: Any
    if data is None:
        result = tw.diagnose(evidence, rank, seed=seed, monitor=has_progress_output() or None)
    elif isinstance(evidence, tw.JointPMF):
        observed: Any
        if container_kind(data) == "tables":
            observed = tw.Tables.load(data)
        else:
            reading = reading.like_model(evidence, data)
            observed = reading.read_by(evidence.schema, data)[1]
        result = tw.fit_quality(evidence, observed, design=reading.design([data]))
    else:
        raise tw.DataError("--data needs a model that `twoway fit` wrote, to compare it with")
    answers = [result.range(event, known) for event, known in events]
    if json:
        say_json(result.to_dict() | ({"ranges": [answer.to_dict() for answer in answers]} if answers else {}))
        return
    is_whole = isinstance(result, tw.FitQuality) and not is_terminal(sys.stdout)
    say("\n\n".join([result.to_text() if is_whole else str(result), *map(str, answers)]))
