"""EM on records, or on other weighted sets of observed cells: maximum likelihood, or the posterior mode with smoothing.

Dempster, Laird and Rubin (1977), for the latent class model of the paper's section on EM (Yeredor and Haardt, 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import is_one_component
from twoway.solvers.theta import Theta, theta_groups, theta_of, theta_tree_rows
from twoway.solvers.watch import Watch

# Annealing begins where this share of a component is smoothing, and goes down by this factor per stage. More, and all
# components become one; less, and each rushes to the nearest peak.
_FIRST_SHARE = 0.25
_SHARE_RATIO = 0.8
_STAGES = 12
_STAGE_PASSES = 10


@dataclass(frozen=True)
class EM:
    """Maximum likelihood from records with any cells missing, from the given start or a random one."""

    max_iter: int = 2000
    """Passes over the records."""
    tol: float = 1e-8
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share."""

    name: ClassVar[str] = "em"

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one climb."""
        if problem.evidence.records is None:
            raise DataError("solver 'em' needs records, but only tables were given; 'coupled-nmf' fits tables")
        sets, smoothing = problem.evidence.sets, problem.given_smoothing
        descent = fit_cells_by_em(sets, problem.first_point(sets), smoothing, problem.loop(self))
        return problem.solution(self, descent, problem.name_of_likelihood)


def fit_cells_by_em(
    sets: CellSets, start: JointPMF, smoothing: Smoothing, loop: Loop, pseudo_shares: Floats | None = None
) -> Descent:
    """Return the PMF that best explains sets of cells, and how the loop got there.

    The objective is the negative log-likelihood for each unit of weight, with the penalty that smoothing stands for.
    Smoothing draws every component to equal weights and to the variables' overall shares; or each component to shares
    given in ``pseudo_shares`` (1 + n_categories, rank): those of the components, which average 1, above those of the
    cells.
    """
    from scipy.special import xlogy

    from twoway.kernels.lanes import pad_to_lanes
    from twoway.kernels.maximization import log_prior, maximize

    rank, rows, groups = start.rank, theta_tree_rows(start), theta_groups(start)
    amounts, shares = sets.smoothing_of_rows(start, smoothing)
    amounts *= np.repeat(sets.copies_of_groups(start), np.diff([-1, *groups]))
    pseudo_counts = np.concatenate([amounts[:1], amounts[1:] * shares])
    own_counts = None
    if pseudo_shares is not None:
        own_counts, pseudo_counts = amounts[:, None] * pseudo_shares, np.zeros(len(amounts))
    penalised = bool(pseudo_counts.any())
    # The penalty is counted from its least value, so that objectives stay near the log-likelihood.
    plainest = pad_to_lanes(np.full(rank, 1.0 / rank), np.repeat(shares[:, None], rank, axis=1))
    least_penalty = log_prior(plainest, pseudo_counts, rank)
    total_weight = sets.total_weight

    def update(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank, rows)
        value = expected.log_likelihood
        if penalised:
            value += log_prior(theta, pseudo_counts, rank) - least_penalty
        if own_counts is not None:
            value += float(xlogy(own_counts, theta[:, :rank]).sum())
            expected.counts[:, :rank] += own_counts
        following = maximize(expected.counts, pseudo_counts, shares, groups, rank)
        return following, sets.offset - value / total_weight

    return loop.descend(update, start)


def climb_by_em(
    sets: CellSets, start: JointPMF, maximize: Callable[[Floats], tuple[Floats, Floats]], loop: Loop
) -> Descent:
    """Return where EM with an M-step of its own leads, and how the loop got there; Ctrl-C is an error.

    ``maximize`` takes expected counts, (1 + n_categories, rank), those of components above those of cells, and returns
    weights and stacked factors. The objective is the negative log-likelihood.
    """
    from twoway.kernels.lanes import pad_to_lanes

    def update(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, start.rank)
        return pad_to_lanes(*maximize(expected.counts[:, : start.rank])), -expected.log_likelihood

    descent = loop.descend(update, start)
    if loop.watch.interrupted:
        raise KeyboardInterrupt
    return descent


def fit_near_by_em(sets: CellSets, start: JointPMF, people: float, loop: Loop) -> Descent:
    """Return the fit that EM reaches from a start, with ``people`` pseudo-people drawing it toward that start.

    A few of them decide what the sets leave open, and nothing else.
    """
    prior = theta_of(start)[:, : start.rank]
    prior[0] *= start.rank
    amount = people / start.rank
    return fit_cells_by_em(sets, start, Smoothing(amount, amount), loop, prior)


def annealed_by_em(sets: CellSets, start: JointPMF, smoothing: Smoothing, max_iter: int, watch: Watch) -> JointPMF:
    """Return a start after some passes under much smoothing, then ever less of it.

    Smoothing draws components together and lets only the strongest dependences part them, then weaker ones: fits that
    begin so end in a better optimum three times as often. Takes at most half of ``max_iter`` passes. Where smoothing
    makes all components one, from which no pass leads back, the start is returned as it was.
    """
    passes = min(_STAGE_PASSES, max_iter // (2 * _STAGES))
    if passes < 3:  # not one cycle per stage
        return start
    of_component = sets.records.total_weight / sets.total_copies / start.rank
    annealed = start
    for share in _FIRST_SHARE * _SHARE_RATIO ** np.arange(_STAGES):
        strong = share / (1.0 - share) * of_component
        stage = Smoothing(max(smoothing.factors, strong), max(smoothing.weights, strong))
        annealed = fit_cells_by_em(sets, annealed, stage, Loop("annealing", passes, 0.0, watch)).pmf
        if watch.interrupted:
            break
    return start if is_one_component(annealed) else annealed
