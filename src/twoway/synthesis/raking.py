"""Weights of persons by which their tables agree with published ones.

Iterative proportional fitting of the weights of draws (raking; Deming and Stephan, 1940; Deville, Särndal and Sautory,
1993). Tables that contradict each other have no such weights, and fitting one after the other goes round in circles.
The steps then get shorter and shorter, which leads to a compromise between all tables, each by its weight (strong
underrelaxation, as Censor, Eggermont and Gordon, 1983, show for linear equations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twoway.arrays import Floats
from twoway.kernels.raking import rake
from twoway.solvers.watch import Watch
from twoway.synthesis.targets import Target, TargetCells

# Weights agree with a table if no cell is off by more than this share of all persons.
_TOLERANCE = 1e-6
# The fewest and the most passes; between them, as many as take so many steps of one person and one table.
_PASSES, _MOST_STEPS = (100, 4000), 1.2e9
# Tables contradict each other if so many passes make the difference hardly smaller. Where tables have zeros, raking may
# be as slow as one over the number of passes.
_PASSES_TO_GAIN, _GAIN = 20, 0.98
# The shortest step, and for how many passes each length is used.
_SHORTEST_STEP, _PASSES_PER_STEP = 0.02, 6


def rake_weights(cells: TargetCells, weights: Floats, targets: Sequence[Target], n: int, watch: Watch) -> Floats:
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
            _rake_to_compromise(targets, one_pass)
            break
    return np.asarray(weights * (n / weights.sum()))


def _rake_to_compromise(targets: Sequence[Target], one_pass: Callable[[Floats], float]) -> None:
    """Go on with shorter and shorter steps; exact targets hold all the while."""
    weight = np.array([target.weight for target in targets])
    is_exact = np.array([target.is_exact for target in targets], dtype=bool)
    step = 0.5
    while step > _SHORTEST_STEP:
        for _ in range(_PASSES_PER_STEP):
            one_pass(np.where(is_exact, 1.0, step * weight / weight.max()))
        step /= 2
