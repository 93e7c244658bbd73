"""Weights of persons by which their tables agree with published ones.

Iterative proportional fitting of the weights of draws (raking; Deming and Stephan, 1940; Deville, Särndal and Sautory,
1993). Tables that contradict each other have no such weights, and fitting one after the other goes round in circles.
The steps then get shorter and shorter, which leads to a compromise between all tables, each by its weight (strong
underrelaxation, as Censor, Eggermont and Gordon, 1983, show for linear equations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.kernels.raking import rake
from twoway.solvers.watch import Watch
from twoway.synthesis.targets import Codes, Target

# Weights agree with a table if no cell is off by more than this share of all persons.
_TOLERANCE = 1e-6
# The fewest and the most passes; between them, as many as take so many steps of one person and one table.
_PASSES, _MOST_STEPS = (100, 4000), 1.2e9
# Tables contradict each other if so many passes make the difference hardly smaller. Where tables have zeros, raking may
# be as slow as one over the number of passes.
_PASSES_TO_GAIN, _GAIN = 20, 0.98
# The shortest step, and for how many passes each length is used.
_SHORTEST_STEP, _PASSES_PER_STEP = 0.02, 6


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all targets one after the other, and the one of each that each person is in."""

    of_person: NDArray[np.int32]
    """The number of the cell, shape (n_targets, n_persons); the number of all cells for none."""
    low: Floats
    high: Floats
    blocks: Ints
    """The number of the group of each cell whose sum is not known, -1 for none; shape (n_cells,)."""
    totals: Floats
    """The sum of each of these groups by which ``low`` and ``high`` are given; shape (n_blocks,)."""
    starts: Ints
    """The first cell of each target, and the number of all cells; shape (n_targets + 1,)."""

    @classmethod
    def of(cls, targets: Sequence[Target], codes: Codes) -> Cells:
        """Return the cells of some targets, and of persons by their codes, (n_variables, n_persons)."""
        starts = np.cumsum([0, *(len(target.low) for target in targets)])
        of_person = np.empty((len(targets), codes.shape[1]), dtype=np.int32)
        for row, start, target in zip(of_person, starts, targets, strict=False):
            own = target.cells(codes)
            row[:] = np.where(own < 0, starts[-1], own + start)
        low, high = (np.concatenate([[], *(getattr(target, end) for target in targets)]) for end in ("low", "high"))
        blocks, n_blocks = np.full(len(low), -1), 0
        for start, target in zip(starts, targets, strict=False):
            if target.blocks is not None:
                blocks[start : start + len(target.low)] = n_blocks + target.blocks
                n_blocks += int(target.blocks.max()) + 1
        totals = np.bincount(blocks[blocks >= 0], ((low + high) / 2)[blocks >= 0], n_blocks)
        return cls(of_person, low, high, blocks, np.maximum(totals, 1e-300), starts)

    def settled(self, weights: Floats) -> Cells:
        """Return the cells with the sums that groups of unknown sums have by the weights, so that all are known."""
        is_open = self.blocks >= 0
        own = self.blocks[is_open]
        now = np.bincount(own, self.sums(weights)[is_open], len(self.totals))
        scale = np.ones(len(self.low))
        scale[is_open] = (now / self.totals)[own]
        closed = np.full(len(self.low), -1)
        return Cells(self.of_person, self.low * scale, self.high * scale, closed, np.zeros(0), self.starts)

    def sums(self, weights: NDArray[np.number]) -> Floats:
        """Return the sum of the weights of each cell's persons, shape (n_cells,)."""
        n_cells = int(self.starts[-1])
        counted = [np.bincount(row, weights, n_cells + 1)[:-1] for row in self.of_person]
        return np.asarray(np.sum(counted, axis=0)) if counted else np.zeros(0)

    def off(self, sums: Floats) -> Floats:
        """Return by how much each cell exceeds what it must be, negative where it falls short; shape (n_cells,)."""
        return sums - np.clip(sums, self.low, self.high)

    def worst(self, sums: Floats) -> tuple[Floats, Ints]:
        """Return how far the worst cell of each target is off, and its number in the target; (n_targets,) each."""
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        parts = [np.abs(self.off(sums)[start:end]) for start, end in ends]
        return np.array([part.max() for part in parts]), np.array([part.argmax() for part in parts], dtype=np.int64)


def rake_weights(cells: Cells, weights: Floats, targets: Sequence[Target], n: int, watch: Watch) -> Floats:
    """Return weights that add up to n persons and agree with all targets, or come as near to them as these allow."""
    weights, off = weights * (n / weights.sum()), np.zeros(len(targets))
    most = int(np.clip(_MOST_STEPS / max(cells.of_person.size, 1), *_PASSES))
    show = watch.counting("raking", most)

    def one_pass(powers: Floats) -> float:
        arrays = cells.low, cells.high, cells.blocks, cells.totals, cells.starts
        rake(cells.of_person, weights, *arrays, powers, off)
        return float(off.max(initial=0.0))

    history = list[float]()
    while len(history) < most:
        show(len(history))
        history.append(one_pass(np.ones(len(targets))))
        if history[-1] <= _TOLERANCE * n:
            break
        if len(history) > _PASSES_TO_GAIN and history[-1] > _GAIN * history[-1 - _PASSES_TO_GAIN]:
            _compromise(targets, one_pass)
            break
    return np.asarray(weights * (n / weights.sum()))


def _compromise(targets: Sequence[Target], one_pass: Callable[[Floats], float]) -> None:
    """Go on with shorter and shorter steps; exact targets hold all the while."""
    weight = np.array([target.weight for target in targets])
    is_exact = np.array([target.is_exact for target in targets], dtype=bool)
    step = 0.5
    while step > _SHORTEST_STEP:
        for _ in range(_PASSES_PER_STEP):
            one_pass(np.where(is_exact, 1.0, step * weight / weight.max()))
        step /= 2
