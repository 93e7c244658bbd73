"""The conditions of the paper's Theorem 2, each checked on a model and the tables that are there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from twoway.arrays import Floats
from twoway.diagnosis.bounds import separability
from twoway.diagnosis.scattered import Scattered, sufficiently_scattered
from twoway.model.pmf import JointPMF
from twoway.tables.pair_graph import Mask, PairGraph, Split
from twoway.text import shortlist

Status = Literal["holds", "fails", "unknown"]

_MOST_STACKS = 200
_NO_RANK = 1e-9
# The condition is invariant under no scaling of columns but is needed for one only: where the weights go.
_WHERE_WEIGHTS_GO = (0.5, 0.0, 1.0)


@dataclass(frozen=True)
class Check:
    """One condition: what it asks, and whether it holds, fails or cannot be told."""

    name: str
    status: Status
    detail: str

    def __str__(self) -> str:
        mark = {"holds": "holds ", "fails": "fails ", "unknown": "open  "}[self.status]
        return f"{mark} {self.name}: {self.detail}"


@dataclass
class SplitFindings:
    """What a split of the variables offers."""

    split: Split
    kappas: tuple[float, float]
    """Condition numbers of the two stacks."""
    epsilons: tuple[float, float]
    """How far each stack is from separable."""
    scattered: tuple[Scattered, Scattered]
    outside: list[int] = field(default_factory=list)
    """Variables that are in neither group and cannot be reached from them."""

    @property
    def has_full_rank(self) -> bool:
        """Whether both stacks have full column rank."""
        return all(math.isfinite(kappa) for kappa in self.kappas)

    @property
    def scattered_status(self) -> Status:
        """Whether both groups are sufficiently scattered."""
        statuses = {one.status for one in self.scattered}
        return "fails" if "fails" in statuses else "unknown" if "unknown" in statuses else "holds"

    @property
    def proves(self) -> bool:
        """Whether Theorem 2 holds by this split."""
        return self.has_full_rank and self.scattered_status == "holds" and not self.outside


def condition_number(stack: Floats) -> float:
    """Return the condition number of a stack of factors (rows, rank), infinite where it has no full column rank."""
    if len(stack) < stack.shape[1]:
        return math.inf
    singular = np.linalg.svd(stack, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > _NO_RANK * singular[0] else math.inf


def study_split(
    pmf: JointPMF, graph: PairGraph, split: Split, random: np.random.Generator, zero: float
) -> SplitFindings:
    """Return what a split offers: ranks, separability, scatter, and who is left out."""
    parts = [
        np.where(
            pmf.stacked[np.repeat(side, pmf.schema.sizes)] < zero, 0.0, pmf.stacked[np.repeat(side, pmf.schema.sizes)]
        )
        for side in (split.first, split.second)
    ]
    kappas = condition_number(parts[0]), condition_number(parts[1])
    epsilons = separability(parts[0]), separability(parts[1] * pmf.weights)
    best: tuple[Scattered, Scattered] | None = None
    for share in _WHERE_WEIGHTS_GO:
        one = sufficiently_scattered(parts[0] * pmf.weights**share, random)
        other = sufficiently_scattered(parts[1] * pmf.weights ** (1 - share), random)
        if best is None or (one.status, other.status) == ("holds", "holds"):
            best = one, other
        if (one.status, other.status) == ("holds", "holds"):
            break
    assert best is not None
    return SplitFindings(split, kappas, epsilons, best, _left_out(pmf, graph, split))


def _left_out(pmf: JointPMF, graph: PairGraph, split: Split) -> list[int]:
    """Return the variables that have too few tables with what is known, once all that can be reached is known."""
    known: Mask = split.first | split.second
    while True:
        reached = [
            variable
            for variable in np.flatnonzero(~known)
            if math.isfinite(
                condition_number(pmf.stacked[np.repeat(graph.available[variable] & known, pmf.schema.sizes)])
            )
        ]
        if not reached:
            return [int(variable) for variable in np.flatnonzero(~known)]
        known = known.copy()
        known[reached] = True


def three_groups(pmf: JointPMF, graph: PairGraph) -> bool:
    """Return whether three groups of variables, with all tables between them, each have full column rank.

    Then two models with the same tables differ by a rotation alone (docs/theory.md), and the factors of all
    variables together need be scattered, not those of each group.
    """
    if not graph.is_complete:
        return False
    order = np.argsort(-graph.sizes, kind="stable")
    totals, groups = [0, 0, 0], np.zeros(graph.n_variables, dtype=np.int64)
    for variable in order:
        group = int(np.argmin(totals))
        groups[variable] = group
        totals[group] += int(graph.sizes[variable])
    of_cell = np.repeat(groups, pmf.schema.sizes)
    return all(math.isfinite(condition_number(pmf.stacked[of_cell == group])) for group in range(3))


def check_stacks(pmf: JointPMF, random: np.random.Generator) -> Check:
    """Return condition (iii): every stack of factors that can have full column rank has it.

    The paper asks it of every stack of F rows. Each factor's rows add up to the same row of ones, so that a stack
    of T factors has T − 1 rows fewer that count, and with no more than F rows it never has full column rank.
    """
    name = "(iii) every stack of factors with F independent rows has full column rank"
    free, rank = [size - 1 for size in pmf.schema.sizes], pmf.rank
    if 1 + sum(free) < rank:
        return Check(name, "fails", f"all factors together have {1 + sum(free)}, fewer than the rank {rank}")
    stacks, is_all = _stacks(free, rank - 1, random)
    for stack in stacks:
        if not math.isfinite(condition_number(np.vstack([pmf.factors[index] for index in stack]))):
            told = shortlist([pmf.schema.names[index] for index in stack], 6)
            return Check(name, "fails", f"not that of {told}")
    if is_all:
        return Check(name, "holds", f"all {len(stacks)} smallest stacks have")
    return Check(name, "unknown", f"{len(stacks)} stacks drawn at random have; there are more")


def _stacks(free: Sequence[int], needed: int, random: np.random.Generator) -> tuple[list[tuple[int, ...]], bool]:
    """Return sets of variables with just as many free rows as needed, and whether these are all such sets."""
    n = len(free)
    if sum(math.comb(n, count) for count in range(1, n + 1)) <= 20 * _MOST_STACKS:
        every = (chosen for count in range(1, n + 1) for chosen in itertools.combinations(range(n), count))
        return [chosen for chosen in every if _is_smallest([free[index] for index in chosen], needed)], True
    drawn = set()
    for _ in range(_MOST_STACKS):
        order = random.permutation(n)
        end = int(np.searchsorted(np.cumsum(np.asarray(free)[order]), needed)) + 1
        drawn.add(tuple(sorted(int(index) for index in order[:end])))
    return sorted(drawn), False


def _is_smallest(free: Sequence[int], needed: int) -> bool:
    """Return whether some rows are enough, and would not be without the fewest."""
    return sum(free) >= needed and (len(free) == 1 or sum(free) - min(free) < needed)
