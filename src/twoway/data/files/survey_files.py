"""Files of statistics programs, read by pyreadstat a slice at a time: SPSS, Stata and SAS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from twoway.data.declarations import Column, Columns
from twoway.data.missing import MissingLabels, missing_key
from twoway.errors import DataError, FileFormatError
from twoway.schema import plain_label, sort_labels

if TYPE_CHECKING:
    import pyarrow as pa

READERS = {"sav": "read_sav", "por": "read_por", "dta": "read_dta", "sas7bdat": "read_sas7bdat"}
"""What reads each kind of file."""
_SLICE_CELLS = 2**21
"""Cells of a slice: pyreadstat gives them as Python objects, of some 32 bytes each."""


def survey_metadata(path: str, kind: str) -> Any:
    """Return what a file says about its columns, as pyreadstat gives it."""
    return _read_survey(path, kind, metadataonly=True)[1]


def survey_columns(metadata: Any) -> Columns:
    """Return what a file says about its columns: labels, value labels, codes that mean "not observed", order."""
    columns = {}
    for name in metadata.column_names:
        ranges = metadata.missing_ranges.get(name, ())
        missing = [r["lo"] if r["lo"] == r["hi"] else (r["lo"], r["hi"]) for r in ranges]
        gone = MissingLabels((), {name: missing}, only=True).markers(name)
        labels = metadata.variable_value_labels.get(name, {})
        listed = {code: labels[code] for code in sort_labels(labels) if missing_key(code) not in gone}
        columns[name] = Column(
            label=metadata.column_names_to_labels.get(name) or "",
            categories={plain_label(code): label for code, label in listed.items()},
            ordered=metadata.variable_measure.get(name) in ("ordinal", "scale"),
            missing=missing,
        )
    return Columns(columns)


def survey_slices(path: str, kind: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield some columns of a file, a slice at a time, at least one; user-missing codes as they are."""
    n_rows = survey_metadata(path, kind).number_rows
    limit = max(1, _SLICE_CELLS // max(len(columns), 1))
    start = 0
    while True:
        cells, metadata = _read_survey(path, kind, usecols=list(columns), row_offset=start, row_limit=limit)
        table = _survey_table(cells, columns, metadata)
        if table.num_rows or not start:
            yield table
        start += table.num_rows
        if table.num_rows < limit:
            break
    if n_rows is not None and start < n_rows:
        raise FileFormatError(f"{path!r} is damaged: it has {start:,} of the {n_rows:,} records that it lists")


def _read_survey(path: str, kind: str, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    try:
        import pyreadstat
    except ImportError:
        raise DataError(f'{path!r}: SPSS, Stata and SAS files need pyreadstat: pip install "twoway[survey]"') from None
    if kind == "sav":  # in other formats user-missing codes are letters beside the numbers, and come as null
        options["user_missing"] = True
    try:
        cells, metadata = getattr(pyreadstat, READERS[kind])(path, output_format="dict", **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path!r} is damaged, or its format does not match its name: {error}") from None
    return cells, metadata


def _survey_table(cells: dict[str, list[Any]], columns: Sequence[str], metadata: Any) -> pa.Table:
    """Return columns as an Arrow table: numbers, text, dates and times."""
    import pyarrow as pa

    arrays = {}
    for name in columns:
        is_text = metadata.readstat_variable_types[name] == "string"
        # A variable of numbers may be written as dates, which Arrow knows by themselves.
        arrays[name] = pa.array(cells[name], pa.string() if is_text else None)
    return pa.table(arrays)
