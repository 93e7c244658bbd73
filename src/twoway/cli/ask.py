"""``twoway ask``: questions to a model, in the language of probability."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from twoway.cli.options import Force, Json, Model
from twoway.cli.terminal import check_output


def ask(
    model: Model,
    questions: list[str] | None = Argument(
        None, metavar="QUESTION", help="Questions; - reads them from standard input, one per line."
    ),
    base: float | None = Option(None, help="The base of the logarithm of H and I (default: nats)."),
    interval: bool = Option(
        False, "--interval", help="Show an interval for each answer; needs a fit with --intervals."
    ),
    out: Path | None = Option(
        None, "-o", "--out", help="A CSV, TSV, Parquet or Arrow file with a row for each number; or JSON."
    ),
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer questions: P probability, E expected value, mode, H entropy, I mutual information.

    Without a question, a prompt opens that completes names with Tab. Names and labels that contain any of
    , | ; ( ) { } = < > need quotes.

    [bold]Examples[/bold]

    twoway ask survey.twoway "P(vote | age = 30-39, region in {north, east})"

    twoway ask survey.twoway "P(vote = yes)" "E(rating | genre = drama)" "P(rating >= 4 | age)"

    twoway ask survey.twoway "P(vote | age)" -o answers.csv

    twoway ask survey.twoway "mode(vote, age | region = north)" "H(vote)" "I(vote; age | region)"
    """
    from twoway.cli.answers import answer_all

    check_output(out, force, model, is_records=True)
    answer_all(model, questions or [], base=base, interval=interval, json=json, out=out)
