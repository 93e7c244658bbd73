"""``twoway columns``: what the columns of files seem to be, to be checked, changed and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from twoway.cli.options import DataFile, Force
from twoway.cli.output import check_output, say
from twoway.cli.reading import Reading
from twoway.storage.atomic_files import atomic_file
from twoway.text import counted


def columns(
    data: DataFile,
    reading: Annotated[Reading, "missing", "missing_only"],
    out: Path | None = Option(
        None, "-o", "--out", metavar="TOML", help="The file to write (default: standard output)."
    ),
    force: Force = False,
) -> None:
    """Write what the columns of files seem to be, as TOML that --columns reads: check it, and change it.

    Categories and their labels, order, codes for missing cells with the number of cells that have them, bins, and what
    looks like an identifier, a weight or a multiple-choice question.

    [bold]Examples[/bold]

    twoway columns survey.csv -o survey.toml

    twoway fit survey.csv --columns survey.toml
    """
    from twoway.data.column_finding import find_columns
    from twoway.data.toml_text import columns_toml

    check_output(out, force, data)
    text = columns_toml(*find_columns(data, reading.labels))
    if out is None:
        say(text.removesuffix("\n"))
        return
    with atomic_file(out) as stream:
        stream.write(text.encode())
    n_columns = text.count("[columns.") - text.count(".categories]")
    say(f"{counted(n_columns, 'column')}: {out}")
