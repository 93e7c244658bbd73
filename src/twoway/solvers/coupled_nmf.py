"""CNMF-OPT: the fit of all available two-way tables at once (Ibrahim and Fu, Algorithm CNMF-OPT).

The default updates all factors and weights together by the EM step of the KL fit (see `latent`), accelerated.
``update="mirror"`` is the paper's way, in `mirror`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from twoway.errors import DataError, shortlist
from twoway.solvers.base import Problem, Solution
from twoway.solvers.latent import fit_cells, overall_shares
from twoway.solvers.mirror import Loss, fit_by_mirror_descent
from twoway.solvers.pairs import PairWeights
from twoway.solvers.spa import SPA
from twoway.solvers.starts import random_start, softened
from twoway.tables import Tables


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
    """Stop when a cycle of up to three passes lowers the objective by less than this share."""

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
        tables = problem.evidence.tables(2)
        check_connected(tables)
        cells = problem.evidence.table_cells(self.pair_weights)
        shares = overall_shares(cells, problem.evidence.threads)
        start, chain = problem.start, self.name
        can_carry = SPA().can_carry(problem)
        if start is None and problem.number == 0 and can_carry:
            start = softened(SPA().solve(problem).pmf, shares)
            chain = f"spa+{self.name}"
        elif start is None:
            start = random_start(tables.schema, problem.rank, shares, problem.random)
        if self.loss == "kl" and self.update != "mirror":
            pmf, path = fit_cells(
                cells,
                start,
                smoothing=problem.smoothing,
                copies=np.bincount(tables.sets.ravel(), minlength=len(tables.schema)).astype(float),
                total_copies=float(len(tables)),
                objective_offset=negative_entropy(tables, self.pair_weights),
                max_iter=self.max_iter,
                tol=self.tol,
                task=self.name,
                watch=problem.watch,
                threads=problem.evidence.threads,
            )
        elif any(problem.smoothing):
            raise DataError("mirror descent fits the tables as they are; smoothing needs update='em'")
        else:
            pmf, path = fit_by_mirror_descent(
                problem.evidence.pairs,
                start,
                self.loss,
                self.pair_weights,
                max_iter=self.max_iter,
                tol=self.tol,
                task=self.name,
                watch=problem.watch,
            )
        warnings = () if can_carry else (_rank_warning(tables, problem.rank),)
        kind = "Kullback-Leibler divergence" if self.loss == "kl" else "squared distance"
        return Solution(
            pmf, path.objectives, path.stop_reason, chain, f"mean {kind} a pair", problem.smoothing, warnings
        )


def check_connected(tables: Tables) -> None:
    """Raise where the tables leave variables unconnected: nothing says how these go together."""
    groups = tables.components()
    if len(groups) > 1:
        smallest = min(groups, key=len)
        raise DataError(
            f"no table connects {shortlist(smallest)} with the other variables; add a table that does, "
            "or fit the groups apart: " + "; ".join(shortlist(group, 4) for group in groups[:4])
        )


def negative_entropy(tables: Tables, pair_weights: PairWeights) -> float:
    """Return the weighted mean over tables of Σ x log x: what turns a cross-entropy into a divergence."""
    shares = tables.flat / np.repeat(tables.totals, np.diff(tables.starts))
    logs = np.zeros_like(shares)
    np.log(shares, where=shares > 0, out=logs)
    of_table = np.add.reduceat(shares * logs, tables.starts[:-1])
    weights = tables.weights if pair_weights == "counts" else np.ones(len(tables))
    return float(of_table @ weights / weights.sum())


def _rank_warning(tables: Tables, rank: int) -> str:
    return (
        f"two-way tables cannot identify rank {rank} here: no split of the {len(tables.schema)} variables has "
        f"{rank} categories and all its tables on both sides; answers about three or more variables may be arbitrary"
    )
