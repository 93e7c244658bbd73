"""Where two models differ: in variables, and in the distributions of one and of two variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from twoway.errors import DataError
from twoway.model.measures import total_variation
from twoway.model.pmf import JointPMF, model_of


@dataclass(frozen=True)
class Difference:
    """How far two models are apart in the joint distribution of some variables."""

    variables: tuple[str, ...]
    total_variation: float
    """0 for equal distributions, 1 for distributions that have no category in common."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two models, largest first."""

    variables: tuple[Difference, ...]
    """One for each variable that both models have, with the same categories."""
    pairs: tuple[Difference, ...]
    notes: tuple[str, ...]
    """Variables that were not compared, and why."""


def compare(pmf: JointPMF, other: JointPMF) -> Comparison:
    """Return how far two models are apart, for each variable and each pair of variables that both have.

    Parameters
    ----------
    pmf, other
        The models. Variables with different categories are not compared.

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
    pmf, other = model_of(pmf), model_of(other, "the other model")
    shared, notes = [], []
    for variable in pmf.schema:
        if variable.name not in other.schema:
            notes.append(f"only the first model has {variable.name!r}")
        elif difference := variable.difference(other.schema[variable.name]):
            notes.append(f"not compared: {difference}")
        else:
            shared.append(variable.name)
    notes += [f"only the second model has {name!r}" for name in other.schema.names if name not in pmf.schema]
    if not shared:
        raise DataError("the models have no variable in common that has the same categories in both")

    def ranked(sets: Iterable[tuple[str, ...]]) -> tuple[Difference, ...]:
        differences = [Difference(names, total_variation(pmf, other, names)) for names in sets]
        return tuple(sorted(differences, key=lambda difference: -difference.total_variation))

    return Comparison(ranked((name,) for name in shared), ranked(combinations(shared, 2)), tuple(notes))
