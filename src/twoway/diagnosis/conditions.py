"""The conditions of the paper's Theorem 2, each checked on a model and the available tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.diagnosis.bounds import separability
from twoway.diagnosis.scattered import Scattered, Status, sufficiently_scattered
from twoway.model.pmf import JointPMF
from twoway.tables.pair_graph import PairGraph, Split
from twoway.text import shortlist

_MAX_STACKS = 200
_NO_RANK = 1e-9
# Exponents of the weights in the first group; the second gets the rest. The condition needs to hold for one of them.
_WEIGHT_EXPONENTS = (0.5, 0.0, 1.0)
_HAS_SPLIT = "(ii) a split with all its tables"
_SCATTERED = "(i) sufficiently scattered on both sides"


@dataclass(frozen=True)
class Check:
    """One condition, and whether it holds, fails or is unknown."""

    name: str
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.status:<7} {self.name}: {self.detail}"


@dataclass(frozen=True)
class SplitConditions:
    """What holds for a split of the variables into two groups."""

    split: Split
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
        yield Check(_HAS_SPLIT, "holds", f"{n_first} variables against {n_second}, both sides can have rank {rank}")
        numbers = " and ".join(f"{number:.3g}" for number in self.condition_numbers)
        yield Check("full column rank on both sides", _status(self.has_full_rank), f"condition numbers {numbers}")
        detail = ", ".join(
            f"{part.status}{'' if part.is_exact else ' (by search)'}, dual length {part.longest:.4g}"
            for part in self.scattered
        )
        yield Check(_SCATTERED, self.scattered_status, detail)
        outside = shortlist([names[index] for index in self.outside], 6)
        detail = f"not {outside}" if outside else "each shares enough tables with them"
        yield Check("(iv) every other variable is tied to the groups", _status(not outside), detail)


def check_conditions(
    pmf: JointPMF, graph: PairGraph, zero: float, random: np.random.Generator
) -> tuple[tuple[Check, ...], SplitConditions | None, bool]:
    """Return the conditions of Theorem 2, the best split, if any, and whether the theorem or its extension holds.

    Entries of factors below ``zero`` count as 0.
    """
    stacked = np.where(pmf.stacked < zero, 0.0, pmf.stacked)
    best = _best_split(pmf, stacked, graph, random)
    smallest = pmf.weights.min()
    checks = [Check("every component has weight", _status(smallest > 0), f"the smallest weight is {smallest:.3g}")]
    if best is not None:
        checks += best.checks(pmf.schema.names, pmf.rank)
    else:
        reason = graph.why_no_split(pmf.rank)
        detail = reason or f"none was found in which both groups have {pmf.rank} independent rows"
        checks.append(Check(_HAS_SPLIT, "unknown" if reason is None else "fails", detail))
        checks.append(Check(_SCATTERED, "unknown", "there is no split to check"))
    checks.append(check_stacks(pmf, random))
    is_proven = best is not None and (
        best.is_proof
        or (
            has_three_groups(pmf, graph)
            and sufficiently_scattered(stacked * np.sqrt(pmf.weights), np.random.default_rng(0)).status == "holds"
        )
    )
    return tuple(checks), best, is_proven


def _status(holds: bool) -> Status:
    return "holds" if holds else "fails"


def _best_split(
    pmf: JointPMF, stacked: Floats, graph: PairGraph, random: np.random.Generator
) -> SplitConditions | None:
    """Return the first split that proves Theorem 2, else the one whose stacks are conditioned best."""
    checked = []
    for split in graph.splits(pmf.rank, random)[: 24 if pmf.rank <= 6 else 2]:
        checked.append(_check_split(pmf, stacked, graph, split, random))
        if checked[-1].is_proof:
            return checked[-1]
    return min(checked, key=lambda part: (len(part.outside), max(part.condition_numbers)), default=None)


def _check_split(
    pmf: JointPMF, stacked: Floats, graph: PairGraph, split: Split, random: np.random.Generator
) -> SplitConditions:
    """Return what holds for a split: ranks, separability, scatter, and which variables are left out."""
    w, h = (stacked[np.repeat(side, pmf.schema.sizes)] for side in (split.first, split.second))
    tried = (
        (
            sufficiently_scattered(w * pmf.weights**exponent, random),
            sufficiently_scattered(h * pmf.weights ** (1 - exponent), random),
        )
        for exponent in _WEIGHT_EXPONENTS
    )
    first = next(tried)
    both_hold = (pair for pair in itertools.chain([first], tried) if all(part.status == "holds" for part in pair))
    return SplitConditions(
        split,
        (condition_number(w), condition_number(h)),
        (separability(w), separability(h * pmf.weights)),
        next(both_hold, first),
        _left_out(pmf, graph, split),
    )


def condition_number(stack: Floats) -> float:
    """Return the condition number of a stack of factors (rows, rank), infinite where it lacks full column rank."""
    if len(stack) < stack.shape[1]:
        return math.inf
    singular = np.linalg.svd(stack, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > _NO_RANK * singular[0] else math.inf


def _has_full_rank(pmf: JointPMF, variables: Bools) -> bool:
    """Return whether the stacked factors of some variables, marked in (n_variables,), have full column rank."""
    return math.isfinite(condition_number(pmf.stacked[np.repeat(variables, pmf.schema.sizes)]))


def _left_out(pmf: JointPMF, graph: PairGraph, split: Split) -> list[int]:
    """Return the variables with too few tables with known variables, once all that can be reached are known."""
    known: Bools = split.first | split.second
    while True:
        unknown = np.flatnonzero(~known).tolist()
        reached = [index for index in unknown if _has_full_rank(pmf, graph.available[index] & known)]
        if not reached:
            return unknown
        known = known.copy()
        known[reached] = True


def has_three_groups(pmf: JointPMF, graph: PairGraph) -> bool:
    """Return whether three groups of variables, with all tables between them, each have full column rank.

    Then two models with the same tables differ by a rotation alone (docs/theory.md), and it is enough that the factors
    of all variables together are scattered.
    """
    if not graph.is_complete:
        return False
    totals, groups = [0, 0, 0], np.zeros(graph.n_variables, dtype=np.int64)
    for variable in np.argsort(-graph.sizes, kind="stable"):
        group = int(np.argmin(totals))
        groups[variable] = group
        totals[group] += int(graph.sizes[variable])
    return all(_has_full_rank(pmf, groups == group) for group in range(3))


def check_stacks(pmf: JointPMF, random: np.random.Generator) -> Check:
    """Return condition (iii): every stack of factors that can have full column rank has it.

    The paper asks it of every stack of F rows. Each factor's rows add up to the same row of ones, so a stack of T
    factors has T − 1 rows fewer that count, and with no more than F rows it never has full column rank.
    """
    name = "(iii) every stack of factors with F independent rows has full column rank"
    free, rank = np.array(pmf.schema.sizes) - 1, pmf.rank
    if 1 + free.sum() < rank:
        return Check(name, "fails", f"all factors together have {1 + free.sum()}, fewer than the rank {rank}")
    stacks, is_all = _stacks(free, rank - 1, random)
    for stack in stacks:
        if not _has_full_rank(pmf, np.isin(np.arange(len(free)), stack)):
            return Check(name, "fails", f"not that of {shortlist([pmf.schema.names[index] for index in stack], 6)}")
    if is_all:
        return Check(name, "holds", f"all {len(stacks)} smallest stacks do")
    return Check(name, "unknown", f"{len(stacks)} random stacks do; there are more")


def _stacks(free: Ints, needed: int, random: np.random.Generator) -> tuple[list[tuple[int, ...]], bool]:
    """Return sets of variables with just enough free rows, and whether these are all such sets."""
    n = len(free)
    if 2**n - 1 <= 20 * _MAX_STACKS:
        every = (stack for count in range(1, n + 1) for stack in itertools.combinations(range(n), count))
        return [stack for stack in every if _is_smallest(free[list(stack)], needed)], True
    drawn = set()
    for _ in range(_MAX_STACKS):
        order = random.permutation(n)
        end = int(np.searchsorted(np.cumsum(free[order]), needed)) + 1
        drawn.add(tuple(sorted(order[:end].tolist())))
    return sorted(drawn), False


def _is_smallest(free: Ints, needed: int) -> bool:
    """Return whether some rows are enough, and would not be without the fewest."""
    return bool(free.sum() >= needed and (len(free) == 1 or free.sum() - free.min() < needed))
