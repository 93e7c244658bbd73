"""Records to files: CSV, TSV, JSON lines, Parquet, Arrow, SPSS and Stata, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from twoway.data.files.file_set import FileSet
from twoway.data.files.formats import COMPRESSED, FORMATS, FilePath
from twoway.data.files.survey_files import READERS, written_survey_file
from twoway.data.files.text_files import DELIMITERS
from twoway.errors import FileFormatError
from twoway.lazy_imports import pa, pq
from twoway.storage.atomic_files import atomic_file, check_file_path

_WRITTEN = tuple(ending for ending, kind in FORMATS.items() if kind not in ("por", "sas7bdat", "sheet"))


def written_ending(path: FilePath, endings: Iterable[str], where: str) -> str:
    """Return the ending of a file; one that is not among these is an error that says where things are written."""
    ending = Path(check_file_path(path)).suffix.lower()
    if ending not in endings:
        raise FileFormatError(f"cannot write {os.fspath(path)!r}: its name ends in {ending!r}; {where}")
    return ending


def written_format(path: FilePath) -> str:
    """Return what `format_of` returns; a file that is not written is an error."""
    if Path(path).suffix.lower() in COMPRESSED:
        raise FileFormatError(f"{os.fspath(path)!r}: compressed files are read, not written")
    return FORMATS[written_ending(path, _WRITTEN, f"records are written to {', '.join(_WRITTEN)}")]


def write_data_file(table: pa.Table, path: FilePath, like: FileSet | None = None) -> None:
    """Write an Arrow table to a file in the format of its name, whole or not at all.

    SPSS and Stata files get the labels that the files ``like`` have for columns of the same names.
    """
    write_data_file_parts([table], path, like)


def write_data_file_parts(parts: Iterable[pa.Table], path: FilePath, like: FileSet | None = None) -> None:
    """Write tables of the same columns below one another, as `write_data_file` does; each is dropped once written."""
    kind = written_format(path)
    with atomic_file(path) as stream:
        if kind in READERS:
            stream.write(written_survey_file(pa.concat_tables(parts), os.fspath(path), kind, like))
        else:
            write_data_stream(parts, stream, kind)


def write_data_stream(parts: Iterable[pa.Table], stream: BinaryIO, kind: str) -> None:
    """Write tables of the same columns to a stream, below one another; ``kind`` is what `format_of` returns."""
    if kind == "parquet":
        _write_file_groups(map(_written_as_parquet, parts), lambda schema: pq.ParquetWriter(stream, schema))
    elif kind == "arrow":
        options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
        _write_file_groups(parts, lambda schema: pa.ipc.new_file(stream, schema, options=options))
    elif kind == "json":
        for part in parts:
            for batch in part.to_batches(2**14):
                lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
                stream.write("".join(line + "\n" for line in lines).encode())
    else:
        # Arrow's own writer puts every text into quotes.
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        for number, part in enumerate(parts):
            _write_text_rows(part, text, "\t" if kind == "tsv" else ",", has_header=number == 0)
        text.flush()
        text.detach()  # the caller closes the stream


def _write_file_groups(parts: Iterable[pa.Table], open_writer: Callable[[pa.Schema], Any]) -> None:
    """Write tables as groups of rows, by a writer of the columns that the first one has."""
    parts = iter(parts)
    first = next(parts)
    with open_writer(first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


def _written_as_parquet(table: pa.Table) -> pa.Table:
    """Return a table as Parquet can hold it: no dictionaries that have a null among their labels."""
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks):
            table = table.set_column(place, table.column_names[place], column.cast(column.type.value_type))
    return table


def _write_text_rows(table: pa.Table, text: io.TextIOWrapper, delimiter: str, *, has_header: bool) -> None:
    # csv gives quotes to the characters of a line's end alone, and readers take each of the two for one: lines end in
    # both for it, and in a line feed in the file.
    lines = SimpleNamespace(write=lambda line: text.write(line[:-2] + "\n"))
    if has_header:
        # Readers guess the delimiter from the first line.
        misleads = any(char in name for name in table.column_names for char in DELIMITERS)
        header = csv.writer(lines, delimiter=delimiter, quoting=csv.QUOTE_ALL if misleads else csv.QUOTE_MINIMAL)
        header.writerow(table.column_names)
    writer = csv.writer(lines, delimiter=delimiter)
    for batch in table.to_batches(2**14):
        writer.writerows(zip(*map(_written_cells, batch.columns), strict=True))


def _written_cells(column: pa.Array) -> list[Any]:
    """Return the cells of a column; Arrow makes those of a dictionary one at a time, which takes ten times as long."""
    if not pa.types.is_dictionary(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    labels = [*column.dictionary.to_pylist(), None]
    return [labels[code] for code in column.indices.fill_null(-1).to_pylist()]
