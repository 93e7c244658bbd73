"""``twoway columns``: what the columns of files seem to be, to be checked, changed and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twoway.cli.output import check_output, write_text_output
from twoway.cli.reading import Reading
from twoway.text import counted


def columns(
    data: Path,
    *,
    reading: Annotated[Reading, "missing", "missing_only"],
    out: Path | None = None,
    force: bool = False,
) -> None:
    """Write what the columns of files seem to be, as TOML that --columns reads: check it, and change it.

    Categories and their labels, order, codes for missing cells with the number of cells that have them, bins, and what
    looks like an identifier, a weight or a multiple-choice question.

    Parameters
    ----------
    out : TOML
        The file to write (default: standard output).

    Examples
    --------
    twoway columns survey.csv -o survey.toml

    twoway fit survey.csv --columns survey.toml
    """
    from twoway.data.column_finding import find_columns
    from twoway.data.toml_text import columns_toml

    check_output(out, force, data)
    text = columns_toml(*find_columns(data, reading.labels))
    n_columns = text.count("[columns.") - text.count(".categories]")
    write_text_output(text, out, counted(n_columns, "column"))
