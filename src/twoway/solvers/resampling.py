"""Other samples of the same size: records drawn with replacement or by a survey's design, or tables of other people.

What was counted, or published, is counted or published again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from twoway.arrays import Floats, Ints, sums_by
from twoway.data.records import Records
from twoway.data.survey_design import Design, ReplicateWeights, SampledUnits, opened_design
from twoway.data.weights import record_people, record_weights
from twoway.datasets.synthetic import draw_records
from twoway.model.pmf import JointPMF
from twoway.report import Report
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Descent
from twoway.solvers.table_sums import fit_table_sums
from twoway.solvers.watch import Watch
from twoway.tables.privacy import nonnegative_noisy
from twoway.tables.published.places import TablePlaces, sums_of_groups
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

# More simulated people are not needed; the effect of chance is scaled to the number of people.
_MOST_SIMULATED = 100_000
_MOST_COUNTED = 5e7  # people times tables
# The part of the way to another sample that weights go.
_STEP = 0.3
_LEAST_PART = 1e-9
REPLICATE_PASSES = 500
"""Replicates start at the model and converge soon."""

SetsOf: TypeAlias = Callable[[Evidence], CellSets]
"""From records to what a model is fitted to: these alone, or with their two-way tables."""
WeightsOf: TypeAlias = Callable[[int, int], Floats]
"""From a seed and the number of a sample to its weights, (n_records,), in units of an effective record."""


def sample_as_fitted(report: Report | None, schema: Schema) -> SetsOf:
    """Return what a model of this report was fitted to; the tables of given neighbours count as they did then."""
    if report is None or not report.counts_tables:
        return lambda evidence: evidence.sets
    edges = [(schema.index(first), schema.index(second)) for first, second in report.edges]
    return lambda evidence: evidence.tree_sets(edges or None)


class RecordResampling:
    """Draws people with replacement from the records, each with their weight: records get counts, none is copied."""

    def __init__(self, records: Records, sets_of: SetsOf = lambda evidence: evidence.sets) -> None:
        self._records, self._sets_of = records.for_fit(), sets_of
        self._people = record_people(self._records)
        self._each = record_weights(self._records) / self._people

    def original(self) -> CellSets:
        """Return what a model is fitted to: the records themselves."""
        return self._sets(self._records)

    def draw(self, seed: int, number: int) -> CellSets:
        """Return what a model is fitted to in another sample."""
        return self._sets(self._sample(seed, number))

    def _sample(self, seed: int, number: int) -> Records:
        """Return as many people, drawn with replacement."""
        random = np.random.default_rng([seed, number])
        n_people = self._people.sum()
        drawn = random.multinomial(max(1, round(n_people)), self._people / n_people)
        return self._records.reweighted(drawn.astype(np.float64) * self._each)

    def _sets(self, records: Records) -> CellSets:
        return self._sets_of(Evidence(records.schema, records=records, threads=1))


class DesignResampling(RecordResampling):
    """Records whose weights vary as they do between samples of a design.

    Units of a stratum resemble each other less than the records of a unit do, so that a sample of clusters says
    less than as many records drawn one by one, and one in strata more. With strata and units, samples are drawn by
    the rescaled bootstrap (Rao and Wu, 1988): of the n units of a stratum n - 1 are drawn with replacement, and
    weights are scaled so that totals vary as they should. A finite population makes them vary less. Weights go only
    part of the way to those of the sample drawn, as in Fay's method: with few units, what a whole step does to a
    share is far from proportional. Where there are no more units than samples are asked for, each unit in turn gets
    more weight and the others of its stratum less, which leaves nothing to chance (a jackknife). Where a survey
    ships replicate weights, these are its samples. Each squared deviation of a replicate counts in the variance as
    its kind says.
    """

    scales: Floats
    """What the squared deviation of each sample counts in a variance."""
    degrees: int
    """The degrees of freedom of that variance."""

    def __init__(self, design: Design, records: Records, n: int, sets_of: SetsOf) -> None:
        """Prepare ``n`` samples of a design from records in the order of its entries; or its replicate weights."""
        opened, unit = opened_design(design, records), records.weight_totals.unit
        self._entries, weights = records, record_weights(records) / unit
        self._records, self._sets_of = records.reweighted(weights).with_say(), sets_of
        if isinstance(opened, ReplicateWeights):
            samples: tuple[WeightsOf, Floats] = lambda _, number: opened.weights[:, number] / unit, opened.scales
        else:
            samples = self._of_units(opened, weights, n)
        (self._weights_of, self.scales), self.degrees = samples, opened.degrees

    def _sample(self, seed: int, number: int) -> Records:
        return self._entries.reweighted(self._weights_of(seed, number)).with_say()

    @staticmethod
    def _of_units(units: SampledUnits, weights: Floats, n_samples: int) -> tuple[WeightsOf, Floats]:
        """Return samples whose units are drawn with replacement, or one after the other where they are few."""
        unit_of, of_unit, n_units, shares = units
        steps = _STEP * np.sqrt(1.0 - shares)

        def one_by_one(_: int, number: int) -> Floats:
            stratum = of_unit[number]
            times = 1.0 - np.where(of_unit == stratum, _STEP / n_units[stratum], 0.0)
            times[number] += _STEP
            return np.asarray(weights * times[unit_of])

        def drawn(seed: int, number: int) -> Floats:
            random = np.random.default_rng([seed, number])
            times = [random.multinomial(n - 1, np.full(n, 1.0 / n)) * (n / (n - 1)) for n in n_units.tolist()]
            return np.asarray(weights * (1.0 + steps[of_unit] * (np.concatenate(times) - 1.0))[unit_of])

        if len(of_unit) <= n_samples:
            return one_by_one, ((1.0 - shares) * n_units / (n_units - 1.0) / _STEP**2)[of_unit]
        return drawn, np.full(n_samples, 1.0 / (n_samples * _STEP**2))


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
        """Return how often each variable was observed, (n_variables,), if these people make these tables."""
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
        flat = np.concatenate([share.ravel() for share in shares]) * tables.per_cell(tables.weights)
        return Tables(tables.schema, tables.sets, flat, tables.weights)

    def _apart(self, random: np.random.Generator) -> list[Floats]:
        """Return each table's shares, drawn on its own."""
        drawn = []
        for place, model in enumerate(self._model):
            total = max(1, round(self._n_records[place]))
            drawn.append(random.multinomial(total, model.ravel() / model.sum()) / total)
        return drawn

    def _with_noise(self, random: np.random.Generator, shares: list[Floats]) -> list[Floats]:
        """Return shares as a release would have made them, without a negative one."""
        noisy = []
        for share, variance, total in zip(shares, self._tables.noise, self._tables.totals, strict=True):
            drawn = nonnegative_noisy(random.normal(share.ravel(), math.sqrt(variance) / total))
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
            drawn.append(_scaled_chance(model, counted.array(place) / total, float(total) / float(weight)))
        return drawn


def _scaled_chance(model: Floats, drawn: Floats, times: float | Floats) -> Floats:
    """Return shares drawn around a model, as if ``times`` fewer people had been drawn than were.

    Chance grows with the root of the number of people.
    """
    shares = np.maximum(model + np.sqrt(times) * (drawn - model), 0.0)
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True)
class PublishedResampling:
    """Publishes the same tables again, counted on people drawn from the model.

    The errors of tables that count the same people are dependent. Of ``n_people`` in all, each table counts as many as
    it did, chosen at random; infinitely many means that no two tables share a person. Tables that must hold exactly
    stay as they are.
    """

    published: PublishedTables
    pmf: JointPMF
    n_people: float

    @classmethod
    def of(cls, published: PublishedTables, pmf: JointPMF, n_records: float | None) -> PublishedResampling:
        """Return how to draw tables of a model; by default, all tables count the same people."""
        pmf.schema.check_same(published.schema, "the tables and the model have different variables")
        people = [table.weight / cls._part_of_all(published, pmf, table) for table in published.tables]
        return cls(published, pmf, max(*people, 0.0 if n_records is None else n_records))

    @cached_property
    def _modelled(self) -> list[tuple[TablePlaces, Floats]]:
        """The cells of each table, and the shares that the model expects there."""
        places = [TablePlaces.of(self.published, table) for table in self.published.tables]
        tables = zip(places, self.published.tables, strict=True)
        trees = self.pmf.trees
        return [(cells, cells.shares(trees.of_variables(cells.variables).joint(), table)) for cells, table in tables]

    def refit(self, seed: int, number: int, watch: Watch) -> Descent:
        """Return the fit to another sample of people."""
        drawn = self.draw(seed, number)
        # What must hold exactly is known: no sample changes it.
        margins = self.published.exact_margins
        return fit_table_sums(drawn, self.pmf, watch, 1, margins=margins, passes=REPLICATE_PASSES, quiet_cycles=3)

    def draw(self, seed: int, number: int) -> PublishedTables:
        """Return the tables that another sample of people would have made."""
        random = np.random.default_rng([seed, number])
        people = None
        if math.isfinite(self.n_people):
            n = round(min(max(self.n_people, 1.0), _MOST_SIMULATED))
            people = np.array(self.pmf.trees.draw(n, random), dtype=np.int64)
        tables = [
            table
            if self.published.is_exact(table)
            else self._published_again(table, shares, self._drawn(table, places, shares, people, random))
            for table, (places, shares) in zip(self.published.tables, self._modelled, strict=True)
        ]
        return replace(self.published, tables=tuple(tables))

    def _drawn(
        self,
        table: PublishedTable,
        places: TablePlaces,
        shares: Floats,
        people: Ints | None,
        random: np.random.Generator,
    ) -> Floats:
        """Return a table's shares among people who were drawn."""
        if people is None:
            n = max(1, round(min(table.weight, 1e15)))
            return places.rescaled(random.multinomial(n, shares.ravel() / shares.sum()), shares)
        cells = places.cell_of[tuple(people[position] for position in places.variables)]
        cells = cells[cells >= 0]
        expected = self.n_people * cells.size / people.shape[1]
        if table.weight < expected:
            cells = cells[random.random(cells.size) < table.weight / expected]
        if not cells.size:
            return shares
        counts = np.bincount(cells, minlength=table.counts.size)
        people_of, shares_of = sums_of_groups(places.blocks, counts, shares)
        times = people_of / np.maximum(table.weight * shares_of, 1.0)
        return _scaled_chance(shares, places.rescaled(counts, shares), times.reshape(shares.shape))

    @staticmethod
    def _part_of_all(published: PublishedTables, pmf: JointPMF, table: PublishedTable) -> float:
        """Return the share of all people that a table is about."""
        universe = {position: np.array(codes) for position, codes in published.universe(table.within).items()}
        return max(float(np.exp(pmf.trees.log_probability(universe))), _LEAST_PART)

    @staticmethod
    def _published_again(table: PublishedTable, expected: Floats, drawn: Floats) -> PublishedTable:
        """Return a table with other numbers, published in the same way: bounds are as far apart as they were."""
        people = float(table.counts.sum())
        counts, change = drawn * people, np.rint((drawn - expected) * people)
        is_known = table.low == table.high
        low = np.where(is_known, counts, np.where(table.low > 0, np.maximum(table.low + change, 0.0), 0.0))
        high = np.where(is_known, counts, np.maximum(table.high + change, low))
        totals = {key: sums_by(counts, key) for key in table.totals}
        return replace(table, counts=counts, low=low, high=high, totals=totals)


Resampling: TypeAlias = RecordResampling | TableResampling
