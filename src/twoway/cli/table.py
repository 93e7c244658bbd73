"""``twoway table``: tables of every question by a banner, to Excel and other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import twoway as tw
from twoway.cli.options import names_option
from twoway.cli.output import check_output, print_output
from twoway.cli.reading import OF_DESIGN, Reading

_READ = ("missing", "missing_only", "unseen", "counts", "weights", "where")


def table(
    model: Path,
    *,
    reading: Annotated[Reading, *_READ, *OF_DESIGN],
    columns: list[str] | None = None,
    rows: list[str] | None = None,
    net: list[str] | None = None,
    data: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write tables: a question in the rows, a banner in the columns; bases, observed and modelled shares, significance.

    Letters mark differences between columns that are more than chance; with the design of the survey, by that design.
    A model from `twoway fit --intervals` has intervals.

    Parameters
    ----------
    columns
        The variables of the banner, separated by commas: a column for each category. 'age > gender' has each gender
        within each age.
    rows
        The questions, a table each, separated by commas; * stands for any text (default: all).
    net : NAME: CONDITION
        Categories taken together: "Top 2: trust >= 4". Can be repeated.
    data
        The records that the model was fitted to: columns within columns need them, and the design of a survey.
    out
        An .xlsx, .html, .md, .txt, .csv, .tsv, .parquet or .json file (default: the terminal).

    Examples
    --------
    twoway table survey.twoway --rows vote --columns "age, region"

    twoway table survey.twoway --columns "age, region" -o tables.xlsx

    twoway table survey.twoway --rows trust --columns age --net "High: trust >= 4" -o trust.html

    twoway table survey.twoway --columns "age > gender" --data survey.csv --strata region --units town -o tables.xlsx
    """
    from twoway.model.pmf import pmf_of
    from twoway.tabulation.banner import WITHIN
    from twoway.tabulation.result import tabulation_ending

    check_output(out, force, model, data)
    if out is not None:
        tabulation_ending(out)
    loaded = tw.load(model)
    known = loaded.schema.names
    questions = None if rows is None else _table_command_names("--rows", rows, known)
    observed: dict[str, Any] = {}
    if data is not None:
        reading = reading.like_model(pmf_of(loaded), data)
        observed = {"records": reading.read_by(loaded.schema, data)[1], "design": reading.design([data])}
    elif reading.design_columns:
        raise tw.DataError("the design of a survey needs its records; add --data")
    banner = _table_command_names("--columns", columns or [], known, within=WITHIN)
    tables = tw.tabulate(loaded, questions, banner, nets=_table_command_nets(net or []), **observed)
    if out is None:
        print_output(tables.to_dict() if json else {}, tables, json=json)
        return
    tables.save(out)


def _table_command_names(option: str, texts: list[str], known: tuple[str, ...], within: str | None = None) -> list[str]:
    """Return the variables that an option names, with patterns expanded; nests such as "age > sex" stay as they are."""
    parts = [part.strip() for text in texts for part in ([text] if text in known else text.split(","))]
    names: list[str] = []
    for part in parts:
        is_nest = within is not None and within in part and part not in known
        if parts.count(part) > 1 and (is_nest or part in known):
            raise tw.DataError(f"duplicate variable {part!r} in {option}")
        names += [part] if is_nest else names_option([part], known)
    return list(dict.fromkeys(names))


def _table_command_nets(texts: list[str]) -> dict[str, str]:
    """Return conditions by the names of their nets."""
    nets: dict[str, str] = {}
    for text in texts:
        name, _, condition = (part.strip() for part in text.partition(":"))
        if not name or not condition:
            raise tw.DataError(f"--net {text!r} must be a name and a condition, such as 'Top 2: trust >= 4'")
        if name in nets:
            raise tw.DataError(f"duplicate net {name!r}; give each net its own name")
        nets[name] = condition
    return nets
