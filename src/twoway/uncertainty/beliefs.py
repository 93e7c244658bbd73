"""The prior that smoothing is, drawn again for each replicate."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats
from twoway.model.pmf import JointPMF
from twoway.solvers.cells import CellSets
from twoway.solvers.problem import Smoothing
from twoway.solvers.starts import normalized

_LEAST_SHARE = 1e-300


def smoothing_of(pmf: JointPMF) -> Smoothing:
    """Return the smoothing that a model was fitted with."""
    return Smoothing() if pmf.report is None else Smoothing(pmf.report.smoothing, pmf.report.weight_smoothing)


def likely_smoothings(pmf: JointPMF) -> tuple[list[Smoothing], Floats]:
    """Return the amounts of smoothing that were compared, and how probable each is given the held-out records."""
    report, chosen = pmf.report, smoothing_of(pmf)
    tried = [] if report is None else [candidate for candidate in report.candidates if "smoothing" in candidate]
    if report is None or not tried or not report.n_records or not chosen.factors:
        return [chosen], np.ones(1)
    held_out = np.array([float(candidate["held_out"]) for candidate in tried])
    best = tried[int(held_out.argmax())]
    # Folds are smaller than the whole, and the choice was scaled to the whole.
    scale = chosen.factors / float(best["smoothing"])
    amounts = scale * np.array([(candidate["smoothing"], candidate["weight_smoothing"]) for candidate in tried], float)
    chances = np.exp(report.n_records * (held_out - held_out.max()))
    return [Smoothing(*amount) for amount in amounts.tolist()], chances / chances.sum()


def drawn_shares(sets: CellSets, rank: int, smoothing: Smoothing, random: np.random.Generator) -> Floats:
    """Return the shares that smoothing draws each component towards in one replicate, (1 + n_categories, rank).

    Smoothing is a prior for components: so many records with the variables' overall shares. The components' true
    shares are then about as far from these as so many random records are (a Dirichlet distribution), and replicates
    in which both records and prior are drawn again spread as the truth does given the data. With a fixed prior, all
    replicates would shrink dependence alike, and their spread would not show by how much.
    """
    schema = sets.schema
    drawn = np.empty((1 + schema.n_categories, rank))
    drawn[0] = random.gamma(smoothing.weights, size=rank) + _LEAST_SHARE if smoothing.weights else 1.0
    drawn[0] *= rank / drawn[0].sum()
    drawn[1:] = random.gamma(np.repeat(smoothing.factors * sets.shares[:, None], rank, axis=1)) + _LEAST_SHARE
    drawn[1:] = normalized(schema, drawn[1:])
    return drawn
