"""``twoway table``: tables of every question by a banner, to Excel and other formats."""

from __future__ import annotations

from pathlib import Path

from typer import Option

import twoway as tw
from twoway.cli.options import Force, Json, Model, names_option
from twoway.cli.output import check_output, show
from twoway.errors import DataError


def table(
    model: Model,
    columns: list[str] = Option(
        [], "--columns", help="The variables of the banner, separated by commas: a column for each category."
    ),
    rows: list[str] | None = Option(
        None, "--rows", help="The questions, a table each, separated by commas; * stands for any text (default: all)."
    ),
    net: list[str] | None = Option(
        None,
        "--net",
        metavar="NAME: CONDITION",
        help='Categories taken together: "Top 2: trust >= 4". Can be repeated.',
    ),
    out: Path | None = Option(
        None,
        "-o",
        "--out",
        help="An .xlsx, .html, .md, .txt, .csv, .tsv, .parquet or .json file (default: the terminal).",
    ),
    force: Force = False,
    json: Json = False,
) -> None:
    """Write tables: a question in the rows, a banner in the columns; bases, observed and modelled shares, significance.

    Letters mark differences between columns that are more than chance. A model from `twoway fit --intervals` has
    intervals.

    [bold]Examples[/bold]

    twoway table survey.twoway --rows vote --columns "age, region"

    twoway table survey.twoway --columns "age, region" -o tables.xlsx

    twoway table survey.twoway --rows trust --columns age --net "High: trust >= 4" -o trust.html
    """
    from twoway.tabulation.files import tabulation_ending

    check_output(out, force, model)
    if out is not None:
        tabulation_ending(out)
    loaded = tw.load(model)
    known = loaded.schema.names
    asked = None if rows is None else _names("--rows", rows, known)
    tables = tw.tabulate(loaded, asked, _names("--columns", columns, known), nets=_nets(net or []))
    if out is None:
        show(tables.to_dict() if json else {}, tables, json=json)
        return
    tables.save(out)


def _names(option: str, given: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the variables that an option names; those named one by one, each once."""
    parts = [part.strip() for text in given for part in ([text] if text in known else text.split(","))]
    for part in parts:
        if part in known and parts.count(part) > 1:
            raise DataError(f"{part!r} is asked for twice in {option}; name a variable once")
    return names_option(given, known)


def _nets(given: list[str]) -> dict[str, str]:
    """Return conditions by the names of their nets."""
    nets: dict[str, str] = {}
    for text in given:
        name, colon, condition = text.partition(":")
        if not colon or not name.strip() or not condition.strip():
            raise DataError(f"--net {text!r} must be a name and a condition, such as 'Top 2: trust >= 4'")
        if name.strip() in nets:
            raise DataError(f"two nets are called {name.strip()!r}; give one another name")
        nets[name.strip()] = condition
    return nets
