"""``twoway segments``: groups of people, what they are like, and who belongs to which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import twoway as tw
from twoway.cli.options import names_option
from twoway.cli.output import check_output, has_progress_output, output_wording, say, say_json
from twoway.cli.reading import OF_DATA, Reading
from twoway.errors import errors_at
from twoway.storage.container import container_kind


def segments(
    data: Path,
    *,
    reading: Annotated[Reading, *OF_DATA],
    count: str = "2..8",
    out: Path | None = None,
    names: list[str] | None = None,
    covariates: list[str] | None = None,
    outcomes: list[str] | None = None,
    assignments: Path | None = None,
    model: Path | None = None,
    starts: Annotated[int, Option(min=1)] = 50,
    replicates: Annotated[int, Option(min=0)] = 100,
    correction: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Find segments of people (latent classes), and show what each is like.

    A file that --model wrote can be read again, to name the segments or to write their tables.

    Parameters
    ----------
    count : N|N..M
        The number of segments, or the numbers to compare.
    out
        An .xlsx or .md file of all tables, or a .csv, .tsv, .parquet or .jsonl of profiles.
    names : NAMES
        Names for the segments, largest first, separated by commas; or 'segment 2=young'.
    covariates : COLUMNS
        Columns that may explain the segment, separated by commas.
    outcomes : COLUMNS
        Columns that may differ between segments, separated by commas.
    assignments : FILE
        Write all people here, each with a segment and its probability.
    model : MODEL
        Write the segments and their names to a model file.
    starts
        Random starts for each number of segments.
    replicates
        Samples for stability, tests and standard errors; 0 for as few as possible.
    correction
        The correction for assignment errors: ml, bch or none (default: ml for covariates, bch for outcomes).

    Examples
    --------
    twoway segments survey.sav --count 2..8 -o segments.xlsx

    twoway segments survey.csv --drop id --covariates age,gender --outcomes spent --assignments people.csv

    twoway segments survey.csv --count 4 --model segments.twoway

    twoway segments segments.twoway --names "young,loyal,thrifty,absent" -o segments.xlsx
    """
    from twoway.data.files.writing import write_data_file
    from twoway.segmentation.relations import LEAST_REPLICATES
    from twoway.segmentation.writing import check_segments_path, write_segments

    check_output(out, force, data, reading.columns)
    check_output(assignments, force, data, reading.columns, is_records=True)
    check_output(model, force, data, reading.columns, is_model=True)
    if out is not None:
        check_segments_path(out)
    counts = segments_count_option(count)
    common: dict[str, Any] = {"seed": seed, "threads": threads, "monitor": has_progress_output() or None}
    if container_kind(data) == "model":
        if covariates or outcomes or assignments:
            raise tw.DataError(f"{str(data)!r} is a model; --covariates, --outcomes and --assignments need the records")
        reading.reject(OF_DATA, "with a model")
        result, others = tw.Segments.load(data), dict[str, list[str]]()
    else:
        reading, others = _segments_reading(reading, data, {"covariates": covariates, "outcomes": outcomes})
        result = tw.segments(reading.records(data), counts, starts=starts, replicates=replicates, **common)
    result = _name_segments(result, names)
    if model is not None:
        result.save(model)
    tables, texts = result.tables(), [str(result)]
    if any(others.values()) or assignments is not None:
        table, _ = reading.read_by(result.pmf.schema, data)
        related = [name for of_kind in others.values() for name in of_kind]
        frame = _segments_with_columns(table, reading, data, related)
        if related:
            replicates = max(LEAST_REPLICATES, replicates)
            relations = result.relate(frame, weights=reading.weights, replicates=replicates, **common)
        options: Any = {} if correction is None else {"correction": correction}
        if others.get("covariates"):
            effects = relations.covariates(others["covariates"], **options)
            tables |= {"covariates": effects.rows(), "tests": [vars(test) for test in effects.tests]}
            texts.append(str(effects))
        if others.get("outcomes"):
            outcomes_found = relations.outcomes(others["outcomes"], **options).values()
            tables["outcomes"] = [row for outcome in outcomes_found for row in outcome.rows()]
            tables["tests"] = [*tables.get("tests", []), *(vars(outcome.test) for outcome in outcomes_found)]
            texts += map(str, outcomes_found)
        if assignments is not None:
            write_data_file(result.assign(table), assignments)
    if out is not None:
        write_segments(out, tables)
    if json:
        say_json({**tables, "warnings": [output_wording(warning) for warning in result.warnings]})
        return
    say(output_wording("\n\n".join(texts)))


def segments_count_option(text: str) -> list[int]:
    """Return the numbers of "4", "2..8" or "2,3,5".

    Examples
    --------
    >>> segments_count_option("2..4"), segments_count_option("5"), segments_count_option("2, 6")
    ([2, 3, 4], [5], [2, 6])
    """
    try:
        numbers: list[int] = []
        for part in text.split(","):
            first, dots, last = part.partition("..")
            numbers += range(int(first), int(last) + 1) if dots else [int(first)]
    except ValueError:
        raise tw.DataError(f"--count must be a number or a range such as 2..8, not {text!r}") from None
    if not numbers:
        raise tw.DataError(f"--count {text} is empty: the first number must not be larger than the last")
    return numbers


def _segments_reading(reading: Reading, data: Path, others: dict[str, Any]) -> tuple[Reading, dict[str, list[str]]]:
    """Return the reading without the columns that segments are related to, and the names of these columns."""
    known = reading.files(data).columns
    chosen = {kind: names_option(names, known) for kind, names in others.items()}
    items = set(names_option(reading.only, known))
    related = {name: kind for kind, columns in chosen.items() for name in columns}
    if both := [name for name in related if name in items]:
        raise tw.DataError(
            f"{both[0]!r} is in both --{related[both[0]]} and --only; segments cannot be related to a column they use"
        )
    return replace(reading, drop=[*(reading.drop or []), *related] or None), chosen


def _name_segments(segments: tw.Segments, names: list[str] | None) -> tw.Segments:
    """Return segments with the user's names: names for all in order, or OLD=NEW for some."""
    if not names:
        return segments
    if all("=" in text for text in names):
        pairs = [text.partition("=") for text in names]
        return segments.rename({old.strip(): new.strip() for old, _, new in pairs})
    return segments.rename([name.strip() for text in names for name in text.split(",")])


def _segments_with_columns(table: Any, reading: Reading, data: Path, names: list[str]) -> Any:
    """Return a table in which some columns hold numbers, or labels if the file has them, and null for missing codes."""
    import numpy as np
    import pyarrow as pa

    for name in dict.fromkeys(names):
        alone = replace(reading, only=[name], drop=None, bins=None, weights=None, counts=None, max_categories=10**9)
        with errors_at(f"column {name!r}"):
            records = alone.records(data)
        if not isinstance(records, tw.Records):
            raise tw.DataError(f"{str(data)!r} is too large to relate its columns to segments")
        (variable,) = records.schema
        codes = records.codes()[:, 0]
        is_number = all(isinstance(label, int | float) and not isinstance(label, bool) for label in variable.categories)
        labels = np.array([label if is_number else str(label) for label in variable.categories])
        table = table.set_column(table.column_names.index(name), name, pa.array(labels[codes], mask=codes < 0))
    return table
