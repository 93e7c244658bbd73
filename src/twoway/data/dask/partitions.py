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

from twoway.data.coding import Found, Unseen
from twoway.data.missing import MissingLabels
from twoway.data.reading import Columns, declared_categories, observed_labels, open_columns, split_off
from twoway.data.records import Records
from twoway.data.source import Block, scaled_block
from twoway.data.weighing import WeightTotals, check_counts, check_weights, of_rows
from twoway.errors import ClusterError, DataError, TwowayError
from twoway.schema import Label, Schema, label_key
from twoway.text import shortlist

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
    missing: MissingLabels
    counts: str | None
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
    weight_totals: WeightTotals
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
    fitted_weights: WeightTotals


class Part(NamedTuple):
    """A coded partition."""

    blocks: list[Block]
    totals: Totals
    each: float
    """What every one of its people weighs, where that is one number, which then stands nowhere else; otherwise 1."""

    def scaled(self, factor: float) -> Iterator[Block]:
        """Yield the blocks with weights times a factor."""
        return (scaled_block(block, self.each * factor) for block in self.blocks)


def scan_partition(frame: Any, number: int, reading: Reading) -> Scan:
    """Return what a partition adds to the schema and to the number and the weight of the records."""
    with _naming_partition(number):
        columns, weights, people = _open(frame, reading)
        markers = reading.missing.by_name(columns.names, reading.schema)
        found = {}
        for name in columns.names if reading.schema is None else ():
            declared = declared_categories(columns, name, markers[name])
            is_enough = declared and not reading.looks_behind
            found[name] = Categories(declared, {} if is_enough else observed_labels(columns, name, markers[name]))
        return Scan(columns.n_rows, WeightTotals.of(weights, people, columns.n_rows), found)


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
        left.weight_totals + right.weight_totals,
        columns,
        is_mixed,
    )


def code_partition(frame: Any, number: int, how: tuple[Reading, bool]) -> Part:
    """Return a partition's records in blocks of cells: all of them as they are, or those to be fitted."""
    reading, for_fit = how
    with _naming_partition(number):
        columns, weights, people = _open(frame, reading)
        records = Records(columns, schema=reading.schema, missing=reading.missing, unseen=reading.unseen)
        records = records.reweighted(weights, people)
        heard = records.with_say()
        kept, each = heard.canonical().apart_from_weight() if for_fit else (records, 1.0)
        totals = Totals(
            records.n_records,
            records.n_observed,
            records.n_silent,
            kept.n_records,
            kept.n_observed,
            heard.weight_totals,
        )
        return Part([_cut_out(block) for block in kept.blocks()], totals, each)


def totals_of(part: Part, number: int, nothing: object) -> Totals:
    """Return a partition's sizes."""
    return part.totals


def add_totals(left: Totals, right: Totals) -> Totals:
    """Return the sizes of two parts together."""
    return Totals(
        left.n_records + right.n_records,
        left.n_observed + right.n_observed,
        left.n_silent + right.n_silent,
        left.n_fitted + right.n_fitted,
        left.n_fitted_observed + right.n_fitted_observed,
        left.fitted_weights + right.fitted_weights,
    )


def sum_partition(part: Part, number: int, work: tuple[Callable[[Block], T], Callable[[T, T], T], float]) -> T:
    """Return the combination of what a function gives for each block of a partition, its weights times a factor."""
    per_block, combine, factor = work
    with _naming_partition(number):
        return functools.reduce(combine, map(per_block, part.scaled(factor)))


def combine_results(results: Sequence[T], combine: Callable[[T, T], T]) -> T:
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


def _open(frame: Any, reading: Reading) -> tuple[Columns, NDArray[np.float64] | None, NDArray[Any] | None]:
    columns = open_columns(frame)
    if sorted(columns.names) != sorted(reading.names):
        raise DataError(
            f"it has the columns {shortlist(columns.names)}, and the Dask DataFrame has {shortlist(reading.names)}; "
            "all partitions must have the same"
        )
    columns = open_columns(columns, reading.names)
    columns, counts, weights = split_off(columns, reading.counts, reading.weights)
    if counts is not None:
        check_counts(counts)
    if weights is not None:
        check_weights(weights)
    return columns, *of_rows(counts, weights)


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
