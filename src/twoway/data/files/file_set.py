"""Which files a name stands for: a file, a pattern or a folder, with the columns in the folders' names."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from twoway.data.files.text_files import typed_labels
from twoway.errors import DataError, FileFormatError, MissingFileError
from twoway.text import ADDRESS, shortlist, without_password

if TYPE_CHECKING:
    import pyarrow as pa

FilePath: TypeAlias = str | os.PathLike[str]

_ENDINGS = {
    "csv": (".csv", ".txt", ".data"),
    "tsv": (".tsv", ".tab"),
    "json": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
FORMATS: Mapping[str, str] = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
"""The format for each ending of a file name; CSV, TSV and JSON may be compressed: .gz, .zst."""

COMPRESSED = (".gz", ".zst")
_COMPRESSION = 8
"""How much smaller text files become when compressed, about."""
_CELL_BYTES = 8
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FileSet:
    """Files of one format that hold records of the same columns."""

    name: str
    """As it was given."""
    kind: str
    """What `format_of` returns."""
    paths: tuple[str, ...]
    partitions: tuple[Mapping[str, str | None], ...]
    """For each file the columns in the names of its folders, such as ``year=2024``; the same keys for all."""

    @property
    def is_text(self) -> bool:
        """Whether the files have no types."""
        return self.kind in ("csv", "tsv")

    @property
    def is_typed(self) -> bool:
        """Whether the files list the types of their columns."""
        return self.kind in ("parquet", "arrow")

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns, those in the folders' names last."""
        from twoway.data.files.formats import column_names

        return column_names(self)

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the files to read and their numbers; DuckDB reads all JSON files at once, as their types may differ."""
        yield from enumerate(self.paths[:1] if self.kind == "json" else self.paths)

    def memory_bytes(self, n_columns: int | None = None) -> int:
        """Return how many bytes some columns, or all, would take as an Arrow table in memory, about."""
        if self.kind != "parquet":
            sizes = [Path(path).stat().st_size for path in self.paths]
            return sum(sizes) * (_COMPRESSION if self.paths[0].endswith(COMPRESSED) else 1)
        import pyarrow.parquet as pq

        from twoway.data.files.duck import clear_errors

        n_rows = 0
        for path in self.paths:
            with clear_errors(path):
                n_rows += pq.read_metadata(path).num_rows
        return n_rows * (len(self.columns) if n_columns is None else n_columns) * _CELL_BYTES

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The columns in the folders' names."""
        return tuple(self.partitions[0])

    @cached_property
    def partition_columns(self) -> Mapping[str, pa.Array]:
        """The columns in the folders' names, a cell for each file: numbers if all cells are numbers."""
        import pyarrow as pa

        return {
            name: typed_labels(pa.array([partition[name] for partition in self.partitions], pa.string()), {"number"})
            for name in self.partition_names
        }

    def with_partitions(self, number: int, table: Any, wanted: Sequence[str]) -> Any:
        """Return a table of the file of a number with those columns wanted that are in its folders' names."""
        import pyarrow as pa

        for name in wanted:
            if name in self.partition_columns:
                cell = self.partition_columns[name].slice(number, 1)
                codes = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
                table = table.append_column(name, pa.DictionaryArray.from_arrays(codes, cell))
        return table


def is_path(source: object) -> bool:
    """Return whether a source of records is the name of a file."""
    return isinstance(source, str | os.PathLike)


def format_of(path: FilePath) -> str:
    """Return the format of a file by the ending of its name: "csv", "tsv", "json", "parquet" or "arrow".

    Examples
    --------
    >>> format_of("survey.csv.gz"), format_of("trips/*.parquet")
    ('csv', 'parquet')
    """
    ending = _ending(path)
    if ending not in FORMATS:
        raise FileFormatError(
            f"cannot read {str(path)!r}: its name ends in {ending!r}; records are read from {', '.join(FORMATS)}, the "
            f"text ones also with {' or '.join(COMPRESSED)}"
        )
    return FORMATS[ending]


def is_data(path: FilePath) -> bool:
    """Return whether a file is one of records by its name."""
    return _ending(path) in FORMATS


def find_files(path: FilePath | FileSet) -> FileSet:
    """Return the files that a name stands for, in the order of their names; a `FileSet` is returned as it is.

    A file, a pattern such as ``trips/*.parquet`` (``**`` for folders of any depth), or a folder: all files of records
    in it and below. Folders named ``year=2024`` at or below the first that the name leaves open are columns.
    """
    if isinstance(path, FileSet):
        return path
    name = os.fspath(path)
    if any("\ud800" <= char <= "\udfff" for char in name):
        # The engines know UTF-8 only; Python reads any name, but as it would be in this locale.
        raise DataError(f"the file name {name!r} cannot be decoded in this locale; set PYTHONUTF8=1, or rename it")
    pattern = re.search(r"[*?[]", name)
    if os.path.isdir(name):
        base, paths = name, _files_in(name)
    elif os.path.exists(name):
        base, paths = os.path.dirname(name), [name]
    elif ADDRESS.match(name):
        raise DataError(
            f"{without_password(name)!r} is an address, and records are read from files of this machine: download "
            "them; a database is read by `twoway count --table` and tw.DatabaseTable"
        )
    else:
        if pattern is not None:
            format_of(path)  # a wrong ending is reported before a wrong place
        base = os.path.dirname(name[: pattern.start()] if pattern else name)
        paths = sorted(file for file in glob.glob(name, recursive=True) if not os.path.isdir(file))
        if not paths:
            raise MissingFileError(f"there is no file {name!r}")
    for file in paths:
        # Before an engine reports it in a way of its own.
        with open(file, "rb"):
            pass
    partitions = tuple(_partition(os.path.relpath(file, base or ".")) for file in paths)
    for file, partition in zip(paths, partitions, strict=True):
        if partition.keys() != partitions[0].keys():
            raise DataError(
                f"the folders of {file!r} name the columns {shortlist(partition) or 'none'}, and those of {paths[0]!r} "
                f"{shortlist(partitions[0]) or 'none'}; all files must lie in folders of the same names"
            )
    return FileSet(name, format_of(paths[0]), tuple(paths), partitions)


def _files_in(folder: str) -> list[str]:
    """Return the files of records in a folder and below, which are of one kind, sorted."""
    paths = sorted(os.path.join(place, file) for place, _, files in os.walk(folder) for file in files)
    paths = [path for path in paths if _is_meant(os.path.relpath(path, folder))]
    if not paths:
        raise FileFormatError(f"{folder!r} is a folder without a file of records")
    by_kind = {format_of(path): path for path in reversed(paths)}
    if len(by_kind) > 1:
        raise FileFormatError(
            f"the folder {folder!r} holds files of several kinds, such as {shortlist(sorted(by_kind.values()))}; "
            f"name one kind: {os.path.join(folder, '**', '*' + Path(paths[0]).suffix)}"
        )
    return paths


def _ending(path: FilePath) -> str:
    plain = Path(path)
    return (Path(plain.stem).suffix if plain.suffix.lower() in COMPRESSED else plain.suffix).lower()


def _is_meant(relative: str) -> bool:
    """Return whether a file in a folder is one of records, not a hidden one, a log or a mark of success."""
    return not any(part.startswith((".", "_")) for part in Path(relative).parts) and _ending(relative) in FORMATS


def _partition(relative: str) -> dict[str, str | None]:
    """Return the columns in the folders' names: ``year=2024/month=5/x.parquet`` is {"year": "2024", "month": "5"}."""
    pairs = [part.split("=", 1) for part in Path(relative).parts[:-1] if "=" in part]
    return {unquote(key): None if value == _NULL_PARTITION else unquote(value) for key, value in pairs}
