"""Records of a source too large for memory, coded once for all passes of a fit, in a scratch file.

The scratch file has no name from the moment it is opened, so that the system removes it whatever happens to the process
(where files without a name do not exist, when it is closed). Blocks are read into buffers of their own rather than
mapped: what the system keeps of the file in its cache is not memory of this process.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from twoway.data.records import Records
from twoway.data.source import Block, Combine, FittedSource, PerBlock, RecordSource, Totals
from twoway.parallel import reduce_in_order
from twoway.schema import Schema

if TYPE_CHECKING:
    from twoway.data.files.records import FileRecords

T = TypeVar("T")

KEPT_BYTES = 2**26
"""Coded records stay in memory up to this, 64 MiB; more of them go to a scratch file."""


def prepare_for_fit(source: FileRecords) -> tuple[RecordSource, Totals]:
    """Return the records of a source that have a say, coded once, and the sizes of all its records.

    In memory where they fit, equal ones merged; otherwise in a scratch file; if that cannot be written, as the
    source gives them, which costs as much as reading them anew in every pass.
    """
    store = _Store(source.schema)

    def code(blocks: Iterator[Block]) -> tuple[Totals, list[Records]]:
        parts = [Totals.of_fitted(Records.from_block(source.schema, block)) for block in blocks]
        return sum((sizes for _, sizes in parts), Totals()), [fitted for fitted, _ in parts]

    def put(left: tuple[Totals, list[Records]], right: tuple[Totals, list[Records]]) -> tuple[Totals, list[Records]]:
        for records in (*left[1], *right[1]):
            store.put(records)
        return left[0] + right[0], []

    totals, _ = put(source.map_pieces(code, put), (Totals(), []))
    return store.records(source, totals), totals


class _Store:
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
            return AgainRecords(source, totals, str(self._failure))
        if self._file is not None:
            return ScratchRecords(self._schema, self._file, totals)
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


class _StreamedRecords(FittedSource):
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


class ScratchRecords(_StreamedRecords):
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


class AgainRecords(_StreamedRecords):
    """Records that their source reads anew in every pass, without those that have no say."""

    def __init__(self, source: RecordSource, totals: Totals, reason: str) -> None:
        n_heard = totals.n_records - totals.n_silent
        super().__init__(source.schema, totals._replace(n_fitted=n_heard, n_fitted_observed=totals.n_observed))
        self._source = source
        self.notes = (f"larger than memory: every pass reads the files again, for lack of a scratch file ({reason})",)

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def work(block: Block) -> T:
            heard = Records.from_block(self.schema, block).with_say().as_block()
            return per_block(heard.scaled(1.0 / self.unit))

        return self._source.map_reduce(work, combine, threads=threads)
