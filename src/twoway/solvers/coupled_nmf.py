"""CNMF-OPT: the fit of all available two-way tables at once (Ibrahim and Fu, Algorithm CNMF-OPT).

The default updates all factors and weights together by the EM step of the KL fit (see `latent`), accelerated.
``update="mirror"`` is the paper's way, in `mirror`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from twoway.errors import DataError
from twoway.solvers.latent import anneal, fit_cells
from twoway.solvers.mirror import Loss, fit_by_mirror_descent
from twoway.solvers.pairs import PairWeights
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.spa import MOST_CATEGORIES, SPA
from twoway.solvers.starts import softened


@dataclass(frozen=True)
class CoupledNMF:
    """The PMF that comes closest to all two-way tables together."""

    loss: Loss = "kl"
    """Distance between a table and the model's."""
    update: Literal["em", "mirror"] | None = None
    """"em" (KL only) or the paper's "mirror"; None takes the faster one that fits the loss."""
    pair_weights: PairWeights = "counts"
    """Each table by the records it rests on, or all equally, as in the paper."""
    max_iter: int = 5000
    """Passes over the tables."""
    tol: float = 1e-8
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share."""

    name: ClassVar[str] = "coupled-nmf"

    def __post_init__(self) -> None:
        if self.loss not in ("kl", "euclidean"):
            raise DataError(f"loss must be 'kl' or 'euclidean', not {self.loss!r}")
        if self.update not in ("em", "mirror", None):
            raise DataError(f"update must be 'em', 'mirror' or None, not {self.update!r}")
        if self.update == "em" and self.loss != "kl":
            raise DataError("update='em' minimises the KL divergence only; loss='euclidean' needs update='mirror'")
        if self.pair_weights not in ("counts", "equal"):
            raise DataError(f"pair_weights must be 'counts' or 'equal', not {self.pair_weights!r}")

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one descent: from the given start, else from `SPA` or at random.

        The first of several starts takes the solution of `SPA`, where it can find so many components.
        """
        evidence, smoothing = problem.evidence, problem.given_smoothing
        evidence.connected_tables(2)
        sets = evidence.table_sets(self.pair_weights)
        is_small = sets.schema.n_categories <= MOST_CATEGORIES
        if problem.start is None and problem.number == 0 and is_small and evidence.pairs.can_carry(problem.rank):
            direct = SPA().solve(problem)
            problem = replace(problem, start=softened(direct.pmf, sets.shares), origin=direct.solver)
        start = problem.first_point(sets)
        if self.loss == "kl" and self.update != "mirror":
            if problem.start is None:
                start = anneal(sets, start, smoothing, self.max_iter, problem.watch)
            descent = fit_cells(sets, start, smoothing, problem.loop(self))
        elif any(smoothing):
            raise DataError("mirror descent fits the tables as they are; smoothing needs update='em'")
        else:
            loop = problem.loop(self, accelerate=False)
            descent = fit_by_mirror_descent(evidence.pairs, start, self.loss, self.pair_weights, loop)
        no_split = evidence.graph.why_no_split(problem.rank)
        warning = (
            f"two-way tables cannot identify rank {problem.rank} here: {no_split}; answers about three or more "
            "variables may be arbitrary"
        )
        kind = "Kullback-Leibler divergence" if self.loss == "kl" else "half squared distance"
        return problem.solution(self, descent, f"mean {kind} per pair", *([warning] if no_split else []))
