"""``twoway ask``: questions to a model, in words of probability."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import Force, Json, Model
from twoway.cli.terminal import check_output


def ask(
    model: Model,
    questions: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="Questions; - reads them from standard input, a line each."),
    ] = None,
    base: Annotated[float | None, typer.Option(help="Base of the logarithm of H and I; nats if not given.")] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Say how sure each answer is; needs a model of `twoway fit --intervals`.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="Write the answers to a file, a row each number: CSV, TSV, Parquet, Arrow; or JSON."
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer questions: P probability, E expected value, mode, H entropy, I mutual information.

    Without a question, a prompt opens that completes names with Tab. Names and labels that hold any of
    , | ; ( ) { } = < > stand in quotes.

    [bold]Examples[/bold]

    twoway ask survey.twoway "P(vote | age = 30-39, region in {north, east})"

    twoway ask survey.twoway "P(vote = yes)" "E(rating | genre = drama)" "P(rating >= 4 | age)"

    twoway ask survey.twoway "P(vote | age)" -o answers.csv

    twoway ask survey.twoway "mode(vote, age | region = north)" "H(vote)" "I(vote; age | region)"
    """
    from twoway.cli.answers import answer_all

    check_output(out, force, model, is_records=True)
    answer_all(model, questions or [], base=base, interval=interval, json=json, out=out)
