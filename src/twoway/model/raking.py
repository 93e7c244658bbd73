"""Models with given margins: the nearest ones whose single variables have given shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.errors import DataError, errors_at
from twoway.model.pmf import JointPMF, pmf_of
from twoway.schema import Variable

_ROUNDS = 500
_CLOSE = 1e-13


def rake(pmf: JointPMF, margins: Mapping[str, Mapping[Label, Any]]) -> JointPMF:
    """Return the model nearest to another in which some variables have given shares, exactly.

    The factors of these variables are multiplied by a number for each category, as in iterative proportional fitting;
    how variables depend on each other, as odds ratios, stays as it was.

    Parameters
    ----------
    pmf
        The model.
    margins
        For each variable, the share or the count of each of its categories.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> pmf = fit({"age": ["young", "old", "old", "old"], "vote": ["no", "yes", "yes", "no"]}, rank=1)
    >>> rake(pmf, {"age": {"young": 40, "old": 60}}).marginal("age")
    age    probability
    old    0.6000
    young  0.4000
    """
    pmf = pmf_of(pmf)
    targets = {}
    for name, share_of in margins.items():
        variable = pmf.schema[name]
        with errors_at(f"the margin of {name!r}"):
            codes = [(code,) for code in range(len(variable))]
            targets[pmf.schema.index(name)] = codes, _raking_shares(variable, share_of)
    return raked_to(pmf, targets)


def raked_to(pmf: JointPMF, targets: Mapping[int, tuple[Sequence[Sequence[int]], Floats]]) -> JointPMF:
    """Return the nearest model with given shares of sets of categories of the variables at some positions."""
    trees = pmf.trees
    for _ in range(_ROUNDS):
        furthest = 0.0
        for position, (sets, shares) in targets.items():
            single = trees.of_variables([position]).joint()
            now = np.array([single[list(codes)].sum() for codes in sets])
            if ((now <= 0) & (shares > 0)).any():
                variable = pmf.schema.variables[position]
                label = variable.categories[sets[int(np.argmax((now <= 0) & (shares > 0)))][0]]
                raise DataError(f"{label!r} of {variable.name!r} has a share, but is impossible under the model")
            furthest = max(furthest, float(np.abs(now - shares).max()))
            times = np.zeros(len(single))
            for codes, ratio in zip(sets, np.divide(shares, now, out=np.zeros_like(now), where=now > 0), strict=True):
                times[list(codes)] = ratio
            raked = trees.reweighted({position: times})
            assert raked is not None
            trees = raked
        if furthest <= _CLOSE:
            break
    return JointPMF.from_trees(pmf.schema, trees, library=pmf.library)


def _raking_shares(variable: Variable, share_of: Mapping[Label, Any]) -> Floats:
    shares = np.full(len(variable), np.nan)
    for label, share in share_of.items():
        shares[variable.code(label)] = float(share)
    if np.isnan(shares).any():
        raise DataError(f"{variable.categories[int(np.argmax(np.isnan(shares)))]!r} has no share")
    if not ((shares >= 0) & (shares < np.inf)).all() or not shares.sum() > 0:
        raise DataError(f"shares must be numbers of 0 or more, not all 0; got {shares.tolist()}")
    return np.asarray(shares / shares.sum())
