"""Where a model is wrong: every pair of variables, as observed and as modelled."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.category_labels import Label
from twoway.checks.sampled_table import SampledRecords
from twoway.checks.significance import LEAST_EXPECTED, SIGNIFICANT, holm_corrected, standardized_residuals
from twoway.data.survey_design import Design
from twoway.errors import DataError
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.notebook import Shown
from twoway.report import FitCheck
from twoway.tables.tables import Tables
from twoway.text import crossed_text, plain_data, printable

_MAX_SHOWN = 10
# A record counts as at most this number of records drawn one by one, however well the strata explain the answers.
_MOST_GAIN = 10.0
# Products of a model's shares in memory at a time.
_MAX_NUMBERS = 2**21


@dataclass(frozen=True, repr=False)
class PairFit(Shown):
    """How well the model fits one table."""

    variables: tuple[str, ...]
    records: float
    """The number of records of the table."""
    total: float
    """Their effective number, (Σw)² / Σw² of their weights."""
    chi_square: float
    degrees: int
    """Cells less one, which is conservative, since the model was fitted to these counts."""
    standardized: float
    """The distance as a standard normal deviate: above 3 is a lot for one table."""
    p_value: float
    corrected_p: float
    """Corrected for the number of tables (Holm): below 0.05, it is more than chance."""
    total_variation: float
    """Half the sum of absolute differences, from 0 to 1: how large the misfit is."""
    worst_cell: tuple[Label, ...]
    observed: float
    """The share of the worst cell in the table."""
    modelled: float
    """The share of the worst cell in the model."""
    residual: float
    """(observed − modelled) of the worst cell, in standard errors."""

    @property
    def is_off(self) -> bool:
        """Whether the misfit is more than chance, all tables considered."""
        return self.corrected_p < SIGNIFICANT

    def __str__(self) -> str:
        return (
            f"the table of {crossed_text(self.variables)} is off by {self.total_variation:.2g} (total variation), "
            f"{self.worst}"
        )

    @property
    def worst(self) -> str:
        """The worst cell in words."""
        cell = ", ".join(printable(label) for label in self.worst_cell)
        return f"most at ({cell}): observed {self.observed:.4f}, modelled {self.modelled:.4f}"


@dataclass(frozen=True, repr=False)
class FitQuality(Shown):
    """How well a model fits the tables of all pairs, worst first."""

    pairs: tuple[PairFit, ...]
    note: str = ""

    @property
    def misfits(self) -> tuple[PairFit, ...]:
        """The pairs whose misfit is more than chance."""
        return tuple(pair for pair in self.pairs if pair.is_off)

    @property
    def largest_misfit(self) -> PairFit | None:
        """The misfit that is largest, not the most significant one; None where there is none."""
        return max(self.misfits, key=lambda pair: pair.total_variation, default=None)

    def __getitem__(self, names: Sequence[str]) -> PairFit:
        """Return the fit of one pair, named in any order."""
        for pair in self.pairs:
            if set(pair.variables) == set(names):
                return pair
        raise DataError(f"no table of {' × '.join(map(repr, names))} was compared")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries; numbers that are infinite are None."""
        pairs = [{**plain_data(pair), "is_off": pair.is_off} for pair in self.pairs]
        return {"pairs": pairs, "n_off": len(self.misfits), "note": self.note}

    def __str__(self) -> str:
        return self.to_text(whole=False)

    def to_text(self, *, whole: bool = True) -> str:
        """Return one line per table, worst first, for all of them or for as many as are printed by default."""
        if not self.pairs:
            return "no two variables were observed together: nothing to compare"
        n_pairs, n_off = len(self.pairs), len(self.misfits)
        fitted = f"all {n_pairs} tables are fitted as well as chance allows"
        lines = [f"{n_off} of {n_pairs} tables are off by more than chance" if n_off else fitted]
        n_shown = n_pairs if whole else _MAX_SHOWN
        lines += [
            f"{'off' if pair.is_off else 'ok':>4}  {crossed_text(pair.variables)}: z {pair.standardized:.1f}, "
            f"total variation {pair.total_variation:.3g}; {pair.worst}"
            for pair in self.pairs[:n_shown]
        ]
        if n_pairs > n_shown:
            lines.append(f"      … {n_pairs - n_shown} more tables, all fitted better")
        return "\n".join([*lines, self.note] if self.note else lines)


def fit_quality(pmf: JointPMF, source: Any, *, design: Design | None = None) -> FitQuality:
    """Return how well a model fits every pair of variables, worst first, with a test that allows for the many pairs.

    Parameters
    ----------
    pmf
        The model.
    source
        The records or `Tables` to compare it with: those it was fitted to, or others.
    design
        How the records of a survey were drawn, which the test then allows for.

    Notes
    -----
    The statistic is Pearson's, on the records that show both variables; cells with fewer than five expected records
    are merged. With record weights, the effective number of records of each table is used; with a design, the number of
    records drawn one by one that would be as informative, and the test of Rao and Scott (1984), corrected to the second
    order, as F.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> from twoway.fitting.fit import fit
    >>> records = draw_records(dirichlet_rows(6, 3, 2), 5000)
    >>> len(fit_quality(fit(records, rank=1), records).misfits) > 5, fit_quality(fit(records, rank=2), records).misfits
    (True, ())
    """
    pmf, note, sampled = pmf_of(pmf), "", None
    if isinstance(source, Tables):
        if design is not None:
            raise DataError("a survey design applies to records, but tables were given")
        tables = source
        pmf.schema.check_same(tables.schema, "the tables and the model have different variables")
    else:
        records = records_for_model(pmf.schema, source, report=pmf.report)
        tables, totals = Tables.count(records), records.weight_totals
        if not totals.is_constant:
            n_people = records.as_block().n_people.sum()
            note = f"{n_people:,.0f} records count as {totals.effective:,.0f} because of their weights"
        if design is not None:
            sampled = SampledRecords(records, design)
            note = f"tests allow for the design of the survey: {sampled.description}"
    columns, worst_cells, worst_first = _fit_quality_columns(pmf, tables, sampled)
    pairs = [
        PairFit(
            variables=tables.names[index],
            **{name: column[index].item() for name, column in columns.items()},
            worst_cell=tuple(tables.labels(worst_cells[index]).values()),
        )
        for index in worst_first
    ]
    return FitQuality(tuple(pairs), note)


def check_fit_quality(pmf: JointPMF, tables: Tables, n_tables: int) -> FitCheck | None:
    """Return in how many tables, of ``n_tables`` in total, a model is off; None where there are no tables."""
    if not len(tables):
        return None
    columns, worst_cells, order = _fit_quality_columns(pmf, tables)
    worst = order[0]
    n_off = int((columns["corrected_p"] < SIGNIFICANT).sum())
    cell = tuple(tables.labels(worst_cells[worst]).values())
    shares = (float(columns[name][worst]) for name in ("observed", "modelled"))
    return FitCheck(n_tables, len(tables), n_off, tables.names[worst], cell, *shares)


def modelled_shares(pmf: JointPMF, tables: Tables) -> Floats:
    """Return a model's shares of the cells of tables, as in ``flat``; those of each table add up to one."""
    n_entries = len(tables.flat)
    shares = np.empty(n_entries)
    if pmf.n_hidden > 1:
        tables_with = functools.lru_cache(1)(pmf.trees.tables_with)
        for index, (first, *others) in enumerate(tables.sets.tolist()):
            if tables.order == 2:
                table = tables_with(first)[:, tables.schema.cells(others[0])]
            else:
                table = pmf.trees.of_variables([first, *others]).joint()
            shares[tables.starts[index] : tables.starts[index + 1]] = table.ravel()
        return shares
    step = max(1, _MAX_NUMBERS // pmf.rank)
    for begin in range(0, n_entries, step):
        entries = np.arange(begin, min(begin + step, n_entries))
        products = pmf.weights
        for cells in tables.cells(entries).T:
            products = products * pmf.stacked[cells]
        shares[entries] = products.sum(axis=1)
    return shares


def _fit_quality_columns(
    pmf: JointPMF, tables: Tables, sampled: SampledRecords | None = None
) -> tuple[dict[str, NDArray[Any]], Ints, Ints]:
    """Return how well a model fits tables, each array of shape (n_tables,).

    These are fields of `PairFit`; the position in ``flat`` of each table's worst cell; and the order, worst first.
    """
    from scipy.special import chdtrc, fdtrc

    n_tables, totals, table = len(tables), tables.weights, tables.table_of_cell

    def sums(values: NDArray[Any]) -> Floats:
        return np.bincount(table, values, n_tables).astype(np.float64)

    shares, modelled = tables.shares, modelled_shares(pmf, tables)
    is_few = totals[table] * modelled < LEAST_EXPECTED
    few, modelled_few = sums(shares * is_few), sums(modelled * is_few)
    has_few = modelled_few > 0
    degrees = np.maximum(sums(~is_few).astype(np.int64) + has_few - 1, 1)
    of_design = degrees.astype(np.float64)
    if sampled is not None:
        totals, of_design = _fit_totals_by_design(sampled, tables, modelled, is_few)
    terms = np.divide(np.square(shares - modelled), modelled, out=np.zeros_like(shares), where=~is_few)
    rest = np.where(few > 0, math.inf, 0.0)
    with np.errstate(over="ignore"):  # a share of nearly 0 in the model
        np.divide(np.square(few - modelled_few), modelled_few, out=rest, where=has_few)
        chi_square = totals * (sums(terms) + rest)
    if sampled is None:
        p_values, other_spread = chdtrc(degrees, chi_square), np.zeros(n_tables)
    else:
        p_values = fdtrc(of_design, of_design * sampled.degrees, np.minimum(chi_square / degrees, 1e300))
        other_spread = 2.0 / (9.0 * of_design * sampled.degrees)
    spread = 2.0 / (9.0 * of_design)  # of χ² (or F) as a standard normal deviate, by Wilson and Hilferty's cube root
    root = np.cbrt(chi_square / degrees)
    with np.errstate(invalid="ignore"):
        standardized = (root * (1.0 - other_spread) - (1.0 - spread)) / np.sqrt(spread + root**2 * other_spread)
    residuals = standardized_residuals(shares, modelled, totals[table])
    distances = np.abs(residuals)
    highest = np.maximum.reduceat(distances, tables.starts[:-1]) if n_tables else np.zeros(0)
    at_highest = np.flatnonzero(distances == highest[table])
    worst = at_highest[np.unique(table[at_highest], return_index=True)[1]]
    columns = {
        "records": tables.n_records,
        "total": totals,
        "chi_square": chi_square,
        "degrees": degrees,
        "standardized": np.where(np.isfinite(root), standardized, math.inf),
        "p_value": p_values,
        "corrected_p": holm_corrected(p_values.tolist()),
        "total_variation": 0.5 * sums(np.abs(shares - modelled)),
        "observed": shares[worst],
        "modelled": modelled[worst],
        "residual": residuals[worst],
    }
    order = np.lexsort((-columns["total_variation"], -columns["standardized"]))
    return columns, worst, order


def _fit_totals_by_design(
    sampled: SampledRecords, tables: Tables, modelled: Floats, is_few: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return the number of records drawn one by one that would be as informative, and the degrees of freedom of χ²."""
    totals, degrees = np.empty(len(tables)), np.empty(len(tables))
    for index, row in enumerate(tables.sets.tolist()):
        entries = slice(tables.starts[index], tables.starts[index + 1])
        # The place of each cell among those that are compared; cells of few records are merged, behind the others.
        is_many = ~is_few[entries]
        places = np.where(is_many, np.cumsum(is_many) - 1, np.count_nonzero(is_many))
        expected = np.bincount(places, modelled[entries]).astype(np.float64)
        cells = sampled.cells_of(row)
        shares = sampled.shares(np.where(cells >= 0, places[cells], -1), len(expected))
        effect, degrees[index] = shares.design_effects(expected)
        # A design may determine a share exactly, but no model does.
        least = (len(expected) - 1) / (_MOST_GAIN * tables.n_records[index])
        totals[index] = (len(expected) - 1) / max(effect, least) if len(expected) > 1 else tables.weights[index]
    return totals, np.maximum(degrees, 1.0)
