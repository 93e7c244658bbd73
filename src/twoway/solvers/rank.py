"""How many components: as many as improve held-out likelihood, or as tables show above sampling error.

Ranks are tried from the smallest up. Each begins where the one below it ended, with its components split, and is raced
against a random start. From records, each fold climbs by itself, because a start that has seen what is held out
predicts it too well. The first fold chooses the smoothing with which a rank is compared; its own two halves choose for
each other, because an amount that was chosen by what it predicts predicts it too well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from twoway.data.records import Records
from twoway.errors import DataError, check_whole_number
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.report import Progress
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import CHOICE_CELLS, HeldOut, held_out_folds, held_out_scores, try_in_order
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.rank_spectrum import VISIBLE, rank_spectrum
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import is_one_component, random_start, start_numbers
from twoway.solvers.theta import theta_of
from twoway.solvers.watch import Watch
from twoway.tables.pair_graph import PairGraph
from twoway.text import aligned_text

_DEFAULT_RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 100)
# Nats per record by which a higher rank must predict better.
_LEAST_GAIN = 1e-4
# Ranks that differ by less than this share need not be distinguished.
_CLOSE = 0.1
# A component needs at least this many records.
_RECORDS_PER_COMPONENT = 10
_N_RANDOM, _N_SPLITS, _FIRST_PASSES = 3, 1, 30
_MOST_PASSES, _MOST_OVER_TABLES = 600, 3000
_TOL = 3e-6
# Tried at each rank, the usual one first; the fit itself chooses its own more finely.
_SMOOTHINGS = (16.0, 4.0, 64.0)
# Splits of the variables, times the cube of their cells.
_SPECTRUM_WORK = 1e9
# Observed cells up to which all folds are held out: ranks differ by less than amounts of smoothing do.
_MANY = 100_000

T = TypeVar("T")
How = Literal["held-out likelihood", "spectrum", "AIC"]


@dataclass(frozen=True, repr=False)
class RankChoice(Shown):
    """The rank that was chosen, and all that were compared."""

    rank: int
    candidates: tuple[Mapping[str, Any], ...]
    """A dictionary for each rank: "rank", "converged"; from records "held_out", the mean log-likelihood of a held-out
    record, "gain" over one component, and "behind" and "standard_error", how far it is behind the best; from tables
    "singular" and "noise", the next singular value and what chance makes of it, and "aic". They are of short fits that
    compare ranks; the report of a fit has its own likelihood, AIC and BIC."""
    how: How = "held-out likelihood"
    held_out: HeldOut | None = field(default=None, compare=False, repr=False)
    """How well the short fit of this rank predicts held-out records; None from tables."""
    pmf: JointPMF | None = field(default=None, compare=False, repr=False)
    """The short fit of this rank."""

    def __str__(self) -> str:
        keys = list(self.candidates[0])
        rows = [keys, *([_rank_cell(candidate[key]) for key in keys] for candidate in self.candidates)]
        return f"rank {self.rank}, by {self.how}\n{aligned_text(rows, align=str.rjust)}"


def _rank_cell(value: object) -> str:
    return "—" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def choose_rank_from(evidence: Evidence, ranks: Iterable[int] | None, *, seed: int, watch: Watch) -> RankChoice:
    """Return the rank to fit: by cross-validation from records, by the spectrum or AIC from tables."""
    asked = sorted({check_whole_number("a rank", rank, 1) for rank in (_DEFAULT_RANKS if ranks is None else ranks)})
    if not asked:
        raise DataError("there must be at least one rank to choose from; got none")
    most = math.inf
    if ranks is None:
        most = max(1.0, evidence.sets.records.total_weight / _RECORDS_PER_COMPONENT)
    # One component is the baseline that all others have to beat.
    tried = sorted({1, *(rank for rank in asked if rank <= most)})
    choose = _rank_from_tables if evidence.records is None else _rank_from_records
    return choose(evidence, tried, None if ranks is None else asked, seed, watch)


def _search_rank(
    ranks: Sequence[int],
    allowed: Sequence[int] | None,
    try_rank: Callable[[int, Mapping[int, T]], tuple[T, bool]],
    best: Callable[[Mapping[int, T]], int],
    watch: Watch,
) -> tuple[int, dict[int, T]]:
    """Return the best rank and all that were tried: until they are not better, then between the best and the one below.

    ``allowed`` says which may be chosen; None allows those between the ones listed, too. ``try_rank`` returns what a
    rank gives, and whether it is better than what was tried before.
    """
    tried: dict[int, T] = {}

    def best_allowed() -> int:
        """Return the best of those that may be chosen; of all that were tried where none may."""
        return best({rank: trial for rank, trial in tried.items() if allowed is None or rank in allowed} or tried)

    def attempt(rank: int) -> bool:
        watch.show(Progress("choosing the rank", len(tried), len(ranks)))
        tried[rank], is_better = try_rank(rank, tried)
        if watch.interrupted:  # which cut the fits short
            raise KeyboardInterrupt
        return is_better

    with watch.guard():
        try_in_order(ranks, attempt)
        while allowed is None:
            high = best_allowed()
            low = max((rank for rank in tried if rank < high), default=high)
            if high - low < max(2.0, _CLOSE * high):
                break
            attempt((low + high) // 2)
    if not tried:
        raise KeyboardInterrupt
    return best_allowed(), tried


class _RankLadder:
    """Fits of ever higher ranks to the same sets, each from the one below."""

    def __init__(self, sets: CellSets, max_iter: int, seed: int, watch: Watch) -> None:
        self.sets, self.max_iter, self.seed, self.watch = sets, max_iter, seed, watch.quiet()
        self.fits: dict[int, JointPMF] = {}

    def fit(self, start: JointPMF, amount: float, max_iter: int | None = None) -> Descent:
        """Return a short fit with an amount of smoothing."""
        loop = Loop("choosing the rank", max_iter or self.max_iter, _TOL, self.watch)
        return fit_cells_by_em(self.sets, start, Smoothing(amount, amount), loop)

    def climb(self, rank: int, *amounts: float) -> list[Descent]:
        """Return the best fit of a rank with each amount of smoothing; starts race with the first one."""
        below = max((known for known in self.fits if known < rank), default=None)
        seeds = [(self.seed, rank, number) for number in range(_N_RANDOM)]
        starts = [random_start(self.sets.schema, rank, self.sets.shares, pair) for pair in seeds]
        if below is not None:
            starts += [_split_to_rank(self.fits[below], rank, (self.seed, rank, number)) for number in range(_N_SPLITS)]
        heats = [self.fit(start, amounts[0], _FIRST_PASSES) for start in starts]
        best = min(heats, key=lambda heat: heat.objective).pmf
        descents = [self.fit(best, amount) for amount in amounts]
        self.fits[rank] = descents[0].pmf
        return descents


def _split_to_rank(pmf: JointPMF, rank: int, seeds: tuple[int, ...]) -> JointPMF:
    """Return a start of a higher rank: components drawn by their weights, each in two parts that differ a little."""
    random = np.random.default_rng(seeds)
    weights, stacked = pmf.weights.copy(), pmf.stacked.copy()
    while len(weights) < rank:
        chosen = int(random.choice(len(weights), p=weights / weights.sum()))
        drawn = start_numbers(pmf.schema, 2, (*seeds, len(weights))) + 0.3
        parts = normalized_factors(pmf.schema, stacked[:, [chosen]] * drawn)
        stacked[:, chosen] = parts[:, 0]
        stacked = np.column_stack([stacked, parts[:, 1]])
        weights[chosen] /= 2.0
        weights = np.append(weights, weights[chosen])
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), stacked)


# From records


@dataclass(frozen=True)
class _RankTrial:
    """How well a rank predicts held-out records, with which smoothing, and whether its fits converged."""

    held_out: HeldOut
    amount: float
    converged: bool


def _rank_from_records(
    evidence: Evidence, ranks: Sequence[int], allowed: Sequence[int] | None, seed: int, watch: Watch
) -> RankChoice:
    sets, sample = evidence.sets, evidence.sample(CHOICE_CELLS, seed=seed)
    folds = held_out_folds(sample, seed=seed, many=_MANY)
    if not folds:
        least = min(allowed or [1])
        return RankChoice(least, ({"rank": least, "held_out": None},))
    ladders = [_RankLadder(replace(sets, records=train), _MOST_PASSES, seed, watch) for train, _ in folds]

    def score(fit: Descent, held: Records) -> HeldOut:
        return held_out_scores(fit.pmf, held, evidence.threads)

    def try_rank(rank: int, tried: Mapping[int, _RankTrial]) -> tuple[_RankTrial, bool]:
        descents = ladders[0].climb(rank, *_SMOOTHINGS)
        best, of_first = _rank_scores_in_halves([score(descent, folds[0][1]) for descent in descents])
        amount, first = _SMOOTHINGS[best], descents[best]
        ladders[0].fits[rank] = first.pmf
        others = [ladder.climb(rank, amount)[0] for ladder in ladders[1:]]
        of_others = [score(fit, held) for fit, (_, held) in zip(others, folds[1:], strict=True)]
        held_out, fits = HeldOut.of_folds([of_first, *of_others]), [first, *others]
        if tried and all(is_one_component(fit.pmf) for fit in fits):  # this is rank 1, with more smoothing
            held_out = tried[1].held_out
        gain, error = _peak_rank(tried).held_out.behind(held_out) if tried else (math.inf, 0.0)
        return _RankTrial(held_out, amount, all(fit.converged for fit in fits)), gain > max(error, _LEAST_GAIN)

    chosen, tried = _search_rank(ranks, allowed, try_rank, _rank_of_records, watch)
    peak, baseline = _peak_rank(tried).held_out, tried[min(tried)].held_out
    candidates = []
    for rank, trial in sorted(tried.items()):
        behind, error = trial.held_out.behind(peak)
        candidates.append(
            {
                "rank": rank,
                "held_out": trial.held_out.mean,
                "gain": trial.held_out.mean - baseline.mean,
                "behind": behind,
                "standard_error": error,
                "smoothing": trial.amount,
                "converged": trial.converged,
            }
        )
    whole = _RankLadder(replace(sets, records=sample), _MOST_PASSES, seed, watch)
    pmf = whole.fit(ladders[0].fits[chosen], tried[chosen].amount).pmf
    return RankChoice(chosen, tuple(candidates), held_out=tried[chosen].held_out, pmf=pmf)


def _rank_scores_in_halves(fits: Sequence[HeldOut]) -> tuple[int, HeldOut]:
    """Return which of several fits predicts best what was held out, and its scores without that choice.

    They are those of the fit that predicts the other half of it best.
    """
    scores, weights = np.array([fit.scores for fit in fits]), fits[0].weights
    is_even = np.arange(len(weights)) % 2 == 0
    by_even, by_odd = (int(np.argmax(scores @ (weights * half))) for half in (is_even, ~is_even))
    return int(np.argmax(scores @ weights)), HeldOut(np.where(is_even, scores[by_odd], scores[by_even]), weights)


def _peak_rank(tried: Mapping[int, _RankTrial]) -> _RankTrial:
    """Return the rank that predicts best."""
    return max(tried.values(), key=lambda trial: trial.held_out.mean)


def _rank_of_records(eligible: Mapping[int, _RankTrial]) -> int:
    """Return the smallest rank that is within a standard error of the best."""
    peak = _peak_rank(eligible).held_out

    def is_good(trial: _RankTrial) -> bool:
        behind, error = trial.held_out.behind(peak)
        return behind <= max(error, _LEAST_GAIN)

    return min(rank for rank, trial in eligible.items() if is_good(trial))


# From tables


def _rank_from_tables(
    evidence: Evidence, ranks: Sequence[int], allowed: Sequence[int] | None, seed: int, watch: Watch
) -> RankChoice:
    tables, sets = evidence.tables(evidence.given_order), evidence.sets
    ladder = _RankLadder(sets, _MOST_OVER_TABLES, seed, watch)
    graph = PairGraph.of(tables) if tables.order == 2 else None
    # Each person is counted in this many tables, on average.
    copies = float(sets.copies.mean())
    n_splits = max(1, int(_SPECTRUM_WORK / tables.schema.n_categories**3))

    def try_rank(rank: int, tried: Mapping[int, dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        (descent,) = ladder.climb(rank, 1.0)
        trial: dict[str, Any] = {"rank": rank, "singular": None, "noise": None, "converged": descent.converged}
        log_likelihood = sets.expected(theta_of(descent.pmf), rank).log_likelihood / copies
        trial["aic"] = 2.0 * descent.pmf.n_parameters - 2.0 * log_likelihood
        splits = [] if graph is None else graph.splits(rank + 2, np.random.default_rng(seed))
        if splits:
            spectrum = rank_spectrum(tables, descent.pmf, splits[:n_splits], None, seed)
            trial |= {"singular": spectrum.singular[rank], "noise": spectrum.noise}
        has_least_aic = all(trial["aic"] < other["aic"] for other in tried.values())
        return trial, _shows_higher_rank(trial) if splits else has_least_aic

    chosen, tried = _search_rank(ranks, allowed, try_rank, _rank_of_tables, watch)
    how: How = "AIC" if tried[chosen]["singular"] is None else "spectrum"
    return RankChoice(chosen, tuple(tried[rank] for rank in sorted(tried)), how, pmf=ladder.fits[chosen])


def _shows_higher_rank(trial: Mapping[str, Any]) -> bool:
    """Return whether tables show a component beyond a rank."""
    return trial["singular"] is not None and trial["singular"] > VISIBLE * trial["noise"]


def _rank_of_tables(eligible: Mapping[int, Mapping[str, Any]]) -> int:
    """Return the smallest rank beyond which tables show nothing; that of the least AIC where they cannot show it."""
    open_ranks = [rank for rank, trial in sorted(eligible.items()) if not _shows_higher_rank(trial)] or [max(eligible)]
    if eligible[open_ranks[0]]["singular"] is not None:
        return open_ranks[0]
    return min(open_ranks, key=lambda rank: float(eligible[rank]["aic"]))
