"""``twoway population``: whole persons whose tables agree with published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter

import twoway as tw
from twoway.cli.options import rules_option
from twoway.cli.output import check_output, has_progress_output, output_wording, print_output
from twoway.cli.reading import OF_PUBLISHED, Reading
from twoway.storage.container import container_kind
from twoway.text import plain_data


def population(
    model: Path | None = None,
    *,
    reading: Annotated[Reading, "tables", *OF_PUBLISHED],
    n: int,
    out: Path,
    exact: list[str] | None = None,
    impossible: list[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write whole persons whose tables agree with the published ones.

    The tables are those that the model was fitted to, or --tables. Without a model, one is fitted to these first.

    Parameters
    ----------
    model : [MODEL]
        A model written by `twoway fit`, or tables, of `twoway count` or `PublishedTables.save`.
    n
        The number of persons, up to 10⁸.
    out
        A Parquet, CSV, TSV, Arrow, JSON lines, SPSS or Stata file to write the persons to.
    exact : COLUMNS
        A margin that must hold exactly: 'age' or 'age,sex'. Repeatable.
    impossible : CONDITIONS
        A combination that no person may have: 'age = 0-14, marital = married'. Repeatable.

    Examples
    --------
    twoway population county.twoway -n 1515136 -o people.parquet

    twoway population county.twoway -n 10000 -o people.csv --exact age,sex --impossible "age = 0-14, marital = married"

    twoway population --tables sheet.csv -n 50000 -o people.parquet
    """
    check_output(out, force, model, reading.tables, reading.layout, reading.errors, is_records=True)
    source, published = _population_command_source(reading, model)
    rules = rules_option(source, impossible, exact)
    common: dict[str, Any] = {"seed": seed, "threads": threads, "monitor": has_progress_output() or None}
    people = tw.population(source, n, tables=published, **rules, **common)
    people.save(out, monitor=common["monitor"])
    content = plain_data(people.report) | {"worst": people.report.worst, "out": str(out)}
    print_output(content, output_wording(f"{people.report}\nwritten  {out}"), json=json)


def _population_command_source(reading: Reading, model: Path | None) -> tuple[Any, tw.Tables | None]:
    """Return the model or what to fit, and the tables to agree with where these are others."""
    is_model = model is not None and container_kind(model) == "model"
    if model is None if reading.tables is None else model is not None and not is_model:
        raise BadParameter("give a MODEL or tables of `twoway count`, or --tables, or a MODEL and --tables")
    if model is None or not is_model:
        return reading.source([] if model is None else [model]).source, None
    published = None if reading.tables is None else reading.source([]).source
    return tw.JointPMF.load(model), published  # type: ignore[return-value]  # --tables are tables
