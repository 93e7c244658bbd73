"""The maximum of the likelihood of one hidden variable: many random starts, the best of them followed to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twoway.data.records import Records
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.parallel import map_in_order
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.starts import start_numbers
from twoway.solvers.theta import Theta

# Of more starts than _MANY, this share goes on after some passes; the best few are followed to the very end.
_MANY, _PASSES, _SHARE = 20, 48, 0.4
_PASSES_TO_END, _FEW = 2000, 3
# The rounds of a replicate: the passes of each, and how many starts go on after it.
_ROUNDS = ((24, 13), (24, 6), (200, 3), (2000, 1))
# A climb gains less in each round than in the one before; in all later rounds, at most about this many times as much.
_MOST_TO_COME = 4.0
_MOST_PASSES = 20_000
# The gain per record of a cycle below which a climb has settled, in the heats and of the best start.
_TOL_HEATS, _TOL = 1e-8, 1e-11


@dataclass(frozen=True)
class Climb:
    """Where a climb ended."""

    rank: int
    theta: Theta
    log_likelihood: float = -np.inf
    converged: bool = False

    def pmf(self, schema: Schema) -> JointPMF:
        """Return the model, largest component first."""
        return JointPMF.from_stacked(schema, self.theta[0, : self.rank], self.theta[1:, : self.rank]).sorted_by_weight()


class Search:
    """Climbs on the same records, in several threads."""

    def __init__(self, records: Records, threads: int | None) -> None:
        self.records, self.threads = records, threads
        self._block = records.as_block()
        self.shares = CellSets.of_records(records, 1).shares

    def best(self, rank: int, *, n_starts: int, seed: Sequence[int]) -> Climb:
        """Return the highest climb from random starts.

        Of many starts, those that lag behind after some passes are given up.
        """
        climbs = self._begun(rank, n_starts, seed)
        if len(climbs) > _MANY:
            climbs = self._heat(climbs, _PASSES, _TOL_HEATS)[: max(_MANY, round(_SHARE * len(climbs)))]
        climbs = self._heat(climbs, _PASSES_TO_END, _TOL_HEATS)[:_FEW]
        return self._heat([replace(climb, converged=False) for climb in climbs], _MOST_PASSES, _TOL)[0]

    def best_of_replicate(
        self, rank: int, *, n_starts: int, seed: Sequence[int], first: Theta, enough: float = -np.inf
    ) -> Climb:
        """Return the highest climb from a likely start and from random ones, without its last steps.

        These change the likelihood by less than a thousandth. Starts that lag behind are given up early, and so are all
        if they cannot reach a likelihood that would be enough to matter.
        """
        climbs = self._begun(rank, n_starts, seed, [first])
        reached = -np.inf
        for passes, n_kept in _ROUNDS:
            climbs = self._heat(climbs, passes, _TOL_HEATS)[:n_kept]
            gained, reached = climbs[0].log_likelihood - reached, climbs[0].log_likelihood
            if reached + _MOST_TO_COME * gained < enough:
                break
        return climbs[0]

    def _begun(self, rank: int, n_starts: int, seed: Sequence[int], others: Sequence[Theta] = ()) -> list[Climb]:
        starts = [*others, *self.random_starts(rank, n_starts, seed)] if rank > 1 else self.random_starts(1, 1, seed)
        return [Climb(rank, start) for start in starts]

    def _heat(self, climbs: Sequence[Climb], passes: int, tol: float) -> list[Climb]:
        """Return climbs that went on for some passes, highest first."""

        def go_on(climb: Climb) -> Climb:
            return climb if climb.converged else self.climb(climb.theta, climb.rank, passes, tol)

        ends = map_in_order(climbs, go_on, threads=self.threads)
        return sorted(ends, key=lambda climb: -climb.log_likelihood)

    def climb(self, theta: Theta, rank: int, passes: int = _MOST_PASSES, tol: float = _TOL) -> Climb:
        """Return the end of one climb."""
        from twoway.kernels.climbing import climb
        from twoway.kernels.lanes import lane_layout

        groups, (_, prototype) = self.records.schema.offsets, lane_layout(rank)
        tol *= self.records.total_weight
        end = climb(self._block.compressed, theta, self.shares, groups, rank, passes, tol, prototype)
        return Climb(rank, *end)

    def random_starts(self, rank: int, n_starts: int, seed: Sequence[int]) -> list[Theta]:
        """Return starts of equal weights, with factors drawn around the overall shares by the names of variables."""
        from twoway.kernels.lanes import pad_to_lanes

        schema = self.records.schema
        # One component of many starts is a column; no category is out of reach.
        drawn = start_numbers(schema, n_starts * rank, [*seed, rank]) + 0.05
        factors = normalized_factors(schema, self.shares[:, None] * drawn)
        return [pad_to_lanes(np.full(rank, 1.0 / rank), part) for part in np.split(factors, n_starts, axis=1)]
