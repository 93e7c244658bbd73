"""Records of a source too large for memory, coded once for all passes of a fit, in a scratch file.

The scratch file has no name from the moment it is opened, so that the system removes it whatever becomes of the process
(where a file without a name cannot be, when it is closed). Blocks are read into buffers of their own rather than
mapped: what the system keeps of the file in its cache is not this process' memory.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.data.records import Records
from twoway.data.source import Block, RecordSource, scaled_block
from twoway.data.weighing import WeightTotals
from twoway.parallel import reduce_in_order
from twoway.schema import Schema

T = TypeVar("T")

KEPT_BYTES = 2**26
"""Coded records stay in memory up to this, 64 MiB; more of them go to a scratch file."""


class Prepared(NamedTuple):
    """Records ready for a fit, and what there was before those without a say were left out."""

    source: RecordSource
    n_records: int
    n_observed: int
    n_silent: int
    weight_totals: WeightTotals


class PieceSource(RecordSource, Protocol):
    """A source whose blocks come in pieces, each of some blocks that fit into memory together."""

    def map_pieces(self, per_piece: Callable[[Iterator[Block]], T], combine: Callable[[T, T], T]) -> T:
        """Return the combination, by one thread at a time and in order, of what ``per_piece`` gives for each piece."""


def prepare_for_fit(source: PieceSource) -> Prepared:
    """Return the records of a source that have a say, coded once.

    In memory where they fit, equal ones merged; otherwise in a scratch file; where that cannot be written, as the
    source gives them, which costs as much as reading them anew in every pass.
    """
    desk = _Desk(source.schema)

    def code(blocks: Iterator[Block]) -> _Coded:
        coded = _Coded(desk)
        for block in blocks:
            coded.add(Records.from_block(source.schema, block))
        return coded

    whole = source.map_pieces(code, _Coded.__add__) + _Coded(desk)
    told = whole.n_records, whole.n_observed, whole.n_silent, whole.weight_totals
    records = desk.records(whole.fitted_totals) or AgainRecords(source, whole, str(desk.failure))
    return Prepared(records, *told)


@dataclass
class _Coded:
    """The numbers of some blocks, and their records until they lie on the desk; adding lays them down."""

    desk: _Desk
    n_records: int = 0
    n_observed: int = 0
    n_silent: int = 0
    weight_totals: WeightTotals = field(default_factory=WeightTotals)
    fitted_totals: WeightTotals = field(default_factory=WeightTotals)
    """Of the records that have a say."""
    fitted: list[Records] = field(default_factory=list)

    def add(self, records: Records) -> None:
        """Add a block."""
        self.n_records += records.n_records
        self.n_observed += records.n_observed
        self.n_silent += records.n_silent
        self.weight_totals += records.weight_totals
        fitted = records.with_say()
        self.fitted_totals += fitted.weight_totals
        self.fitted.append(fitted.canonical())

    def __add__(self, other: _Coded) -> _Coded:
        for records in (*self.fitted, *other.fitted):
            self.desk.put(records)
        return _Coded(
            self.desk,
            self.n_records + other.n_records,
            self.n_observed + other.n_observed,
            self.n_silent + other.n_silent,
            self.weight_totals + other.weight_totals,
            self.fitted_totals + other.fitted_totals,
        )


class _Desk:
    """Takes coded records in their order: into memory, then into a scratch file, then, where none can be, nowhere."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: list[Records] = []
        self._n_bytes = 0
        self._scratch: ScratchRecords | None = None
        self.failure: OSError | None = None

    def put(self, records: Records) -> None:
        """Lay down the next records."""
        if self.failure is not None:
            return
        self._parts.append(records)
        self._n_bytes += records.cells.nbytes + records.pointers.nbytes
        if self._scratch is None and self._n_bytes <= KEPT_BYTES:
            return
        try:
            if self._scratch is None:
                self._scratch = ScratchRecords(self._schema)
            for part in self._parts:
                self._scratch.append(part)
        except OSError as error:  # the disk is full, or there is no folder for temporary files
            self._scratch, self.failure = None, error
        self._parts = []

    def records(self, totals: WeightTotals) -> RecordSource | None:
        """Return all records that were laid down, whose weights add up so, or None where they found no place."""
        if self.failure is not None:
            return None
        if self._scratch is None:
            return Records.joined(self._parts).canonical().effective(totals.unit)
        self._scratch.set_unit(totals)
        return self._scratch


class _Place(NamedTuple):
    """Where a block is, and what it is made of."""

    offset: int
    n_records: int
    n_cells: int
    length: int
    """The cells of each record where all have as many, otherwise -1: lengths then stand behind the cells."""
    has_weights: bool
    has_people: bool
    each: float
    """What every one of the people weighs, where that is one number, which then stands nowhere else; otherwise 1."""


class ScratchRecords:
    """Records in blocks in a scratch file; each shows something and weighs something."""

    n_silent = 0

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.n_records = self.n_observed = 0
        self.weight_totals = WeightTotals()
        self._unit = 1.0
        self._file = tempfile.TemporaryFile(prefix="twoway-", buffering=0)  # noqa: SIM115  (it lives as long as this)
        weakref.finalize(self, self._file.close)
        self._places: list[_Place] = []
        self._size = 0
        self._cell_type = np.min_scalar_type(schema.n_categories - 1)
        self._length_type = np.min_scalar_type(len(schema))
        self._buffers = threading.local()
        self._reading = threading.Lock()
        self._sample: tuple[tuple[int, int], Records] | None = None

    def __repr__(self) -> str:
        return f"ScratchRecords({self.n_records} records, {len(self.schema)} variables, {self._size / 1e9:.2f} GB)"

    @property
    def total_weight(self) -> float:
        """The sum of the records' weights."""
        return self.weight_totals.total

    def set_unit(self, totals: WeightTotals) -> None:
        """Scale weights so that they add up to the effective number of records; ``totals`` are those of all."""
        self._unit = totals.unit
        self.weight_totals = totals.scaled(1.0 / totals.unit)

    @property
    def notes(self) -> Sequence[str]:
        """What the owner of the records should know."""
        return (
            f"larger than memory: the files were coded once into a scratch file of {self._size / 1e9:.2f} GB, "
            "from which every pass reads",
        )

    def append(self, records: Records) -> None:
        """Write records as the next block; a full disk raises OSError and leaves what was there."""
        records, each = records.apart_from_weight()
        first, last = int(records.pointers[0]), int(records.pointers[-1])
        lengths = np.diff(records.pointers)
        same = records.n_records > 0 and bool((lengths == lengths[0]).all())
        # Widest first: everything stands where its type may stand.
        parts: list[NDArray[Any]] = [array for array in (records.weights, records.people) if array is not None]
        parts += [records.cells[first:last]] if same else [records.cells[first:last], lengths.astype(self._length_type)]
        content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        left = memoryview(content)
        self._file.seek(self._size)
        while left:
            left = left[self._file.write(left) or 0 :]
        length = int(lengths[0]) if same else -1
        has_weights, has_people = records.weights is not None, records.people is not None
        self._places.append(_Place(self._size, records.n_records, last - first, length, has_weights, has_people, each))
        self._size += len(content)
        self.n_records += records.n_records
        self.n_observed += records.n_observed

    def map_reduce(
        self, per_block: Callable[[Block], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def work(number: int) -> T:
            return per_block(self._block(number))

        numbers = range(len(self._places))
        return reduce_in_order(numbers, work, combine, threads=threads, n_tasks=len(numbers))

    def for_fit(self) -> ScratchRecords:
        """Return the records themselves."""
        return self

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells, in memory; all if they are fewer."""
        if self._sample is None or self._sample[0] != (n_observed, seed):
            self._sample = (n_observed, seed), _sample(self, n_observed, seed=seed)
        return self._sample[1]

    def _block(self, number: int) -> Block:
        """Return a block; it holds until the same thread reads the next one."""
        place = self._places[number]
        if hasattr(os, "posix_fadvise") and number + 2 < len(self._places):
            ahead = self._places[number + 2]
            os.posix_fadvise(self._file.fileno(), ahead.offset, ahead.n_cells, os.POSIX_FADV_WILLNEED)
        weights_end = 8 * place.n_records if place.has_weights else 0
        people_end = weights_end + (8 * place.n_records if place.has_people else 0)
        cells_end = people_end + place.n_cells * self._cell_type.itemsize
        lengths_bytes = 0 if place.length >= 0 else place.n_records * self._length_type.itemsize
        content = self._read(place.offset, cells_end + lengths_bytes)
        pointers = np.zeros(place.n_records + 1, dtype=np.int64)
        if place.length >= 0:
            pointers[:] = np.arange(place.n_records + 1, dtype=np.int64) * place.length
        else:
            np.cumsum(content[cells_end:].view(self._length_type), out=pointers[1:])
        weights, people = content[:weights_end].view(np.float64), content[weights_end:people_end].view(np.float64)
        block = Block(pointers, content[people_end:cells_end].view(self._cell_type), weights, people)
        return scaled_block(block, place.each / self._unit)

    def _read(self, offset: int, n_bytes: int) -> NDArray[np.uint8]:
        """Return bytes of the file in this thread's buffer."""
        buffer: NDArray[np.uint8] | None = getattr(self._buffers, "buffer", None)
        if buffer is None or buffer.size < n_bytes:
            buffer = self._buffers.buffer = np.empty(n_bytes, dtype=np.uint8)
        view = buffer[:n_bytes].data
        done = 0
        while done < n_bytes:
            if hasattr(os, "preadv"):
                got = os.preadv(self._file.fileno(), [view[done:]], offset + done)
            else:
                with self._reading:
                    self._file.seek(offset + done)
                    got = self._file.readinto(view[done:]) or 0
            if not got:
                raise OSError("the scratch file ends too early")
            done += got
        return buffer[:n_bytes]


class AgainRecords:
    """Records that their source reads anew in every pass, without those that have no say."""

    n_silent = 0

    def __init__(self, source: RecordSource, whole: _Coded, reason: str) -> None:
        self.schema = source.schema
        self.n_records = whole.n_records - whole.n_silent
        self.n_observed = whole.n_observed
        self._unit = whole.fitted_totals.unit
        self.weight_totals = whole.fitted_totals.scaled(1.0 / self._unit)
        self.total_weight = self.weight_totals.total
        self.notes: Sequence[str] = (
            f"larger than memory: every pass reads the files again, for want of a scratch file ({reason})",
        )
        self._source = source

    def map_reduce(
        self, per_block: Callable[[Block], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""

        def work(block: Block) -> T:
            heard = Records.from_block(self.schema, block).with_say().as_block()
            return per_block(scaled_block(heard, 1.0 / self._unit))

        return self._source.map_reduce(work, combine, threads=threads)

    def for_fit(self) -> AgainRecords:
        """Return the records themselves."""
        return self

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells, in memory; all if they are fewer."""
        return _sample(self, n_observed, seed=seed)


def _sample(source: RecordSource, n_observed: int, *, seed: int) -> Records:
    """Return a random part of all blocks, whose draws depend on the seed and on what the block holds."""
    share = n_observed / max(source.n_observed, 1)

    def part(block: Block) -> list[Records]:
        records = Records.from_block(source.schema, block)
        wanted = records.n_observed if share >= 1 else int(share * records.n_observed)
        content = zlib.crc32(np.ascontiguousarray(block.cells).tobytes())
        own_seed = int(np.random.SeedSequence([seed, content]).generate_state(1, np.uint64)[0])
        # A copy: the block's memory is another's soon.
        return [Records.joined([records.sample(wanted, seed=own_seed)])]

    def add(left: list[Records], right: list[Records]) -> list[Records]:
        return left + right

    parts: list[Records] = source.map_reduce(part, add)
    return Records.joined(parts).canonical().effective()
