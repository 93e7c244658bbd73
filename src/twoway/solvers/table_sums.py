"""Published tables as evidence: cells that are sums over several categories, and counts that are not quite known.

A category of a coarser table is a set of finer ones, and its row of θ is the sum of theirs. So the sets are rows below
the others, in which the E-step counts as in any; what it expects there is dealt out to the members by their own rows.
That is EM exactly: which member it was is one more thing that was not seen.

What is not known is filled in at each step by what the model expects, which is EM again: the people outside a table's
universe, those behind "<5" or a suppressed cell, and how a published mean is made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of_theta
from twoway.model.raking import raked_to
from twoway.solvers.cell_sets import CellSets, ExpectedCounts, expected_counts_of_block
from twoway.solvers.em import fit_near_by_em
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.theta import Theta
from twoway.solvers.watch import Watch
from twoway.tables.published.pairs import Codes
from twoway.tables.published.table import PublishedMean, PublishedTable
from twoway.tables.published.tables import PublishedTables

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

_LEAST = 1e-300
# Pseudo-people of all states together by which they are drawn toward where they began: a pull that decides what the
# tables leave open, and nothing else.
_PSEUDO_PEOPLE = 0.6
_TOL = 1e-6
# A gain in the logarithm of the likelihood of all people together that no one would notice.
_SMALL_GAIN = 0.002
# How many times as much as others tables count that must hold exactly.
_EXACT_TIMES = 100.0
_BISECTIONS = 100
# Probabilities below are differences of rounding errors.
_NO_MASS = 1e-11


class GroupRows(NamedTuple):
    """Sets of categories as rows of θ below all others."""

    members: Ints
    """The cells of all sets, one after the other."""
    starts: Ints
    """Where each set begins among them."""
    firsts: Ints
    """The first cell of each set's variable."""

    def extended(self, theta: Theta, rows: TreeRows | None, n_cells: int) -> tuple[Theta, TreeRows | None]:
        """Return θ with the sums of all sets below, and the tree with their hidden variables."""
        sums = np.add.reduceat(theta[len(theta) - n_cells + self.members], self.starts)
        homes = None if rows is None else rows._replace(homes=np.concatenate([rows.homes, rows.homes[self.firsts]]))
        return np.vstack([theta, sums]), homes

    def dealt_out(self, counts: Theta, extended: Theta, n_cells: int) -> Theta:
        """Return counts of θ's own rows, with those of the sets dealt out to their members."""
        n_rows = len(counts) - self.starts.size
        sums = extended[n_rows:]
        ratios = np.divide(counts[n_rows:], sums, out=np.zeros_like(sums), where=sums > _LEAST)
        lengths = np.diff([*self.starts, self.members.size])
        places = n_rows - n_cells + self.members
        of_rows = counts[:n_rows].copy()
        np.add.at(of_rows, places, extended[places] * np.repeat(ratios, lengths, axis=0))
        return of_rows


class Slice(NamedTuple):
    """Cells that share out people of a universe among them; nothing is said of how many are outside of it."""

    cells: Ints
    outside: Ints
    """Cells that together make up all that is outside of the universe."""


class OpenCells(NamedTuple):
    """Cells whose counts are not known, or known by bounds."""

    cells: Ints
    low: Floats
    high: Floats
    people: float
    """What the counts of the table they are in add up to."""
    unit: float
    """How much one person weighs."""
    total: float
    """What the cells add up to; NaN where that is not known."""


class MeanCells(NamedTuple):
    """The cells of a variable with a published mean."""

    cells: Ints
    values: Floats
    mean: float
    weight: float
    outside: Ints
    """Cells that make up all that is outside of its universe; empty for all people."""


class TableCells:
    """The cells of tables as records, collected table by table."""

    def __init__(self, published: PublishedTables) -> None:
        self.published, self.schema = published, published.schema
        # The number of each set of several categories, by the position of its variable and their codes.
        self._groups: dict[tuple[int, Codes], int] = {}
        self._rows: list[list[int]] = []
        self._weights: list[float] = []
        self.slices: list[Slice] = []
        self.open_cells: list[OpenCells] = []
        self.means: list[MeanCells] = []
        self.copies = np.zeros(len(self.schema))
        self.total_weight = self.negative_entropy = 0.0
        for table in published.tables:
            self._add_table(table, _EXACT_TIMES if published.is_exact(table) else 1.0)
        for mean in published.means:
            self._add_mean(mean)

    @property
    def has_gaps(self) -> bool:
        """Whether there is anything to fill in."""
        return bool(self.slices or self.open_cells or self.means)

    def _add_table(self, table: PublishedTable, boost: float) -> None:
        """Add a table that counts ``boost`` times."""
        positions = self.schema.indices(table.variables)
        codes = [self.published.axis_codes(table, axis) for axis in range(len(positions))]
        universe = self.published.universe(table.within)
        people = float(table.counts.sum())
        unit = boost * table.weight / people
        first = len(self._rows)
        besides = {variable: allowed for variable, allowed in universe.items() if variable not in positions}
        is_known = table.low == table.high
        for index in np.ndindex(table.counts.shape):
            sets = {position: of_axis[place] for position, of_axis, place in zip(positions, codes, index, strict=True)}
            self._add({**sets, **besides}, unit * float(table.counts[index]) * bool(is_known[index]))
        numbers = first + np.arange(table.counts.size).reshape(table.counts.shape)
        for cells, total in self._open_parts(table):
            bounds = table.low[cells], table.high[cells]
            self.open_cells.append(OpenCells(numbers[cells], *bounds, people, unit, total))
        # Percentages are of a universe of their own for each category that they are given.
        axes = [table.variables.index(name) for name in table.given]
        for index, part in _parts_of_table(table.counts.shape, axes):
            of_part = {positions[axis]: codes[axis][place] for axis, place in zip(axes, index, strict=True)}
            if people_of_part := {**universe, **of_part}:
                self.slices.append(Slice(np.ravel(numbers[part]), self._add_outside(people_of_part)))
        self.copies[positions] += 1.0
        self.total_weight += boost * table.weight
        self.negative_entropy += boost * table.weight * float(times_log(table.shares, table.shares).sum())

    def _add_mean(self, mean: PublishedMean) -> None:
        position, universe = self.schema.index(mean.variable), self.published.universe(mean.within)
        allowed = universe.get(position, tuple(range(self.schema.sizes[position])))
        cells = np.array([self._add({**universe, position: (code,)}, 0.0) for code in allowed], dtype=np.int64)
        values = np.array(self.schema.variables[position].values, dtype=np.float64)[list(allowed)]
        self.means.append(MeanCells(cells, values, mean.mean, mean.people, self._add_outside(universe)))

    def group_rows(self) -> GroupRows:
        """Return the rows of the sets of several categories."""
        members = [self.schema.offsets[variable] + np.array(codes) for variable, codes in self._groups]
        variables = np.array([variable for variable, _ in self._groups], dtype=np.int64)
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *members])
        return GroupRows(flat, np.cumsum([0, *map(len, members)])[:-1], self.schema.offsets[variables])

    def as_records(self) -> Records:
        """Return all cells as records."""
        pointers = np.cumsum([0, *map(len, self._rows)]).astype(np.int64)
        cells = np.array([row for rows in self._rows for row in rows], dtype=np.int64)
        n_rows = self.schema.n_categories + len(self._groups)
        cells = cells.astype(np.min_scalar_type(max(n_rows - 1, 1)))
        return Records.from_cells(self.schema, pointers, cells, np.array(self._weights))

    def _row(self, variable: int, codes: Codes) -> int:
        """Return the row of a set of categories, below all single ones where it has several; -1 for all of them."""
        if len(codes) == self.schema.sizes[variable]:
            return -1
        if len(codes) == 1:
            return int(self.schema.offsets[variable]) + codes[0]
        return self.schema.n_categories + self._groups.setdefault((variable, codes), len(self._groups))

    def _add(self, sets: Mapping[int, Codes], weight: float) -> int:
        rows = sorted(self._row(variable, codes) for variable, codes in sets.items())
        self._rows.append([row for row in rows if row >= 0])
        self._weights.append(weight)
        return len(self._rows) - 1

    def _add_outside(self, universe: Mapping[int, Codes]) -> Ints:
        """Add cells that make up all that is outside of a universe: outside in one variable, inside in those before."""
        numbers: list[int] = []
        inside: dict[int, Codes] = {}
        for variable, codes in universe.items():
            others = tuple(code for code in range(self.schema.sizes[variable]) if code not in codes)
            numbers.append(self._add({**inside, variable: others}, 0.0))
            inside[variable] = codes
        return np.array(numbers, dtype=np.int64)

    @staticmethod
    def _open_parts(table: PublishedTable) -> Iterator[tuple[tuple[Ints, ...], float]]:
        """Yield the open cells of a table, and what published totals leave for them together; NaN without totals."""
        is_open = table.low != table.high
        if not is_open.any():
            return
        totals = max(table.totals, key=len, default=None)
        # Rounded cells are all open, and their totals add nothing.
        if totals is None or is_open.all():
            yield np.nonzero(is_open), np.nan
            return
        for index, part in _parts_of_table(is_open.shape, totals):
            is_open_here = np.zeros_like(is_open)
            is_open_here[part] = is_open[part]
            if is_open_here.any():
                known = table.counts[part][~is_open[part]].sum()
                rest = float(table.totals[totals][index]) - float(known)
                yield np.nonzero(is_open_here), rest if rest >= 0 else np.nan


def _parts_of_table(
    shape: Sequence[int], axes: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int | slice, ...]]]:
    """Yield each combination of places on some axes of a table, and the index of the part that is there."""
    for places in np.ndindex(*(shape[axis] for axis in axes)):
        place_of = dict(zip(axes, places, strict=True))
        yield places, tuple(place_of.get(axis, slice(None)) for axis in range(len(shape)))


@dataclass(frozen=True)
class TableSums(CellSets):
    """Published tables in the shape of records, with what is filled in at each step."""

    records: Records
    cells: TableCells = field(kw_only=True)
    groups: GroupRows = field(kw_only=True)

    @classmethod
    def of(cls, published: PublishedTables, threads: int | None) -> TableSums:
        """Return published tables as evidence; those that must hold exactly count more times than others."""
        cells = TableCells(published)
        copies, total_copies = np.maximum(cells.copies, 1.0), float(max(len(published.tables), 1))
        offset = cells.negative_entropy / max(cells.total_weight, _LEAST)
        return cls(cells.as_records(), copies, total_copies, offset, threads, cells=cells, groups=cells.group_rows())

    @property
    def total_weight(self) -> float:
        """The weight of all tables together."""
        return max(self.cells.total_weight, 1.0)

    def expected(self, theta: Theta, rank: int, rows: TreeRows | None = None, *, fills: bool = True) -> ExpectedCounts:
        """Return the sums of the E-step over all cells; the likelihood is that of what was published.

        Cells whose counts are not known are left out unless it ``fills`` them in.
        """
        n_cells, block = self.schema.n_categories, self.records.as_block()
        extended, rows = self.groups.extended(theta, rows, n_cells)
        weights, value = record_weights(block), None
        if fills and self.cells.has_gaps:
            log_prob = posterior_of_theta(block, extended, rank, rows, 1 if rows is None else 0)[1]
            weights, value = self._filled(np.exp(log_prob), log_prob, weights)
        counted = self.records.reweighted(weights).take(np.flatnonzero(weights > 0)).as_block()
        expected = expected_counts_of_block(counted, theta=extended, rank=rank, rows=rows)
        counts = self.groups.dealt_out(expected.counts, extended, n_cells)
        return ExpectedCounts(counts, expected.log_likelihood if value is None else value)

    def _filled(self, prob: Floats, log_prob: Floats, known: Floats) -> tuple[Floats, float]:
        """Return the weight of each cell with what is filled in, and the log-likelihood of what was published."""
        weights = known.copy()
        with np.errstate(invalid="ignore"):
            value = float(np.where(known > 0, known * log_prob, 0.0).sum())
        for cells, low, high, people, unit, total in self.cells.open_cells:
            shares = prob[cells]
            if np.isnan(total):
                expected, log_of_range = self.expected_in_range(people * shares, low, high)
                weights[cells] += unit * expected
                value += unit * float((log_of_range + people * shares).sum())
            elif (mass := float(shares.sum())) > 0:
                weights[cells] += unit * total * shares / mass
                value += unit * total * float(np.log(mass))
        for cells, outside in self.cells.slices:
            mass, weight = max(float(prob[cells].sum()), _LEAST), float(weights[cells].sum())
            weights[outside] += weight / mass * prob[outside]
            value -= weight * float(np.log(mass))
        for cells, values, mean, weight, outside in self.cells.means:
            mass = max(float(prob[cells].sum()), _LEAST)
            tilted, divergence = self.tilted_to(prob[cells] / mass, values, mean)
            weights[cells] += weight * tilted
            weights[outside] += weight / mass * prob[outside]
            value -= weight * divergence
        return weights, value

    @cached_property
    def totals(self) -> Floats:
        """How often each cell was observed, shape (n_categories,); sets of several are dealt out evenly."""
        theta = np.zeros((1 + self.schema.n_categories, 4))
        theta[:, 0] = 1.0
        return self.expected(theta, 1, fills=False).counts[1:, 0]

    @staticmethod
    def expected_in_range(means: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the expected values of Poisson numbers that are within bounds, and the logarithm of that probability.

        Examples
        --------
        >>> np.round(
        ...     TableSums.expected_in_range(np.array([2.0, 9.0, 3.0]), np.zeros(3), np.array([4.0, 4.0, np.inf]))[0], 3
        ... )
        array([1.81 , 3.476, 3.   ])
        """
        from scipy.special import gammaln, pdtr

        means, low, high = np.maximum(means, 1e-12), np.ceil(low), np.floor(high)
        below = pdtr(np.maximum(low - 1.0, 0.0), means) * (low > 0)
        mass = np.where(high < np.inf, pdtr(high, means), 1.0) - below
        inner = np.where(high < np.inf, pdtr(np.maximum(high - 1.0, 0.0), means) * (high > 0), 1.0)
        inner -= pdtr(np.maximum(low - 2.0, 0.0), means) * (low > 1)
        # Far from the mean, all but the nearest end is as good as impossible.
        is_far = mass < _NO_MASS
        end = np.clip(means, low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.where(is_far, end, np.clip(means * inner / mass, low, high))
            logs = np.where(is_far, end * np.log(means) - means - gammaln(end + 1.0), np.log(mass))
        return expected, logs

    @staticmethod
    def tilted_to(shares: Floats, values: Floats, mean: float) -> tuple[Floats, float]:
        """Return shares ∝ shares · exp(t · value) that have a mean, and their divergence from the shares.

        Of all shares with that mean, they are nearest to the given ones.

        Examples
        --------
        >>> tilted, divergence = TableSums.tilted_to(np.full(3, 1 / 3), np.array([0.0, 1.0, 2.0]), 1.5)
        >>> np.round(tilted, 3), round(divergence, 3)
        (array([0.116, 0.268, 0.616]), 0.197)
        """
        centred = values - mean
        scale = max(float(np.abs(centred).max()), _LEAST)
        low, high = -60.0 / scale, 60.0 / scale
        for _ in range(_BISECTIONS):
            tilt = 0.5 * (low + high)
            powers = tilt * centred
            tilted = shares * np.exp(powers - powers.max())
            if float(tilted @ centred) > 0:
                high = tilt
            else:
                low = tilt
        tilted /= tilted.sum()
        return tilted, max(float(times_log(tilted, tilted / np.maximum(shares, _LEAST)).sum()), 0.0)


def fit_table_sums(
    published: PublishedTables,
    start: JointPMF,
    watch: Watch,
    threads: int | None,
    *,
    margins: Mapping[int, tuple[list[Codes], Floats]],
    passes: int,
    quiet_cycles: int,
) -> Descent:
    """Return the fit of all that was published that is nearest to a start; ``margins`` hold exactly."""
    sums = TableSums.of(published, threads)
    small = _SMALL_GAIN / (_TOL * sums.total_weight)
    loop = Loop("published tables", passes, _TOL, watch, quiet_cycles=quiet_cycles, small=small)
    descent = fit_near_by_em(sums, start, _PSEUDO_PEOPLE, loop)
    return replace(descent, pmf=raked_to(descent.pmf, margins)) if margins else descent
