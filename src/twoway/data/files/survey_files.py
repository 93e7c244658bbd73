"""Files of statistics programs, read by pyreadstat a slice at a time: SPSS, Stata and SAS."""

from __future__ import annotations

import re
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoway.category_labels import Label, plain_label, sort_labels
from twoway.data.columns import Column, Columns, Letters
from twoway.data.missing import MissingLabels, missing_key
from twoway.errors import DataError, FileFormatError
from twoway.lazy_imports import import_extra, pa, pc

if TYPE_CHECKING:
    from twoway.data.files.file_set import FileSet

READERS = {"sav": "read_sav", "por": "read_por", "dta": "read_dta", "sas7bdat": "read_sas7bdat"}
"""What reads each kind of file."""
_VARIABLE_MARK = 2
_LONGEST_HEADER = 2**26
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
        markers = MissingLabels((), {name: missing}, only=True).markers(name)
        given = metadata.variable_value_labels.get(name, {})
        is_text = metadata.readstat_variable_types.get(name) == "string"
        are_letters = {code for code in given if isinstance(code, str) and not is_text}
        labels = {plain_label(code): given[code] for code in sort_labels(given) if code not in are_letters}
        letters: dict[Label, str] = {f".{code}": given[code] for code in sorted(are_letters)}
        columns[name] = Column(
            label=metadata.column_names_to_labels.get(name) or "",
            categories={code: label for code, label in labels.items() if missing_key(code) not in markers},
            ordered=metadata.variable_measure.get(name) in ("ordinal", "scale") or None,
            missing=missing or None,
            value_labels=labels | letters,
        )
    known = {name.casefold(): name for name in columns}
    sets = {
        name.lstrip("$"): {
            "columns": [known[member.casefold()] for member in question["variable_list"]],
            "chosen": question["counted_value"],
            "label": question["label"],
        }
        for name, question in metadata.mr_sets.items()
        if question["is_dichotomy"] and question["counted_value"] is not None and len(question["variable_list"]) > 1
    }
    return Columns(columns, sets=sets)


def survey_weight(path: str, kind: str, names: Sequence[str]) -> str | None:
    """Return the weight variable of an SPSS file, which pyreadstat does not tell; None where none is switched on."""
    if kind != "sav":
        return None
    with open(path, "rb") as file:
        head = file.read(176)
        order = "<" if head[64:68] in (b"\2\0\0\0", b"\3\0\0\0") else ">"
        place, short = struct.unpack(f"{order}i", head[76:80])[0], b""
        for _ in range(max(place, 0)):  # a record for each variable, and for each further eight bytes of text
            mark, _, has_label, n_missing, _, _, short = struct.unpack(f"{order}6i8s", file.read(32))
            if mark != _VARIABLE_MARK:
                return None
            if has_label:
                length = struct.unpack(f"{order}i", file.read(4))[0]
                file.seek(-(-length // 4) * 4, 1)
            file.seek(8 * abs(n_missing), 1)
        if not short:
            return None
        rest = file.read(_LONGEST_HEADER)
    name = short.decode("ascii", "replace").strip()
    # Names of more than eight characters are listed apart: SHORT=longer_name, separated by tabs.
    longer = re.search(rb"(?:^|[\t\n\0-\x08])" + re.escape(short.strip()) + rb"=([^\0-\x1f]+)", rest)
    known = {other.casefold(): other for other in names}
    return known.get(longer[1].decode("utf-8", "replace").casefold() if longer else name.casefold())


def survey_slices(path: str, kind: str, columns: Sequence[str], letters: Letters) -> Iterator[pa.Table]:
    """Yield some columns of a file, a slice at a time, at least one; user-missing codes as they are.

    Those that are letters beside numbers, as Stata and SAS have them, come as null and are counted in ``letters``.
    """
    n_rows = survey_metadata(path, kind).number_rows
    limit = max(1, _SLICE_CELLS // max(len(columns), 1))
    start = 0
    while True:
        cells, metadata = _read_survey(path, kind, usecols=list(columns), row_offset=start, row_limit=limit)
        table, letters[path, start] = _survey_table(cells, columns, metadata)
        if table.num_rows or not start:
            yield table
        start += table.num_rows
        if table.num_rows < limit:
            break
    if n_rows is not None and start < n_rows:
        raise FileFormatError(f"{path!r} is damaged: it has {start:,} of the {n_rows:,} records that it lists")


def survey_package(path: str) -> Any:
    """Return pyreadstat; where it is not installed, the error names the file that needs it."""
    return import_extra("pyreadstat", f"{path!r}: SPSS, Stata and SAS files need pyreadstat", "survey")


def _read_survey(path: str, kind: str, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    pyreadstat = survey_package(path)
    if kind != "por":
        options["user_missing"] = True
    try:
        cells, metadata = getattr(pyreadstat, READERS[kind])(path, output_format="dict", **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path!r} is damaged, or its format does not match its name: {error}") from None
    except OverflowError:
        beyond = "has dates beyond the years 1 to 9999, which cannot be read; leave these columns out"
        raise DataError(f"{path!r} {beyond}") from None
    return cells, metadata


def _survey_table(
    cells: dict[str, list[Any]], columns: Sequence[str], metadata: Any
) -> tuple[pa.Table, Counter[tuple[str, Label]]]:
    """Return columns as an Arrow table, numbers, text, dates and times, and how often letters stand for numbers."""
    arrays, letters = {}, Counter[tuple[str, Label]]()
    for name in columns:
        try:
            arrays[name] = _survey_codes(pa.array(cells[name], pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
            if metadata.readstat_variable_types.get(name) == "string":
                arrays[name] = pa.array(cells[name], pa.string())
                continue
            letters.update((name, f".{cell}") for cell in cells[name] if isinstance(cell, str))
            # Numbers, or dates and times, which Arrow knows.
            arrays[name] = _survey_codes(pa.array([None if isinstance(cell, str) else cell for cell in cells[name]]))
    return pa.table(arrays), letters


def _survey_codes(numbers: pa.Array) -> pa.Array:
    """Return numbers as integers where all of them are whole: as codes are written."""
    if not pa.types.is_floating(numbers.type) or not pc.all(pc.less(pc.abs(numbers), 2.0**53)).as_py():
        return numbers
    are_whole = pc.all(pc.equal(pc.trunc(numbers), numbers)).as_py()
    return numbers.cast(pa.int64()) if are_whole else numbers


def written_survey_file(table: pa.Table, name: str, kind: str, like: FileSet | None) -> bytes:
    """Return an SPSS or Stata file, which pyreadstat writes by its name alone."""
    pyreadstat, options = survey_package(name), dict[str, Any]()
    if like is not None and like.kind in READERS:
        known = survey_metadata(like.paths[0], like.kind)
        options = {"column_labels": known.column_names_to_labels, "variable_value_labels": known.variable_value_labels}
        if kind == "sav":
            options |= {"missing_ranges": known.missing_ranges, "variable_measure": known.variable_measure}
        else:  # Stata labels whole numbers alone
            of_numbers = ((column, own.items()) for column, own in known.variable_value_labels.items())
            options["variable_value_labels"] = {
                column: {code: label for code, label in own if not isinstance(code, str)} for column, own in of_numbers
            }
    if name.lower().endswith(".zsav"):
        options["compress"] = True
    try:
        with tempfile.TemporaryDirectory(prefix="twoway-") as folder:
            path = Path(folder) / "file"
            getattr(pyreadstat, f"write_{kind}")(table.to_pandas(), path, **options)
            return path.read_bytes()
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError) as error:
        raise FileFormatError(f"cannot write {name!r}: {error}") from None
