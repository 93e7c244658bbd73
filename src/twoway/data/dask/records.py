"""Records in a Dask DataFrame: read and coded where they are, on a cluster's workers or by Dask's threads.

Partitions are read twice: once to find the categories, where no schema gives them, and once to code them. Coded
partitions that are to be fitted stay in the workers' memory. A round sends the factors to each worker once and brings
one sum back: workers add up their partitions' sums as a tree, in the order of the partitions, so that neither the
number of workers nor which of them did what changes a bit. A partition that is lost with its worker is read again.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from twoway.data.coding import Unseen, categories_of
from twoway.data.dask import partitions
from twoway.data.dask.partitions import Part, Reading, Scan, Totals
from twoway.data.missing import AnyMissing, MissingLabels
from twoway.data.reading import check_columns_of, check_options, match_columns
from twoway.data.records import Records
from twoway.data.source import Block
from twoway.data.weighing import WeightTotals
from twoway.errors import ClusterError, DataError, TwowayError
from twoway.schema import Schema

T = TypeVar("T")

# So many partial sums are added up by one task.
_FAN_IN = 8


class DaskRecords:
    """Records in a Dask DataFrame, which stay where they are.

    `fit` and `count` take a Dask DataFrame as it is; this class is for the options of reading. Columns and rows are
    chosen with Dask's own means: ``frame[["age", "vote"]]``, ``frame[frame.age > 17]``.

    Parameters
    ----------
    source
        A Dask DataFrame. Nothing of it is computed but sums; persist it first where reading it is slow.
    schema
        Variables and categories to read by; columns beyond it are not read. Found in the data if not given, the same
        as if all of it were in memory.
    missing
        As for `Records`.
    counts
        The name of the column that says how many equal records each one stands for.
    weights
        The name of the column that says how much each record matters.
    unseen
        What a label that the schema does not have gets: "error", or "missing".

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": ["young", "old", None], "vote": [1, None, 0], "n": [10, 20, 5]})
    >>> DaskRecords(dd.from_pandas(frame, npartitions=2), counts="n")
    DaskRecords(3 records in 2 partitions, 2 variables)
    """

    schema: Schema

    notes: Sequence[str] = ()

    def __init__(
        self,
        source: Any,
        *,
        schema: Schema | None = None,
        missing: AnyMissing = (),
        counts: str | None = None,
        weights: str | None = None,
        unseen: Unseen = "error",
    ) -> None:
        labels = check_options(schema, missing, unseen)
        source = _checked(source, schema, counts, weights)
        reading = Reading(tuple(map(str, source.columns)), schema, labels, counts, weights, unseen)
        source = source.optimize()
        self._frames = _Tasks(dict(source.__dask_graph__()), source.__dask_keys__())
        scan = self._scanned(reading)
        if scan.is_mixed:
            scan = self._scanned(reading._replace(looks_behind=True))
        if scan.n_records:
            scan.weight_totals.check()
        self.schema = _found_schema(scan, labels) if schema is None else schema
        self._reading = reading._replace(schema=self.schema)
        self._scan = scan

    def _scanned(self, reading: Reading) -> Scan:
        return self._frames.each(partitions.scan_partition, reading).combined(partitions.add_scans)

    def __repr__(self) -> str:
        n_partitions = len(self._frames.keys)
        return f"DaskRecords({self.n_records} records in {n_partitions} partitions, {len(self.schema)} variables)"

    @property
    def n_records(self) -> int:
        """The number of records, those that stand for several counted once."""
        return self._scan.n_records

    @property
    def total_weight(self) -> float:
        """The sum of the records' weights."""
        return self._scan.weight_totals.total

    @property
    def weight_totals(self) -> WeightTotals:
        """What the records' weights add up to."""
        return self._scan.weight_totals

    @property
    def n_observed(self) -> int:
        """The number of observed cells."""
        return self._fitted[1].n_observed

    @property
    def n_silent(self) -> int:
        """The number of records that show nothing or weigh nothing."""
        return self._fitted[1].n_silent

    def map_reduce(
        self, per_block: Callable[[Block], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order.

        Reads the partitions once and keeps nothing. ``threads`` are those of Dask's local scheduler; a cluster's
        workers have their own.
        """
        return _map_reduce(self._code(for_fit=False), per_block, combine, threads)

    def for_fit(self) -> Records | _FittedPartitions:
        """Return the records that have a say, coded and kept in the workers' memory as long as anybody holds them.

        Where there is no cluster, this process is the worker.
        """
        return self._fitted[0]

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records that have a say, with about so many observed cells, in memory."""
        return self.for_fit().sample(n_observed, seed=seed)

    @cached_property
    def _fitted(self) -> tuple[Records | _FittedPartitions, Totals]:
        parts = self._code(for_fit=True)
        if _has_cluster():
            kept = parts.persisted()
            totals = kept.each(partitions.totals_of).combined(partitions.add_totals)
            return _FittedPartitions(self.schema, kept, totals), totals
        computed: list[Part] = parts.computed()
        totals = functools.reduce(partitions.add_totals, (part.totals for part in computed))
        factor = 1.0 / totals.fitted_weights.unit
        records = partitions.join(self.schema, [block for part in computed for block in part.scaled(factor)])
        return records.canonical().effective(), totals

    def _code(self, *, for_fit: bool) -> _Tasks:
        return self._frames.each(partitions.code_partition, (self._reading, for_fit))


class _FittedPartitions:
    """Coded partitions in the workers' memory: only records that have a say, equal ones of a partition merged."""

    notes: Sequence[str] = ()

    def __init__(self, schema: Schema, parts: _Tasks, totals: Totals) -> None:
        self.schema, self._parts, self._totals = schema, parts, totals
        self._unit = totals.fitted_weights.unit
        self.weight_totals = totals.fitted_weights.scaled(1.0 / self._unit)

    @property
    def n_records(self) -> int:
        return self._totals.n_fitted

    @property
    def total_weight(self) -> float:
        return self.weight_totals.total

    @property
    def n_observed(self) -> int:
        return self._totals.n_fitted_observed

    @property
    def n_silent(self) -> int:
        return 0

    def map_reduce(
        self, per_block: Callable[[Block], T], combine: Callable[[T, T], T], *, threads: int | None = None
    ) -> T:
        return _map_reduce(self._parts, per_block, combine, threads, 1.0 / self._unit)

    def for_fit(self) -> _FittedPartitions:
        return self

    def sample(self, n_observed: int, *, seed: int) -> Records:
        share = 1.0 if self.n_observed <= n_observed else n_observed / self.n_observed
        drawn = self._parts.each(partitions.sample_partition, (self.schema, share, seed, 1.0 / self._unit)).computed()
        return partitions.join(self.schema, drawn).canonical().effective()


def _checked(source: Any, schema: Schema | None, counts: str | None, weights: str | None) -> Any:
    """Return a Dask DataFrame with the columns needed, or raise where that cannot be."""
    try:
        import dask.dataframe as dd
    except ImportError:
        raise DataError('records on a cluster need Dask: pip install "twoway[dask]"') from None
    if not isinstance(source, dd.DataFrame):
        raise DataError(
            f"DaskRecords reads a Dask DataFrame; got {type(source).__name__}, of which Records may know the type"
        )
    by_name = {str(name): name for name in source.columns}
    for what, name in (("counts", counts), ("weights", weights)):
        if not isinstance(name, str | None):
            raise DataError(f"{what} must be the name of a column; got {type(name).__name__}")
    check_columns_of(list(by_name), counts, weights)
    if schema is None:
        return source
    numbers = [name for name in (counts, weights) if name is not None]
    present = match_columns(schema, [name for name in by_name if name not in numbers])
    return source[[by_name[name] for name in (*present, *numbers)]]


def _found_schema(scan: Scan, missing: MissingLabels) -> Schema:
    if not scan.columns:
        raise DataError("the data has no columns; it needs at least one")
    return Schema.found(
        {
            name: found.declared or categories_of(found.observed, name, scan.n_records)
            for name, found in scan.columns.items()
        },
        missing.remembered,
    )


# Tasks


class _Tasks(NamedTuple):
    """A task for each partition, in a graph as Dask's schedulers take it.

    Made by hand: a round of EM is a graph of its own, and Dask's objects would take longer to build than it runs.
    """

    graph: Mapping[Any, Any]
    keys: Sequence[Any]

    def each(self, function: Callable[..., Any], shared: object = None) -> _Tasks:
        """Return the tasks of a function that gets each result, its number, and what is the same for all."""
        import cloudpickle

        run = f"{function.__name__}-{uuid4().hex}"
        # A task of its own: it goes to one worker, from which the others fetch it, each once. Unlike data that are
        # scattered it can be had again when the workers that hold it die. In bytes, for Dask would look for keys in it.
        graph = {**self.graph, f"{run}-shared": (cloudpickle.loads, cloudpickle.dumps(shared))}
        keys = [f"{run}-{number}" for number in range(len(self.keys))]
        for number, (key, item) in enumerate(zip(keys, self.keys, strict=True)):
            graph[key] = (function, item, number, f"{run}-shared")
        return _Tasks(graph, keys)

    def combined(self, combine: Callable[[T, T], T], threads: int | None = None) -> T:
        """Return all results combined by the workers, as a tree, in their order."""
        import cloudpickle

        run, level, keys = f"combine-{uuid4().hex}", 0, list(self.keys)
        graph = {**self.graph, f"{run}-how": (cloudpickle.loads, cloudpickle.dumps(combine))}
        while len(keys) > 1:
            level += 1
            groups = [keys[first : first + _FAN_IN] for first in range(0, len(keys), _FAN_IN)]
            keys = [f"{run}-{level}-{number}" for number in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                graph[key] = (partitions.combine_results, group, f"{run}-how")
        result: T = _Tasks(graph, keys).computed(threads)[0]
        return result

    def computed(self, threads: int | None = None) -> list[Any]:
        """Return the results."""
        limit = {} if threads is None else {"num_workers": threads}
        with _clear_errors(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # the factors may be large
            return list(_scheduler()(self.graph, list(self.keys), **limit))

    def persisted(self) -> _Tasks:
        """Return tasks whose results stay on the workers, which can compute them again."""
        with _clear_errors():
            futures = _scheduler()(self.graph, list(self.keys), sync=False)
        return _Tasks(dict(zip(self.keys, futures, strict=True)), self.keys)


def _scheduler() -> Callable[..., Any]:
    """Return what computes a graph: a cluster's client, what Dask is configured to use, or its threads."""
    from dask.base import get_scheduler
    from dask.threaded import get

    return get_scheduler() or get  # type: ignore[no-any-return]


def _has_cluster() -> bool:
    return hasattr(getattr(_scheduler(), "__self__", None), "scheduler_info")


def _map_reduce(
    parts: _Tasks,
    per_block: Callable[[Block], T],
    combine: Callable[[T, T], T],
    threads: int | None,
    factor: float = 1.0,
) -> T:
    return parts.each(partitions.sum_partition, (per_block, combine, factor)).combined(combine, threads)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn what a cluster raises about itself into an error that says what to do."""
    try:
        yield
    except TwowayError:
        raise
    except BaseException as error:  # a cancelled task is no Exception
        told = _explained(error)
        if told is None:
            raise
        raise ClusterError(told) from error


def _explained(error: BaseException) -> str | None:
    """Return what an error says about the cluster, None where it says nothing about it."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        task, worker, allowed = error.args
        number = re.search(r"_partition-\w+-(\d+)$", str(task))
        where = f"partition {number[1]}" if number else f"the task {task!r}"
        return (
            f"{allowed + 1} workers died one after the other while they worked on {where}, the last of them "
            f"{worker.address}. Its log may say why; if memory ran out, {partitions.MEMORY_ADVICE}"
        )
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and str(cause.name).partition(".")[0] == "twoway":
            return "the cluster has no twoway, or another version; its scheduler and workers need the one used here"
        cause = cause.__cause__ or cause.__context__
    if type(error).__module__.partition(".")[0] == "distributed" or kind == "CancelledError":
        return (
            f"the cluster lost its records or cannot be reached ({kind}: {str(error).splitlines()[0]}); if its "
            "scheduler or its client was closed, connect again and begin anew"
        )
    return None
