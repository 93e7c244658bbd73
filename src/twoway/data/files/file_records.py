"""Records in files larger than memory: read, coded and handed to the kernels a slice at a time.

A fit codes them once for all passes: into memory where they fit, equal ones merged; otherwise into a scratch file; if
that cannot be written, they are read anew in every pass. The scratch file has no name from the moment it is opened, so
that the system removes it whatever happens to the process (where files without a name do not exist, when it is closed).
Blocks are read into buffers of their own rather than mapped: what the system keeps of the file in its cache is not
memory of this process.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np

from twoway.data.coding import CodeOf
from twoway.data.columns import Columns
from twoway.data.files.file_set import FileSet
from twoway.data.files.file_table import FileTable, Piece
from twoway.data.files.formats import FilePath
from twoway.data.missing import AnyMissing, Unseen
from twoway.data.raw_columns import LabelsByKey, open_raw_columns
from twoway.data.reader import Reader, match_reader_columns
from twoway.data.records import Records
from twoway.data.scan import Scan
from twoway.data.stored_records import Block, Combine, FittedRecords, PerBlock, RecordSource, StoredRecords, Totals
from twoway.errors import check_type, errors_at
from twoway.lazy_imports import pa
from twoway.parallel import reduce_in_order
from twoway.schema import Schema

T = TypeVar("T")

KEPT_BYTES = 2**26
"""Coded records stay in memory up to this, 64 MiB; more of them go to a scratch file."""


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
        columns: Sequence[str] | Columns | None = None,
        where: str | None = None,
        missing: AnyMissing = (),
        weights: str | None = None,
        counts: str | None = None,
        max_categories: int | None = 100_000,
        schema: Schema | None = None,
        unseen: Unseen = "error",
        prepare: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        check_type("where", where, str | None, "a condition in SQL, as text, for records in files")
        reader = Reader(missing, weights, counts, max_categories, schema, unseen, declared=Columns.of(columns))
        self._reader, table = reader.open_files(path, where)
        self._table = replace(table, prepare=prepare)
        self._codes: dict[tuple[str, int], Counter[CodeOf]] = {}  # of each block, however often it is read
        self._is_checked = False  # for labels given as missing that no cell has, which the first pass shows
        self._names = list(self._reader.column_of(table.columns))
        if schema is not None:
            self.schema = schema
            match_reader_columns(schema, self._names)

    def __repr__(self) -> str:
        files = self._table.files
        return f"FileRecords({files.name!r}, {len(files.paths)} files, {len(self._names)} columns)"

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override]
        """The variables, found in one pass over the files if none were given."""
        scan = None if self._reader.declared.bins else self._table.scan
        return self._reader.found(scan or self._scan, self._table.columns)

    @cached_property
    def _scan(self) -> Scan:
        """What a pass over the files shows of records, weights and, without a schema, labels."""
        table, reader = self._table, self._reader
        numbers = list(reader.number_columns.values())
        if "schema" in self.__dict__:
            if reader.schema is None and table.scan is not None and not numbers:
                return table.scan
            # One column is enough to count records.
            table = replace(table, columns=numbers or reader.variable_columns(table.columns)[:1], prepare=None)
            reader = replace(reader, schema=self.schema)
        # One for all threads: labels that another one has found need no second look, and their order does not matter.
        known: dict[str, LabelsByKey] = {name: {} for name in self._names}

        def scan_piece(piece: Piece) -> Scan:
            scan = Scan(observed=known)
            with errors_at(repr(piece.path)):
                for part in piece.read():
                    columns = replace(open_raw_columns(part), start=piece.start + scan.n_records)
                    scan += reader.scan(*reader.split(columns), known=known)
            return scan

        scan = reduce_in_order(self._pieces(table), scan_piece, Scan.__add__, threads=None)
        scan.weight_totals.check(scan.n_records)
        return scan

    @property
    def _sizes(self) -> Scan | Totals:  # type: ignore[override]
        # Every pass over the files counts.
        return self._prepared[1] if "_prepared" in self.__dict__ else self._scan

    @property
    def set_to_missing(self) -> Mapping[str, Mapping[str, int]]:  # type: ignore[override]
        """The codes that meant "not observed", and how often each was found, as `Records` has it."""
        assert self._prepared
        codes = sum(self._codes.values(), Counter[CodeOf]())
        return self._reader.set_to_missing(codes, self._table.columns)

    @cached_property
    def _prepared(self) -> tuple[RecordSource, Totals]:
        store = _ScratchFileStore(self.schema)

        def code(blocks: Iterator[Block]) -> tuple[Totals, list[Records]]:
            parts = [Totals.of_fitted(Records.from_block(self.schema, block)) for block in blocks]
            return sum((sizes for _, sizes in parts), Totals()), [fitted for fitted, _ in parts]

        def put(one: tuple[Totals, list[Records]], other: tuple[Totals, list[Records]]) -> tuple[Totals, list[Records]]:
            for records in (*one[1], *other[1]):
                store.put(records)
            return one[0] + other[0], []

        totals, _ = put(self.map_pieces(code, put), (Totals(), []))
        totals.weight_totals.check(totals.n_records)
        return store.records(self, totals), totals

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
            return per_piece(self._at_least(self._blocks(piece), no_records))

        result = reduce_in_order(self._pieces(self._table), work, combine, threads=threads)
        if not self._is_checked:
            found = set[CodeOf]().union(*self._codes.values())
            self._reader.warn_of_unused(found, self._table.columns, self.schema)
            self._is_checked = True
        return result

    def _blocks(self, piece: Piece) -> Iterator[Block]:
        start = piece.start
        with errors_at(repr(piece.path)):
            for part in piece.read():
                columns, *weights = self._reader.split(replace(open_raw_columns(part), start=start))
                pointers, cells, self._codes[piece.path, start] = self._reader.encode(columns, self.schema)
                yield Block(pointers, cells, *weights)
                start += part.num_rows

    def _pieces(self, table: FileTable) -> Iterator[Piece]:
        return self._at_least(table.pieces(), Piece(table.files.name, 0, lambda: iter(())))

    @staticmethod
    def _at_least(items: Iterator[T], default: T) -> Iterator[T]:
        """Yield the items, or a default if there are none."""
        yield next(items, default)
        yield from items


class _ScratchFileStore:
    """Takes coded records in their order: into memory, then into a scratch file, then, if none can be made, nowhere."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: list[Records] = []
        self._n_bytes = 0
        self._file: ScratchFile | None = None
        self._failure: OSError | None = None

    def put(self, records: Records) -> None:
        """Add the next records."""
        if self._failure is not None:
            return
        self._parts.append(records)
        self._n_bytes += records.cells.nbytes + records.pointers.nbytes
        if self._file is None and self._n_bytes <= KEPT_BYTES:
            return
        try:
            if self._file is None:
                self._file = ScratchFile(self._schema)
            for part in self._parts:
                self._file.append(part)
        except OSError as error:  # the disk is full, or there is no folder for temporary files
            self._file, self._failure = None, error
        self._parts = []

    def records(self, source: RecordSource, totals: Totals) -> RecordSource:
        """Return all records that were added; those of the source where they could not be stored."""
        if self._failure is not None:
            return RereadFileRecords(source, totals, str(self._failure))
        if self._file is not None:
            return ScratchFileRecords(self._schema, self._file, totals)
        return Records.joined(self._parts).canonical().effective(totals.fitted_weights.unit)


class ScratchFile:
    """Blocks of records in a file without a name."""

    def __init__(self, schema: Schema) -> None:
        self._file = tempfile.TemporaryFile(prefix="twoway-", buffering=0)  # noqa: SIM115  (it lives as long as this)
        weakref.finalize(self, self._file.close)
        self._offsets = [0]
        self._length_type = np.min_scalar_type(len(schema))
        self._reading = threading.Lock()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return self._offsets[-1]

    def append(self, records: Records) -> None:
        """Write records as the next block; a full disk raises OSError and leaves what was there."""
        records, each = records.apart_from_weight()
        pointers, cells, *weights = records.as_block()
        lengths = np.diff(pointers).astype(self._length_type)
        if (lengths == lengths[:1]).all():
            lengths = lengths[:1]
        block = (records.n_records, lengths, cells[pointers[0] : pointers[-1]], *weights, each)
        left = memoryview(pickle.dumps(block, protocol=4))  # later ones give arrays that cannot be written to
        end = self.n_bytes + len(left)
        self._file.seek(self.n_bytes)
        while left:
            left = left[self._file.write(left) or 0 :]
        self._offsets.append(end)

    def read(self, number: int, unit: float) -> Block:
        """Return a block, its weights divided by a unit."""
        if hasattr(os, "posix_fadvise") and number + 2 < len(self):
            start, stop = self._offsets[number + 2 : number + 4]
            os.posix_fadvise(self._file.fileno(), start, stop - start, os.POSIX_FADV_WILLNEED)
        start, stop = self._offsets[number : number + 2]
        with self._reading:
            self._file.seek(start)
            content = self._file.read(stop - start)
        n_records, lengths, *arrays, each = pickle.loads(content)
        pointers = np.zeros(n_records + 1, dtype=np.int64)
        np.cumsum(np.broadcast_to(lengths, n_records), out=pointers[1:])
        return Block(pointers, *arrays).scaled(each / unit)


class _StreamedFileRecords(FittedRecords):
    """Records that every pass reads in blocks."""

    _last_sample: tuple[tuple[int, int], Records] | None = None

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells, in memory; all if there are fewer.

        What is drawn of a block depends on the seed and on what the block holds.
        """
        if self._last_sample is None or self._last_sample[0] != (n_observed, seed):
            self._last_sample = (n_observed, seed), self._draw(n_observed / max(self.n_observed, 1), seed)
        return self._last_sample[1]

    def _draw(self, share: float, seed: int) -> Records:
        def part(block: Block) -> list[Records]:
            records = Records.from_block(self.schema, block)
            wanted = records.n_observed if share >= 1 else int(share * records.n_observed)
            content = zlib.crc32(np.ascontiguousarray(block.cells).tobytes())
            own_seed = int(np.random.SeedSequence([seed, content]).generate_state(1, np.uint64)[0])
            return [records.sample(wanted, seed=own_seed)]

        parts: list[Records] = self.map_reduce(part, list.__add__)
        return Records.joined(parts).canonical().effective()


class ScratchFileRecords(_StreamedFileRecords):
    """Records in a scratch file."""

    def __init__(self, schema: Schema, file: ScratchFile, totals: Totals) -> None:
        super().__init__(schema, totals)
        self._file = file
        self.notes = (
            f"larger than memory: the files were coded once into a scratch file of {file.n_bytes / 1e9:.2f} GB, "
            "from which every pass reads",
        )

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def work(number: int) -> T:
            return per_block(self._file.read(number, self.unit))

        return reduce_in_order(range(len(self._file)), work, combine, threads=threads, n_tasks=len(self._file))


class RereadFileRecords(_StreamedFileRecords):
    """Records that their source reads anew in every pass, without those that have no say."""

    def __init__(self, source: RecordSource, totals: Totals, reason: str) -> None:
        n_heard = totals.n_records - totals.n_silent
        super().__init__(source.schema, totals._replace(n_fitted=n_heard, n_fitted_observed=totals.n_observed))
        self._source = source
        self.notes = (
            f"larger than memory: every pass reads the files again, as no scratch file could be written ({reason})",
        )

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def work(block: Block) -> T:
            heard = Records.from_block(self.schema, block).with_say().as_block()
            return per_block(heard.scaled(1.0 / self.unit))

        return self._source.map_reduce(work, combine, threads=threads)
