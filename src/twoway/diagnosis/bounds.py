"""The paper's guarantees as functions, each with the conditions under which it holds.

Ibrahim and Fu, Theorems 1 and 3 and Proposition 1. They are proven and loose: `docs/theory.md` compares them with
observed errors, and explains why Theorem 4 is missing here. Where a condition fails, a bound prints "does not apply"
and why.

    S  records            p  share of observed cells       F  rank             I  categories of a variable
    N  variables          M  variables of the first group of a split           δ  the risk that the bound fails
    W  the first group's factors, stacked                  η  the smallest share of a category
    ε  how far the second group is from separable          κ  condition number of W, largest by smallest singular value
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, check_known, check_number, check_whole_number
from twoway.model.parameters import sufficient_rank
from twoway.model.pmf import JointPMF

__all__ = ["Bound", "Condition", "records_for_table_error", "sufficient_rank", "table_error"]
__all__ += ["SplitConstants", "largest_epsilon", "records_for_spa", "separability", "spa_error", "split_constants"]

Form = Literal["printed", "corrected"]

_NO_RANK = 1e-9


@dataclass(frozen=True)
class Condition:
    """One assumption of a theorem, with the required and the actual number."""

    what: str
    needed: float
    got: float
    holds: bool | None
    """None where it cannot be checked."""

    def __str__(self) -> str:
        mark = {True: "holds", False: "fails", None: "cannot be checked"}[self.holds]
        return f"{self.what}: {mark} (needs {self.needed:.4g}, is {self.got:.4g})"


@dataclass(frozen=True)
class Bound:
    """A bound on an error, and whether it applies."""

    error: float
    """The value of the formula; a guarantee only if the bound applies."""
    risk: float
    """The probability that the bound fails."""
    conditions: tuple[Condition, ...]
    trivial: float
    """The largest error that any two models can have: a bound above it says nothing."""

    @property
    def applies(self) -> bool:
        """Whether no condition fails."""
        return not any(condition.holds is False for condition in self.conditions)

    @property
    def says_something(self) -> bool:
        """Whether the bound applies and is below the largest possible error."""
        return self.applies and self.error < self.trivial

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not apply; empty if it does."""
        return tuple(str(condition) for condition in self.conditions if condition.holds is False)

    def __str__(self) -> str:
        if not self.applies:
            return "does not apply: " + "; ".join(self.reasons)
        text = f"at most {self.error:.4g} with probability {1 - self.risk:g}"
        return text if self.says_something else f"{text}, which says nothing: no error exceeds {self.trivial:.4g}"


def _check_bound_numbers(*, form: str = "corrected", **numbers: float) -> None:
    """Raise if a number is out of its range."""
    check_known("form of the theorem", get_args(Form), form)
    for name, value in numbers.items():
        if name in ("observed", "risk"):
            check_number(name, value, "a number above 0 and at most 1", lambda number: 0 < number <= 1)
        else:
            check_number(name, value, "a number above 0", lambda number: number > 0)


# Tables (Proposition 1)


def table_error(n_records: float, observed: float = 1.0, risk: float = 0.05, *, n_tables: int = 1) -> Bound:
    """Return a bound on ‖X̂ − X‖ (Frobenius) of a two-way table counted from records (Proposition 1).

    Each cell is observed with the probability ``observed``, independently of all else: missing completely at random.

    Parameters
    ----------
    n_records
        The number of records, complete or not.
    observed
        The share of observed cells.
    risk
        The probability that the bound fails.
    n_tables
        The number of tables for which it holds at once. The proposition is about one; for more, the risk is divided.

    Examples
    --------
    >>> print(table_error(100_000, 0.5))
    at most 0.02612 with probability 0.95
    >>> print(table_error(100, 0.1))
    does not apply: share of observed cells, at least √(8/S · log(2/δ)): fails (needs 0.5432, is 0.1)
    """
    _check_bound_numbers(n_records=n_records, observed=observed, risk=risk)
    log = math.log(2.0 * check_whole_number("n_tables", n_tables, 1) / risk)
    least = math.sqrt(8.0 / n_records * log)
    error = math.sqrt(2.0) * (1.0 + math.sqrt(log)) / (observed * math.sqrt(n_records))
    condition = Condition("share of observed cells, at least √(8/S · log(2/δ))", least, observed, observed >= least)
    return Bound(error, risk, (condition,), math.sqrt(2.0))


def records_for_table_error(error: float, observed: float = 1.0, risk: float = 0.05, *, n_tables: int = 1) -> float:
    """Return how many records `table_error` needs to guarantee an error.

    Examples
    --------
    >>> error = table_error(100_000, 0.5).error
    >>> round(records_for_table_error(error, 0.5))
    100000
    """
    _check_bound_numbers(error=error, observed=observed, risk=risk)
    log = math.log(2.0 * check_whole_number("n_tables", n_tables, 1) / risk)
    return max(2.0 * (1.0 + math.sqrt(log)) ** 2 / (observed * error) ** 2, 8.0 * log / observed**2)


# CNMF-SPA (Theorem 3)


class SplitConstants(NamedTuple):
    """The numbers that Theorem 3 needs about a model and a split of its variables."""

    n_variables: int
    n_first: int
    """M, the variables of the first group."""
    n_categories: int
    """I, those of the largest variable."""
    rank: int
    sigma_max: float
    """The largest singular value of W."""
    kappa: float
    """The condition number of W."""
    eta: float
    """The smallest share of a category of the second group."""
    epsilon: float
    """How far the second group is from separable: see `separability`."""


def split_constants(pmf: JointPMF, first: Sequence[str] | int) -> SplitConstants:
    """Return the numbers that Theorem 3 needs about a model, for a split of its variables.

    Parameters
    ----------
    first
        The variables of the first group, by name, or their number, counted from the first.
    """
    names = pmf.schema.names
    if isinstance(first, int):
        first = names[: check_whole_number("first", first, 1)]
    is_first = np.isin(np.arange(len(names)), pmf.schema.indices(first))
    if is_first.all() or not is_first.any():
        raise DataError(f"both groups need at least one of the {len(names)} variables; the first has {is_first.sum()}")
    of_cell = np.repeat(is_first, pmf.schema.sizes)
    w, h = pmf.stacked[of_cell], pmf.stacked[~of_cell] * pmf.weights
    return SplitConstants(
        n_variables=len(names),
        n_first=int(is_first.sum()),
        n_categories=max(pmf.schema.sizes),
        rank=pmf.rank,
        sigma_max=float(np.linalg.norm(w, 2)),
        kappa=condition_number(w),
        eta=float(h.sum(axis=1).min()),
        epsilon=separability(h),
    )


def condition_number(stack: Floats) -> float:
    """Return the condition number of a stack of factors (rows, rank), infinite where it lacks full column rank."""
    if len(stack) < stack.shape[1]:
        return math.inf
    singular = np.linalg.svd(stack, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > _NO_RANK * singular[0] else math.inf


def separability(h: Floats) -> float:
    """Return the smallest ε for which a nonnegative matrix (rows, rank) is ε-separable.

    Rows are scaled to sum to one; each component needs a separate row within ε of its unit vector. 0 means that
    every component has a row that belongs to it alone; the result is infinite if there are too few rows.

    Examples
    --------
    >>> separability(np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    0.0
    >>> round(separability(np.array([[0.9, 0.1], [0.0, 1.0]])), 4)
    0.1414
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    sums = h.sum(axis=1)
    rows = h[sums > 0] / sums[sums > 0, None]
    rank = h.shape[1]
    if len(rows) < rank:
        return math.inf
    lengths = np.square(rows).sum(axis=1)[:, None]
    squared = np.maximum(lengths - 2.0 * rows + 1.0, 0.0)  # ‖row − e_f‖²
    # Below 1/√2 no row is near two components, so the nearest rows are different ones.
    nearest = float(squared.min(axis=0).max())
    if nearest < 0.5:
        return math.sqrt(nearest)

    def has_rows(value: float) -> bool:
        return bool((maximum_bipartite_matching(csr_array(squared <= value), perm_type="row") >= 0).all())

    values = np.unique(squared[squared >= nearest]).tolist()
    return math.sqrt(values[bisect_left(values, True, hi=len(values) - 1, key=has_rows)])


def spa_error(
    constants: SplitConstants, n_records: float, observed: float = 1.0, risk: float = 0.05, *, form: Form = "corrected"
) -> Bound:
    """Return a bound on ‖Â_m − A_m‖₂ for the variables of the first group, after CNMF-SPA (Theorem 3).

    Parameters
    ----------
    constants
        Of the true model: from `split_constants`, or assumed.
    n_records, observed, risk
        As for `table_error`.
    form
        "printed" uses the proof's constants. "corrected" fixes two slips: the factor M in the largest ε, lost when W is
        divided by M, and the risk, which all M(N−M) tables and separability share.

    Examples
    --------
    >>> from twoway.datasets import nearly_separable
    >>> bound = spa_error(split_constants(nearly_separable(0.1), 3), 1e6)
    >>> bound.applies
    False
    >>> print(bound.reasons[0])
    ε, at most ϱ/(2κ(1+80κ²)): fails (needs 3.992e-05, is 0.005562)
    """
    _check_bound_numbers(n_records=n_records, observed=observed, risk=risk, form=form)
    c = constants
    log, robust = _spa_bound_log(c, risk, form), 1.0 + 80.0 * c.kappa**2
    phi = math.sqrt(2.0) * (1.0 + math.sqrt(log)) / (observed * math.sqrt(n_records))
    largest, formula = largest_epsilon(c, form=form), "Mϱ" if form == "printed" else "ϱ"
    wide = c.rank / c.n_categories
    # The printed condition on p has log(4/δ): half of the risk for the tables, half for separability.
    least = math.sqrt(8.0 / n_records * (math.log(4.0 / risk) if form == "printed" else log))
    records = records_for_spa(c, observed, risk, form=form)
    rows = c.epsilon ** (-2 * (c.rank - 1)) / (c.n_categories * c.rank) if c.epsilon > 0 else math.inf
    variables, n_tables = c.n_first + rows * math.log(2.0 * c.rank / risk), c.n_first * (c.n_variables - c.n_first)
    conditions = (
        Condition(f"ε, at most {formula}/(2κ(1+80κ²))", largest, c.epsilon, c.epsilon <= largest),
        Condition("smallest share of a category η, above", 0.0, c.eta, c.eta > 0),
        Condition("variables of the first group M, at least F/I", wide, c.n_first, c.n_first >= wide),
        Condition("condition number κ of W, below", math.inf, c.kappa, c.kappa < math.inf),
        Condition("share of observed cells, at least √(8/S · log(…))", least, observed, observed >= least),
        Condition(f"records, for {n_tables} tables, at least", records, n_records, n_records >= records),
        # If ε is that of the model itself, nothing is left to chance, and N need not be large.
        Condition("variables N, known up to a constant only", variables, c.n_variables, None),
    )
    scaled = c.sigma_max * c.epsilon + 2.0 * c.n_first * math.sqrt(c.n_categories) * phi / c.eta if c.eta else math.inf
    return Bound(math.sqrt(c.rank) * scaled * robust, risk, conditions, math.sqrt(2.0 * c.rank))


def largest_epsilon(constants: SplitConstants, *, form: Form = "corrected") -> float:
    """Return the largest ε that Theorem 3 allows: ϱ/(2κ(1+80κ²)), ϱ = min(1/(2√(F−1)), 1/4); printed, M times it.

    An ε-separable model is also separable for every larger ε, for which fewer records are needed:
    ``constants._replace(epsilon=largest_epsilon(constants))``.
    """
    _check_bound_numbers(form=form)
    c = constants
    slack = min(0.5 / math.sqrt(max(c.rank - 1, 1)), 0.25)
    return slack / (2.0 * c.kappa * (1.0 + 80.0 * c.kappa**2)) * (c.n_first if form == "printed" else 1)


def records_for_spa(
    constants: SplitConstants, observed: float = 1.0, risk: float = 0.05, *, form: Form = "corrected"
) -> float:
    """Return how many records Theorem 3 requires: 32·M²·I·(1+√log(2/δ))² / (σ_max·η·ε·p)²."""
    _check_bound_numbers(observed=observed, risk=risk, form=form)
    c = constants
    if (strength := c.sigma_max * c.eta * c.epsilon * observed) == 0.0:
        return math.inf
    return 32.0 * c.n_first**2 * c.n_categories * (1.0 + math.sqrt(_spa_bound_log(c, risk, form))) ** 2 / strength**2


def _spa_bound_log(c: SplitConstants, risk: float, form: Form) -> float:
    """Return the logarithm by which the error of the tables grows as the risk falls."""
    return math.log(2.0 / risk) if form == "printed" else math.log(4.0 * c.n_first * (c.n_variables - c.n_first) / risk)
