"""What smoothing believes of a model before the data, drawn anew for each replicate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoway.model.pmf import JointPMF
from twoway.solvers.cells import CellSets
from twoway.solvers.problem import Smoothing
from twoway.solvers.starts import normalized

_LEAST_SHARE = 1e-300


def smoothing_of(pmf: JointPMF) -> Smoothing:
    """Return the smoothing that a model was fitted with."""
    return Smoothing() if pmf.report is None else Smoothing(pmf.report.smoothing, pmf.report.weight_smoothing)


def likely_smoothings(pmf: JointPMF) -> tuple[list[Smoothing], NDArray[np.float64]]:
    """Return how smoothing might have been chosen, and how probable each choice is given the held-out records."""
    report, chosen = pmf.report, smoothing_of(pmf)
    tried = [] if report is None else [one for one in report.candidates if "smoothing" in one]
    if report is None or not tried or not report.n_records or not chosen.factors:
        return [chosen], np.ones(1)
    held_out = np.array([float(one["held_out"]) for one in tried])
    best = tried[int(held_out.argmax())]
    # Folds are smaller than the whole, and the choice was scaled to the whole.
    scale = chosen.factors / float(best["smoothing"])
    choices = [Smoothing(scale * float(one["smoothing"]), scale * float(one["weight_smoothing"])) for one in tried]
    chances = np.exp(report.n_records * (held_out - held_out.max()))
    return choices, chances / chances.sum()


def drawn_shares(sets: CellSets, rank: int, smoothing: Smoothing, random: np.random.Generator) -> NDArray[np.float64]:
    """Return the shares that smoothing draws each component to in one replicate, (1 + n_categories, rank).

    Smoothing is what is believed of components before the data: so many records with the variables' overall shares.
    Then the components' true shares are about as far from these as so many records by chance are (a Dirichlet
    distribution), and replicates that have both drawn anew, records and beliefs, spread as the truth does given the
    data. With beliefs fixed, all replicates would shrink dependence alike, and nothing would tell by how much.
    """
    schema = sets.schema
    drawn = np.empty((1 + schema.n_categories, rank))
    drawn[0] = random.gamma(smoothing.weights, size=rank) + _LEAST_SHARE if smoothing.weights else 1.0
    drawn[0] *= rank / drawn[0].sum()
    drawn[1:] = random.gamma(np.repeat(smoothing.factors * sets.shares[:, None], rank, axis=1)) + _LEAST_SHARE
    drawn[1:] = normalized(schema, drawn[1:])
    return drawn
