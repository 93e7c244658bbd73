"""How sure the answers are: the same questions put to models of what might have been observed instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twoway import container
from twoway.diagnosis.intervals import Interval, Intervals, IntervalTable, Scale, basic_interval, checked_level
from twoway.diagnosis.resampling import FromRecords, FromTables, Resampling
from twoway.distribution import Distribution
from twoway.errors import DataError, FileFormatError, ImpossibleEvidenceError, whole_number
from twoway.fitting import watching
from twoway.frames import Fill, column_names, fill, in_memory
from twoway.imputation import fills, warn_of_impossible
from twoway.mode_search import Mode
from twoway.model_file import write_model
from twoway.observed import records_for
from twoway.parallel import usable_cores
from twoway.parameters import check_parameters, read_only
from twoway.pmf import JointPMF, check_model
from twoway.records import Records
from twoway.report import Monitor, Progress, StopReason
from twoway.solvers.base import Smoothing, Watch
from twoway.solvers.cells import CellSets
from twoway.solvers.latent import fit_cells
from twoway.solvers.starts import softened
from twoway.tables import Tables

# Replicates start at the model and have a short way to go.
_MAX_ITER = 500
_TOL_RECORDS, _TOL_TABLES = 1e-8, 1e-6
# What a replicate gives to categories that its sample did not hold, of the model's shares.
_UNSEEN = 1e-6
LEAST_REPLICATES = 20
"""Fewer cannot tell the ends of a 90 % interval."""


@dataclass(frozen=True)
class SureMode(Mode):
    """The most probable values, and how often another sample would have given the same."""

    agreement: float = 1.0
    """The share of replicates with the same values."""


@dataclass(frozen=True)
class Bootstrap:
    """A model and its replicates: answers each question of a `JointPMF` with an interval."""

    pmf: JointPMF
    """The model that was asked about; its answers are the estimates."""
    replicates: tuple[JointPMF, ...]
    """Models of what might have been observed instead."""
    center: JointPMF
    """The fit to the source from which replicates differ by chance; the model itself where it is that fit."""
    level: float = 0.9
    """How often an interval should hold the truth."""
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Bootstrap({len(self.replicates)} replicates of {self.pmf!r}, level {self.level:g})"

    def at(self, level: float) -> Bootstrap:
        """Return the same replicates with intervals of another level, such as 0.95."""
        return replace(self, level=checked_level(level))

    # Questions

    def of(self, question: Callable[[JointPMF], Any], scale: Scale = "real") -> Intervals:
        """Return the answer to any question that can be put to a JointPMF, with its intervals.

        Parameters
        ----------
        question
            From a JointPMF to a number or an array.
        scale
            What the answers are: "probability", "nonnegative" or "real" numbers.
        """
        estimate, center = (np.asarray(question(pmf), dtype=np.float64) for pmf in (self.pmf, self.center))
        answers = np.array([np.asarray(question(pmf), dtype=np.float64) for pmf in self.replicates])
        return Intervals(estimate, *basic_interval(estimate, center, answers, self.level, scale))

    def _number(self, question: Callable[[JointPMF], float], scale: Scale = "real") -> Interval:
        value, low, high = self.of(question, scale)
        return Interval(float(value), float(low), float(high), self.level)

    def prob(self, event: Mapping[str, Any]) -> Interval:
        """Return the probability of an event; see `JointPMF.prob`."""
        return self._number(lambda pmf: pmf.prob(event), "probability")

    def marginal(self, names: str | Sequence[str]) -> IntervalTable:
        """Return the joint distribution of one variable or several; see `JointPMF.marginal`."""
        whole = self.pmf.marginal(names)
        _, low, high = self.of(lambda pmf: pmf.marginal(names).array, "probability")
        return IntervalTable(
            whole, Distribution(whole.variables, low), Distribution(whole.variables, high), level=self.level
        )

    def given(self, evidence: Mapping[str, Any]) -> Bootstrap:
        """Return the same for the PMFs given what is known of some variables; see `JointPMF.given`."""
        kept = []
        for pmf in self.replicates:
            try:
                kept.append(pmf.given(evidence))
            except ImpossibleEvidenceError:
                continue
        told = self.warnings
        if len(kept) < len(self.replicates):
            told += (f"the evidence is impossible in {len(self.replicates) - len(kept)} replicates, left out",)
        if not kept:
            raise ImpossibleEvidenceError("the evidence has probability 0 in every replicate")
        given = self.pmf.given(evidence)
        center = given if self.center is self.pmf else self.center.given(evidence)
        return replace(self, pmf=given, center=center, replicates=tuple(kept), warnings=told)

    def mode(self, names: str | Sequence[str] | None = None) -> SureMode:
        """Return the most probable values and how many replicates agree; see `JointPMF.mode`."""
        found = self.pmf.mode(names)
        same = [pmf.mode(names).values == found.values for pmf in self.replicates]
        return SureMode(found.values, self.prob(found.values), found.proven, agreement=float(np.mean(same)))

    def expect(self, name: str) -> Interval:
        """Return the expected value of a variable; see `JointPMF.expect`."""
        return self._number(lambda pmf: pmf.expect(name))

    def entropy(self, names: str | Sequence[str], base: float | None = None, *, seed: int = 0) -> Interval:
        """Return the entropy of some variables; see `JointPMF.entropy`."""
        return self._number(lambda pmf: pmf.entropy(names, base, seed=seed), "nonnegative")

    def mutual_information(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        given: str | Sequence[str] | None = None,
        base: float | None = None,
        *,
        seed: int = 0,
    ) -> Interval:
        """Return how much one variable tells about another; see `JointPMF.mutual_information`."""
        return self._number(lambda pmf: pmf.mutual_information(a, b, given, base, seed=seed), "nonnegative")

    def log_prob(self, source: Any) -> Intervals:
        """Return the logarithm of each record's probability, arrays (n_records,); see `JointPMF.log_prob`."""
        records = records_for(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.log_prob(records))

    def memberships(self, source: Any) -> Intervals:
        """Return Pr(component | record), arrays (n_records, rank); see `JointPMF.memberships`."""
        records = records_for(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.memberships(records), "probability")

    # Multiple imputation

    def impute(self, frame: Any, m: int = 20, seed: int = 0) -> list[Any]:
        """Return ``m`` completed copies of a frame, for analyses that `pool` puts together.

        Each copy is drawn from a replicate of its own, so that the copies differ as much as the missing cells leave
        open: what is in the cells, and what the model is. Draws from one model (``pmf.impute(how="sample")``) differ
        too little, and intervals from them are too narrow. Observed cells never change.

        Parameters
        ----------
        frame
            The frame that the model was fitted to, as `JointPMF.impute` takes it.
        m
            How many copies: at least 2, and at most as many as there are replicates.
        seed
            The same seed draws the same.

        Examples
        --------
        >>> import pandas as pd
        >>> from twoway.diagnosis.pooling import pool
        >>> from twoway.fitting import fit
        >>> frame = pd.DataFrame({"age": [0, 1, 0, 1] * 50, "vote": [0, 1, None, 1, 0, 0, 1, None] * 25})
        >>> boot = bootstrap(fit(frame, rank=2), frame, n=20)
        >>> tables = boot.impute(frame, m=10)
        >>> len(tables), int(tables[0]["vote"].isna().sum())
        (10, 0)
        >>> pooled = pool(lambda table: (table["vote"].mean(), table["vote"].var() / len(table)), tables)
        >>> bool(pooled.low < 0.5 < pooled.high)
        True
        """
        columns = column_names(frame := in_memory(frame), self.pmf.schema.names)
        records = records_for(self.pmf.schema, frame)
        indices = [index for index, name in enumerate(self.pmf.schema.names) if name in columns]
        return [fill(frame, drawn, columns) for drawn in self.draws(records, indices, m, seed)]

    def draws(self, records: Records, indices: Sequence[int], m: int, seed: int) -> Iterator[dict[str, Fill]]:
        """Yield ``m`` times what fills the missing cells of some variables, each time from another replicate."""
        if whole_number("m", m, 2) > len(self.replicates):
            raise DataError(
                f"each completed table needs a replicate of its own: {m} were asked for, and there are "
                f"{len(self.replicates)}"
            )
        possible = self.pmf.log_prob(records) > -np.inf
        warn_of_impossible(np.flatnonzero(~possible & (records.codes()[:, indices] < 0).any(axis=1)))
        shares = np.concatenate([np.asarray(self.pmf.marginal(name)) for name in self.pmf.schema.names])
        for number, replicate in enumerate(self.replicates[:m]):
            # A category that a replicate has not seen is possible all the same.
            pmf = softened(replicate, shares, _UNSEEN)
            drawn = fills(records, pmf.weights, pmf.stacked, indices, "sample", (seed, number), warn=False)
            yield {name: (rows[possible[rows]], labels[possible[rows]]) for name, (rows, labels) in drawn.items()}

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file that carries its replicates; `tw.load` reads the model in it."""
        several = [self.center, *self.replicates]
        arrays = {
            "replicate_weights": np.array([pmf.weights for pmf in several]),
            "replicate_stacked": np.array([pmf.stacked for pmf in several]),
        }
        write_model(path, self.pmf.schema, self.pmf.weights, self.pmf.stacked, self.pmf.report, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bootstrap:
        """Return the model of a file with its replicates; one that carries none is an error."""
        found = load_model(path)
        if isinstance(found, JointPMF):
            raise FileFormatError(
                f"{str(path)!r} is a model without replicates, which intervals need: "
                "`twoway fit --intervals` or Bootstrap.save writes one with them"
            )
        return found


def load_model(path: str | os.PathLike[str]) -> JointPMF | Bootstrap:
    """Return the model of a file, with its replicates where it carries them."""
    pmf = JointPMF.load(path)
    _, arrays = container.read(path, "model")
    if "replicate_weights" not in arrays or "replicate_stacked" not in arrays:
        return pmf
    weights, stacked = arrays["replicate_weights"], arrays["replicate_stacked"]
    try:
        if weights.ndim != 2 or len(weights) < 2:
            raise DataError(f"there are none, in an array of the shape {weights.shape}")
        if stacked.shape != (len(weights), *pmf.stacked.shape) or weights.shape[1:] != pmf.weights.shape:
            raise DataError(f"its arrays have the shapes {weights.shape} and {stacked.shape}")
        for one, other in zip(weights, stacked, strict=True):
            check_parameters(pmf.schema, one, other, 1e-9)
        several = [
            JointPMF.from_stacked(pmf.schema, read_only(one), read_only(other))
            for one, other in zip(weights, stacked, strict=True)
        ]
        return Bootstrap(pmf, tuple(several[1:]), several[0])
    except (DataError, IndexError) as error:
        raise FileFormatError(f"{str(path)!r} holds no sound replicates: {error}") from error


def bootstrap(
    pmf: JointPMF,
    source: Any,
    n: int = 200,
    seed: int = 0,
    *,
    level: float = 0.9,
    n_records: float | None = None,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Bootstrap:
    """Return an object that answers each question of a `JointPMF` with an interval.

    The model is fitted again, from where it is, to ``n`` samples like the one at hand: records drawn with replacement,
    or tables counted on people drawn from the model. Intervals tell what chance does. They do not tell whether the
    rank is right, nor whether tables can tell at all what is asked: see `fit_quality` and `diagnose`.

    Parameters
    ----------
    pmf
        The model; smoothing is that of its report.
    source
        The records or `Tables` that it was fitted to.
    n
        How many replicates; at least 20.
    seed
        The same seed gives the same replicates, whatever the number of threads.
    level
        How often an interval should hold the truth.
    n_records
        For tables: how many people stand in all tables together. By default as few as the largest total, so that
        all tables rest on the same people, which gives the widest intervals; ``math.inf`` where each table
        has a sample of its own.
    threads
        Replicates at a time; all cores by default.
    monitor
        True shows a progress bar. Ctrl-C ends with the replicates finished until then, if these are enough.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> from twoway.fitting import fit
    >>> records = draw_records(dirichlet_rows(5, 3, 2), 1000)
    >>> boot = bootstrap(fit(records, rank=2), records, n=40)
    >>> answer = boot.prob({"x1": 0, "x2": 1})
    >>> bool(0 <= answer.low < answer < answer.high <= 1)
    True
    """
    check_model(pmf)
    n, seed = whole_number("n", n, LEAST_REPLICATES), whole_number("seed", seed, 0)
    threads = usable_cores() if threads is None else whole_number("threads", threads, 1)
    report = pmf.report
    smoothing = Smoothing() if report is None else Smoothing(report.smoothing, report.weight_smoothing)
    resampling, tol = _resampling(pmf, source, n_records)
    with watching(monitor) as told:
        watch = Watch(told)

        def fit(sets: CellSets) -> tuple[JointPMF, StopReason]:
            # A model may have zeros, which multiplicative updates cannot leave.
            start = softened(pmf, sets.shares, 1e-6) if (pmf.stacked == 0).any() else pmf
            found, path = fit_cells(
                sets, start, smoothing=smoothing, max_iter=_MAX_ITER, tol=tol, task="", watch=watch.quiet()
            )
            return found, path.stop_reason

        def replicate(number: int) -> tuple[JointPMF, StopReason]:
            return fit(resampling.draw(seed, number))

        found: list[tuple[JointPMF, StopReason]] = []
        with watch.guard():
            center = fit(resampling.original())[0]
            with ThreadPoolExecutor(threads) as pool:
                try:
                    for one in pool.map(replicate, range(n)):
                        found.append(one)
                        watch.tell(Progress("drawing replicates", len(found), n))
                except KeyboardInterrupt:
                    watch.interrupt()
                    pool.shutdown(cancel_futures=True)
    whole = [pmf for pmf, stop in found if stop is not StopReason.INTERRUPTED]
    if len(whole) < LEAST_REPLICATES:
        raise KeyboardInterrupt
    warnings = [] if len(whole) == n else [f"interrupted: {len(whole)} of {n} replicates were finished"]
    late = sum(stop is StopReason.MAX_ITER for _, stop in found)
    if late > 0.05 * n:
        warnings.append(
            f"{late} of {n} replicates had not converged after {_MAX_ITER} passes; intervals may be too narrow"
        )
    return Bootstrap(pmf, tuple(whole), center, checked_level(level), tuple(warnings))


def _resampling(pmf: JointPMF, source: Any, n_records: float | None) -> tuple[Resampling, float]:
    if isinstance(source, Tables):
        if source.schema != pmf.schema:
            raise DataError(f"the tables are not about the model's variables: {pmf.schema.difference(source.schema)}")
        if len(source) == 0:
            raise DataError("there is no table to draw from")
        if n_records is not None and not n_records > 0:
            raise DataError(f"n_records must be a number above 0, not {n_records!r}")
        return FromTables(source, pmf, n_records), _TOL_TABLES
    records = records_for(pmf.schema, source)
    if records.n_silent == records.n_records:
        raise DataError(f"none of the {records.n_records} records shows a single cell; there is nothing to draw from")
    return FromRecords(records), _TOL_RECORDS
