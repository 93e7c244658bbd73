"""How many components: chosen by the likelihood of what was held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.errors import DataError
from twoway.report import Progress
from twoway.solvers.base import Evidence, Smoothing, Watch
from twoway.solvers.latent import fit_cells
from twoway.solvers.starts import random_start

_DEFAULT_RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 100)
# The search ends after so many ranks in a row that predict no better than the best one.
_PATIENCE = 2
_N_STARTS = 3
# Enough for the comparison; the fit itself chooses its own.
_SMOOTHING = Smoothing(4.0, 4.0)
_CELLS = 500_000


@dataclass(frozen=True)
class RankChoice:
    """The rank that predicts best, and all that were compared."""

    rank: int
    candidates: tuple[Mapping[str, Any], ...]
    """A dictionary for each rank: "rank" and "held_out", the mean log-likelihood of a held-out record."""


def choose_rank_from(evidence: Evidence, ranks: Iterable[int] | None, *, seed: int, watch: Watch) -> RankChoice:
    """Return the rank under which held-out records, or counts of held-out table cells, are most probable."""
    asked = sorted(set(_DEFAULT_RANKS if ranks is None else ranks))
    if not asked or any(not isinstance(rank, int | np.integer) or rank < 1 for rank in asked):
        raise DataError(f"ranks must be whole numbers of at least 1; got {asked!r}")
    sets = evidence.sets
    whole = evidence.sample(_CELLS, seed)
    folds = whole.folds(5, seed)
    # On many records few folds tell ranks apart.
    if whole.n_observed > _CELLS // 5:
        folds = folds[:2]
    candidates: list[Mapping[str, Any]] = []
    best, since_best = 0, 0
    for place, rank in enumerate(asked):
        watch.tell(Progress("choosing the rank", place, len(asked)))
        scores = []
        for number, (train, held) in enumerate(folds):
            part = sets.with_records(train)
            fits = [
                fit_cells(
                    part,
                    random_start(part.schema, rank, part.shares, np.random.default_rng([seed, number, start])),
                    smoothing=_SMOOTHING,
                    max_iter=150,
                    tol=1e-6,
                    task="choosing the rank",
                    watch=watch.quiet(),
                )
                for start in range(1 if rank == 1 else _N_STARTS)
            ]
            pmf, _ = min(fits, key=lambda fit: fit[1].objectives[-1])
            scores.append(np.average(pmf.log_prob(held), weights=held.weights))
        candidates.append({"rank": int(rank), "held_out": float(np.mean(scores))})
        if candidates[-1]["held_out"] > candidates[best]["held_out"]:
            best, since_best = place, 0
        elif place:
            since_best += 1
        if since_best >= _PATIENCE or watch.interrupted:
            break
    return RankChoice(candidates[best]["rank"], tuple(candidates))
