"""Files of records as a stream of Arrow tables, a slice of rows at a time, whatever their size.

Parquet and Arrow files are read by pyarrow, which keeps dictionaries as they are stored: text is neither made nor
compared, and each group of rows is decoded on a thread of its own (DuckDB would hand out text).
CSV, TSV and JSON lines are read by DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twoway.data.files import reading as files
from twoway.data.files.conditions import condition_columns, filter_table, rows_that_meet
from twoway.data.files.duck import clear_errors, connect
from twoway.data.files.file_set import COMPRESSED, FilePath, FileSet, find_files
from twoway.data.files.text_types import kinds_of, type_column, typed_labels
from twoway.data.missing import MissingLabels
from twoway.errors import DataError
from twoway.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.coding import Unseen

SLICE_ROWS = 2**17
"""Large enough to hide what a slice costs, small enough that some of them are nothing in memory."""

_MOST_ROWS = 2**21
"""A piece has no more rows, so that all that is made of it fits into memory."""
_CELL_BYTES = 8
_COMPRESSION = 8
"""How much smaller text files become when compressed, about."""


class Piece(NamedTuple):
    """Some rows of one file."""

    path: str
    start: int
    """The number of its first row in the file, where no condition leaves rows out."""
    read: Callable[[], Iterator[pa.Table]]
    """Gives the rows, a slice at a time; may be called on any thread."""


@dataclass(frozen=True)
class Batches:
    """The records of files, some columns or all, as a stream that can be read again and again."""

    files: FileSet
    columns: Sequence[str]
    where: str | None = None
    missing: MissingLabels = MissingLabels()  # noqa: RUF009  # frozen
    schema: Schema | None = None
    unseen: Unseen = "error"
    prepare: Callable[[pa.Table], pa.Table] | None = None
    """Changes each slice before anybody sees it."""
    max_categories: int = 100_000
    """A column of more labels is an error, before it fills memory."""
    _names: Sequence[str] = field(default=(), repr=False)

    @classmethod
    def open(cls, path: FilePath, columns: Sequence[str] | None = None, **options: Any) -> Batches:
        """Return the stream of some columns of files, or of all; the options are the fields of the class."""
        found = find_files(path)
        names = files.all_columns(found)
        known = options.get("schema")
        options.get("missing", MissingLabels()).check_columns([*names, *(() if known is None else known.names)])
        return cls(found, files.choose_columns(found, names, columns), _names=names, **options)

    @cached_property
    def _read(self) -> list[str]:
        """The columns to read: those wanted, and those of the condition."""
        return list(dict.fromkeys([*self.columns, *condition_columns(self.where, self._names)]))

    @cached_property
    def _connection(self) -> Any:
        return connect()

    @property
    def is_text(self) -> bool:
        """Whether the files say nothing of types."""
        return self.files.kind in ("csv", "tsv")

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows in parts that can be read on several threads at once; files in the order of their names."""
        skipped = self._skipped_files()
        if self.is_text:
            _ = self._kinds  # before anybody reads
        for number, path in enumerate(self.files.paths):
            if number not in skipped:
                with clear_errors(self.files.name if self.files.kind == "json" else path):
                    yield from self._pieces_of(number, path)
            if self.files.kind == "json":  # DuckDB reads all files at once, because they may differ in types
                return

    def _pieces_of(self, number: int, path: str) -> Iterator[Piece]:
        inside = [name for name in self._read if name not in self.files.partition_names]

        def piece(start: int, read: Callable[[], Iterator[pa.Table]]) -> Piece:
            def finished() -> Iterator[pa.Table]:
                with clear_errors(path):
                    for table in read():
                        yield self._finished(number, table)

            return Piece(path, start, finished)

        make = {"parquet": _parquet_pieces, "arrow": _arrow_pieces}.get(self.files.kind)
        if make is not None:
            for start, read in make(path, inside):
                yield piece(start, read)
            return
        start = 0
        with self._connection.cursor() as cursor:
            relation, numbers = (
                (files.text_relation(cursor, path, self.files.kind, inside), [])
                if self.is_text
                else files.json_relation(cursor, self.files, inside)
            )
            for table in _stream(relation, inside):
                table = files.with_numbers(table, numbers)
                yield piece(start, lambda table=table: iter([table]))  # type: ignore[misc]
                start += table.num_rows

    def _finished(self, number: int, table: pa.Table) -> pa.Table:
        """Return a slice of a file as those see it who read it: typed, with its folders' names, and filtered."""
        if self.is_text:
            import pyarrow as pa

            def column(name: str) -> Any:
                variable = self._variable(name)
                texts = self.missing.texts(name, variable)
                return type_column(table.column(name), texts, variable, self._kinds_of(name), self.unseen)

            table = pa.table({name: column(name) for name in table.column_names})
        table = self.files.with_partitions(number, table, self._read)
        if self.where is not None:
            table = filter_table(table, self.where, self._names, self._connection)
        table = table.select(list(self.columns))
        return table if self.prepare is None else self.prepare(table)

    def _variable(self, name: str) -> Any:
        return self.schema[name] if self.schema is not None and name in self.schema else None

    def _kinds_of(self, name: str) -> set[str]:
        kinds = self._kinds.get(name)
        return (kinds_of(self._variable(name)) if kinds is None else kinds) | self._further_kinds

    @cached_property
    def _further_kinds(self) -> set[str]:
        return files.further_kinds(self.files)

    @property
    def _kinds(self) -> Mapping[str, set[str]]:
        """What the cells of a text file's columns are, as all its labels say; a schema says it without a look."""
        return {name: kinds for name, (kinds, _) in self._texts.items()}

    @property
    def labels(self) -> Mapping[str, pa.Array] | None:
        """The distinct labels of each column, where finding out what they are has told already; otherwise None."""
        if not self.is_text or self.where is not None or self.prepare is not None or self.files.partition_names:
            return None
        return {name: labels for name, (_, labels) in self._texts.items()}

    @cached_property
    def _texts(self) -> Mapping[str, tuple[set[str], pa.Array]]:
        """For each column of text files whether it is one of numbers, truth values or text, and its distinct labels."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [n for n in self._read if self._variable(n) is None and n not in self.files.partition_names]
        if not names:
            return {}
        found: dict[str, pa.Array] = {name: pa.array([], pa.string()) for name in names}
        for path in self.files.paths:
            with clear_errors(path), self._connection.cursor() as cursor:
                for table in _stream(files.text_relation(cursor, path, self.files.kind, names), names):
                    for name in names:
                        new = pc.unique(table.column(name)).cast(pa.string())
                        found[name] = pc.unique(pa.concat_arrays([found[name], new]))
                        check_number_of_labels(name, len(found[name]), self.max_categories)
        result = {}
        for name, labels in found.items():
            markers = pa.array(sorted(self.missing.texts(name)), pa.string())
            seen = labels.filter(pc.invert(pc.is_in(pc.utf8_trim_whitespace(labels), value_set=markers))).drop_null()
            typed = typed_labels(seen, kinds_of(None) | self._further_kinds)
            kinds = (
                set() if pa.types.is_string(typed.type) else {"truth" if pa.types.is_boolean(typed.type) else "number"}
            )
            result[name] = kinds, typed
        return result

    def _skipped_files(self) -> set[int]:
        """Return the files whose folders alone say that the condition does not hold."""
        import pyarrow as pa

        spoken_of = condition_columns(self.where, self._names)
        if self.where is None or not spoken_of or not set(spoken_of) <= set(self.files.partition_names):
            return set()
        table = pa.table(dict(self.files.partition_columns))
        kept = rows_that_meet(table, self.where, self._names, self._connection).tolist()
        return set(range(len(self.files.paths))) - set(kept)


def check_number_of_labels(name: str, n_labels: int, most: int) -> None:
    """Raise where a column has more labels than a variable should have."""
    if n_labels > most:
        raise DataError(
            f"column {name!r} has more than {most:,} distinct values: free text, an identifier or measurements? "
            "leave it out, put it into bins, or allow more (max_categories)"
        )


def table_bytes(found: FileSet, n_columns: int) -> int:
    """Return how many bytes files would take as an Arrow table in memory, about."""
    if found.kind == "parquet":
        import pyarrow.parquet as pq

        n_rows = 0
        for path in found.paths:
            with clear_errors(path):
                n_rows += pq.read_metadata(path).num_rows
        return n_rows * n_columns * _CELL_BYTES
    sizes = [Path(path).stat().st_size for path in found.paths]
    return sum(sizes) * (_COMPRESSION if found.paths[0].endswith(COMPRESSED) else 1)


def _stream(relation: Any, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield what DuckDB finds under the names of the columns, a slice at a time, while it goes on reading."""
    import pyarrow as pa

    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # its name before DuckDB 1.4
    for batch in reader(SLICE_ROWS):
        yield pa.Table.from_batches([batch]).rename_columns(list(names))


Reading = Iterator[tuple[int, Callable[[], "Iterator[pa.Table]"]]]


def _parquet_pieces(path: str, columns: Sequence[str]) -> Reading:
    """Yield groups of rows, small ones together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]

    def reading(groups: list[int]) -> Callable[[], Iterator[pa.Table]]:
        def read() -> Iterator[pa.Table]:
            with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
                for batch in file.iter_batches(SLICE_ROWS, groups, list(columns), use_threads=False):
                    yield pa.Table.from_batches([batch])

        return read

    start = n_rows = 0
    groups: list[int] = []
    for group in range(metadata.num_row_groups):
        groups.append(group)
        n_rows += metadata.row_group(group).num_rows
        if n_rows > _MOST_ROWS:  # too many to be a piece: whoever draws pieces decodes them
            for table in reading(groups)():
                yield start, lambda table=table: iter([table])  # type: ignore[misc]
                start += table.num_rows
            n_rows, groups = 0, []
        elif n_rows >= SLICE_ROWS or group == metadata.num_row_groups - 1:
            yield start, reading(groups)
            start, n_rows, groups = start + n_rows, 0, []


def _arrow_pieces(path: str, columns: Sequence[str]) -> Reading:
    """Yield the batches of an Arrow file."""
    import pyarrow as pa

    def reading(number: int) -> Callable[[], Iterator[pa.Table]]:
        def read() -> Iterator[pa.Table]:
            with pa.memory_map(path) as source:
                table = pa.Table.from_batches([pa.ipc.open_file(source).get_batch(number)]).select(list(columns))
                for start in range(0, table.num_rows, SLICE_ROWS):
                    yield table.slice(start, SLICE_ROWS)

        return read

    start = 0
    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            yield start, reading(number)
            start += file.get_batch(number).num_rows
