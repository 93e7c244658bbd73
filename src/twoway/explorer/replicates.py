"""The replicates of a model in a page: few bits per number, so that the page stays small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.model.intervals import angle_of
from twoway.model.pmf import JointPMF
from twoway.uncertainty.bootstrap import LEAST_REPLICATES, Bootstrap

BUDGET = 320_000
"""Replicates take about this many bytes: as many bits per number, and then as many replicates, as that allows."""


@dataclass(frozen=True)
class Packed:
    """How far replicates are from the model, in whole steps.

    The distance is that of ``arcsin(sqrt(parameter))``, a scale on which chance moves all parameters of a component
    about equally. A step is as long as needed for the farthest parameter of a variable and component.
    """

    count: int
    """The number of replicates; the center comes before them."""
    bits: int
    """8 or 4 bits per number."""
    steps: NDArray[np.float32]
    """(1 + n_variables, rank): the length of a step for the weights, and for each variable and component."""
    codes: NDArray[np.uint8]
    """(1 + count, 1 + n_categories, rank) numbers of steps, from ``-most``, the low bits of a byte first."""


def pack(boot: Bootstrap) -> Packed:
    """Return replicates as a page holds them: all in 8 bits per number if they are few, else the first ones in 4 bits.

    At least 20 replicates are kept, whatever their size: fewer cannot give the ends of a 90 % interval.
    """
    model = angles(boot.pmf)
    models = [boot.center, *boot.replicates]
    bits = 8 if len(models) * model.size <= BUDGET else 4
    kept = models[: max(1 + LEAST_REPLICATES, 8 * BUDGET // bits // model.size)]
    distances = np.array([angles(pmf) for pmf in kept]) - model
    most = 2 ** (bits - 1) - 1
    starts = np.concatenate([[0], 1 + np.asarray(boot.pmf.schema.offsets[:-1])])
    farthest = np.maximum.reduceat(np.abs(distances).max(axis=0), starts, axis=0)
    steps = (farthest / most).astype(np.float32)
    lengths = step_lengths(boot.pmf, steps)
    codes = np.rint(np.divide(distances, lengths, out=np.zeros_like(distances), where=lengths > 0))
    codes = (np.clip(codes, -most, most) + most).astype(np.uint8).ravel()
    if bits == 4:
        codes = np.append(codes, np.zeros(codes.size % 2, np.uint8)).reshape(-1, 2)
        codes = codes[:, 0] | codes[:, 1] << 4
    return Packed(len(kept) - 1, bits, steps, codes)


def angles(pmf: JointPMF) -> Floats:
    """Return weights and factors, (1 + n_categories, rank), as angles."""
    return angle_of(np.vstack([pmf.weights, pmf.stacked]))


def step_lengths(pmf: JointPMF, steps: NDArray[np.float32]) -> Floats:
    """Return the length of a step for each parameter, (1 + n_categories, rank)."""
    return np.repeat(steps.astype(np.float64), [1, *pmf.schema.sizes], axis=0)
