"""Which files a name stands for: a file, a pattern or a folder, with what the folders' names say."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from twoway.data.files.text_types import typed_labels
from twoway.errors import DataError, FileFormatError, MissingFileError
from twoway.text import ADDRESS, shortlist, without_password

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

DELIMITERS = ",;\t|"
"""What may part the columns of a text file."""
COMPRESSED = (".gz", ".zst")
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
    """For each file what the folders around it say, ``year=2024`` and the like; the same keys for all."""

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The columns that the folders' names are."""
        return tuple(self.partitions[0])

    @cached_property
    def partition_columns(self) -> Mapping[str, pa.Array]:
        """The columns that the folders' names are, a cell for each file: numbers where each of them is one."""
        import pyarrow as pa

        return {
            name: typed_labels(pa.array([one[name] for one in self.partitions], pa.string()), {"number"})
            for name in self.partition_names
        }

    def with_partitions(self, number: int, table: Any, wanted: Sequence[str]) -> Any:
        """Return a table of the file of a number with the columns wanted that its folders' names are."""
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
    """Return what a file holds by the ending of its name: "csv", "tsv", "json", "parquet" or "arrow".

    Examples
    --------
    >>> format_of("survey.csv.gz"), format_of("trips/*.parquet")
    ('csv', 'parquet')
    """
    ending = _ending(path)
    found = FORMATS.get(ending)
    if found is None:
        raise FileFormatError(
            f"{str(path)!r}: no way to read a file whose name ends in {ending!r}; records are read from "
            f"{', '.join(FORMATS)}, the text ones also with {' or '.join(COMPRESSED)}"
        )
    return found


def is_data(path: FilePath) -> bool:
    """Return whether a file is one of records by its name."""
    return _ending(path) in FORMATS


def find_files(path: FilePath) -> FileSet:
    """Return the files that a name stands for, in the order of their names.

    A file, a pattern such as ``trips/*.parquet`` (``**`` for folders of any depth), or a folder: all files of records
    in it and below. Folders named ``year=2024`` at or below the first that the name leaves open are columns.
    """
    name = os.fspath(path)
    if any("\ud800" <= char <= "\udfff" for char in name):
        # The engines know UTF-8 only; Python reads any name, but as it would be in this locale.
        raise DataError(f"the name {name!r} is none in this locale; set PYTHONUTF8=1, or rename the file")
    if os.path.isdir(name):
        base = name
        paths = sorted(os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files)
        paths = [one for one in paths if _is_meant(os.path.relpath(one, base))]
        if not paths:
            raise FileFormatError(f"{name!r} is a folder without a file of records")
        by_kind = {format_of(one): one for one in reversed(paths)}
        if len(by_kind) > 1:
            raise FileFormatError(
                f"the folder {name!r} holds files of several kinds, such as {shortlist(sorted(by_kind.values()))}; "
                f"name one kind: {os.path.join(name, '**', '*' + Path(paths[0]).suffix)}"
            )
    elif os.path.exists(name):
        base, paths = os.path.dirname(name), [name]
    elif ADDRESS.match(name):
        raise DataError(
            f"{without_password(name)!r} is an address, and records are read from files of this machine: download "
            "them; a database is read by `twoway count --table` and tw.DatabaseTable"
        )
    elif not re.search(r"[*?[]", name):
        raise MissingFileError(f"there is no file {name!r}")
    else:
        format_of(path)  # a wrong ending is said before a wrong place
        base = os.path.dirname(re.split(r"[*?[]", name)[0])
        paths = sorted(one for one in glob.glob(name, recursive=True) if not os.path.isdir(one))
        if not paths:
            raise MissingFileError(f"there is no file {name!r}")
    for one in paths:
        # Before any engine has its own way of saying so.
        with open(one, "rb"):
            pass
    partitions = tuple(_partition(os.path.relpath(one, base or ".")) for one in paths)
    for one, partition in zip(paths, partitions, strict=True):
        if partition.keys() != partitions[0].keys():
            raise DataError(
                f"the folders of {one!r} say {shortlist(partition) or 'nothing'}, and those of {paths[0]!r} say "
                f"{shortlist(partitions[0]) or 'nothing'}; all files must lie in folders of the same names"
            )
    return FileSet(name, format_of(paths[0]), tuple(paths), partitions)


def _ending(path: FilePath) -> str:
    plain = Path(path)
    return (Path(plain.stem).suffix if plain.suffix.lower() in COMPRESSED else plain.suffix).lower()


def _is_meant(relative: str) -> bool:
    """Return whether a file in a folder is one of records, not a hidden one, a log or a mark of success."""
    return not any(part.startswith((".", "_")) for part in Path(relative).parts) and _ending(relative) in FORMATS


def _partition(relative: str) -> dict[str, str | None]:
    """Return what the folders of a file say: ``year=2024/month=5/x.parquet`` is {"year": "2024", "month": "5"}."""
    pairs = [part.split("=", 1) for part in Path(relative).parts[:-1] if "=" in part]
    return {unquote(key): None if value == _NULL_PARTITION else unquote(value) for key, value in pairs}
