"""The table that files hold: whole in memory, or as a stream of slices of it, whatever its size.

In a text file a column is one of numbers if each of its distinct labels is: ``007`` stays text, ``yes`` is no truth
value, and no cell far down can contradict a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Ints
from twoway.category_labels import label_key
from twoway.data.files import formats, text_files
from twoway.data.files.file_set import FileSet, find_files
from twoway.data.files.formats import FilePath, ReadSlices, clear_format_errors
from twoway.data.missing import USUAL, Markers, MissingLabels, Unseen, label_unless_missing
from twoway.data.raw_columns import LabelsByKey, open_raw_columns, with_codes_read_as_missing
from twoway.data.scan import Scan
from twoway.errors import DataError, unknown_name
from twoway.lazy_imports import pa, pc
from twoway.schema import Schema, Variable
from twoway.text import shortlist


class Piece(NamedTuple):
    """Some rows of one file."""

    path: str
    start: int
    """The number of its first row in the file, where no condition leaves rows out."""
    read: ReadSlices


@dataclass(frozen=True)
class FileTable:
    """The records of files, some columns or all, which can be read again and again.

    Parameters
    ----------
    files
        A file, a pattern such as ``trips/*.parquet`` or a folder; several files are read in the order of their names.
    columns
        The columns to read.
    where
        A condition in SQL that the records meet.
    missing
        Labels that mean "not observed", as for `Records`. In a text file these cells come as null, and
        `codes_read_as_missing` counts them.
    max_categories
        A column of text with more labels is an error, before it fills memory.
    schema
        Variables that columns stand for, which then decide whether ``1`` is a number or text.
    unseen
        What text gets in a text file among the numbers of a variable of the schema: an error, or "missing".
    prepare
        Changes each slice of the stream before it is used.
    """

    files: FileSet
    columns: Sequence[str]
    where: str | None = None
    missing: MissingLabels = MissingLabels()  # noqa: RUF009  # frozen
    max_categories: int | None = None
    schema: Schema | None = None
    unseen: Unseen = "error"
    prepare: Callable[[pa.Table], pa.Table] | None = None

    @classmethod
    def open(cls, path: FilePath | FileSet, columns: Sequence[str] | None = None, **options: Any) -> FileTable:
        """Return the table of some columns of files, or of all; the options are the fields of the class."""
        files = find_files(path)
        if files.is_text and len(files.columns) == 1:
            text_files.warn_of_single_column(files.paths[0], files.kind)
        options["missing"] = MissingLabels.of(options.get("missing", ()))
        options["missing"].check_columns(files.columns, options.get("schema"))
        return cls(files, files.choose_columns(columns), **options)

    @cached_property
    def _read(self) -> list[str]:
        """The columns to read: those wanted, and those of the condition."""
        return list(dict.fromkeys([*self.columns, *self._condition_columns]))

    @cached_property
    def _inside(self) -> list[str]:
        """The columns to read that are in the files, not in their folders' names."""
        return [name for name in self._read if name not in self.files.partition_names]

    @cached_property
    def _connection(self) -> Any:
        return formats.connect_for_formats()

    def read(self) -> pa.Table:
        """Return all records as one table, holes as nulls."""
        parts = []
        for number, path in self.files.numbered():
            with clear_format_errors(self.files.name if self.files.kind == "json" else path):
                part = formats.read_whole_format(self._connection, self.files, path, self._inside)
            parts.append(self.files.with_partitions(number, part, self._read).select(self._read))
        # All of a column is there, which says best what its cells are.
        return self._finished(_file_tables_together(parts), {})

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows in parts that can be read on several threads at once; files in the order of their names."""
        kinds = {name: kinds for name, (kinds, _) in self._typed_texts.items()}
        skipped = self._skipped_files()
        for number, path in self.files.numbered():
            if number in skipped:
                continue
            with clear_format_errors(self.files.name if self.files.kind == "json" else path):
                for start, read in formats.read_format_pieces(self._connection, self.files, path, self._inside):
                    yield Piece(path, start, self._finishing(number, path, read, kinds))

    def _finishing(self, number: int, path: str, read: ReadSlices, kinds: Mapping[str, set[str]]) -> ReadSlices:
        def finished() -> Iterator[pa.Table]:
            with clear_format_errors(path):
                for part in read():
                    table = self._finished(self.files.with_partitions(number, part, self._read), kinds)
                    yield table if self.prepare is None else self.prepare(table)

        return finished

    def _finished(self, table: pa.Table, kinds: Mapping[str, set[str]]) -> pa.Table:
        """Return rows typed, filtered, and with the columns wanted; ``kinds`` says what the cells of columns are."""
        coded: dict[str, Any] = {}

        def typed(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
            if name in self.files.partition_names:
                return column
            variable = self._variable(name)
            texts = self.missing.texts(name, variable)
            known = kinds.get(name, text_files.text_kinds(variable)) | self._further_kinds
            column = pc.dictionary_encode(column)
            codes = texts.difference(USUAL, text_files.texts_of_variable(variable))
            if codes and name in self.columns and column.num_chunks:
                labels = pc.utf8_trim_whitespace(column.chunk(0).dictionary)
                is_code = pc.is_in(labels, value_set=pa.array(sorted(codes), pa.string()))
                if pc.any(is_code).as_py():
                    coded[name] = pc.take(pc.if_else(is_code, labels, None), column.combine_chunks().indices)
            return text_files.type_text_column(column, texts, variable, known, self.unseen)

        if self.files.is_text:  # as a new table: setting one column at a time takes quadratic time
            table = pa.table(dict(zip(table.column_names, map(typed, table.column_names, table.columns), strict=True)))
        if self.where is not None:
            # Types and dictionaries stay as they are.
            rows = self._rows_that_meet(self.where, table)
            table = table if len(rows) == table.num_rows else table.take(rows)
            coded = {name: column.take(pa.array(rows)) for name, column in coded.items()}
        counts = {name: Counter(column.drop_null().to_pylist()) for name, column in coded.items()}
        return with_codes_read_as_missing(table.select(list(self.columns)), counts)

    def _variable(self, name: str) -> Variable | None:
        return None if self.schema is None else self.schema.read_from(name)

    @cached_property
    def _further_kinds(self) -> set[str]:
        """Return "comma" where ``2,5`` is a number, as it must be where semicolons separate columns."""
        return (
            {"comma"} if text_files.read_text_header(self.files.paths[0], self.files.kind).delimiter == ";" else set()
        )

    @cached_property
    def _texts(self) -> Scan:
        """The columns of text files as they are written, but for those that the schema gives a type."""
        names = [name for name in self._inside if self._variable(name) is None] if self.files.is_text else []
        markers = {name: Markers(map(label_key, self.missing.texts(name))) for name in names}
        known: dict[str, LabelsByKey] = {name: {} for name in names}
        scan = Scan(observed=known)
        for path in self.files.paths if names else ():
            with clear_format_errors(path), self._connection.cursor() as cursor:
                for table in formats.stream_format_slices(
                    text_files.text_relation(cursor, path, self.files.kind, names)
                ):
                    columns = open_raw_columns(table.rename_columns(names))
                    scan += Scan.of(columns, markers, max_categories=self.max_categories, known=known)
        return scan

    @cached_property
    def _typed_texts(self) -> Mapping[str, tuple[set[str], pa.Array]]:
        """For each of these columns whether it is one of numbers, truth values or text (none), and its labels."""
        typed = {}
        for name, texts in self._texts.observed.items():
            labels = text_files.typed_text(
                pa.array(texts.values(), pa.string()), text_files.text_kinds(None) | self._further_kinds
            )
            is_text, is_truth = pa.types.is_string(labels.type), pa.types.is_boolean(labels.type)
            typed[name] = set() if is_text else {"truth" if is_truth else "number"}, labels
        return typed

    @cached_property
    def scan(self) -> Scan | None:
        """The records and labels of all rows, where finding out what the cells of text are tells it; otherwise None."""
        if not self.files.is_text or self.where is not None or self.prepare is not None or self.files.partition_names:
            return None
        observed = {}
        for name, (_, labels) in self._typed_texts.items():
            cleaned = [label_unless_missing(label, name) for label in labels.to_pylist()]
            observed[name] = {label_key(label): label for label in cleaned if label is not None}
        return Scan(self._texts.n_records, self._texts.weight_totals, {}, observed)

    @cached_property
    def _condition_columns(self) -> list[str]:
        """The columns that the condition may use: those whose names it contains."""
        if self.where is None:
            return []
        text = self.where.replace('""', '"').casefold()
        return [name for name in self.files.columns if name.casefold() in text]

    def _skipped_files(self) -> set[int]:
        """Return the files that the condition leaves out by their folders' names alone."""
        named = set(self._condition_columns)
        if self.where is None or not named or not named <= set(self.files.partition_names):
            return set()
        kept = self._rows_that_meet(self.where, pa.table(dict(self.files.partition_columns)))
        return set(range(len(self.files.paths))) - set(kept.tolist())

    def _rows_that_meet(self, where: str, table: pa.Table) -> Ints:
        """Return the positions of the rows of a table that meet the condition, ascending."""
        names, condition = _distinct_condition_names(table.column_names, where)
        number = _unused_condition_name("row number", names)
        numbered = table.rename_columns(names).append_column(number, pa.array(np.arange(table.num_rows)))
        try:
            with self._connection.cursor() as cursor:
                met = cursor.from_arrow(numbered).filter(condition).project(f'"{number}"').to_arrow_table().column(0)
        except Exception as error:
            if not formats.is_format_engine_error(error):
                raise
            unknown = re.search(r'column "(.+?)" (?:was )?not found', str(error))
            why = f"{formats.format_error_lines(error)}; known columns: {shortlist(self.files.columns)}"
            if unknown is not None:
                why = str(unknown_name("column", unknown[1], self.files.columns))
            raise DataError(
                f"the condition {where!r} cannot be used: {why}; conditions are SQL, with text in single quotes: "
                "age > 30 and city = 'Paris'"
            ) from error
        rows: Ints = np.sort(met.to_numpy())
        return rows

    @staticmethod
    def as_written(path: FilePath | FileSet) -> pa.Table | None:
        """Return the cells of text files as they are written; None for files of other kinds."""
        files = find_files(path)
        if not files.is_text or files.partition_names:
            return None
        with clear_format_errors(files.name), formats.connect_for_formats() as connection:
            parts = [formats.read_whole_format(connection, files, file, files.columns) for file in files.paths]
            return pa.concat_tables(parts)


def read_file_table(path: FilePath | FileSet, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Return the records of files as an Arrow table; the options are the fields of `FileTable`."""
    return FileTable.open(path, columns, **options).read()


def _file_tables_together(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables as one; a column that is a dictionary in some of them only is a plain one."""
    if len(parts) == 1:
        return parts[0].unify_dictionaries()

    def plain(part: pa.Table) -> pa.Table:
        for place, (name, column) in enumerate(zip(part.column_names, part.columns, strict=True)):
            is_same = all(other.schema.field(name).type == column.type for other in parts)
            if pa.types.is_dictionary(column.type) and not is_same:
                part = part.set_column(place, name, column.cast(column.type.value_type))
        return part

    return pa.concat_tables(map(plain, parts), promote_options="permissive").unify_dictionaries()


# Conditions in SQL that records meet

# Text, comments and the fields of a struct are skipped; names are in double quotes or are words.
_PARTS_OF_SQL = re.compile(
    r"""'(?:[^']|'')*' | --[^\n]* | /\*.*?\*/ | \.\s*(?:"(?:[^"]|"")*"|\w+) | "(?:[^"]|"")*" | [^\W\d][\w$]*""",
    re.DOTALL | re.VERBOSE,
)


def _distinct_condition_names(names: Sequence[str], where: str) -> tuple[list[str], str]:
    """Return names that are distinct for DuckDB, and the condition in their terms.

    DuckDB ignores the case of names. Names that differ in case alone are replaced, in the condition too, where they
    mean columns exactly as they are written.
    """
    times = Counter(map(_fold_condition_case, names))
    new = dict(zip(names, names, strict=True))
    for name in names:
        if times[_fold_condition_case(name)] > 1:
            new[name] = _unused_condition_name(f"column {len(new)}", new.values())

    def replaced(part: re.Match[str]) -> str:
        name = part[0][1:-1].replace('""', '"') if part[0].startswith('"') else part[0]
        return part[0] if new.get(name, name) == name else f'"{new[name]}"'

    return list(new.values()), _PARTS_OF_SQL.sub(replaced, where)


def _unused_condition_name(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among some names, as DuckDB compares them."""
    taken = set(map(_fold_condition_case, names))
    while _fold_condition_case(name) in taken:
        name += "_"
    return name


def _fold_condition_case(name: str) -> str:
    """Return a name as DuckDB compares names: the letters of ASCII in lower case."""
    return name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")
