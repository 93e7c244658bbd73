"""The conditions of the paper's Theorem 2, each checked on a model and the available tables.

H is sufficiently scattered if the cone of its rows contains C = {x : Σx ≥ √(F−1)·‖x‖}, and touches its border in as
few places as it must. In the dual: every point of {y : H·y ≥ 0, Σy = 1} has ‖y‖ ≤ 1, and those of length one are the
unit vectors. The longest points are vertices, so listing the vertices decides. Where there are too many to list, a
search for long points can refute the condition but cannot prove it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.diagnosis.bounds import condition_number, separability
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.tables.pair_graph import PairGraph, PairSplit
from twoway.text import shortlist

Status = Literal["holds", "fails", "unknown"]

SMALL = 0.01
"""A total variation that does not matter."""

_MAX_STACKS = 200
# Exponents of the weights in the first group; the second gets the rest. The condition needs to hold for one of them.
_WEIGHT_EXPONENTS = (0.5, 0.0, 1.0)
# Qhull lists the vertices of n halfspaces in d dimensions at a cost of about n^(d/2).
_MAX_VERTICES = 40_000
_TOLERANCE = 1e-7
_N_SEARCHES = 12
_HAS_SPLIT = "(ii) a split with all its tables"
_SCATTERED = "(i) sufficiently scattered on both sides"


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """One condition, and whether it holds, fails or is unknown."""

    name: str
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.status:<7} {self.name}: {self.detail}"


class Scattered(NamedTuple):
    """Whether a matrix is sufficiently scattered."""

    status: Status
    longest: float = 1.0
    """The length of the longest point found in the dual: 1 where the condition holds, larger the farther from it."""
    is_exact: bool = True
    """Whether all vertices were listed."""


@dataclass(frozen=True)
class SplitConditions:
    """What holds for a split of the variables into two groups."""

    split: PairSplit
    condition_numbers: tuple[float, float]
    """Of the stacked factors of the two groups."""
    separability: tuple[float, float]
    """How far each stack is from separable."""
    scattered: tuple[Scattered, Scattered]
    outside: list[int]
    """Variables in neither group that cannot be reached from them."""

    @property
    def has_full_rank(self) -> bool:
        """Whether both stacks have full column rank."""
        return all(map(math.isfinite, self.condition_numbers))

    @property
    def scattered_status(self) -> Status:
        """Whether both groups are sufficiently scattered: the worse status of the two."""
        order: tuple[Status, ...] = ("fails", "unknown", "holds")
        return min((part.status for part in self.scattered), key=order.index)

    @property
    def is_proof(self) -> bool:
        """Whether Theorem 2 holds by this split."""
        return self.has_full_rank and self.scattered_status == "holds" and not self.outside

    def checks(self, names: Sequence[str], rank: int) -> Iterator[Check]:
        """Yield the conditions of Theorem 2 that are about the split."""
        n_first, n_second = self.split.first.sum(), self.split.second.sum()
        yield Check(_HAS_SPLIT, "holds", f"groups of {n_first} and {n_second} variables, both can have rank {rank}")
        numbers = " and ".join(f"{number:.3g}" for number in self.condition_numbers)
        yield Check("full column rank on both sides", _check_holds(self.has_full_rank), f"condition numbers {numbers}")
        lengths = (f"{part.longest:.4g}{'' if part.is_exact else ' (by search)'}" for part in self.scattered)
        detail = f"dual lengths {' and '.join(lengths)}, where 1 is needed"
        yield Check(_SCATTERED, self.scattered_status, detail)
        outside = shortlist([names[index] for index in self.outside], 6)
        detail = f"not {outside}" if outside else "each shares enough tables with them"
        yield Check("(iv) every other variable is tied to the groups", _check_holds(not outside), detail)


@dataclass(frozen=True)
class HiddenVerdict:
    """What exact two-way tables show about one hidden variable of a tree."""

    variables: tuple[str, ...]
    """The variables that are attached to it; where there are none, one from each of its sides."""
    n_states: int
    n_sides: int
    """The groups of variables that are independent given its state."""
    is_proven: bool
    """Whether Theorem 2 or its extension holds for the tables between its sides, or two sides make that needless."""
    by_three_way: bool
    """Whether three-way tables between its sides determine it (Kruskal)."""
    ambiguity: float
    """How far another tree with the same tables is, in which only its states differ, as far as found."""
    checks: tuple[Check, ...] = field(repr=False)

    @property
    def check(self) -> Check:
        """The verdict as one condition of that on the tree."""
        status: Status = "holds" if self.is_proven else "fails" if self.ambiguity > SMALL else "unknown"
        detail = {
            "holds": "determined by the tables between them" if self.n_sides > 2 else "which do not affect the joint",
            "fails": f"not determined: others have the same tables and move the joint by {self.ambiguity:.3f}",
            "unknown": "not proven, but no others with the same tables were found",
        }[status]
        more = "; three-way tables determine them" if self.by_three_way and not self.is_proven else ""
        name = f"hidden variable of {shortlist(self.variables, 4)}"
        return Check(name, status, f"{self.n_states} states between {self.n_sides} sides, {detail}{more}")


def check_conditions(
    pmf: JointPMF, graph: PairGraph, zero: float, random: np.random.Generator
) -> tuple[tuple[Check, ...], SplitConditions | None, bool]:
    """Return the conditions of Theorem 2, the best split, if any, and whether the theorem or its extension holds.

    Entries of factors below ``zero`` count as 0.
    """
    stacked = np.where(pmf.stacked < zero, 0.0, pmf.stacked)
    best = _best_split_conditions(pmf, stacked, graph, random)
    smallest = float(pmf.weights.min())
    checks = [Check("every component has weight", _check_holds(smallest > 0), f"the smallest weight is {smallest:.3g}")]
    if best is not None:
        checks += best.checks(pmf.schema.names, pmf.rank)
    else:
        reason = graph.why_no_split(pmf.rank)
        detail = reason or f"none was found in which both groups have {pmf.rank} independent rows"
        checks.append(Check(_HAS_SPLIT, "unknown" if reason is None else "fails", detail))
        checks.append(Check(_SCATTERED, "unknown", "there is no split to check"))
    # In the order of the theorem: (iii) before (iv).
    checks.insert(len(checks) - (best is not None), check_stacks_rank(pmf, random))
    is_proven = best is not None and (best.is_proof or _three_groups_prove(pmf, stacked, graph))
    return tuple(checks), best, is_proven


def _check_holds(holds: bool) -> Status:
    return "holds" if holds else "fails"


def _best_split_conditions(
    pmf: JointPMF, stacked: Floats, graph: PairGraph, random: np.random.Generator
) -> SplitConditions | None:
    """Return the first split that proves Theorem 2, else the one whose stacks are conditioned best."""
    checked = []
    for split in graph.splits(pmf.rank, random)[: 24 if pmf.rank <= 6 else 2]:
        checked.append(_split_conditions(pmf, stacked, graph, split, random))
        if checked[-1].is_proof:
            return checked[-1]
    return min(checked, key=lambda part: (len(part.outside), max(part.condition_numbers)), default=None)


def _split_conditions(
    pmf: JointPMF, stacked: Floats, graph: PairGraph, split: PairSplit, random: np.random.Generator
) -> SplitConditions:
    """Return what holds for a split: ranks, separability, scatter, and which variables are left out."""
    w, h = (stacked[np.repeat(side, pmf.schema.sizes)] for side in (split.first, split.second))
    conditioned = condition_number(w), condition_number(h)
    separable = separability(w), separability(h * pmf.weights)
    outside = _outside_split_conditions(pmf, graph, split)
    tried: list[SplitConditions] = []
    for exponent in _WEIGHT_EXPONENTS:
        first, second = w * pmf.weights**exponent, h * pmf.weights ** (1 - exponent)
        scattered = sufficiently_scattered(first, random), sufficiently_scattered(second, random)
        tried.append(SplitConditions(split, conditioned, separable, scattered, outside))
        if tried[-1].scattered_status == "holds":
            return tried[-1]
    return tried[0]


def _has_full_rank(pmf: JointPMF, variables: Bools) -> bool:
    """Return whether the stacked factors of some variables, marked in (n_variables,), have full column rank."""
    return math.isfinite(condition_number(pmf.stacked[np.repeat(variables, pmf.schema.sizes)]))


def _outside_split_conditions(pmf: JointPMF, graph: PairGraph, split: PairSplit) -> list[int]:
    """Return the variables with too few tables with known variables, once all that can be reached are known."""
    known: Bools = split.first | split.second
    while True:
        unknown = np.flatnonzero(~known).tolist()
        reached = [index for index in unknown if _has_full_rank(pmf, graph.available[index] & known)]
        if not reached:
            return unknown
        known = known.copy()
        known[reached] = True


def _three_groups_prove(pmf: JointPMF, stacked: Floats, graph: PairGraph) -> bool:
    """Return whether the extension of Theorem 2 to three groups of variables holds.

    If three groups with all tables between them each have full column rank, two models with the same tables differ by
    a rotation alone (docs/theory.md), and it is enough that the factors of all variables together are scattered.
    """
    groups = graph.balanced(3)
    if not all(_has_full_rank(pmf, groups == group) for group in range(3)):
        return False
    return sufficiently_scattered(stacked * np.sqrt(pmf.weights), np.random.default_rng(0)).status == "holds"


def three_way_tables_prove(pmf: JointPMF, graph: PairGraph) -> bool:
    """Return whether three-way tables between three groups of variables determine the model (Kruskal, 1977)."""
    groups = graph.balanced(3)
    stacks = (pmf.stacked[np.repeat(groups == group, pmf.schema.sizes)] for group in range(3))
    return bool(pmf.weights.all()) and sum(map(_k_rank, stacks)) >= 2 * pmf.rank + 2


def _k_rank(stack: Floats) -> int:
    """Return the largest number of columns any of which are independent, or a smaller one where there are many."""
    rank, k = int(stack.shape[1]), 0
    if math.isfinite(condition_number(stack)):
        return rank
    while math.comb(rank, k + 1) <= _MAX_STACKS and all(
        math.isfinite(condition_number(stack[:, columns])) for columns in itertools.combinations(range(rank), k + 1)
    ):
        k += 1
    return k


def check_stacks_rank(pmf: JointPMF, random: np.random.Generator) -> Check:
    """Return condition (iii): every stack of factors that can have full column rank has it.

    The paper asks it of every stack of F rows. Each factor's rows add up to the same row of ones, so a stack of T
    factors has T − 1 rows fewer that count, and with no more than F rows it never has full column rank.
    """
    name = "(iii) every stack of factors with F independent rows has full column rank"
    free, rank = np.array(pmf.schema.sizes) - 1, pmf.rank
    if 1 + free.sum() < rank:
        return Check(name, "fails", f"all factors together have {1 + free.sum()}, fewer than the rank {rank}")
    stacks, is_all = _stacks_of_condition(free, rank - 1, random)
    for stack in stacks:
        if not _has_full_rank(pmf, np.isin(np.arange(len(free)), stack)):
            return Check(name, "fails", f"not that of {shortlist([pmf.schema.names[index] for index in stack], 6)}")
    if is_all:
        return Check(name, "holds", f"all {len(stacks)} smallest stacks do")
    return Check(name, "unknown", f"{len(stacks)} random stacks do; there are more")


def _stacks_of_condition(free: Ints, needed: int, random: np.random.Generator) -> tuple[list[tuple[int, ...]], bool]:
    """Return sets of variables with just enough free rows, and whether these are all such sets."""
    n = len(free)
    if 2**n - 1 <= 20 * _MAX_STACKS:
        every = (stack for count in range(1, n + 1) for stack in itertools.combinations(range(n), count))
        return [stack for stack in every if _is_smallest_stack(free[list(stack)], needed)], True
    drawn = set()
    for _ in range(_MAX_STACKS):
        order = random.permutation(n)
        end = int(np.searchsorted(np.cumsum(free[order]), needed)) + 1
        drawn.add(tuple(sorted(order[:end].tolist())))
    return sorted(drawn), False


def _is_smallest_stack(free: Ints, needed: int) -> bool:
    """Return whether some rows are enough, and would not be without the fewest."""
    return bool(free.sum() >= needed and (len(free) == 1 or free.sum() - free.min() < needed))


# The sufficiently scattered condition


def sufficiently_scattered(h: Floats, random: np.random.Generator) -> Scattered:
    """Return whether the rows of a nonnegative matrix (rows, rank) are sufficiently scattered.

    Random numbers are used to refute the condition only: whether it is found to hold does not depend on them.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> sufficiently_scattered(np.eye(3), random).status
    'holds'
    >>> sufficiently_scattered(np.array([[0.8, 0.2], [0.2, 0.8]]), random).status
    'fails'
    """
    rank = h.shape[1]
    sums = h.sum(axis=1)
    rows = np.unique(np.round(h[sums > 0] / sums[sums > 0, None], 12), axis=0)
    if rank == 1:
        return Scattered("holds" if len(rows) else "fails")
    if len(rows) < rank or np.linalg.svd(rows, compute_uv=False)[-1] < 1e-9:
        return Scattered("fails", math.inf)
    if separability(rows) < 1e-9:  # one row per component alone: the cone is the whole orthant
        return Scattered("holds")
    vertices = _scattered_vertices(rows) if len(rows) ** ((rank - 1) // 2) <= _MAX_VERTICES else None
    if vertices is not None:
        lengths = np.linalg.norm(vertices, axis=1)
        longest = max(1.0, float(lengths.max())) if len(vertices) else math.inf
        # A point of length one and sum one that is not a unit vector has a negative entry.
        others = (lengths > 1 - _TOLERANCE) & (vertices.min(axis=1) < -1e-6)
        return Scattered("fails" if longest > 1 + _TOLERANCE or others.any() else "holds", longest)
    for _ in range(_N_SEARCHES):
        if (longest := _search_unscattered(rows, np.asarray(random.normal(size=rank)))) > 1 + _TOLERANCE:
            return Scattered("fails", longest, False)
    return Scattered("unknown", 1.0, False)


def _scattered_vertices(rows: Floats) -> Floats | None:
    """Return the vertices of {y : rows · y ≥ 0, Σy = 1}; empty where it is unbounded, None where qhull fails."""
    from scipy.spatial import ConvexHull, QhullError

    rank = rows.shape[1]
    # In the plane Σy = 1, around its middle 1/F: y = 1/F + B·z, and rows · y ≥ 0 reads −rows·B · z ≤ 1/F.
    basis = np.linalg.svd(np.ones((1, rank)))[2][1:].T
    normals = -rows @ basis * rank
    if rank == 2:
        if not ((normals > 0).any() and (normals < 0).any()):
            return np.empty((0, rank))
        ends = [1.0 / normals[normals > 0].max(), 1.0 / normals[normals < 0].min()]
        return np.asarray(1.0 / rank + np.array(ends)[:, None] * basis.T)
    try:
        # The vertices of a polytope around the origin are the facets of the hull of its normals.
        hull = ConvexHull(normals)
    except QhullError:
        return None
    outward, offsets = hull.equations[:, :-1], hull.equations[:, -1]
    if (offsets > -1e-12).any():
        return np.empty((0, rank))
    return np.asarray(1.0 / rank - outward / offsets[:, None] @ basis.T)


def _search_unscattered(rows: Floats, direction: Floats) -> float:
    """Return the length of a point of the dual that is longer than its neighbours, by linear programs uphill."""
    from scipy.optimize import linprog

    rank, length = rows.shape[1], 0.0
    for _ in range(20):
        # rows · y ≥ 0 and Σy = 1
        solved = linprog(-direction, -rows, np.zeros(len(rows)), np.ones((1, rank)), [1.0], (None, None), "highs")
        if solved.status == 3:  # unbounded
            return math.inf
        point = np.asarray(solved.x, dtype=np.float64)
        if solved.status != 0 or np.linalg.norm(point) <= length + 1e-12:
            break
        direction, length = point, float(np.linalg.norm(point))
        if length > 1 + _TOLERANCE:
            break
    return length
