"""The maximum-likelihood fit of components to weighted sets of observed cells, and starts for it."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats
from twoway.model.pmf import JointPMF
from twoway.solvers.cells import CellSets, Theta
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Smoothing
from twoway.solvers.starts import is_one_component
from twoway.solvers.watch import Watch

# Annealing begins where this share of a component is smoothing, and goes down by this factor a stage. More, and all
# components become one; less, and each rushes to the nearest peak.
_FIRST_SHARE = 0.25
_SHARE_RATIO = 0.8
_STAGES = 12
_STAGE_PASSES = 10


def fit_cells(
    sets: CellSets, start: JointPMF, smoothing: Smoothing, loop: Loop, pseudo_shares: Floats | None = None
) -> Descent:
    """Return the PMF that best explains sets of cells, and how the loop got there.

    The objective is the negative log-likelihood for each unit of weight, with the penalty that smoothing stands for.
    Smoothing draws every component to equal weights and to the variables' overall shares; or each component to shares
    of its own, ``pseudo_shares`` (1 + n_categories, rank): those of the components, which average 1, above those of the
    cells.
    """
    from scipy.special import xlogy

    from twoway.kernels.lanes import pad_to_lanes
    from twoway.kernels.maximization import log_prior, maximize

    schema, rank, shares = sets.schema, start.rank, sets.shares
    pseudo_counts = np.empty(1 + schema.n_categories)
    pseudo_counts[0] = smoothing.weights * sets.total_copies
    pseudo_counts[1:] = smoothing.factors * np.repeat(sets.copies, schema.sizes) * shares
    own_counts = None
    if pseudo_shares is not None:
        amounts = np.concatenate([pseudo_counts[:1], smoothing.factors * np.repeat(sets.copies, schema.sizes)])
        own_counts, pseudo_counts = amounts[:, None] * pseudo_shares, np.zeros(1 + schema.n_categories)
    penalised = bool(pseudo_counts.any())
    # The penalty is counted from its least value, so that objectives stay near the log-likelihood.
    plainest = pad_to_lanes(np.full(rank, 1.0 / rank), np.repeat(shares[:, None], rank, axis=1))
    least_penalty = log_prior(plainest, pseudo_counts, rank)
    total_weight = sets.records.total_weight

    def update(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank)
        value = expected.log_likelihood
        if penalised:
            value += log_prior(theta, pseudo_counts, rank) - least_penalty
        if own_counts is not None:
            value += float(xlogy(own_counts, theta[:, :rank]).sum())
            expected.counts[:, :rank] += own_counts
        following = np.zeros(theta.shape)
        maximize(expected.counts, pseudo_counts, shares, schema.offsets, rank, following)
        return following, sets.offset - value / total_weight

    return loop.descend(update, start)


def anneal(sets: CellSets, start: JointPMF, smoothing: Smoothing, max_iter: int, watch: Watch) -> JointPMF:
    """Return a start after some passes under much smoothing, then ever less of it.

    Smoothing draws components together and lets only the strongest dependences part them, then weaker ones: fits that
    begin so end in a better optimum three times as often. Takes at most half of ``max_iter`` passes. Where smoothing
    makes all components one, from which no pass leads back, the start is returned as it was.
    """
    passes = min(_STAGE_PASSES, max_iter // (2 * _STAGES))
    if passes < 3:  # not one cycle a stage
        return start
    of_component = sets.records.total_weight / sets.total_copies / start.rank
    annealed = start
    for share in _FIRST_SHARE * _SHARE_RATIO ** np.arange(_STAGES):
        strong = share / (1.0 - share) * of_component
        stage = Smoothing(max(smoothing.factors, strong), max(smoothing.weights, strong))
        annealed = fit_cells(sets, annealed, stage, Loop("annealing", passes, 0.0, watch)).pmf
    return start if is_one_component(annealed) else annealed
