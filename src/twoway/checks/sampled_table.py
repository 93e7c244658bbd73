"""Cross-tabs of a survey with their sampling error by the survey's design: standard errors and tests.

The covariance of shares is linearized: each share is a ratio of sums over primary sampling units, whose deviations from
the mean of their stratum say how much it would vary between samples; with replicate weights, their shares say so. Tests
are those of Rao and Scott (On chi-squared tests for multiway contingency tables with cell proportions estimated from
survey data, 1984) with the correction of second order: Pearson's statistic over the sum of the design effects, as F.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.data.records import Records
from twoway.data.survey_design import Design, ReplicateWeights, SampledUnits, opened_design, replicate_degrees
from twoway.data.weights import effective_weights, record_people, record_weights
from twoway.errors import DataError
from twoway.model.events import Names
from twoway.notebook import Shown
from twoway.schema import Variable
from twoway.text import crossed_text


class SampledShares(NamedTuple):
    """The shares of some cells among the records that are in one of them."""

    shares: Floats
    """(n_cells,)"""
    covariance: Floats
    """(n_cells, n_cells): how they vary between samples of the design."""

    def design_effects(self, expected: Floats) -> tuple[float, float]:
        """Return the sum of the design effects of cells per record, and the degrees of freedom that they are worth.

        Times the number of records, the sum is that of the eigenvalues of the covariance of shares relative to that of
        independent records with the expected shares; were records drawn one by one, it would be the number of cells
        less one. Cells that are not expected are left out.
        """
        inverse = np.divide(1.0, expected, out=np.zeros_like(expected), where=expected > 0)
        return self.sum_of_effects(inverse[:, None] * self.covariance)

    @staticmethod
    def sum_of_effects(effects: Floats) -> tuple[float, float]:
        """Return the sum of the eigenvalues of a matrix, and the degrees of freedom that they are worth."""
        trace, squares = float(np.trace(effects)), float((effects * effects.T).sum())
        return trace, trace**2 / squares if squares > 0 else 0.0


class SampledRecords:
    """Records and how they were drawn, prepared for many tables."""

    def __init__(self, records: Records, design: Design | None = None) -> None:
        self.records, self.weights = records, record_weights(records)
        self._people = np.ones(records.n_records)
        self._opened: SampledUnits | ReplicateWeights
        if design is None:
            # A row that stands for several people is as many units, which were drawn one by one.
            self._people = record_people(records)
            n_units, everyone = np.array([self._people.sum()]), np.arange(records.n_records)
            self._opened = SampledUnits(everyone, np.zeros(records.n_records, np.int64), n_units, np.zeros(1))
        else:
            self._opened = opened_design(design, records)
        self.degrees = max(self._opened.degrees, 1)
        self.description = self._opened.description
        """The design in words."""
        self._groups: dict[tuple[tuple[str, int], ...], tuple[Bools, int]] = {}

    @cached_property
    def _codes(self) -> Ints:
        return self.records.codes().astype(np.int64)

    def cells_of(self, positions: Sequence[int]) -> Ints:
        """Return the cell of each record in the table of some variables, in C order, -1 where one is missing."""
        cells = np.zeros(self.records.n_records, dtype=np.int64)
        for position in positions:
            cells = cells * self.records.schema.sizes[position] + self._codes[:, position]
        return np.where((self._codes[:, list(positions)] >= 0).all(axis=1), cells, -1)

    def shares(self, cells: Ints, n_cells: int) -> SampledShares:
        """Return the shares of cells; ``cells`` is the number of each record's cell, -1 for none, (n_records,)."""
        from scipy.sparse import csr_array, diags_array

        shown, opened = np.flatnonzero((cells >= 0) & (self.weights > 0)), self._opened
        cell, weights = cells[shown], self.weights[shown]
        total = float(weights.sum())
        if total == 0:
            raise DataError("no record shows these variables together")
        shares = np.bincount(cell, weights, n_cells) / total
        if isinstance(opened, ReplicateWeights):
            indicators = csr_array((np.ones(len(shown)), (cell, np.arange(len(shown)))), shape=(n_cells, len(shown)))
            replicates = np.asarray(indicators @ opened.weights[shown])
            with np.errstate(invalid="ignore"):
                apart = replicates / replicates.sum(axis=0) - shares[:, None]
            # A replicate without such a record says nothing about its shares.
            known = np.isfinite(apart).all(axis=0)
            return SampledShares(shares, (apart[:, known] * opened.scales[known]) @ apart[:, known].T)
        unit, n_units = opened.of_record[shown], len(opened.stratum)
        # A unit that stands for several people counts as often; it has the weight of one of them.
        times, people = np.ones(n_units), self._people[shown]
        times[unit] = people
        weights = weights / people
        # Sums of weights of each unit by cell, and behind them in all: what deviates is sums - all * shares.
        cells_and_all = np.concatenate([cell, np.full(len(cell), n_cells)])
        sums = csr_array((np.tile(weights, 2), (np.tile(unit, 2), cells_and_all)), shape=(n_units, n_cells + 1))
        deviating = np.hstack([np.eye(n_cells), -shares[:, None]])
        per_unit = (1.0 - opened.shares) / (opened.n_units - 1.0)
        squares = sums.T @ (diags_array(times * (per_unit * opened.n_units)[opened.stratum]) @ sums)
        strata = csr_array((times, (opened.stratum, np.arange(n_units))), shape=(len(per_unit), n_units))
        of_strata = np.asarray((strata @ sums).todense()) @ deviating.T
        covariance = deviating @ np.asarray(squares.todense()) @ deviating.T - (of_strata.T * per_unit) @ of_strata
        return SampledShares(shares, covariance / total**2)

    def _group(self, among: Mapping[str, int]) -> tuple[Bools, int]:
        """Return who has some codes, (n_records,), and the degrees of freedom of a variance among them.

        These are those of the units that have such a record.
        """
        if (key := tuple(among.items())) not in self._groups:
            members, opened = np.ones(self.records.n_records, dtype=bool), self._opened
            for name, code in among.items():
                members &= self._codes[:, self.records.schema.index(name)] == code
            if not among or not members.any():
                degrees = self.degrees
            elif isinstance(opened, ReplicateWeights):
                degrees = replicate_degrees(opened.weights[members])
            else:
                units, first = np.unique(opened.of_record[members], return_index=True)
                n_units = float(self._people[members][first].sum())
                degrees = max(round(n_units) - len(np.unique(opened.stratum[units])), 1)
            self._groups[key] = members, degrees
        return self._groups[key]

    def table(self, names: Names, among: Mapping[str, int] | None = None) -> SampledTable:
        """Return the table of one or two variables, of the records with some other codes, as part of the sample."""
        schema = self.records.schema
        positions = schema.indices(names)
        if len(positions) not in (1, 2):
            raise DataError(f"a table needs one or two variables; got {len(positions)}")
        variables = tuple(schema.variables[position] for position in positions)
        shape = [len(variable) for variable in variables]
        cells, n_cells = self.cells_of(positions), math.prod(shape)
        members, degrees = self._group(among or {})
        cells[~members] = -1
        shares, covariance = self.shares(cells, n_cells)
        block, shown = self.records.as_block(), cells >= 0
        counted, squared = (
            np.bincount(cells[shown], numbers[shown], n_cells).reshape(shape).astype(np.float64)
            for numbers in (block.n_people, block.squares)
        )
        squared = squared / float(self.weights[shown].sum()) ** 2
        return SampledTable(variables, shares.reshape(shape), covariance, degrees, counted, squared)


@dataclass(frozen=True, repr=False)
class DesignTest(Shown):
    """A test by the design of a survey: whether chance explains that two variables seem to depend on each other."""

    variables: tuple[str, ...]
    statistic: float
    """Pearson's statistic over the sum of its design effects: F."""
    degrees: float
    """The degrees of freedom of the numerator of F."""
    other_degrees: float
    """The degrees of freedom of its denominator."""
    p_value: float

    def __str__(self) -> str:
        return (
            f"{crossed_text(self.variables)}: F {self.statistic:.4g} on {self.degrees:.4g} and {self.other_degrees:.4g}"
            f" degrees of freedom, p = {self.p_value:.3g}"
        )


@dataclass(frozen=True, eq=False)
class GroupShares:
    """The shares of a variable in the groups that another one makes, and which of them differ by more than chance."""

    shares: Floats
    """(n_categories, n_groups): each group adds up to one; NaN for a group without records."""
    standard_errors: Floats
    """(n_categories, n_groups)"""
    p_values: Floats
    """(n_categories, n_groups, n_groups): of the test that a category has the same share in two groups, by itself."""


@dataclass(frozen=True, eq=False)
class SampledTable:
    """The shares of one variable, or of two in a cross-tab, with their sampling error by the survey's design."""

    variables: tuple[Variable, ...]
    shares: Floats
    """An axis for each variable."""
    covariance: Floats
    """(n_cells, n_cells), cells in C order."""
    degrees: int
    """The degrees of freedom of the covariance: units less strata, or those of the replicate weights."""
    records: Floats
    """The number of records in each cell."""
    squares: Floats
    """The sum of their squared weights, which add up to one, in each cell."""

    @property
    def standard_errors(self) -> Floats:
        """The standard error of each share."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).reshape(self.shares.shape)

    @cached_property
    def independence(self) -> DesignTest:
        """The test that two variables are independent, as `svychisq` of R's survey package computes it."""
        from scipy.special import fdtrc

        names = tuple(variable.name for variable in self.variables)
        if len(names) != 2:
            raise DataError(f"independence needs a table of two variables; this one is of {crossed_text(names)}")
        rows, columns = (np.flatnonzero(self.shares.sum(axis=axis) > 0) for axis in (1, 0))
        shares = self.shares[np.ix_(rows, columns)]
        cells = (rows[:, None] * self.shares.shape[1] + columns).ravel()
        n_rows, n_columns = shares.shape
        if (n_rows - 1) * (n_columns - 1) == 0:
            return DesignTest(names, 0.0, 0.0, float(self.degrees), 1.0)
        expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        pearson = float((np.square(shares - expected) / expected).sum())
        inverse = np.divide(1.0, shares, out=np.zeros_like(shares), where=shares > 0).ravel()
        # Contrasts of a table that independent rows and columns leave at zero; those of either side add up to zero.
        sides = (np.linalg.qr(np.eye(n, n - 1) - np.eye(n, n - 1, -1))[0] for n in (n_rows, n_columns))
        contrasts = np.kron(*sides)
        scaled = inverse[:, None] * contrasts
        covariance = scaled.T @ self.covariance[np.ix_(cells, cells)] @ scaled
        effects = np.linalg.lstsq(contrasts.T @ scaled, covariance, rcond=None)[0]
        trace, degrees = SampledShares.sum_of_effects(effects)
        if not degrees > 0:
            return DesignTest(names, math.inf if pearson > 0 else 0.0, 0.0, float(self.degrees), float(pearson == 0))
        statistic, other_degrees = pearson / trace, degrees * self.degrees
        return DesignTest(names, statistic, degrees, other_degrees, float(fdtrc(degrees, other_degrees, statistic)))

    def column_covariance(self, scores: Floats) -> Floats:
        """Return the covariances of the shares or means of columns, (n_scores, n_columns, n_columns).

        ``scores`` is (n_scores, n_rows). NaN for a column without records.
        """
        shares = self.shares.reshape(scores.shape[1], -1)
        totals = shares.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            # What a change of a cell does to the shares or means of its column.
            slopes = (scores[:, :, None] - (scores @ (shares / totals))[:, None, :]) / totals
        covariance = self.covariance.reshape(*shares.shape, *shares.shape)
        return np.asarray(np.einsum("irb,rbsc,isc->ibc", slopes, covariance, slopes, optimize=True))

    def groups(self) -> GroupShares:
        """Return the shares of the first variable in each category of the second, and how groups differ.

        A difference is tested by itself, with the covariance of the two shares: who compares many should correct the
        p-values for their number. A share that is all or nothing has chance on its side, too: about one record.
        """
        from scipy.special import stdtr

        if len(self.variables) != 2:
            raise DataError("groups need a table of two variables")
        of_groups = self.shares.sum(axis=0)
        covariance = self.column_covariance(np.eye(len(self.shares)))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = self.shares / of_groups
            least = 1.0 / effective_weights(of_groups, self.squares.sum(axis=0)) ** 2
        variances = np.maximum(np.einsum("raa->ra", covariance), least)
        np.einsum("raa->ra", covariance)[:] = variances
        spread = variances[:, :, None] + variances[:, None, :] - 2.0 * covariance
        apart = shares[:, :, None] - shares[:, None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            distances = np.where(apart == 0, 0.0, np.abs(apart) / np.sqrt(np.maximum(spread, 0.0)))
        return GroupShares(shares, np.sqrt(variances), 2.0 * stdtr(self.degrees, -distances))


def sampled_table(source: Any, names: Names, *, design: Design | None = None) -> SampledTable:
    """Return the shares of one or two variables with standard errors and tests by the design of a survey.

    Shares are those of the records themselves, with their weights and without a model; records with a missing cell
    among the variables are left out, as part of the sample.

    Parameters
    ----------
    source
        Records in any form that `fit` takes; `Records` says what their weights are.
    names
        One variable, or two: rows and columns.
    design
        How the records were drawn. By default each of them by itself, with its weight.

    Examples
    --------
    >>> import pandas as pd
    >>> import twoway as tw
    >>> schools = pd.DataFrame(
    ...     {"big": list("yynnynny") * 20, "old": list("ynynynnn") * 20, "town": list("aabbccdd") * 20}
    ... )
    >>> table = sampled_table(schools, ["big", "old"], design=tw.Design(units=schools["town"]))
    >>> table.standard_errors.round(3)
    array([[0.125, 0.125],
           [0.144, 0.144]])
    >>> print(table.independence)
    big × old: F 0.8 on 1 and 3 degrees of freedom, p = 0.437
    """
    records = source if isinstance(source, Records) else Records(source)
    return SampledRecords(records, design).table(names)


def sampled_table_of_sums(variables: Sequence[Variable], sums: Floats) -> SampledTable:
    """Return the table of records that were drawn one by one, from its sums, (3, n_rows, n_columns).

    Examples
    --------
    >>> age, vote = Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))
    >>> counts = np.array([[30.0, 20.0], [20.0, 40.0]])
    >>> print(sampled_table_of_sums((age, vote), np.stack([counts] * 3)).independence)
    age × vote: F 7.751 on 1 and 109 degrees of freedom, p = 0.00633
    """
    total, people = float(sums[0].sum()), float(sums[1].sum())
    shares, squares = sums[0] / total, sums[2] / total**2
    flat, squared = shares.ravel(), squares.ravel()
    covariance = np.diag(squared) - np.outer(flat, squared) - np.outer(squared, flat)
    covariance += np.outer(flat, flat) * squared.sum()
    degrees = max(round(people) - 1, 1)
    covariance = covariance * (people / degrees)
    return SampledTable(tuple(variables), shares, covariance, degrees, sums[1], squares)
