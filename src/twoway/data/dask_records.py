"""Records in a Dask DataFrame: read and coded where they are, on a cluster's workers or by Dask's threads.

Partitions are read twice: once to find the categories, where no schema gives them, and once to code them. Coded
partitions that are to be fitted stay in the workers' memory. A round sends the factors to each worker once and brings
one sum back: workers add up their partitions' sums as a tree, in the order of the partitions, so that neither the
number of workers nor which of them did what changes a bit. A partition that is lost with its worker is read again.
"""

from __future__ import annotations

import copy
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from twoway.data.columns import Columns
from twoway.data.missing import AnyMissing, Unseen
from twoway.data.raw_columns import RawColumns, open_raw_columns
from twoway.data.reader import Reader, match_reader_columns
from twoway.data.records import Records
from twoway.data.scan import Scan
from twoway.data.stored_records import Block, Combine, FittedRecords, PerBlock, RecordSource, StoredRecords, Totals
from twoway.errors import ClusterError, DataError, TwowayError, check_type, errors_at
from twoway.lazy_imports import import_extra
from twoway.schema import Schema
from twoway.text import shortlist

T = TypeVar("T")

_MEMORY_ADVICE = (
    'make partitions smaller, as by frame.repartition(partition_size="50MB"), or give each worker more memory or fewer '
    "threads"
)
# So many partial sums are added up by one task.
_FAN_IN = 8


class DaskRecords(StoredRecords):
    """Records in a Dask DataFrame, which stay where they are.

    `fit` and `count` take a Dask DataFrame as it is; this class is for the options of reading.

    Parameters
    ----------
    source
        A Dask DataFrame. Nothing of it is computed but sums; persist it first if reading it is slow.
    columns
        The columns to use, all by default.
    where
        Which records to read: a Dask Series of truth values, such as ``frame.age > 17``.
    missing
        As for `Records`.
    weights
        The name of the column that says how much each record matters.
    counts
        The name of the column that says how many equal records each one stands for.
    max_categories
        A column with more distinct values is an error. No limit by default.
    schema
        Variables and categories to read by; columns beyond it are not read. Found in the data if not given, the same
        as if all of it were in memory.
    unseen
        What happens to a label that the schema does not have: "error", or "missing".

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": ["young", "old", None], "vote": [1, None, 0], "n": [10, 20, 5]})
    >>> DaskRecords(dd.from_pandas(frame, npartitions=2), counts="n")
    DaskRecords(3 records in 2 partitions, 2 variables)
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | Columns | None = None,
        where: Any = None,
        missing: AnyMissing = (),
        weights: str | None = None,
        counts: str | None = None,
        max_categories: int | None = None,
        schema: Schema | None = None,
        unseen: Unseen = "error",
    ) -> None:
        declared = Columns.of(columns)
        self._reader = Reader(missing, weights, counts, max_categories, schema, unseen, declared=declared)
        source = _chosen_dask_columns(source, self._reader, where)
        self._names = tuple(map(str, source.columns))
        self._frames: list[Any] = source.to_delayed()
        scans = _dask_tasks(scan_dask_partition, self._frames, self._names, self._reader)
        self._sizes = scan = _combined_by_dask(scans, Scan.__add__)
        scan.weight_totals.check(scan.n_records)
        self.schema = self._reader.found(scan, self._names) if schema is None else schema

    def __repr__(self) -> str:
        n_partitions = len(self._frames)
        return f"DaskRecords({self.n_records} records in {n_partitions} partitions, {len(self.schema)} variables)"

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order.

        Reads the partitions once and keeps nothing. ``threads`` are those of Dask's local scheduler; a cluster's
        workers have their own.
        """
        tasks = _dask_tasks(sum_dask_partition, self._code(for_fit=False), per_block, combine, 1.0)
        return _combined_by_dask(tasks, combine, threads)

    @cached_property
    def _prepared(self) -> tuple[RecordSource, Totals]:
        parts = self._code(for_fit=True)
        if _has_dask_cluster():
            kept = _run_dask("persist", parts)
            totals: Totals = _combined_by_dask(_dask_tasks(lambda part, _number: part.totals, kept), Totals.__add__)
            return _FittedDaskPartitions(self.schema, kept, totals), totals
        computed: Sequence[DaskPartition] = _run_dask("compute", parts)
        totals = functools.reduce(Totals.__add__, (part.totals for part in computed))
        factor = 1.0 / totals.fitted_weights.unit
        records = _joined_dask_partitions(self.schema, [block for part in computed for block in part.scaled(factor)])
        return records.canonical().effective(), totals

    def _code(self, *, for_fit: bool) -> list[Any]:
        return _dask_tasks(code_dask_partition, self._frames, self._names, self._reader, self.schema, for_fit)


class _FittedDaskPartitions(FittedRecords):
    """Coded partitions in the workers' memory: only records that have a say, equal ones of a partition merged."""

    def __init__(self, schema: Schema, parts: Sequence[Any], totals: Totals) -> None:
        super().__init__(schema, totals)
        self._parts = parts

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        _require_dask_cluster()
        tasks = _dask_tasks(sum_dask_partition, self._parts, per_block, combine, 1.0 / self.unit)
        return _combined_by_dask(tasks, combine, threads)

    def sample(self, n_observed: int, *, seed: int) -> Records:
        share = 1.0 if self.n_observed <= n_observed else n_observed / self.n_observed
        _require_dask_cluster()
        tasks = _dask_tasks(sample_dask_partition, self._parts, self.schema, share, seed, 1.0 / self.unit)
        drawn = _run_dask("compute", tasks)
        return _joined_dask_partitions(self.schema, drawn).canonical().effective()


def _chosen_dask_columns(source: Any, reader: Reader, where: Any) -> Any:
    """Return a Dask DataFrame with the rows and columns needed, or raise if a column is lacking."""
    dask = import_extra("dask.dataframe", "records on a cluster need Dask", "dask")
    if not isinstance(source, dask.DataFrame):
        raise DataError(f"DaskRecords reads a Dask DataFrame; got {type(source).__name__}, which Records may read")
    check_type("where", where, dask.Series | None, "a Dask Series of truth values, such as frame.age > 17")
    source = source if where is None else source[where]
    by_name = {str(name): name for name in source.columns}
    reader.declared.check(list(by_name))
    column_of = reader.column_of(reader.wanted(list(by_name)) or list(by_name))
    if reader.schema is not None:
        column_of = {name: column_of[name] for name in match_reader_columns(reader.schema, list(column_of))}
    return source[[by_name[name] for name in (*column_of.values(), *reader.number_columns.values())]]


# What a worker does with a partition: these functions travel to the workers by name. `run_on_dask_partition` gives them
# a partition, its number, and what is the same for all. Partitions are coded as plain tuples of arrays, whose size Dask
# can tell: by it the scheduler decides what to move, and a worker what to spill.


class DaskPartition(NamedTuple):
    """A coded partition."""

    blocks: list[Block]
    totals: Totals
    each: float
    """What every one of its people weighs, if that is one number, which then is stored nowhere else; otherwise 1."""

    def scaled(self, factor: float) -> Iterator[Block]:
        """Yield the blocks with weights times a factor."""
        return (block.scaled(self.each * factor) for block in self.blocks)


def run_on_dask_partition(function: Callable[..., T], partition: Any, number: int, shared: tuple[Any, ...]) -> T:
    """Return what a function gives for a partition; errors name it, and the worker whose memory ran out."""
    try:
        with errors_at(f"partition {number}"):
            return function(partition, number, *shared)
    except MemoryError as error:
        raise ClusterError(f"partition {number}: {_dask_worker()} ran out of memory; {_MEMORY_ADVICE}") from error


def scan_dask_partition(frame: Any, number: int, names: tuple[str, ...], reader: Reader) -> Scan:
    """Return what a partition adds to the schema and to the number and the weight of the records."""
    return reader.scan(*reader.split(_open_dask_partition(frame, names)))


def code_dask_partition(
    frame: Any, number: int, names: tuple[str, ...], reader: Reader, schema: Schema, for_fit: bool
) -> DaskPartition:
    """Return a partition's records in blocks of cells: all of them as they are, or those to be fitted."""
    columns, weights, people = reader.split(_open_dask_partition(frame, names))
    pointers, cells, _ = reader.encode(columns, schema)
    records = Records.from_cells(schema, pointers, cells, weights, people)
    totals, each = Totals(), 1.0
    if for_fit:
        records, totals = Totals.of_fitted(records)
        records, each = records.apart_from_weight()
        totals = totals._replace(n_fitted=records.n_records, n_fitted_observed=records.n_observed)
    return DaskPartition([_dask_partition_block(block) for block in records.blocks()], totals, each)


def sum_dask_partition(
    part: DaskPartition, number: int, per_block: PerBlock[T], combine: Combine[T], factor: float
) -> T:
    """Return the combination of what a function gives for each block of a partition, its weights times a factor."""
    return functools.reduce(combine, map(per_block, part.scaled(factor)))


def combine_dask_partitions(results: Sequence[T], combine: Combine[T]) -> T:
    """Return the combination of some partitions' results, in their order."""
    # Sums are added to in place, but here each is another task's result, which may be asked for once more when a
    # worker dies.
    return functools.reduce(combine, map(copy.deepcopy, results))


def sample_dask_partition(
    part: DaskPartition, number: int, schema: Schema, share: float, seed: int, factor: float
) -> Block:
    """Return a random share of a partition's records, the same whichever worker draws it, weights times a factor."""
    records = _joined_dask_partitions(schema, part.blocks)
    if share < 1:
        records = records.thinned(share, np.random.default_rng([seed, number]))
    return records.as_block().scaled(part.each * factor)


def _joined_dask_partitions(schema: Schema, blocks: Sequence[Block]) -> Records:
    """Return the records of blocks, one block after the other."""
    return Records.joined([Records.from_block(schema, block) for block in blocks])


def _dask_partition_block(block: Block) -> Block:
    """Return a block that holds its own cells only, not those of its neighbours."""
    first, last = int(block.pointers[0]), int(block.pointers[-1])
    return block._replace(pointers=block.pointers - first, cells=block.cells[first:last])


def _open_dask_partition(frame: Any, names: tuple[str, ...]) -> RawColumns:
    columns = open_raw_columns(frame)
    if sorted(columns.names) != sorted(names):
        raise DataError(
            f"it has the columns {shortlist(columns.names)}, and the Dask DataFrame has {shortlist(names)}; "
            "all partitions must have the same"
        )
    return columns.select(names)


def _dask_worker() -> str:
    try:
        from distributed import get_worker

        return f"the worker {get_worker().address}"
    except (ImportError, ValueError):  # Dask's own threads
        return "this machine"


# Tasks


def _dask_tasks(function: Callable[..., Any], items: Sequence[Any], *shared: object) -> list[Any]:
    """Return the tasks of a function that gets each item, its number, and what is the same for all."""
    import dask

    # A task of its own: it goes to one worker, from which the others fetch it, each once. Unlike data that are
    # scattered it can be computed again when the workers that hold it die.
    sent = _sent_by_dask(shared)
    run, task = f"{function.__name__}-{uuid4().hex}", dask.delayed(run_on_dask_partition, pure=False, traverse=False)
    tasks = enumerate(items)
    return [task(function, item, number, sent, dask_key_name=f"{run}-{number}") for number, item in tasks]


def _combined_by_dask(items: Sequence[Any], combine: Combine[T], threads: int | None = None) -> T:
    """Return all results combined by the workers, as a tree, in their order."""
    import dask

    how, task = _sent_by_dask(combine), dask.delayed(combine_dask_partitions, pure=False)
    while len(items) > 1:
        items = [task(items[first : first + _FAN_IN], how) for first in range(0, len(items), _FAN_IN)]
    result: T = _run_dask("compute", items, threads)[0]
    return result


def _sent_by_dask(shared: object) -> Any:
    """Return a task that gives an object; it is sent in bytes, in which Dask does not look for tasks."""
    import cloudpickle
    import dask

    return dask.delayed(cloudpickle.loads, pure=False)(cloudpickle.dumps(shared))


def _run_dask(what: str, tasks: Sequence[Any], threads: int | None = None) -> Sequence[Any]:
    """Return the results of tasks ("compute"), or tasks whose results stay on the workers ("persist")."""
    import dask

    limit = {} if threads is None else {"num_workers": threads}
    with _clear_dask_errors(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # the factors may be large
        results: Sequence[Any] = getattr(dask, what)(*tasks, optimize_graph=False, **limit)
        return results


def _has_dask_cluster() -> bool:
    from dask.base import get_scheduler

    return hasattr(getattr(get_scheduler(), "__self__", None), "scheduler_info")


def _require_dask_cluster() -> None:
    """Raise if no cluster is connected: Dask would look for the workers' records in this process."""
    if not _has_dask_cluster():
        raise ClusterError(_lost_dask_cluster("no client is connected"))


@contextmanager
def _clear_dask_errors() -> Iterator[None]:
    """Turn what a cluster raises about itself into an error with advice."""
    try:
        yield
    except TwowayError:
        raise
    except BaseException as error:  # a cancelled task is no Exception
        if (message := _explained_dask_error(error)) is None:
            raise
        raise ClusterError(message) from error


def _explained_dask_error(error: BaseException) -> str | None:
    """Return the message for an error of the cluster, None for other errors."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        task, worker, allowed = error.args
        number = re.search(r"_partition-\w+-(\d+)$", str(task))
        where = f"partition {number[1]}" if number else f"the task {task!r}"
        return (
            f"{allowed + 1} workers died one after the other while they worked on {where}, the last of them "
            f"{worker.address}. Its log may say why; if memory ran out, {_MEMORY_ADVICE}"
        )
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and str(cause.name).partition(".")[0] == "twoway":
            return "the cluster has no twoway, or another version; its scheduler and workers need the one used here"
        cause = cause.__cause__ or cause.__context__
    if type(error).__module__.partition(".")[0] == "distributed" or kind == "CancelledError":
        return _lost_dask_cluster(f"{kind}: {str(error).splitlines()[0]}")
    return None


def _lost_dask_cluster(reason: str) -> str:
    return (
        f"the cluster lost its records or cannot be reached ({reason}); if its scheduler or its client was closed, "
        "connect again and start over"
    )
