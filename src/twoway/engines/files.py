"""Files of records, read into Arrow tables.

CSV, TSV and JSON lines are read by DuckDB. A text file says nothing of types, so every cell is read as text
first, and a column is one of numbers where each of its distinct labels is: ``007`` stays text, ``yes`` is no truth
value, and no cell far down can contradict a guess. Parquet and Arrow files have types of their own, categories and
their order included, which are kept.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from twoway.container import whole_or_not_at_all
from twoway.errors import DataError, FileFormatError, MissingFileError, TwowayError, shortlist, unknown
from twoway.schema import Schema, Variable, label_key

if TYPE_CHECKING:
    import pyarrow as pa

FilePath: TypeAlias = str | os.PathLike[str]

FORMATS: Mapping[str, str] = {
    ".csv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""What each ending of a file name means; CSV, TSV and JSON may be compressed: .gz, .zst."""

_COMPRESSED = (".gz", ".zst")
_DELIMITERS = ",;\t|"
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$|^-?\.[0-9]+([eE][+-]?[0-9]+)?$"
_TRUTHS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}
_HEADER_BYTES = 2**24


def is_path(source: object) -> bool:
    """Return whether a source of records is the name of a file."""
    return isinstance(source, str | os.PathLike)


def format_of(path: FilePath) -> str:
    """Return what a file holds by the ending of its name: "csv", "tsv", "json", "parquet" or "arrow".

    Examples
    --------
    >>> format_of("survey.csv.gz"), format_of("trips/*.parquet")
    ('csv', 'parquet')
    """
    plain = Path(path)
    ending = Path(plain.stem).suffix if plain.suffix.lower() in _COMPRESSED else plain.suffix
    found = FORMATS.get(ending.lower())
    if found is None:
        raise FileFormatError(
            f"{str(path)!r}: no way to read a file whose name ends in {ending!r}; records are read from "
            f"{', '.join(FORMATS)}, the text ones also with {' or '.join(_COMPRESSED)}"
        )
    return found


def read_table(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[object] = (),
    schema: Schema | None = None,
) -> pa.Table:
    """Return a file's records as an Arrow table, holes as nulls.

    Parameters
    ----------
    path
        The file; a pattern such as ``trips/*.parquet`` reads all that match, in the order of their names.
    columns
        The columns to read, all by default.
    missing
        Text that means "not observed" in a text file, beside the empty cell.
    schema
        Variables that columns stand for, which then decide whether ``1`` is a number or text.
    """
    kind = format_of(path)
    paths = _files(path)
    with _clear_errors(path):
        if kind in ("parquet", "arrow"):
            return _read_typed(paths, kind, columns)
        if kind == "json":
            return _read_json(paths, columns)
        return _read_text(paths, "\t" if kind == "tsv" else None, columns, missing, schema)


def column_names(path: FilePath) -> list[str]:
    """Return the names of a file's columns."""
    kind = format_of(path)
    paths = _files(path)
    with _clear_errors(path):
        if kind in ("parquet", "arrow"):
            return _dataset(paths, kind)[1]
        if kind == "json":
            with _connect() as connection:
                return list(_open_json(connection, paths).columns)
        return _read_header(paths[0], "\t" if kind == "tsv" else None)[0]


def _files(path: FilePath) -> list[str]:
    name = os.fspath(path)
    if any("\ud800" <= char <= "\udfff" for char in name):
        # The engines know UTF-8 only; Python reads any name, but as it would be in this locale.
        raise DataError(f"the name {name!r} is none in this locale; set PYTHONUTF8=1, or rename the file")
    if os.path.isdir(name):
        raise FileFormatError(f"{name!r} is a folder, not a file of records")
    if os.path.exists(name):
        # Before any engine has its own way of saying so.
        with open(name, "rb"):
            return [name]
    found = sorted(glob.glob(name))
    if not found:
        raise MissingFileError(f"there is no file {name!r}")
    return found


@contextmanager
def _clear_errors(path: FilePath) -> Iterator[None]:
    """Turn what the engines raise about a file into an error that names the file in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, TwowayError) or getattr(error, "errno", None) is not None:
            raise  # one of ours, or of the operating system
        raise FileFormatError(f"{os.fspath(path)!r} is damaged, or not what its name says: {_first(error)}") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("duckdb", "_duckdb"):
            raise
        raise FileFormatError(f"{os.fspath(path)!r} cannot be read: {_first(error)}") from error


def _first(error: Exception) -> str:
    """Return what matters of an engine's message: its first lines, up to its hints and settings."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept: list[str] = []
    for line in lines:
        if not line or line.startswith(("Possible", "file =")) or len(kept) == 3:
            break
        kept.append(line if len(line) <= 120 else line[:119] + "…")
    return "; ".join(kept)


def _connect() -> Any:
    """Return a DuckDB of our own that draws nothing on the terminal."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def _choose(names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    for name in columns or ():
        if name not in names:
            raise unknown("column", name, names)
    return list(names) if columns is None else list(columns)


# Parquet and Arrow


def _dataset(paths: Sequence[str], kind: str) -> tuple[Any, list[str]]:
    import pyarrow.dataset as ds

    dataset = ds.dataset(list(paths), format="parquet" if kind == "parquet" else "ipc")
    # pandas writes the index of a frame as a column.
    return dataset, [name for name in dataset.schema.names if not re.fullmatch(r"__index_level_\d+__", name)]


def _read_typed(paths: Sequence[str], kind: str, columns: Sequence[str] | None) -> pa.Table:
    dataset, names = _dataset(paths, kind)
    return dataset.to_table(columns=_choose(names, columns)).unify_dictionaries()


# JSON lines


def _open_json(connection: Any, paths: Sequence[str]) -> Any:
    relation = connection.read_json(list(paths) if len(paths) > 1 else paths[0], sample_size=-1)
    if relation.columns == ["json"]:
        raise DataError(f'{paths[0]!r} holds no records; each line must be an object such as {{"age": 30}}')
    return relation


def _read_json(paths: Sequence[str], columns: Sequence[str] | None) -> pa.Table:
    import duckdb

    with _connect() as connection:
        relation = _open_json(connection, paths)
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))

        def expression(name: str) -> Any:
            column = duckdb.ColumnExpression(name)
            if types[name] != "JSON":
                return column
            # Cells of several types: text without its quotes, the others as they were written.
            return duckdb.FunctionExpression("json_extract_string", column, duckdb.ConstantExpression("$")).alias(name)

        return relation.select(*map(expression, _choose(relation.columns, columns))).to_arrow_table()


# CSV and TSV


def _read_text(
    paths: Sequence[str],
    delimiter: str | None,
    columns: Sequence[str] | None,
    missing: Iterable[object],
    schema: Schema | None,
) -> pa.Table:
    import duckdb
    import pyarrow as pa

    names, delimiter = _read_header(paths[0], delimiter)
    for path in paths[1:]:
        others, _ = _read_header(path, delimiter)
        if others != names:
            raise DataError(f"{path!r} has the columns {shortlist(others)}, and {paths[0]!r} has {shortlist(names)}")
    markers = {label.strip() for label in missing if isinstance(label, str)}
    with _connect() as connection:
        relation = connection.read_csv(
            list(paths) if len(paths) > 1 else paths[0],
            auto_detect=False,
            columns=dict.fromkeys(names, "VARCHAR"),
            header=True,
            delimiter=delimiter,
            quotechar='"',
            escapechar='"',
        )
        wanted = _choose(names, columns)
        texts = relation.select(*map(duckdb.ColumnExpression, wanted)).to_arrow_table()
    typed = {
        name: type_column(texts.column(name), markers, schema[name] if schema is not None and name in schema else None)
        for name in wanted
    }
    return pa.table(typed)


def _read_header(path: str, delimiter: str | None) -> tuple[list[str], str]:
    """Return the names in a text file's first line and what parts them; anything but such a file is an error."""
    import pyarrow as pa

    with pa.input_stream(path, compression="detect") as stream:
        head = stream.read(2**16)
        while head and b"\n" not in head and len(head) < _HEADER_BYTES and (more := stream.read(2**20)):
            head += more
    if not head.strip():
        raise DataError(f"{path!r} is empty; its first line must name the columns")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise FileFormatError(f"{path!r} is not a text file in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    if head[:4] in (b"PAR1", b"PK\x03\x04", b"ARRO"):
        raise FileFormatError(f"{path!r} is not a text file, whatever its name says: it begins with {head[:4]!r}")
    # A character that the end of the sample cuts in two is no error.
    text = head.decode("utf-8-sig", errors="surrogateescape")
    line = next(line for line in text.splitlines() if line.strip())
    if any("\udc80" <= char <= "\udcff" for char in line):
        raise FileFormatError(f"{path!r} is not in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    bare = re.sub(r'"[^"]*"', "", line)
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=bare.count)
    names = next(row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row)
    # An unnamed column is most often the row numbers that some program wrote.
    names = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(
            f"{path!r} has the column name {twice[0]!r} twice; its first line must name the columns, each once"
        )
    return names, delimiter


def type_column(column: pa.ChunkedArray, markers: Collection[str], variable: Variable | None = None) -> pa.ChunkedArray:
    """Return a column of text as a dictionary of numbers, truth values or text, with markers as nulls.

    Parameters
    ----------
    column
        Cells as text.
    markers
        Text that means "not observed".
    variable
        Whose categories the cells are, where that is known: numbers are then read as text or as numbers, as the
        categories are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column)
    labels = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    kinds = {label_key(label)[0] for label in variable.categories} if variable is not None else {"number", "truth"}
    is_missing = pc.is_in(pc.utf8_trim_whitespace(labels), value_set=pa.array(sorted(markers), pa.string()))
    if variable is not None:  # a category is one, even where it reads "NA"
        texts = [label for label in variable.categories if isinstance(label, str)]
        is_missing = pc.and_not(is_missing, pc.is_in(labels, value_set=pa.array(texts, pa.string())))
    kept = pc.if_else(is_missing, pa.scalar(None, labels.type), labels)
    dictionary = _typed(kept, kinds)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, dictionary) for chunk in encoded.chunks],
        pa.dictionary(pa.int32(), dictionary.type),
    )


def _typed(labels: pa.Array, kinds: set[str]) -> pa.Array:
    """Return labels as numbers or truth values, if these kinds are wanted and each label is one; else as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def each(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(trimmed, pattern)).as_py())

    trimmed = pc.utf8_trim_whitespace(labels)
    if labels.null_count == len(labels):
        return labels
    if "number" in kinds and each(_NUMBER):
        try:
            return trimmed.cast(pa.int64() if each(_INTEGER) else pa.float64())
        except pa.ArrowInvalid:  # whole numbers beyond 64 bits
            return labels
    if "truth" in kinds and pc.all(pc.is_in(trimmed, value_set=pa.array([*_TRUTHS, None]))).as_py():
        return pa.array([None if label is None else _TRUTHS[label] for label in trimmed.to_pylist()])
    return labels


# Writing


def write_table(table: pa.Table, path: FilePath) -> None:
    """Write an Arrow table to a file of the kind that its name says, whole or not at all."""
    kind = format_of(path)
    if Path(path).suffix.lower() in _COMPRESSED:
        raise FileFormatError(f"{os.fspath(path)!r}: compressed files are read, not written")
    with whole_or_not_at_all(path) as stream:
        write_stream(table, stream, kind)


def write_stream(table: pa.Table, stream: BinaryIO, kind: str = "csv") -> None:
    """Write an Arrow table to a stream; ``kind`` is what `format_of` returns."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, stream)
    elif kind == "arrow":
        import pyarrow.feather as feather

        feather.write_feather(table, stream)
    elif kind == "json":
        for batch in table.to_batches(2**14):
            lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
            stream.write("".join(line + "\n" for line in lines).encode())
    else:
        # Arrow's own writer puts every text into quotes.
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(2**14):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        text.flush()
        text.detach()  # closing it is the business of whoever opened it
