"""Which files a name stands for: a file, a pattern or a folder, with the columns in the folders' names."""

from __future__ import annotations

import atexit
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from twoway.data.columns import Columns, Letters
from twoway.data.files import formats
from twoway.data.files.formats import COMPRESSED, FilePath, format_of, is_data_format
from twoway.data.files.spreadsheets import split_spreadsheet_name
from twoway.data.files.survey_files import READERS, survey_columns, survey_metadata, survey_weight
from twoway.data.files.text_files import typed_text
from twoway.errors import DataError, FileFormatError, MissingFileError, check_known
from twoway.lazy_imports import pa, pq
from twoway.storage.atomic_files import check_file_path
from twoway.text import ADDRESS, shortlist, without_password

STREAMED_BYTES = 2**29
"""Files that would take more than this, 512 MiB, as a table in memory are streamed."""
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
    place: str = ""
    """Which sheet of the files, and which row of it names the columns, where the name says so: ``Answers:3``."""
    letters: Letters = field(default_factory=dict, repr=False, compare=False)
    """Codes of missing cells that are letters beside numbers, counted as the files are read."""

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
        """The names of the columns of the first file, then those in the folders' names."""
        first = self.paths[0]
        names = formats.columns_of_format(self, first)
        for name in self.partition_names:
            if name in names:
                raise DataError(
                    f"{first!r} has a column {name!r} and is in a folder whose name defines {name!r} as well"
                )
        return [*names, *self.partition_names]

    @cached_property
    def declared(self) -> Columns:
        """What the files say themselves about their columns, which must be the same in all."""
        if self.kind not in READERS:
            return Columns()
        first, *others = (survey_columns(survey_metadata(path, self.kind)) for path in self.paths)
        for path, other in zip(self.paths[1:], others, strict=True):
            for name, column in first.columns.items():
                if name in other.columns and other[name].categories != column.categories:
                    raise DataError(f"the labels of column {name!r} in {path!r} are not those in {self.paths[0]!r}")
        first = replace(first, letters=self.letters)
        if self.weights is not None:  # not a question
            return Columns({self.weights: {"use": False}}).over(first)
        return first

    @cached_property
    def weights(self) -> str | None:
        """The weight variable that the files name themselves, which is proposed and not used unasked."""
        return survey_weight(self.paths[0], self.kind, self.columns)

    def choose_columns(self, columns: Sequence[str] | None) -> list[str]:
        """Return the columns to read, which every file must have, of the same kind, and no others if all are read."""
        check_known("column", self.columns, *(columns or ()))
        chosen = list(self.columns if columns is None else columns)
        if self.kind == "json":
            return chosen
        inside = [name for name in chosen if name not in self.partition_names]
        first, known = self.paths[0], set(self.columns)
        for path in self.paths[1:]:
            others = dict.fromkeys(formats.columns_of_format(self, path))
            lacking = [name for name in inside if name not in others]
            extra = [name for name in others if name not in known] if columns is None else []
            if lacking or extra:
                difference = f"lacks the column {lacking[0]!r}" if lacking else f"has a column {extra[0]!r}"
                raise DataError(
                    f"{path!r} {difference}, unlike {first!r}; files of one set must have the same columns: "
                    f"{shortlist(inside)}"
                )
            if self.is_typed:
                _check_same_kinds_in_files(first, path, self.kind, inside)
        return chosen

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the files to read and their numbers; DuckDB reads all JSON files at once, as their types may differ."""
        yield from enumerate(self.paths[:1] if self.kind == "json" else self.paths)

    def is_large(self, columns: Sequence[str] | None = None) -> bool:
        """Return whether some columns, or all, would take too much memory as an Arrow table, about."""
        if self.kind not in ("parquet", *READERS):
            size = sum(Path(path).stat().st_size for path in self.paths)
            return size * (_COMPRESSION if self.paths[0].endswith(COMPRESSED) else 1) > STREAMED_BYTES

        n_rows = 0
        for path in self.paths:
            with formats.clear_format_errors(path):
                if self.kind == "parquet":
                    n_rows += pq.read_metadata(path).num_rows
                else:  # a few formats do not say how many records there are
                    n_rows += survey_metadata(path, self.kind).number_rows or 0
        size = n_rows * len(self.columns if columns is None else columns) * _CELL_BYTES
        return size * (2 if self.kind in READERS else 1) > STREAMED_BYTES  # pyreadstat needs as much again

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The columns in the folders' names."""
        return tuple(self.partitions[0])

    @cached_property
    def partition_columns(self) -> Mapping[str, pa.Array]:
        """The columns in the folders' names, a cell for each file: numbers if all cells are numbers."""
        return {
            name: typed_text(pa.array([partition[name] for partition in self.partitions], pa.string()), {"number"})
            for name in self.partition_names
        }

    def with_partitions(self, number: int, table: Any, wanted: Sequence[str]) -> Any:
        """Return a table of the file of a number with those columns wanted that are in its folders' names."""
        for name in wanted:
            if name in self.partition_columns:
                cell = self.partition_columns[name].slice(number, 1)
                codes = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
                table = table.append_column(name, pa.DictionaryArray.from_arrays(codes, cell))
        return table


def is_file_path(source: object) -> bool:
    """Return whether a source of records is the name of a file."""
    return isinstance(source, str | os.PathLike)


def find_files(path: FilePath | FileSet) -> FileSet:
    """Return the files that a name stands for, in the order of their names; a `FileSet` is returned as it is.

    A file, a pattern such as ``trips/*.parquet`` (``**`` for folders of any depth), or a folder: all files of records
    in it and below. ``survey.xlsx#Answers:3`` is a sheet of a file whose third row names the columns. Folders
    named ``year=2024`` at or below the first that the name leaves open are columns.
    """
    if isinstance(path, FileSet):
        return path
    name = os.fspath(check_file_path(path))
    if any("\ud800" <= char <= "\udfff" for char in name):
        # The engines know UTF-8 only; Python reads any name, but as it would be in this locale.
        raise DataError(f"the file name {name!r} cannot be decoded in this locale; set PYTHONUTF8=1, or rename it")
    given, place = name, ""
    name = unquote(re.sub(r"^file:/+(localhost(?=/))?/*", "/", name)) if name.startswith("file:/") else name
    if not os.path.exists(name):
        name, place = split_spreadsheet_name(name)
    pattern = re.search(r"[*?[]", name)
    if os.path.isdir(name):
        base, paths = name, _files_in(name)
    elif os.path.exists(name):
        base, paths = os.path.dirname(name), [name]
    elif ADDRESS.match(name):
        given, name = (re.sub(r":/+", "://", text, count=1) for text in (given, name))  # in a path, a slash is lost
        base, paths = _downloaded_files(name)
        given = without_password(given)
    else:
        if pattern is not None:
            format_of(name)  # a wrong ending is reported before a wrong place
        base = os.path.dirname(name[: pattern.start()] if pattern else name)
        paths = sorted(file for file in glob.glob(name, recursive=True) if not os.path.isdir(file))
        if not paths:
            raise MissingFileError(f"there is no file {name!r}")
    for file in paths:
        # Before an engine reports it in a way of its own.
        with open(file, "rb"):
            pass
    partitions = tuple(_partition_of_file(os.path.relpath(file, base or ".")) for file in paths)
    for file, partition in zip(paths, partitions, strict=True):
        if partition.keys() != partitions[0].keys():
            raise DataError(
                f"the folders of {file!r} name the columns {shortlist(partition) or 'none'}, and those of {paths[0]!r} "
                f"{shortlist(partitions[0]) or 'none'}; all files must lie in folders of the same names"
            )
    return FileSet(given, format_of(paths[0]), tuple(paths), partitions, place)


def _downloaded_files(address: str) -> tuple[str, list[str]]:
    """Return a temporary folder and the files in it, fetched by fsspec from an address, or a pattern of them."""
    shown = without_password(address)
    if not is_data_format(address.partition("?")[0]):
        raise DataError(
            f"{shown!r} is an address, but not of a file that can be read, such as https://host/survey.csv; a database "
            "is read by --db and tw.DatabaseTable"
        )

    def explained(error: Exception) -> str:
        # The message may repeat the address, and with it the password.
        return f"{type(error).__name__}: {error}" if shown == address else type(error).__name__

    try:
        import fsspec

        folder = tempfile.mkdtemp(prefix="twoway-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        system, remote = fsspec.core.url_to_fs(address)
        pattern = re.search(r"[*[]", remote)  # a question mark begins a query
        listed = sorted(system.glob(remote)) if pattern else [remote]
        start = len(os.path.dirname(remote[: pattern.start()] if pattern else remote)) + 1
        # The names of folders below the first that the pattern leaves open may be columns.
        inside = {file: Path("/", file[start:].partition("?")[0].replace("%3D", "=")).parts[1:] for file in listed}
        paths = {file: os.path.join(folder, *(part for part in inside[file] if part != "..")) for file in listed}
        for file, path in paths.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            system.get_file(file, path)
    except (ImportError, ValueError) as error:
        raise DataError(
            f"{shown!r} cannot be fetched, {explained(error)}; https:// and s3:// need packages: "
            'pip install "twoway[remote]"'
        ) from None
    except FileNotFoundError:
        paths = {}
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, OSError):
            raise
        is_locked = "Credentials" in type(error).__name__ or isinstance(error, PermissionError)
        why = "does it need credentials? for public data in S3, set FSSPEC_S3_ANON=true;"
        why = why if is_locked else "is there a network?"
        raise MissingFileError(f"{shown!r} cannot be fetched; {why} {explained(error)}") from None
    if not paths:
        raise MissingFileError(f"there is no file {shown!r}")
    return folder, list(paths.values())


def _files_in(folder: str) -> list[str]:
    """Return the files of records in a folder and below, which are of one kind, sorted."""
    paths = sorted(os.path.join(place, file) for place, _, files in os.walk(folder) for file in files)
    paths = [path for path in paths if _is_file_meant(os.path.relpath(path, folder))]
    if not paths:
        raise FileFormatError(f"{folder!r} is a folder without a file of records")
    by_kind = {format_of(path): path for path in reversed(paths)}
    if len(by_kind) > 1:
        raise FileFormatError(
            f"the folder {folder!r} holds files of several kinds, such as {shortlist(sorted(by_kind.values()))}; "
            f"name one kind: {os.path.join(folder, '**', '*' + Path(paths[0]).suffix)}"
        )
    return paths


def _is_file_meant(relative: str) -> bool:
    """Return whether a file in a folder is one of records, not a hidden one, a log or a mark of success."""
    return not any(part.startswith((".", "_")) for part in Path(relative).parts) and is_data_format(relative)


def _partition_of_file(relative: str) -> dict[str, str | None]:
    """Return the columns in the folders' names: ``year=2024/month=5/x.parquet`` is {"year": "2024", "month": "5"}."""
    pairs = [part.split("=", 1) for part in Path(relative).parts[:-1] if "=" in part]
    return {unquote(key): None if value == _NULL_PARTITION else unquote(value) for key, value in pairs}


def _check_same_kinds_in_files(first: str, path: str, kind: str, names: Sequence[str]) -> None:
    """Refuse a column that is numbers in one file and text in another."""

    def described(dtype: pa.DataType) -> str:
        if pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
        if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
            return "number"
        return "text" if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) else str(dtype)

    schemas = formats.format_schema(first, kind), formats.format_schema(path, kind)
    for name in names:
        expected, got = (described(schema.field(name).type) for schema in schemas)
        if expected != got and "null" not in (expected, got):
            raise DataError(f"column {name!r} is {got} in {path!r} and {expected} in {first!r}")
