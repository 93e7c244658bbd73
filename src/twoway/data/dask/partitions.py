"""What a worker does with a partition of a Dask DataFrame: find its categories, code it, sum over it, draw from it.

These functions travel to the workers by name. Each gets a partition, its number, and what is the same for all.
Partitions are coded as plain tuples of arrays, whose size Dask can tell: by it the scheduler decides what to move, and
a worker what to spill.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from twoway.data.categories import Scan
from twoway.data.columns import Columns, open_columns
from twoway.data.reading import Reader
from twoway.data.records import Records
from twoway.data.source import Block, Combine, PerBlock, Totals, coded_for_fit, scaled_block
from twoway.errors import ClusterError, DataError, naming
from twoway.schema import Schema
from twoway.text import shortlist

T = TypeVar("T")

MEMORY_ADVICE = (
    'make partitions smaller, as by frame.repartition(partition_size="50MB"), or give each worker more memory or fewer '
    "threads"
)


class Part(NamedTuple):
    """A coded partition."""

    blocks: list[Block]
    totals: Totals
    each: float
    """What every one of its people weighs, if that is one number, which then is stored nowhere else; otherwise 1."""

    def scaled(self, factor: float) -> Iterator[Block]:
        """Yield the blocks with weights times a factor."""
        return (scaled_block(block, self.each * factor) for block in self.blocks)


def scan_partition(frame: Any, number: int, how: tuple[tuple[str, ...], Reader]) -> Scan:
    """Return what a partition adds to the schema and to the number and the weight of the records."""
    names, reader = how
    with _naming_partition(number):
        return reader.scan(_open(frame, names))


def code_partition(frame: Any, number: int, how: tuple[tuple[str, ...], Reader, Schema, bool]) -> Part:
    """Return a partition's records in blocks of cells: all of them as they are, or those to be fitted."""
    names, reader, schema, for_fit = how
    with _naming_partition(number):
        columns, weights, people = reader.split(_open(frame, names))
        records = Records.from_cells(schema, *reader.encode(columns, schema), weights, people)
        totals, each = Totals(), 1.0
        if for_fit:
            records, totals = coded_for_fit(records)
            records, each = records.apart_from_weight()
            totals = totals._replace(n_fitted=records.n_records, n_fitted_observed=records.n_observed)
        return Part([_cut_out(block) for block in records.blocks()], totals, each)


def sum_partition(part: Part, number: int, work: tuple[PerBlock[T], Combine[T], float]) -> T:
    """Return the combination of what a function gives for each block of a partition, its weights times a factor."""
    per_block, combine, factor = work
    with _naming_partition(number):
        return functools.reduce(combine, map(per_block, part.scaled(factor)))


def combine_results(results: Sequence[T], combine: Combine[T]) -> T:
    """Return the combination of some partitions' results, in their order."""
    # Sums are added to in place, but here each is another task's result, which may be asked for once more when a
    # worker dies.
    return functools.reduce(combine, map(copy.deepcopy, results))


def sample_partition(part: Part, number: int, how: tuple[Schema, float, int, float]) -> Block:
    """Return a random share of a partition's records, the same whichever worker draws it, weights times a factor."""
    schema, share, seed, factor = how
    records = join(schema, part.blocks)
    if share < 1:
        records = records.thinned(share, np.random.default_rng([seed, number]))
    return scaled_block(records.as_block(), part.each * factor)


def join(schema: Schema, blocks: Sequence[Block]) -> Records:
    """Return the records of blocks, one block after the other."""
    return Records.joined([Records.from_block(schema, block) for block in blocks])


def _cut_out(block: Block) -> Block:
    """Return a block that holds its own cells only, not those of its neighbours."""
    first, last = int(block.pointers[0]), int(block.pointers[-1])
    return block._replace(pointers=block.pointers - first, cells=block.cells[first:last])


def _open(frame: Any, names: tuple[str, ...]) -> Columns:
    columns = open_columns(frame)
    if sorted(columns.names) != sorted(names):
        raise DataError(
            f"it has the columns {shortlist(columns.names)}, and the Dask DataFrame has {shortlist(names)}; "
            "all partitions must have the same"
        )
    return columns.select(names)


@contextmanager
def _naming_partition(number: int) -> Iterator[None]:
    """Name the partition in an error, and the worker whose memory ran out."""
    try:
        with naming(f"partition {number}"):
            yield
    except MemoryError as error:
        raise ClusterError(f"partition {number}: {_this_worker()} ran out of memory; {MEMORY_ADVICE}") from error


def _this_worker() -> str:
    try:
        from distributed import get_worker

        return f"the worker {get_worker().address}"
    except (ImportError, ValueError):  # Dask's own threads
        return "this machine"
