"""What a worker does with a partition of a Dask DataFrame: find its categories, code it, sum over it, draw from it.

These functions travel to the workers by name. Each gets a partition, its number, and what is the same for all.
Partitions are coded as plain tuples of arrays, whose size Dask can tell: by it the scheduler decides what to move, and
a worker what to spill.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.coding import Found, Unseen, check_each_weight, markers_of
from twoway.errors import ClusterError, DataError, TwowayError, shortlist
from twoway.reading import Columns, declared_categories, observed_labels, open_columns, split_weights
from twoway.records import Block, Records
from twoway.schema import Label, Schema, label_key

T = TypeVar("T")

MEMORY_ADVICE = (
    'make partitions smaller, as by frame.repartition(partition_size="50MB"), or give each worker more memory or fewer '
    "threads"
)


class Reading(NamedTuple):
    """How partitions are read."""

    names: tuple[str, ...]
    """The columns that each partition must have."""
    schema: Schema | None
    missing: tuple[object, ...]
    weights: str | None
    unseen: Unseen
    looks_behind: bool = False
    """Whether labels are looked for in columns that declare their categories, too."""


class Categories(NamedTuple):
    """What a column of some partitions says about its categories."""

    declared: tuple[Label, ...]
    observed: Found


class Scan(NamedTuple):
    """What must be known of all partitions before one is coded."""

    n_records: int
    total_weight: float
    largest_weight: float
    columns: Mapping[str, Categories]
    """Empty where the schema was given."""
    is_mixed: bool = False
    """Whether a column declares its categories in some partitions only, so that they say nothing about the others."""


class Totals(NamedTuple):
    """The sizes of partitions, as read and as fitted."""

    n_records: int
    n_observed: int
    n_silent: int
    n_fitted: int
    n_fitted_observed: int
    fitted_weight: float


class Part(NamedTuple):
    """A coded partition."""

    blocks: list[Block]
    totals: Totals


def scan_partition(frame: Any, number: int, reading: Reading) -> Scan:
    """Return what a partition adds to the schema and to the number and the weight of the records."""
    with _naming_partition(number):
        columns, weights = _open(frame, reading)
        markers = markers_of(reading.missing)
        found = {}
        for name in columns.names if reading.schema is None else ():
            declared = declared_categories(columns, name, markers)
            is_enough = declared and not reading.looks_behind
            found[name] = Categories(declared, {} if is_enough else observed_labels(columns, name, markers))
        if weights is None:
            return Scan(columns.n_rows, float(columns.n_rows), 1.0, found)
        return Scan(columns.n_rows, float(weights.sum()), float(weights.max(initial=0.0)), found)


def add_scans(left: Scan, right: Scan) -> Scan:
    """Return what two scans say together, the left one of earlier partitions.

    As when Dask joins partitions: categories that all declare are listed in the order in which they come up, and
    partitions without rows have no say in types.
    """
    columns, is_mixed = {}, left.is_mixed or right.is_mixed
    if not left.n_records or not right.n_records:
        columns = dict(right.columns if right.n_records else left.columns)
    else:
        for name, one in left.columns.items():
            two = right.columns[name]
            is_mixed |= bool(one.declared) != bool(two.declared)
            both = (*one.declared, *two.declared) if one.declared and two.declared else ()
            declared = {label_key(label): label for label in both}
            columns[name] = Categories(tuple(declared.values()), {**one.observed, **two.observed})
    return Scan(
        left.n_records + right.n_records,
        left.total_weight + right.total_weight,
        max(left.largest_weight, right.largest_weight),
        columns,
        is_mixed,
    )


def code_partition(frame: Any, number: int, how: tuple[Reading, bool]) -> Part:
    """Return a partition's records in blocks of cells: all of them as they are, or those to be fitted."""
    reading, for_fit = how
    with _naming_partition(number):
        columns, weights = _open(frame, reading)
        records = Records(columns, schema=reading.schema, missing=reading.missing, unseen=reading.unseen)
        if weights is not None:
            records = records.reweighted(weights)
        kept = records.for_fit() if for_fit else records
        totals = Totals(
            records.n_records,
            records.n_observed,
            records.n_silent,
            kept.n_records,
            kept.n_observed,
            kept.total_weight,
        )
        return Part([_cut_out(block) for block in kept.blocks()], totals)


def totals_of(part: Part, number: int, nothing: object) -> Totals:
    """Return a partition's sizes."""
    return part.totals


def add_totals(left: Totals, right: Totals) -> Totals:
    """Return the sizes of two parts together."""
    return Totals._make(one + two for one, two in zip(left, right, strict=True))


def sum_partition(part: Part, number: int, work: tuple[Callable[[Block], T], Callable[[T, T], T]]) -> T:
    """Return the combination of what a function gives for each block of a partition."""
    per_block, combine = work
    with _naming_partition(number):
        return functools.reduce(combine, map(per_block, part.blocks))


def combine_results(results: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Return the combination of some partitions' results, in their order."""
    # Sums are added to in place, but here each is another task's result, which may be asked for once more when a
    # worker dies.
    return functools.reduce(combine, map(copy.deepcopy, results))


def sample_partition(part: Part, number: int, how: tuple[Schema, float, int]) -> Block:
    """Return a random share of a partition's records, the same whichever worker draws it."""
    schema, share, seed = how
    records = join(schema, part.blocks)
    if share < 1:
        records = records.thinned(share, np.random.default_rng([seed, number]))
    return records.as_block()


def join(schema: Schema, blocks: Sequence[Block]) -> Records:
    """Return the records of blocks, one block after the other."""
    return Records.joined([Records.from_block(schema, block) for block in blocks])


def _cut_out(block: Block) -> Block:
    """Return a block that holds its own cells only, not those of its neighbours."""
    first, last = int(block.pointers[0]), int(block.pointers[-1])
    return Block(block.pointers - first, block.cells[first:last], block.weights)


def _open(frame: Any, reading: Reading) -> tuple[Columns, NDArray[np.float64] | None]:
    columns = open_columns(frame)
    if sorted(columns.names) != sorted(reading.names):
        raise DataError(
            f"it has the columns {shortlist(columns.names)}, and the Dask DataFrame has {shortlist(reading.names)}; "
            "all partitions must have the same"
        )
    columns = open_columns(columns, reading.names)
    if reading.weights is None:
        return columns, None
    columns, weights = split_weights(columns, reading.weights)
    check_each_weight(weights)
    return columns, weights


@contextmanager
def _naming_partition(number: int) -> Iterator[None]:
    """Say in which partition an error was found, and on which worker memory ran out."""
    try:
        yield
    except TwowayError as error:
        raise type(error)(f"partition {number}: {error}") from error
    except MemoryError as error:
        raise ClusterError(f"partition {number}: {_this_worker()} ran out of memory; {MEMORY_ADVICE}") from error


def _this_worker() -> str:
    try:
        from distributed import get_worker

        return f"the worker {get_worker().address}"
    except (ImportError, ValueError):  # Dask's own threads
        return "this machine"
