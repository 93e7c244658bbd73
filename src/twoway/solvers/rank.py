"""How many components: as many as pay on what was held out, or as tables show above sampling error.

Ranks are tried from the smallest up. Each begins where the one below it ended, with its components split, and is raced
against a random start; folds begin where the whole ended. So a rank costs a few short fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.errors import DataError, whole_number
from twoway.model.pmf import JointPMF
from twoway.report import Progress, StopReason
from twoway.schema import Schema
from twoway.solvers.base import Evidence, Smoothing, Watch
from twoway.solvers.cells import CellSets, expected_counts
from twoway.solvers.latent import fit_cells
from twoway.solvers.spectrum import CLEAR, spectrum
from twoway.solvers.starts import normalized, random_start
from twoway.tables.pair_graph import PairGraph

_DEFAULT_RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 100)
# The search ends after so many ranks in a row that do not pay.
_PATIENCE = 2
# Nats a record by which a higher rank must predict better.
_LEAST_GAIN = 1e-4
# A component needs at least so many records to stand on.
_RECORDS_A_COMPONENT = 10
_N_SPLITS, _FIRST_PASSES = 2, 30
_MOST_PASSES, _MOST_OVER_TABLES = 600, 3000
_TOL = 1e-6
# Enough for the comparison; the fit itself chooses its own.
_SMOOTHING = Smoothing(4.0, 4.0)
_CELLS = 300_000
# Splits of the variables, times the cube of their cells.
_SPECTRUM_WORK = 1e9
_FOLDS, _FOLDS_OF_MANY, _MANY = 5, 3, 100_000

T = TypeVar("T")
How = Literal["held-out likelihood", "spectrum", "AIC"]


@dataclass(frozen=True)
class RankChoice:
    """The rank that was chosen, and all that were compared."""

    rank: int
    candidates: tuple[Mapping[str, Any], ...]
    """A dictionary for each rank: "rank", "converged"; from records "held_out", the mean log-likelihood of a held-out
    record, "gain" over one component, and "behind" and "standard_error", how far it is behind the best; from tables
    "singular" and "noise", the next singular value and what chance makes of it, and "aic". They are of short fits that
    compare ranks; the report of a fit has its own likelihood, AIC and BIC."""
    how: How = "held-out likelihood"

    def __str__(self) -> str:
        keys = list(self.candidates[0])
        rows = [keys, *([_shown(one[key]) for key in keys] for one in self.candidates)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(keys))]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([f"rank {self.rank}, by {self.how}", *lines])


def _shown(value: object) -> str:
    return "—" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def choose_rank_from(evidence: Evidence, ranks: Iterable[int] | None, *, seed: int, watch: Watch) -> RankChoice:
    """Return the rank to fit: by cross-validation from records, by the spectrum or AIC from tables."""
    asked = sorted({whole_number("a rank", rank, 1) for rank in (_DEFAULT_RANKS if ranks is None else ranks)})
    if not asked:
        raise DataError("there must be at least one rank to choose from; got none")
    most = math.inf
    if ranks is None:
        most = max(1.0, evidence.sets.records.total_weight / _RECORDS_A_COMPONENT)
    # One component is the baseline that all others have to beat.
    tried = sorted({1, *(rank for rank in asked if rank <= most)})
    search = _Search(tried, None if ranks is None else frozenset(asked))
    if evidence.records is None:
        return _from_tables(evidence, search, seed, watch)
    return _from_records(evidence, search, seed, watch)


@dataclass(frozen=True)
class _Search:
    """Which ranks are tried, and which may be chosen."""

    ranks: list[int]
    allowed: frozenset[int] | None
    """None allows every rank, those between the ones listed too."""

    def eligible(self, tried: Mapping[int, T]) -> Mapping[int, T]:
        """Return what may be chosen of what was tried; all of it where nothing may."""
        return {rank: one for rank, one in tried.items() if self.allowed is None or rank in self.allowed} or tried

    def run(self, try_rank: Callable[[int], bool], best: Callable[[], int], watch: Watch) -> None:
        """Try ranks until they stop paying, then the ones beside the best."""
        unpaid, tried = 0, set[int]()

        def attempt(rank: int) -> bool:
            watch.tell(Progress("choosing the rank", len(tried), len(self.ranks)))
            pays = try_rank(rank)
            if watch.interrupted:  # and the fits cut short
                raise KeyboardInterrupt
            tried.add(rank)
            return pays

        with watch.guard():
            for rank in self.ranks:
                unpaid = 0 if attempt(rank) else unpaid + 1
                if unpaid >= _PATIENCE:
                    break
            while self.allowed is None:
                beside = [rank for rank in (best() - 1, best() + 1) if rank >= 1 and rank not in tried]
                beside = [rank for rank in beside if rank < max(tried)]
                if not beside:
                    break
                attempt(beside[0])


class _Ladder:
    """Fits of ever higher ranks to the same sets, each from the one below."""

    def __init__(self, sets: CellSets, smoothing: Smoothing, passes: int, seed: int, watch: Watch) -> None:
        self.sets, self.smoothing, self.passes, self.seed, self.watch = sets, smoothing, passes, seed, watch
        self.fits: dict[int, JointPMF] = {}

    def fit(self, sets: CellSets, start: JointPMF, passes: int | None = None) -> tuple[JointPMF, float, bool]:
        """Return a fit, its objective, and whether it had converged."""
        pmf, path = fit_cells(
            sets,
            start,
            smoothing=self.smoothing,
            max_iter=passes or self.passes,
            tol=_TOL,
            task="choosing the rank",
            watch=self.watch.quiet(),
        )
        return pmf, path.objectives[-1], path.stop_reason is StopReason.CONVERGED

    def climb(self, rank: int) -> tuple[JointPMF, bool]:
        """Return the best fit of a rank, and whether it had converged."""
        schema, shares = self.sets.schema, self.sets.shares
        below = max((known for known in self.fits if known < rank), default=None)
        starts = [random_start(schema, rank, shares, (self.seed, rank))]
        if below is not None:
            starts += [_split(self.fits[below], rank, (self.seed, rank, number)) for number in range(_N_SPLITS)]
        heats = [self.fit(self.sets, start, _FIRST_PASSES) for start in starts]
        best = min(heats, key=lambda heat: heat[1])
        pmf, _, converged = self.fit(self.sets, best[0])
        self.fits[rank] = pmf
        return pmf, converged


def _split(pmf: JointPMF, rank: int, seeds: tuple[int, ...]) -> JointPMF:
    """Return a start of a higher rank: components drawn by their weights, each in two parts that differ a little."""
    random = np.random.default_rng(seeds)
    weights, stacked = pmf.weights.copy(), pmf.stacked.copy()
    while len(weights) < rank:
        chosen = int(random.choice(len(weights), p=weights / weights.sum()))
        drawn = random.exponential(size=(len(stacked), 2)) + 0.3
        parts = normalized(pmf.schema, stacked[:, [chosen]] * drawn)
        stacked[:, chosen] = parts[:, 0]
        stacked = np.column_stack([stacked, parts[:, 1]])
        weights[chosen] /= 2.0
        weights = np.append(weights, weights[chosen])
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), stacked)


def n_parameters(schema: Schema, rank: int) -> int:
    """Return how many numbers of a model are free."""
    return rank - 1 + rank * (schema.n_categories - len(schema))


# From records


@dataclass
class _HeldOut:
    """How well one rank predicts each held-out record."""

    rank: int
    scores: Floats
    weights: Floats
    converged: bool

    @property
    def mean(self) -> float:
        return float(np.average(self.scores, weights=self.weights))

    def behind(self, other: _HeldOut) -> tuple[float, float]:
        """Return by how much another rank predicts better, and the standard error of that."""
        gaps = other.scores - self.scores
        mean = float(np.average(gaps, weights=self.weights))
        variance = float(np.average(np.square(gaps - mean), weights=self.weights))
        return mean, math.sqrt(variance / float(self.weights.sum()))


def _from_records(evidence: Evidence, search: _Search, seed: int, watch: Watch) -> RankChoice:
    sets, sample = evidence.sets, evidence.sample(_CELLS, seed=seed)
    folds = sample.folds(_FOLDS, seed=seed)
    if sample.n_observed > _MANY:
        folds = folds[:_FOLDS_OF_MANY]
    ladder = _Ladder(sets.with_records(sample), _SMOOTHING, _MOST_PASSES, seed, watch)
    tried: dict[int, _HeldOut] = {}
    if not folds:
        least = min(search.allowed or {1})
        return RankChoice(least, ({"rank": least, "held_out": None},))

    def try_rank(rank: int) -> bool:
        whole, converged = ladder.climb(rank)
        scores, weights = [], []
        for train, held in folds:
            pmf, _, settled = ladder.fit(sets.with_records(train), whole)
            converged &= settled
            held_weights = np.ones(held.n_records) if held.weights is None else held.weights
            there = held_weights > 0
            scores.append(pmf.log_prob(held)[there])
            weights.append(held_weights[there])
        found = _HeldOut(rank, np.concatenate(scores), np.concatenate(weights), converged)
        before = _peak(tried)
        tried[rank] = found
        if before is None:
            return True
        gain, error = before.behind(found)
        return gain > max(error, _LEAST_GAIN)

    search.run(try_rank, lambda: _chosen(search.eligible(tried)), watch)
    if not tried:
        raise KeyboardInterrupt
    peak = _peak(tried)
    assert peak is not None
    candidates = []
    for rank in sorted(tried):
        behind, error = tried[rank].behind(peak)
        candidates.append(
            {
                "rank": rank,
                "held_out": tried[rank].mean,
                "gain": tried[rank].mean - tried[min(tried)].mean,
                "behind": behind,
                "standard_error": error,
                "converged": tried[rank].converged,
            }
        )
    return RankChoice(_chosen(search.eligible(tried)), tuple(candidates))


def _peak(tried: Mapping[int, _HeldOut]) -> _HeldOut | None:
    """Return the converged rank that predicts best, or the best of all where none has converged."""
    fair = [one for one in tried.values() if one.converged] or list(tried.values())
    return max(fair, key=lambda one: one.mean, default=None)


def _chosen(eligible: Mapping[int, _HeldOut]) -> int:
    """Return the smallest rank that is within a standard error of the best."""
    peak = _peak(eligible)
    assert peak is not None
    for rank in sorted(eligible):
        behind, error = eligible[rank].behind(peak)
        if eligible[rank].converged and behind <= max(error, _LEAST_GAIN):
            return rank
    return peak.rank


def _log_likelihood(records: Records, pmf: JointPMF, threads: int | None) -> float:
    from twoway.kernels.expectation import pack

    return expected_counts(records, pack(pmf.weights, pmf.stacked), pmf.rank, threads).log_likelihood


# From tables


def _from_tables(evidence: Evidence, search: _Search, seed: int, watch: Watch) -> RankChoice:
    tables = evidence.tables(evidence.given_order)
    ladder = _Ladder(evidence.sets, Smoothing(1.0, 1.0), _MOST_OVER_TABLES, seed, watch)
    graph = PairGraph.of(tables) if tables.order == 2 else None
    # Each person stands in many tables: so often too much is counted.
    copies = float(evidence.sets.copies.mean())
    n_splits = max(1, int(_SPECTRUM_WORK / tables.schema.n_categories**3))
    found: dict[int, dict[str, Any]] = {}

    def try_rank(rank: int) -> bool:
        pmf, converged = ladder.climb(rank)
        log_likelihood = _log_likelihood(tables.as_records(), pmf, evidence.threads) / copies
        one: dict[str, Any] = {"rank": rank, "singular": None, "noise": None, "converged": converged}
        one["aic"] = 2.0 * n_parameters(tables.schema, rank) - 2.0 * log_likelihood
        splits = graph.splits(rank + 2, np.random.default_rng(seed)) if graph is not None else []
        if splits:
            shown = spectrum(tables, pmf, splits[:n_splits], None, seed)
            one |= {"singular": shown.singular[rank], "noise": shown.noise}
        better = not found or one["aic"] < min(known["aic"] for known in found.values())
        found[rank] = one
        return _goes_on(one) if splits else better

    search.run(try_rank, lambda: _rank_of_tables(search.eligible(found))[0], watch)
    if not found:
        raise KeyboardInterrupt
    rank, how = _rank_of_tables(search.eligible(found))
    return RankChoice(rank, tuple(found[one] for one in sorted(found)), how)


def _goes_on(candidate: Mapping[str, Any]) -> bool:
    """Return whether tables show a component beyond a rank."""
    return candidate["singular"] is not None and candidate["singular"] > CLEAR * candidate["noise"]


def _rank_of_tables(eligible: Mapping[int, Mapping[str, Any]]) -> tuple[int, How]:
    """Return the smallest rank beyond which tables show nothing, or that of the least AIC."""
    listed = [eligible[rank] for rank in sorted(eligible)]
    fair = [one for one in listed if one["converged"]] or listed
    for one in fair:
        if one["singular"] is not None and not _goes_on(one):
            return int(one["rank"]), "spectrum"
    return int(min(fair, key=lambda one: float(one["aic"]))["rank"]), "AIC"
