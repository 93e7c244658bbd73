"""The table that files hold: whole in memory, or as a stream of slices of it, whatever its size.

In a text file a column is one of numbers if each of its distinct labels is: ``007`` stays text, ``yes`` is no truth
value, and no cell far down can contradict a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from twoway.data.categories import LabelsByKey, Scan
from twoway.data.coding import NO_MARKERS, clean
from twoway.data.columns import Columns
from twoway.data.files.duck import clear_errors, condition_columns, connect, rows_that_meet
from twoway.data.files.file_set import FilePath, FileSet, find_files
from twoway.data.files.formats import ReadSlices, choose_columns, read_pieces, read_whole, stream, text_relation
from twoway.data.files.text_files import kinds_of, read_header, type_column, typed_labels
from twoway.data.missing import MissingLabels
from twoway.schema import Schema, Variable, label_key

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.coding import Unseen


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
        Labels that mean "not observed", as for `Records`; in a text file these cells come as null.
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
        options["missing"] = MissingLabels.of(options.get("missing", ()))
        schema = options.get("schema")
        options["missing"].check_columns([*files.columns, *(() if schema is None else schema.names)])
        return cls(files, choose_columns(files, columns), **options)

    @cached_property
    def _read(self) -> list[str]:
        """The columns to read: those wanted, and those of the condition."""
        return list(dict.fromkeys([*self.columns, *condition_columns(self.where, self.files.columns)]))

    @cached_property
    def _inside(self) -> list[str]:
        """The columns to read that are in the files, not in their folders' names."""
        return [name for name in self._read if name not in self.files.partition_names]

    @cached_property
    def _connection(self) -> Any:
        return connect()

    def read(self) -> pa.Table:
        """Return all records as one table, holes as nulls."""
        parts = []
        for number, path in self.files.numbered():
            with clear_errors(self.files.name if self.files.kind == "json" else path):
                part = read_whole(self._connection, self.files, path, self._inside)
            parts.append(self.files.with_partitions(number, part, self._read).select(self._read))
        # All of a column is there, which says best what its cells are.
        return self._finished(_put_together(parts), {})

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows in parts that can be read on several threads at once; files in the order of their names."""
        kinds = {name: kinds for name, (kinds, _) in self._typed_texts.items()}
        skipped = self._skipped_files()
        for number, path in self.files.numbered():
            if number in skipped:
                continue
            with clear_errors(self.files.name if self.files.kind == "json" else path):
                for start, read in read_pieces(self._connection, self.files, path, self._inside):
                    yield Piece(path, start, self._finishing(number, path, read, kinds))

    def _finishing(self, number: int, path: str, read: ReadSlices, kinds: Mapping[str, set[str]]) -> ReadSlices:
        def finished() -> Iterator[pa.Table]:
            with clear_errors(path):
                for part in read():
                    table = self._finished(self.files.with_partitions(number, part, self._read), kinds)
                    yield table if self.prepare is None else self.prepare(table)

        return finished

    def _finished(self, table: pa.Table, kinds: Mapping[str, set[str]]) -> pa.Table:
        """Return rows typed, filtered, and with the columns wanted; ``kinds`` says what the cells of columns are."""
        for place, name in enumerate(table.column_names if self.files.is_text else ()):
            if name not in self.files.partition_names:
                variable = self._variable(name)
                texts = self.missing.texts(name, variable)
                known = kinds.get(name, kinds_of(variable)) | self._further_kinds
                column = type_column(table.column(name), texts, variable, known, self.unseen)
                table = table.set_column(place, name, column)
        if self.where is not None:
            # Types and dictionaries stay as they are.
            rows = rows_that_meet(table, self.where, self.files.columns, self._connection)
            table = table if len(rows) == table.num_rows else table.take(rows)
        return table.select(list(self.columns))

    def _variable(self, name: str) -> Variable | None:
        return self.schema[name] if self.schema is not None and name in self.schema else None

    @cached_property
    def _further_kinds(self) -> set[str]:
        """Return "comma" where ``2,5`` is a number, as it must be where semicolons separate columns."""
        return {"comma"} if read_header(self.files.paths[0], self.files.kind).delimiter == ";" else set()

    @cached_property
    def _texts(self) -> Scan:
        """The columns of text files as they are written, but for those that the schema gives a type."""
        names = [name for name in self._inside if self._variable(name) is None] if self.files.is_text else []
        markers = {name: frozenset(map(label_key, self.missing.texts(name))) for name in names}
        known: dict[str, LabelsByKey] = {name: {} for name in names}
        scan = Scan(observed=known)
        for path in self.files.paths if names else ():
            with clear_errors(path), self._connection.cursor() as cursor:
                for table in stream(text_relation(cursor, path, self.files.kind, names)):
                    columns = Columns.of_table(table.rename_columns(names))
                    scan += Scan.of(columns, markers, max_categories=self.max_categories, known=known)
        return scan

    @cached_property
    def _typed_texts(self) -> Mapping[str, tuple[set[str], pa.Array]]:
        """For each of these columns whether it is one of numbers, truth values or text (none), and its labels."""
        import pyarrow as pa

        typed = {}
        for name, texts in self._texts.observed.items():
            labels = typed_labels(pa.array(texts.values(), pa.string()), kinds_of(None) | self._further_kinds)
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
            cleaned = [clean(label, NO_MARKERS, name) for label in labels.to_pylist()]
            observed[name] = {label_key(label): label for label in cleaned if label is not None}
        return Scan(self._texts.n_records, self._texts.weight_totals, {}, observed)

    def _skipped_files(self) -> set[int]:
        """Return the files that the condition leaves out by their folders' names alone."""
        import pyarrow as pa

        named = condition_columns(self.where, self.files.columns)
        if self.where is None or not named or not set(named) <= set(self.files.partition_names):
            return set()
        table = pa.table(dict(self.files.partition_columns))
        kept = rows_that_meet(table, self.where, self.files.columns, self._connection).tolist()
        return set(range(len(self.files.paths))) - set(kept)


def read_table(path: FilePath | FileSet, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Return the records of files as an Arrow table; the options are the fields of `FileTable`."""
    return FileTable.open(path, columns, **options).read()


def column_names(path: FilePath | FileSet) -> list[str]:
    """Return the names of the columns of files, those in their folders' names last."""
    return find_files(path).columns


def read_as_written(path: FilePath | FileSet) -> pa.Table | None:
    """Return the cells of text files as they are written; None for files of other kinds."""
    import pyarrow as pa

    files = find_files(path)
    if not files.is_text or files.partition_names:
        return None
    with clear_errors(files.name), connect() as connection:
        return pa.concat_tables([read_whole(connection, files, path, files.columns) for path in files.paths])


def _put_together(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables as one; a column that is a dictionary in some of them only is a plain one."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0].unify_dictionaries()

    def plain(part: pa.Table) -> pa.Table:
        for place, (name, column) in enumerate(zip(part.column_names, part.columns, strict=True)):
            is_same = all(other.schema.field(name).type == column.type for other in parts)
            if pa.types.is_dictionary(column.type) and not is_same:
                part = part.set_column(place, name, column.cast(column.type.value_type))
        return part

    return pa.concat_tables(map(plain, parts), promote_options="permissive").unify_dictionaries()
