"""Records in files larger than memory: read, coded and handed to the kernels a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.data.coding import NO_MARKERS, Found, Unseen, categories_of, clean, collect_labels, encode_slice, numbers_in
from twoway.data.files.batches import Batches, Piece, check_number_of_labels, table_bytes
from twoway.data.files.file_set import FilePath, FileSet, find_files
from twoway.data.files.reading import all_columns
from twoway.data.files.scratch import Prepared, prepare_for_fit
from twoway.data.missing import AnyMissing, Markers
from twoway.data.reading import check_columns_of, check_options, match_columns, with_columns_of
from twoway.data.records import Records
from twoway.data.source import Block, RecordSource
from twoway.data.weighing import WeightTotals, check_counts, check_weights, of_rows
from twoway.errors import DataError, TwowayError
from twoway.parallel import reduce_in_order
from twoway.schema import Label, Schema, label_key

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

STREAMED_BYTES = 2**29
"""Files that would take more than this, 512 MiB, as a table in memory are streamed."""


def is_large(path: FilePath, columns: Sequence[str] | None = None) -> bool:
    """Return whether files are rather streamed than read into memory."""
    found = find_files(path)
    return table_bytes(found, len(all_columns(found) if columns is None else columns)) > STREAMED_BYTES


class FileRecords:
    """Records in files of any size, of which no more than some slices are in memory at a time.

    Wherever records are taken, ``tw.fit(…)``, ``tw.count(…)``, the name of a large file means this. Use it to say how
    such files are read; ``tw.Records`` reads the same into memory.

    Parameters
    ----------
    path
        A file, a pattern such as ``"trips/*.parquet"``, or a folder. Folders named ``year=2024`` are a column ``year``.
    schema, columns, missing, unseen
        As for `Records`.
    counts
        The column that says how many equal records each one stands for.
    weights
        The column that says how much each record matters.
    where
        A condition in SQL, as DuckDB understands it, that the records meet: ``"year >= 2020 and city <> 'Paris'"``.
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

    notes: Sequence[str] = ()

    def __init__(
        self,
        path: FilePath,
        *,
        schema: Schema | None = None,
        columns: Sequence[str] | None = None,
        missing: AnyMissing = (),
        counts: str | None = None,
        weights: str | None = None,
        where: str | None = None,
        unseen: Unseen = "error",
        max_categories: int = 100_000,
        prepare: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        for what, given in (("counts", counts), ("weights", weights)):
            if given is not None and not isinstance(given, str):
                raise DataError(f"the {what} of records in files are a column, by its name; got {given!r}")
        if where is not None and not isinstance(where, str):
            raise DataError(f"where must be a condition in SQL, as text, for records in files; got {where!r}")
        labels = check_options(schema, missing, unseen)
        wanted = with_columns_of([columns] if isinstance(columns, str) else columns, counts, weights)
        self._batches = Batches.open(
            path,
            wanted,
            where=where,
            missing=labels,
            schema=schema,
            unseen=unseen,
            prepare=prepare,
            max_categories=max_categories,
        )
        check_columns_of(self._batches.columns, counts, weights)
        self._names = [name for name in self._batches.columns if name not in (counts, weights)]
        self._counts, self._weights = counts, weights
        self._unseen, self._missing, self._markers = unseen, labels, labels.by_name(self._names, schema)
        self._max_categories = max_categories
        if schema is not None:
            self.schema = schema
            match_columns(schema, self._names)

    def __repr__(self) -> str:
        files: FileSet = self._batches.files
        return f"FileRecords({files.name!r}, {len(files.paths)} files, {len(self._names)} columns)"

    # What there is

    @cached_property
    def schema(self) -> Schema:
        """The variables, found in one pass over the files where none were given."""
        labels = self._batches.labels
        if labels is None:
            seen = self._seen
            return Schema.found(
                {name: seen.categories(name, self._markers[name]) for name in self._names}, self._missing.remembered
            )
        found: dict[str, Found] = {name: {} for name in self._names}
        for name, one in found.items():
            collect_labels(one, labels[name], name, self._markers[name])
        return Schema.found(
            {n: categories_of(one, n, 0 if one else self.n_records) for n, one in found.items()},
            self._missing.remembered,
        )

    @cached_property
    def _seen(self) -> _Seen:
        """What a pass over the files shows of records, weights and, without a schema, labels."""
        names = () if "schema" in self.__dict__ else tuple(self._names)
        batches = self._batches
        if not names:  # one column tells how many there are
            told = [name for name in (self._counts, self._weights) if name is not None]
            batches = replace(self._batches, columns=told or self._names[:1], prepare=None)

        # One for all threads: labels that another has found need no second look, and their order does not matter.
        found: dict[str, Found] = {name: {} for name in names}

        def look(piece: Piece) -> _Seen:
            seen = _Seen(0, WeightTotals(), found, {name: {} for name in names})
            with _naming(piece.path):
                for table in piece.read():
                    weights, people = self._weights_of(table, piece.start + seen.n_records)
                    seen.n_records += table.num_rows
                    seen.weight_totals += WeightTotals.of(weights, people, table.num_rows)
                    for name in names:
                        seen.look_at(table.column(name), name, self._markers[name])
                        check_number_of_labels(name, len(seen.found[name]), self._max_categories)
            return seen

        seen = reduce_in_order(_at_least(batches.pieces(), self._no_piece), look, _Seen.__add__, threads=None)
        if seen.n_records:
            seen.weight_totals.check()
        return seen

    @property
    def n_records(self) -> int:
        """The number of records, those that stand for several counted once."""
        return self._tally.n_records

    @property
    def total_weight(self) -> float:
        """The sum of the records' weights."""
        return self.weight_totals.total

    @property
    def weight_totals(self) -> WeightTotals:
        """What the records' weights add up to."""
        return self._tally.weight_totals

    @property
    def _tally(self) -> _Seen | Prepared:
        # Whoever has gone over the files has counted.
        return self._prepared if "_prepared" in self.__dict__ else self._seen

    @property
    def n_observed(self) -> int:
        """The number of observed cells."""
        return self._prepared.n_observed

    @property
    def n_silent(self) -> int:
        """The number of records that show nothing or weigh nothing."""
        return self._prepared.n_silent

    # Blocks

    def map_reduce(
        self, per_block: Callable[[Block], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def per_piece(blocks: Iterator[Block]) -> T:
            return reduce(combine, map(per_block, blocks))

        return self.map_pieces(per_piece, combine, threads=threads)

    def map_pieces(
        self, per_piece: Callable[[Iterator[Block]], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_piece`` gives for the blocks of each piece, always in the same order.

        Pieces are some blocks one after the other; what is combined is combined by one thread at a time.
        """
        _ = self.schema  # before the threads, each of which would look for it

        def work(piece: Piece) -> T:
            return per_piece(_at_least(self._blocks(piece), self._no_records()))

        pieces = _at_least(self._batches.pieces(), self._no_piece)
        return reduce_in_order(pieces, work, combine, threads=threads)

    def _blocks(self, piece: Piece) -> Iterator[Block]:
        present = [name for name in self.schema.names if name in self._names]
        start = piece.start
        with _naming(piece.path):
            for table in piece.read():
                columns = [table.column(name) for name in present]
                pointers, cells = encode_slice(columns, self.schema, present, self._markers, self._unseen, start)
                told = [array for array in self._weights_of(table, start) if array is not None]
                yield Block(pointers, cells, *told)
                start += table.num_rows

    @property
    def _no_piece(self) -> Piece:
        return Piece(self._batches.files.name, 0, lambda: iter(()))

    def _no_records(self) -> Block:
        cell_type = np.min_scalar_type(self.schema.n_categories - 1)
        return Block(np.zeros(1, dtype=np.int64), np.empty(0, dtype=cell_type))

    def _weights_of(self, table: pa.Table, start: int) -> tuple[NDArray[np.float64] | None, NDArray[Any] | None]:
        counts = weights = None
        if self._counts is not None:
            counts = numbers_in(table.column(self._counts), "counts")
            check_counts(counts, start=start)
        if self._weights is not None:
            weights = numbers_in(table.column(self._weights), "weights")
            check_weights(weights, start=start)
        return of_rows(counts, weights)

    # Fitting

    def for_fit(self) -> RecordSource:
        """Return the records that have a say, coded once: in memory where they fit, otherwise in a scratch file."""
        return self._prepared.source

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells, in memory; all if they are fewer."""
        return self.for_fit().sample(n_observed, seed=seed)

    @cached_property
    def _prepared(self) -> Prepared:
        prepared = prepare_for_fit(self)
        if prepared.n_records:
            prepared.weight_totals.check()
        return prepared


@dataclass
class _Seen:
    """What some rows show; these add."""

    n_records: int
    weight_totals: WeightTotals
    found: dict[str, Found]
    """Of each column the labels that occur in any rows that anybody looked at."""
    declared: dict[str, Found]
    """Of each column whose type declares an order the labels in that order."""

    def __add__(self, other: _Seen) -> _Seen:
        for name, labels in other.declared.items():
            self.declared[name] |= {key: label for key, label in labels.items() if key not in self.declared[name]}
        return _Seen(
            self.n_records + other.n_records, self.weight_totals + other.weight_totals, self.found, self.declared
        )

    def look_at(self, column: Any, name: str, markers: Markers) -> None:
        """Add the labels of a slice of a column."""
        if getattr(column.type, "ordered", False):
            for chunk in column.chunks:
                for raw in chunk.dictionary.to_pylist():
                    if (label := clean(raw, NO_MARKERS, name)) is not None:
                        self.declared[name].setdefault(label_key(label), label)
        collect_labels(self.found[name], column, name, markers)

    def categories(self, name: str, markers: Markers) -> tuple[Label, ...]:
        """Return the categories of a column in order: those it declares, or those that occur."""
        declared = tuple(label for label in self.declared[name].values() if clean(label, markers, name) is not None)
        return declared or categories_of(self.found[name], name, self.n_records)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Add the name of the file to what is wrong with a cell in it."""
    try:
        yield
    except TwowayError as error:
        told = str(error)
        raise error if path in told else type(error)(f"{path!r}: {told}") from error


def _at_least(items: Iterator[T], one: T) -> Iterator[T]:
    """Yield the items, or the one given where there are none."""
    first = next(items, one)
    yield first
    yield from items
