"""Other samples of the same size: records drawn with replacement, or tables counted on people drawn from a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.datasets.synthetic import draw_records
from twoway.model.pmf import JointPMF
from twoway.report import Report
from twoway.schema import Schema
from twoway.solvers.evidence import CellSets, Evidence
from twoway.tables.privacy import nonnegative_noisy
from twoway.tables.tables import Tables

# More simulated people are not needed; the effect of chance is scaled to the number of people.
_MOST_SIMULATED = 100_000
_MOST_COUNTED = 5e7  # people times tables


SetsOf: TypeAlias = Callable[[Evidence], CellSets]
"""From records to what a model is fitted to: these alone, or with their two-way tables."""


def records_alone(evidence: Evidence) -> CellSets:
    """Return the records without their tables."""
    return evidence.sets


def sets_of_report(report: Report | None, schema: Schema) -> SetsOf:
    """Return what a model of this report was fitted to; the tables of given neighbours count as they did then."""
    if report is None or not report.counts_tables:
        return records_alone
    edges = [(schema.index(one), schema.index(other)) for one, other in report.edges]
    return lambda evidence: evidence.tree_sets(edges or None)


def sample_sets(records: Records, sets_of: SetsOf) -> CellSets:
    """Return what a sample is fitted to, in one thread."""
    return sets_of(Evidence(records.schema, records=records, threads=1))


class RecordResampling:
    """Draws people with replacement from the records, each with their weight: records get counts, none is copied."""

    def __init__(self, records: Records, sets_of: SetsOf = records_alone) -> None:
        self._records = records = records.for_fit()
        self._sets_of = sets_of
        weights = np.ones(records.n_records) if records.weights is None else records.weights
        self._people = weights if records.people is None else records.people
        self._each = weights / self._people

    def original(self) -> CellSets:
        """Return the records themselves."""
        return sample_sets(self._records, self._sets_of)

    def draw(self, seed: int, number: int) -> CellSets:
        """Return as many people, drawn with replacement."""
        random = np.random.default_rng([seed, number])
        n_people = self._people.sum()
        drawn = random.multinomial(max(1, round(n_people)), self._people / n_people)
        sample = self._records.reweighted(drawn.astype(np.float64) * self._each)
        return sample_sets(sample, self._sets_of)


class TableResampling:
    """Counts tables on people drawn from the model, each table with its own total.

    The errors of tables that count the same people are dependent. The number of people in all, ``n_records``, says how
    much: as few as the largest total means that every table counts the same people, infinitely many that
    no two tables share a person. In between, each variable is missing at random as often as the totals suggest.
    Noisy tables get new noise.
    """

    def __init__(self, tables: Tables, pmf: JointPMF, n_records: float | None) -> None:
        self._tables, self._pmf = tables, pmf
        # The weights of noisy tables are smaller than their numbers of records, and noise is not chance.
        self._n_records = np.where(tables.noise > 0, tables.totals / (tables.heaviest or 1.0), tables.weights)
        largest = float(self._n_records.max())
        self._n_people = max(largest, largest if n_records is None else n_records)
        is_finite = math.isfinite(self._n_people)
        self._observed = self._observed_shares() if is_finite else None
        # What the model expects of each table, before it is rounded by chance.
        self._model = [pmf.trees.of_variables(row).joint() for row in tables.sets.tolist()]

    def _observed_shares(self) -> Floats:
        """Return how often each variable was observed, (n_variables,), if so many people make these tables."""
        tables = self._tables
        rows = np.zeros((len(tables), len(tables.schema)))
        np.put_along_axis(rows, tables.sets.astype(np.int64), 1.0, axis=1)
        logs = np.log(self._n_records / self._n_people)
        log_shares = np.linalg.lstsq(rows.T @ rows, rows.T @ logs, rcond=None)[0]
        return np.asarray(np.exp(np.minimum(log_shares, 0.0)), dtype=np.float64)

    def original(self) -> CellSets:
        """Return the tables as the model has them."""
        return CellSets.of_tables(self._of_shares(self._model), "counts", 1)

    def draw(self, seed: int, number: int) -> CellSets:
        """Return what another sample of people would have made."""
        return CellSets.of_tables(self.tables(seed, number), "counts", 1)

    def tables(self, seed: int, number: int) -> Tables:
        """Return the tables as another sample of people would have made them."""
        random = np.random.default_rng([seed, number])
        shares = self._apart(random) if self._observed is None else self._together(random, self._observed)
        shares = self._with_noise(random, shares) if self._tables.noise.any() else shares
        return self._of_shares(shares)

    def _of_shares(self, shares: list[Floats]) -> Tables:
        tables = self._tables
        weights = np.repeat(tables.weights, np.diff(tables.starts))
        flat = np.concatenate([share.ravel() for share in shares]) * weights
        return Tables(tables.schema, tables.sets, flat, tables.weights)

    def _apart(self, random: np.random.Generator) -> list[Floats]:
        """Return each table's shares, drawn on its own."""
        return [
            random.multinomial(max(1, round(total)), model.ravel() / model.sum()) / max(1, round(total))
            for total, model in zip(self._n_records, self._model, strict=True)
        ]

    def _with_noise(self, random: np.random.Generator, shares: list[Floats]) -> list[Floats]:
        """Return shares as a release would have made them, without a negative one."""
        noisy = []
        for share, variance, total in zip(shares, self._tables.noise, self._tables.totals, strict=True):
            drawn = nonnegative_noisy(share.ravel() + random.normal(0.0, math.sqrt(variance) / total, share.size))
            # Where noise left nothing of a table, a fit still needs shares.
            noisy.append(drawn / drawn.sum() if drawn.any() else np.full(share.size, 1.0 / share.size))
        return noisy

    def _together(self, random: np.random.Generator, observed: Floats) -> list[Floats]:
        """Return each table's shares, counted on one set of people."""
        n = round(min(self._n_people, _MOST_SIMULATED, 2000 + _MOST_COUNTED / len(self._tables)))
        people = draw_records(self._pmf, n, observed=observed, seed=random)
        counted = Tables.count(people, self._tables.order, threads=1)
        drawn = []
        places = {tuple(row): place for place, row in enumerate(counted.sets.tolist())}
        for row, weight, model in zip(self._tables.sets.tolist(), self._n_records, self._model, strict=True):
            place = places.get(tuple(row))
            if place is None:  # nobody showed all of its variables
                drawn.append(model)
                continue
            total = counted.totals[place]
            # What chance does to so many people, it does to others by the root of their number.
            scale = math.sqrt(float(total) / float(weight))
            share = np.maximum(model + scale * (counted.array(place) / total - model), 0.0)
            drawn.append(share / share.sum())
        return drawn


Resampling: TypeAlias = RecordResampling | TableResampling
