"""``twoway check``: whether the joint can be known from two-way tables, and where a model is off."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def check(
    source: Annotated[
        Path, typer.Argument(metavar="DATA|TABLES|MODEL", help="Records (CSV or Parquet), a tables file or a model.")
    ],
    rank: Annotated[int | None, typer.Option(help="The number of components; chosen if not given.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Compare a model with these records or tables instead: where is it wrong?")
    ] = None,
    seed: Annotated[int, typer.Option(help="Where every random choice starts from.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON, for machines.")] = False,
) -> None:
    """Say whether the joint can be known from two-way tables, what stands in the way, and what would help.

    [bold]Examples[/bold]

    twoway check survey.tables --rank 5

    twoway check survey.twoway --data survey.csv
    """
    from twoway.diagnosis.diagnose import diagnose
    from twoway.diagnosis.fit_quality import fit_quality
    from twoway.errors import DataError
    from twoway.pmf import JointPMF

    given = load_source(source)
    if data is not None:
        if not isinstance(given, JointPMF):
            raise DataError(f"--data is compared with a model, and {str(source)!r} is none")
        found: Any = fit_quality(given, load_source(data))
    else:
        found = diagnose(given, rank, seed=seed, monitor=sys.stderr.isatty() or None)
    typer.echo(json_module.dumps(found.to_dict(), allow_nan=False) if json else str(found))


def load_source(path: Path) -> Any:
    """Return the model, the tables or the records of a file."""
    import pandas as pd

    from twoway import container
    from twoway.errors import FileFormatError, MissingFileError
    from twoway.pmf import JointPMF
    from twoway.records import Records
    from twoway.tables import Tables

    if not path.exists():
        raise MissingFileError(f"there is no file {str(path)!r}")
    if path.suffix.lower() in (".csv", ".tsv", ".txt", ".data", ".gz"):
        frame = pd.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",", dtype=str, keep_default_na=False)
        return Records(frame)
    if path.suffix.lower() in (".parquet", ".pq"):
        return Records(pd.read_parquet(path))
    header, _ = container.read(path)
    match header.get("kind"):
        case "model":
            return JointPMF.load(path)
        case "tables":
            return Tables.load(path)
    raise FileFormatError(f"{str(path)!r} holds neither a model nor tables")
