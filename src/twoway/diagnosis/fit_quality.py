"""Where a model is wrong: every pair of variables, as observed and as the model has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.chance import LEAST_EXPECTED, holm
from twoway.distribution import printable
from twoway.errors import DataError
from twoway.measures import standardized_residuals
from twoway.observed import records_for
from twoway.pmf import JointPMF, check_model
from twoway.records import Records
from twoway.schema import Label
from twoway.tables import Tables

_SHOWN = 10


@dataclass(frozen=True)
class PairFit:
    """How well the model fits one table."""

    variables: tuple[str, ...]
    total: float
    """Effective records behind the table."""
    chi_square: float
    degrees: int
    """Cells less one: the test is on the safe side, since the model was fitted to these very counts."""
    standardized: float
    """The distance as a standard normal deviate: above 3 is a lot for one table."""
    p_value: float
    corrected_p: float
    """For all tables together (Holm): below 0.05, not even the many tables explain it by chance."""
    total_variation: float
    """Half the sum of absolute differences, from 0 to 1: how large the misfit is, however sure."""
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
        return self.corrected_p < 0.05


@dataclass(frozen=True)
class FitQuality:
    """How well a model fits the tables of all pairs, worst first."""

    pairs: tuple[PairFit, ...]
    note: str = ""

    @property
    def misfits(self) -> tuple[PairFit, ...]:
        """The pairs whose misfit is more than chance."""
        return tuple(pair for pair in self.pairs if pair.is_off)

    def __getitem__(self, names: Sequence[str]) -> PairFit:
        """Return the fit of one pair, named in any order."""
        for pair in self.pairs:
            if set(pair.variables) == set(names):
                return pair
        raise DataError(f"no table of {' × '.join(map(repr, names))} was compared")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries; what is infinite is None."""
        pairs = [{**asdict(pair), "is_off": pair.is_off} for pair in self.pairs]
        for pair in pairs:
            pair |= {key: None for key, value in pair.items() if isinstance(value, float) and math.isinf(value)}
        return {"pairs": pairs, "n_off": len(self.misfits), "note": self.note}

    def __str__(self) -> str:
        return self.to_text(whole=False)

    def to_text(self, *, whole: bool = True) -> str:
        """Return a line for each table, worst first: for all of them, or for as many as are printed by default."""
        if not self.pairs:
            return "no two variables were observed together: nothing to compare"
        off = len(self.misfits)
        head = (
            f"{off} of {len(self.pairs)} tables are off by more than chance"
            if off
            else f"all {len(self.pairs)} tables are fitted as well as chance allows"
        )
        lines = [head]
        n_shown = len(self.pairs) if whole else _SHOWN
        for pair in self.pairs[:n_shown]:
            names = " × ".join(printable(name) for name in pair.variables)
            cell = ", ".join(printable(label) for label in pair.worst_cell)
            mark = "off" if pair.is_off else "ok"
            lines.append(
                f"{mark:>4}  {names}: z {pair.standardized:.1f}, total variation {pair.total_variation:.3g}; most at "
                f"({cell}), observed {pair.observed:.4f}, modelled {pair.modelled:.4f}"
            )
        if len(self.pairs) > n_shown:
            lines.append(f"      … {len(self.pairs) - n_shown} more tables, all fitted better")
        return "\n".join([*lines, self.note] if self.note else lines)


def fit_quality(pmf: JointPMF, source: Any) -> FitQuality:
    """Return how well a model fits every pair of variables, worst first, with a test that allows for the many pairs.

    Parameters
    ----------
    pmf
        The model.
    source
        The records or `Tables` to compare it with: those it was fitted to, or others.

    Notes
    -----
    The statistic is Pearson's, on the records that show both variables; cells with fewer than five expected records
    are taken together. Where records have weights, a table counts as its effective number of records.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> from twoway.fitting import fit
    >>> records = draw_records(dirichlet_rows(6, 3, 2), 5000)
    >>> len(fit_quality(fit(records, rank=1), records).misfits) > 5, fit_quality(fit(records, rank=2), records).misfits
    (True, ())
    """
    check_model(pmf)
    tables, note = _tables(pmf, source)
    found = [_pair_fit(pmf, tables, index) for index in range(len(tables))]
    for pair, corrected in zip(found, holm([pair["p_value"] for pair in found]), strict=True):
        pair["corrected_p"] = float(corrected)
    pairs = [PairFit(**pair) for pair in found]
    return FitQuality(tuple(sorted(pairs, key=lambda pair: (-pair.standardized, -pair.total_variation))), note)


def _tables(pmf: JointPMF, source: Any) -> tuple[Tables, str]:
    """Return the tables of a source, and what to know of them."""
    if isinstance(source, Tables):
        if source.schema != pmf.schema:
            raise DataError(f"the tables are not about the model's variables: {pmf.schema.difference(source.schema)}")
        return source, ""
    records: Records = records_for(pmf.schema, source)
    totals = records.weight_totals
    note = "" if totals.is_constant else f"weighted records count as {totals.effective:.0f} effective ones"
    return Tables.count(records), note


def _pair_fit(pmf: JointPMF, tables: Tables, index: int) -> dict[str, Any]:
    from scipy.stats import chi2

    names = tables.names[index]
    total = float(tables.weights[index])
    shares: NDArray[np.float64] = tables.array(index).ravel() / tables.totals[index]
    modelled = np.asarray(pmf.marginal(names)).ravel()
    few = total * modelled < LEAST_EXPECTED
    observed = np.append(shares[~few], shares[few].sum())
    expected = np.append(modelled[~few], modelled[few].sum())
    possible = expected > 0
    chi_square = total * float(np.square(observed - expected)[possible] @ (1.0 / expected[possible]))
    if (observed[~possible] > 0).any():
        chi_square = math.inf
    degrees = max(1, int(possible.sum()) - 1)
    residuals = standardized_residuals(shares, modelled, total)
    worst = int(np.abs(residuals).argmax())
    variables = [pmf.schema[name] for name in names]
    codes = np.unravel_index(worst, [len(variable) for variable in variables])
    return {
        "variables": names,
        "total": total,
        "chi_square": chi_square,
        "degrees": degrees,
        "standardized": _deviate(chi_square, degrees),
        "p_value": float(chi2.sf(chi_square, degrees)),
        "total_variation": 0.5 * float(np.abs(shares - modelled).sum()),
        "worst_cell": tuple(v.categories[code] for v, code in zip(variables, codes, strict=True)),
        "observed": float(shares[worst]),
        "modelled": float(modelled[worst]),
        "residual": float(residuals[worst]),
    }


def _deviate(chi_square: float, degrees: int) -> float:
    """Return a χ² as a standard normal deviate, by Wilson and Hilferty's cube root."""
    spread = 2.0 / (9.0 * degrees)
    return float((np.cbrt(chi_square / degrees) - (1.0 - spread)) / math.sqrt(spread))
