"""Records in files larger than memory: read, coded and handed to the kernels a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from twoway.data.coding import Unseen
from twoway.data.columns import Columns, LabelsByKey
from twoway.data.files.file_set import FileSet
from twoway.data.files.file_table import FileTable, Piece
from twoway.data.files.formats import FilePath
from twoway.data.files.scratch import prepare_for_fit
from twoway.data.missing import AnyMissing
from twoway.data.reading import Reader, match_columns, with_columns_of
from twoway.data.scan import Scan
from twoway.data.source import Block, Combine, PerBlock, RecordSource, StoredRecords, Totals
from twoway.errors import DataError, naming
from twoway.parallel import reduce_in_order
from twoway.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class FileRecords(StoredRecords):
    """Records in files of any size, of which no more than some slices are in memory at a time.

    Wherever records are taken, ``tw.fit(…)``, ``tw.count(…)``, the name of a large file means this. Use it to say how
    such files are read; ``tw.Records`` reads the same into memory.

    Parameters
    ----------
    path
        A file, a pattern such as ``"trips/*.parquet"``, or a folder. Folders named ``year=2024`` are a column ``year``.
    columns, missing, schema, unseen
        As for `Records`.
    where
        A condition in SQL, as DuckDB understands it, that the records meet: ``"year >= 2020 and city <> 'Paris'"``.
    weights
        The column that says how much each record matters.
    counts
        The column that says how many equal records each one stands for.
    max_categories
        A column with more distinct values is an error, before it fills memory.
    prepare
        Changes each slice, an Arrow table, before it is read: bins, new columns from old ones.

    Notes
    -----
    Without a schema, one pass over the files finds the categories. A fit codes all records once into a scratch file in
    the folder for temporary files (TMPDIR), a byte or two for each observed cell, and reads that in every pass; if the
    disk is full, it reads the files again in every pass. The report says which.

    Examples
    --------
    >>> import pandas as pd
    >>> pd.DataFrame({"age": ["young", "old", None], "year": [2019, 2020, 2021]}).to_parquet("trips.parquet")
    >>> records = FileRecords("trips.parquet", columns=["age", "year"], where="year >= 2020")
    >>> records.schema["age"].categories, records.n_records
    (('old',), 2)
    """

    def __init__(
        self,
        path: FilePath | FileSet,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        missing: AnyMissing = (),
        weights: str | None = None,
        counts: str | None = None,
        max_categories: int | None = 100_000,
        schema: Schema | None = None,
        unseen: Unseen = "error",
        prepare: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        if where is not None and not isinstance(where, str):
            raise DataError(f"where must be a condition in SQL, as text, for records in files; got {where!r}")
        self._reader = Reader(missing, weights, counts, max_categories, schema, unseen)
        options = {"missing": self._reader.missing, "max_categories": max_categories, "schema": schema}
        wanted = with_columns_of(columns, counts, weights)
        self._table = FileTable.open(path, wanted, where=where, unseen=unseen, prepare=prepare, **options)
        self._names = self._reader.variable_columns(self._table.columns)
        if schema is not None:
            self.schema = schema
            match_columns(schema, self._names)

    def __repr__(self) -> str:
        files = self._table.files
        return f"FileRecords({files.name!r}, {len(files.paths)} files, {len(self._names)} columns)"

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override]
        """The variables, found in one pass over the files if none were given."""
        return (self._table.scan or self._scan).schema(self._names, self._reader.missing)

    @cached_property
    def _scan(self) -> Scan:
        """What a pass over the files shows of records, weights and, without a schema, labels."""
        table, reader = self._table, self._reader
        numbers = list(reader.number_columns.values())
        if "schema" in self.__dict__:
            if reader.schema is None and table.scan is not None and not numbers:
                return table.scan
            # One column is enough to count records.
            table = replace(table, columns=numbers or self._names[:1], prepare=None)
            reader = replace(reader, schema=self.schema)
        # One for all threads: labels that another one has found need no second look, and their order does not matter.
        known: dict[str, LabelsByKey] = {name: {} for name in self._names}

        def scan_piece(piece: Piece) -> Scan:
            scan = Scan(observed=known)
            with naming(repr(piece.path)):
                for part in piece.read():
                    scan += reader.scan(Columns.of_table(part), start=piece.start + scan.n_records, known=known)
            return scan

        scan = reduce_in_order(self._pieces(table), scan_piece, Scan.__add__, threads=None)
        if scan.n_records:
            scan.weight_totals.check()
        return scan

    @property
    def _sizes(self) -> Scan | Totals:  # type: ignore[override]
        # Every pass over the files counts.
        return self._prepared[1] if "_prepared" in self.__dict__ else self._scan

    @cached_property
    def _prepared(self) -> tuple[RecordSource, Totals]:
        source, totals = prepare_for_fit(self)
        if totals.n_records:
            totals.weight_totals.check()
        return source, totals

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""
        return self.map_pieces(lambda blocks: reduce(combine, map(per_block, blocks)), combine, threads=threads)

    def map_pieces(
        self, per_piece: Callable[[Iterator[Block]], T], combine: Combine[T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_piece`` gives for the blocks of each piece, always in the same order.

        Pieces are some blocks one after the other; what is combined is combined by one thread at a time.
        """
        # The schema is found here, before the threads, each of which would look for it.
        no_records = Block(np.zeros(1, dtype=np.int64), np.empty(0, np.min_scalar_type(self.schema.n_categories - 1)))

        def work(piece: Piece) -> T:
            return per_piece(_at_least(self._blocks(piece), no_records))

        return reduce_in_order(self._pieces(self._table), work, combine, threads=threads)

    def _blocks(self, piece: Piece) -> Iterator[Block]:
        start = piece.start
        with naming(repr(piece.path)):
            for part in piece.read():
                columns, *weights = self._reader.split(Columns.of_table(part), start=start)
                pointers, cells = self._reader.encode(columns, self.schema, start=start)
                yield Block(pointers, cells, *(array for array in weights if array is not None))
                start += part.num_rows

    def _pieces(self, table: FileTable) -> Iterator[Piece]:
        return _at_least(table.pieces(), Piece(table.files.name, 0, lambda: iter(())))


def _at_least(items: Iterator[T], default: T) -> Iterator[T]:
    """Yield the items, or a default if there are none."""
    yield next(items, default)
    yield from items
