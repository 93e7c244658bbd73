"""CNMF-OPT: the fit of all available two-way tables at once (Ibrahim and Fu, Algorithm CNMF-OPT).

The default updates all factors and weights together by the EM step of the KL fit (see `latent`), accelerated.
``update="mirror"`` is the paper's way, in `mirror`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from twoway.errors import DataError
from twoway.solvers.base import Problem, Solution
from twoway.solvers.latent import anneal, fit_cells
from twoway.solvers.mirror import Loss, fit_by_mirror_descent
from twoway.solvers.pairs import PairWeights
from twoway.solvers.spa import MOST_CELLS, SPA
from twoway.solvers.starts import random_start, softened
from twoway.tables.tables import Tables
from twoway.text import shortlist


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
    """Stop when three cycles of up to three passes each lower the objective by less than this share."""

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
        """Return the PMF at the end of one descent: from the start given, else from `SPA` or at random.

        The first of several starts takes what `SPA` finds, where it can carry the rank.
        """
        evidence = problem.evidence
        check_connected(evidence.tables(2))
        sets = evidence.table_sets(self.pair_weights)
        is_small = sets.schema.n_categories <= MOST_CELLS
        can_carry = is_small and evidence.pairs.can_carry(problem.rank)
        if problem.start is None and problem.number == 0 and can_carry:
            found = SPA().solve(problem)
            problem = replace(problem, start=softened(found.pmf, sets.shares), origin=found.solver)
        start = problem.start or random_start(sets.schema, problem.rank, sets.shares, problem.seeds)
        if self.loss == "kl" and self.update != "mirror":
            max_iter, smoothing = self.max_iter, problem.smoothing
            if problem.start is None:
                start = anneal(sets, start, smoothing=smoothing, max_iter=max_iter, watch=problem.watch)
            pmf, path = fit_cells(
                sets,
                start,
                smoothing=smoothing,
                max_iter=max_iter,
                tol=self.tol,
                task=self.name,
                watch=problem.watch,
            )
        elif any(problem.smoothing):
            raise DataError("mirror descent fits the tables as they are; smoothing needs update='em'")
        else:
            pmf, path = fit_by_mirror_descent(
                evidence.pairs,
                start,
                self.loss,
                self.pair_weights,
                max_iter=self.max_iter,
                tol=self.tol,
                task=self.name,
                watch=problem.watch,
            )
        no_split = evidence.graph.why_no_split(problem.rank)
        warnings = () if no_split is None else (_rank_warning(problem.rank, no_split),)
        kind = "Kullback-Leibler divergence" if self.loss == "kl" else "half squared distance"
        return Solution(
            pmf,
            path.objectives,
            path.stop_reason,
            problem.chain(self.name),
            f"mean {kind} a pair",
            problem.smoothing,
            warnings,
        )


def check_connected(tables: Tables) -> None:
    """Raise where the tables leave variables unconnected: nothing says how these go together."""
    if len(tables) == 0:
        raise DataError(
            f"there is no table of {shortlist(tables.schema.names)}: no {tables.order} variables were seen together; "
            "solver='em' on records needs none"
        )
    groups = tables.components()
    if len(groups) > 1:
        smallest = min(groups, key=len)
        raise DataError(
            f"no table connects {shortlist(smallest)} with the other variables; add a table that does, "
            "or fit the groups apart: " + "; ".join(shortlist(group, 4) for group in groups[:4])
        )


def _rank_warning(rank: int, no_split: str) -> str:
    return (
        f"two-way tables cannot identify rank {rank} here: {no_split}; answers about three or more variables may be "
        "arbitrary"
    )
