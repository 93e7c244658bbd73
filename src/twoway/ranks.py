"""How many components: chosen by the likelihood of what was held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.errors import DataError, whole_number
from twoway.records import Records
from twoway.report import Progress
from twoway.solvers.base import Evidence, Smoothing, Watch
from twoway.solvers.cells import CellSets
from twoway.solvers.latent import fit_cells
from twoway.solvers.starts import random_start

_DEFAULT_RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 100)
# The search ends after so many ranks in a row that predict no better than the best one.
_PATIENCE = 2
# Nats a record by which a higher rank must predict better.
_LEAST_GAIN = 3e-4
# A component needs at least so many records to stand on.
_RECORDS_A_COMPONENT = 10
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
    asked = sorted({whole_number("a rank", rank, 1) for rank in (_DEFAULT_RANKS if ranks is None else ranks)})
    if not asked:
        raise DataError("there must be at least one rank to choose from; got none")
    if ranks is None:
        most = max(1.0, evidence.sets.records.total_weight / evidence.unit / _RECORDS_A_COMPONENT)
        asked = [rank for rank in asked if rank <= most]
    sets = evidence.sets
    whole = evidence.sample(_CELLS, seed)
    folds = whole.folds(5, seed)
    # On many records few folds tell ranks apart.
    if whole.n_observed > _CELLS // 5:
        folds = folds[:2]
    candidates: list[dict[str, Any]] = []
    with watch.guard():
        for rank in asked if folds else asked[:1]:
            watch.tell(Progress("choosing the rank", len(candidates), len(asked)))
            scores = [_held_out(sets.with_records(train), held, rank, seed, watch) for train, held in folds]
            if watch.interrupted:  # and the fits cut short
                break
            candidates.append({"rank": rank, "held_out": float(np.mean(scores)) if scores else None})
            if len(candidates) - 1 - _best(candidates) >= _PATIENCE:
                break
    if not candidates:
        raise KeyboardInterrupt
    return RankChoice(candidates[_best(candidates)]["rank"], tuple(candidates))


def _best(candidates: list[dict[str, Any]]) -> int:
    """Return the position of the rank that predicts best; a higher one must be better by more than nothing."""
    best = 0
    for place, candidate in enumerate(candidates):
        if place and candidate["held_out"] > candidates[best]["held_out"] + _LEAST_GAIN:
            best = place
    return best


def _held_out(train: CellSets, held: Records, rank: int, seed: int, watch: Watch) -> float:
    """Return the mean log-likelihood of held-out records under the best of a few fits to the others."""
    fits = [
        fit_cells(
            train,
            random_start(train.schema, rank, train.shares, (seed, start)),
            smoothing=_SMOOTHING,
            max_iter=150,
            tol=1e-6,
            task="choosing the rank",
            watch=watch.quiet(),
        )
        for start in range(1 if rank == 1 else _N_STARTS)
    ]
    pmf, _ = min(fits, key=lambda fit: fit[1].objectives[-1])
    return float(np.average(pmf.log_prob(held), weights=held.weights))
