"""How far two models are apart: in all cells, in components, and in the distributions of one and of two variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, log_of
from twoway.data.distribution import Distribution
from twoway.data.merging import merge_variables
from twoway.errors import DataError
from twoway.model.information import Estimate
from twoway.model.pmf import JointPMF, pmf_of, single_pmf
from twoway.notebook import Shown
from twoway.schema import Variable
from twoway.text import aligned_text, crossed_text, shortlist

_INSTEAD = "compare joints of any structure by total_variation or kl_divergence, or "


# Differences that are printed, of variables and of pairs.
_SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """How far two models are apart in the joint distribution of some variables."""

    variables: tuple[str, ...]
    total_variation: float
    """0 for equal distributions, 1 for distributions that have no category in common."""


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The differences between two models, largest first."""

    variables: tuple[Difference, ...]
    """One for each variable that both models have, with the same categories or with more in one of them."""
    pairs: tuple[Difference, ...]
    notes: tuple[str, ...]
    """Variables that were not compared, and why; categories that only one model has."""

    def __str__(self) -> str:
        parts = []
        for title, differences in (("variables", self.variables), ("pairs", self.pairs)):
            if differences:
                mean = sum(difference.total_variation for difference in differences) / len(differences)
                lines = [[f"{title} that differ most", f"(mean {mean:.4f})"]]
                shown = ((crossed_text(d.variables, 40), d.total_variation) for d in differences[:_SHOWN])
                lines += [[f"  {names}", f"{distance:.4f}"] for names, distance in shown]
                parts.append(aligned_text(lines))
        return "\n\n".join(parts)


def compare(pmf: JointPMF, other: JointPMF) -> Comparison:
    """Return how far two models are apart, for each variable and each pair of variables that both have.

    Parameters
    ----------
    pmf, other
        The models. A category that only one of them has, as after ``update(…, extend=True)``, has probability 0 in the
        other. A variable is not compared where each model has categories that the other lacks.

    Examples
    --------
    >>> from twoway import fit
    >>> monday = fit({"sky": ["grey", "blue"], "rain": ["yes", "no"]}, rank=1)
    >>> tuesday = fit({"sky": ["grey", "blue", "blue", "blue"], "wind": [0, 1, 1, 1]}, rank=1)
    >>> comparison = compare(monday, tuesday)
    >>> [(difference.variables, round(difference.total_variation, 1)) for difference in comparison.variables]
    [(('sky',), 0.2)]
    >>> comparison.notes
    ("only the first model has 'rain'", "only the second model has 'wind'")
    """
    models = pmf_of(pmf), pmf_of(other, "the other model")
    first, second = (model.schema for model in models)
    shared, notes = {}, []
    for variable in first:
        if variable.name not in second:
            notes.append(f"only the first model has {variable.name!r}")
            continue
        counterpart = second[variable.name]
        if not (difference := variable.difference(counterpart)):
            shared[variable.name] = variable
        elif larger := _with_categories_of_both(variable, counterpart):
            shared[variable.name] = larger
            notes += _notes_on_new_categories(variable, counterpart)
        else:
            notes.append(f"not compared: {difference}")
    notes += [f"only the second model has {name!r}" for name in second.names if name not in first]
    if not shared:
        raise DataError("the models have no variable in common that has the same categories in both")
    places = [
        {name: [variable.code(label) for label in model.schema[name].categories] for name, variable in shared.items()}
        for model in models
    ]

    def difference_in(names: tuple[str, ...]) -> Difference:
        shares = np.zeros((2, *(len(shared[name]) for name in names)))
        for array, model, place_of in zip(shares, models, places, strict=True):
            array[np.ix_(*(place_of[name] for name in names))] = model.marginal(names).array
        return Difference(names, _total_variation(*shares))

    def ranked(sets: Iterable[tuple[str, ...]]) -> tuple[Difference, ...]:
        return tuple(sorted(map(difference_in, sets), key=lambda difference: -difference.total_variation))

    return Comparison(ranked((name,) for name in shared), ranked(combinations(shared, 2)), tuple(notes))


def _with_categories_of_both(variable: Variable, counterpart: Variable) -> Variable | None:
    """Return the variable that has all categories of the other one; None where neither has."""
    try:
        merged = merge_variables(variable, counterpart)
    except DataError:
        return None
    return merged if len(merged) == max(len(variable), len(counterpart)) else None


def _notes_on_new_categories(variable: Variable, counterpart: Variable) -> Iterator[str]:
    for place, larger, smaller in (("first", variable, counterpart), ("second", counterpart, variable)):
        if labels := [label for label in larger.categories if smaller.find(label) is None]:
            names = f"{shortlist(labels, 4)} of {variable.name!r}"
            yield f"only the {place} model has {names}; the other gives it probability 0"


class HasMarginal(Protocol):
    """Records, tables and joint PMFs: anything that has marginals."""

    def marginal(self, names: str | Sequence[str]) -> Distribution:
        """Return the distribution of some variables."""


def factor_mse(truth: JointPMF, estimate: JointPMF) -> float:
    """Return ‖λ̂ − λ‖² + (1/N) Σ_n ‖Â_n − A_n‖²/F after the best matching of components.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows
    >>> truth = dirichlet_rows(3, 4, 2)
    >>> factor_mse(truth, truth)
    0.0
    """
    truth, estimate = _comparable(truth, estimate, "factor_mse")
    if truth.rank != estimate.rank:
        raise DataError(f"components can be matched for equal ranks only; got {truth.rank} and {estimate.rank}")
    matched = match_components(truth, estimate)
    weights = np.square(estimate.weights[matched] - truth.weights).sum()
    factors = np.square(estimate.stacked[:, matched] - truth.stacked).sum()
    return float(weights + factors / (len(truth.schema) * truth.rank))


def match_components(truth: JointPMF, estimate: JointPMF) -> NDArray[np.int64]:
    """Return for each component of the truth the one of the estimate that is its counterpart, (rank,)."""
    from scipy.optimize import linear_sum_assignment

    inner = truth.stacked.T @ estimate.stacked
    lengths = np.square(truth.stacked).sum(axis=0)[:, None] + np.square(estimate.stacked).sum(axis=0)
    _, matched = linear_sum_assignment(lengths - 2.0 * inner)
    return np.asarray(matched, dtype=np.int64)


def mean_relative_error(
    truth: JointPMF, estimate: JointPMF, *, relative_to: Literal["truth", "estimate"] = "truth"
) -> float:
    """Return ‖X − X̂‖ / ‖X‖ over all cells of the joint, for any number of variables.

    No joint is written out: the norms are sums over products of F × F matrices. The squares cancel below about 1e-8,
    where the result only means that it is that small. The paper's programs divide by the norm of the estimate.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows
    >>> mean_relative_error(dirichlet_rows(40, 4, 2, seed=1), dirichlet_rows(40, 4, 2, seed=1)) < 1e-7
    True
    """
    truth, estimate = _comparable(truth, estimate, "mean_relative_error")
    if relative_to not in ("truth", "estimate"):
        raise DataError(f"relative_to must be 'truth' or 'estimate', not {relative_to!r}")
    pairs = (truth, truth), (truth, estimate), (estimate, estimate)
    own, cross, other = (_product_of_joints(*pair) for pair in pairs)
    base, base_log = own if relative_to == "truth" else other

    def relative(value: float, log_scale: float) -> float:
        return value / base * math.exp(min(log_scale - base_log, 700.0))

    return math.sqrt(max(relative(*own) - 2.0 * relative(*cross) + relative(*other), 0.0))


def kl_divergence(
    truth: JointPMF, estimate: JointPMF, names: str | Sequence[str] | None = None, *, seed: int = 0
) -> Estimate:
    """Return the Kullback-Leibler divergence of an estimate from the truth, in nats.

    Exact while the joint of ``names`` (all variables by default) has at most 10⁷ cells; sampled, with a standard
    error, beyond that. Infinite where the estimate rules out what the truth allows.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows
    >>> kl_divergence(dirichlet_rows(3, 4, 2, seed=1), dirichlet_rows(3, 4, 2, seed=1))
    0.0
    """
    truth, estimate = _comparable(truth, estimate)
    indices = truth.schema.indices(truth.schema.names if names is None else names)
    asked = [truth.schema.names[index] for index in indices]
    if truth.trees.of_variables(indices).is_small:
        p, q = np.asarray(truth.marginal(asked)), np.asarray(estimate.marginal(asked))
        seen = p > 0
        return Estimate(max(0.0, float(p[seen] @ (np.log(p[seen]) - log_of(q[seen])))))
    drawn = truth.sample(20_000, seed=seed)[asked]
    differences = truth.log_prob(drawn) - estimate.log_prob(drawn)
    if not np.isfinite(differences).all():
        return Estimate(math.inf)
    return Estimate(float(differences.mean()), float(differences.std() / math.sqrt(len(differences))))


def total_variation(first: HasMarginal, second: HasMarginal, names: str | Sequence[str]) -> float:
    """Return half the sum of absolute differences between two marginals: from 0, equal, to 1, nothing shared.

    Each side is anything with ``marginal``: records, tables, a PMF.

    Examples
    --------
    >>> from twoway.data.records import Records
    >>> left, right = Records({"vote": ["no", "yes"]}), Records({"vote": ["no", "yes", "yes", "yes"]})
    >>> total_variation(left, right, "vote")
    0.25
    """
    for place, side in (("first", first), ("second", second)):
        if not hasattr(side, "marginal"):
            raise DataError(f"the {place} argument must be records, tables or a JointPMF, not {type(side).__name__}")
    left, right = first.marginal(names), second.marginal(names)
    for here, there in zip(left.variables, right.variables, strict=True):
        if difference := here.difference(there):
            raise DataError(f"the categories of {names!r} differ: {difference}")
    return _total_variation(left.array, right.array)


def _total_variation(first: Floats, second: Floats) -> float:
    return float(0.5 * np.abs(first - second).sum())


def _product_of_joints(first: JointPMF, second: JointPMF) -> tuple[float, float]:
    """Return Σ over all cells of the product of two joints, as a number and the logarithm of its scale."""
    product, log_scale = np.outer(first.weights, second.weights), 0.0
    for left, right in zip(first.factors, second.factors, strict=True):
        product = product * (left.T @ right)
        highest = float(product.max())
        if highest == 0.0:
            return 0.0, 0.0
        product = product / highest
        log_scale += math.log(highest)
    return float(product.sum()), log_scale


def _comparable(truth: JointPMF, estimate: JointPMF, task: str = "") -> tuple[JointPMF, JointPMF]:
    """Return two models of the same variables; a task needs models with one hidden variable."""
    truth, estimate = pmf_of(truth, "the truth"), pmf_of(estimate, "the estimate")
    truth.schema.check_same(estimate.schema, "the two PMFs have different schemas")
    if task:
        return single_pmf(truth, task, _INSTEAD), single_pmf(estimate, task, _INSTEAD)
    return truth, estimate
