"""The replicates of a model in a page: few bits a number, so that the page stays small."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.model.intervals import angle_of, share_of
from twoway.model.pmf import JointPMF
from twoway.uncertainty.bootstrap import LEAST_REPLICATES, Bootstrap

BUDGET = 320_000
"""Replicates take about this many bytes: as many bits a number, and then as many replicates, as that allows."""


@dataclass(frozen=True)
class Packed:
    """How far replicates are from the model, in whole steps.

    The distance is that of ``arcsin(sqrt(parameter))``, a scale on which chance moves all parameters of a component
    about as far. A step is so long that the farthest of some variable and component is the last.
    """

    count: int
    """How many replicates; before them stands the center."""
    bits: int
    """8 or 4 bits a number."""
    steps: NDArray[np.float32]
    """(1 + n_variables, rank): the length of a step for the weights, and for each variable and component."""
    codes: bytes
    """(1 + count, 1 + n_cells, rank) numbers of steps, from ``-most``, the low bits of a byte first."""


def pack(boot: Bootstrap) -> Packed:
    """Return replicates as a page holds them: all in 8 bits a number if these are few, else in 4 bits, the first ones.

    At least 20 replicates are there, whatever they take: fewer cannot tell the ends of a 90 % interval.
    """
    model = _angles(boot.pmf)
    several = [boot.center, *boot.replicates]
    bits = 8 if len(several) * model.size <= BUDGET else 4
    kept = several[: max(1 + LEAST_REPLICATES, 8 * BUDGET // bits // model.size)]
    distances = np.array([_angles(one) for one in kept]) - model
    most = 2 ** (bits - 1) - 1
    starts = np.concatenate([[0], 1 + np.asarray(boot.pmf.schema.offsets[:-1])])
    farthest = np.maximum.reduceat(np.abs(distances).max(axis=0), starts, axis=0)
    steps = (farthest / most).astype(np.float32)
    lengths = _by_row(boot.pmf, steps)
    codes = np.rint(np.divide(distances, lengths, out=np.zeros_like(distances), where=lengths > 0))
    codes = (np.clip(codes, -most, most) + most).astype(np.uint8).ravel()
    if bits == 4:
        codes = np.append(codes, np.zeros(codes.size % 2, np.uint8)).reshape(-1, 2)
        codes = codes[:, 0] | codes[:, 1] << 4
    return Packed(len(kept) - 1, bits, steps, codes.tobytes())


def unpack(packed: Packed, boot: Bootstrap) -> Bootstrap:
    """Return the replicates that a page works with; ``boot`` is what was packed."""
    model = _angles(boot.pmf)
    codes = np.frombuffer(packed.codes, np.uint8)
    if packed.bits == 4:
        codes = np.column_stack([codes & 15, codes >> 4]).ravel()
    most = 2 ** (packed.bits - 1) - 1
    moved = codes[: (1 + packed.count) * model.size].reshape(-1, *model.shape).astype(np.float64) - most
    parameters = share_of(model + _by_row(boot.pmf, packed.steps) * moved)
    schema = boot.pmf.schema
    several = [
        JointPMF(one[0] / one[0].sum(), [_columns(one[1:][schema.cells(n)]) for n in range(len(schema))], schema)
        for one in parameters
    ]
    return replace(boot, center=several[0], replicates=tuple(several[1:]))


def _angles(pmf: JointPMF) -> Floats:
    """Return weights and factors, (1 + n_categories, rank), as angles."""
    return angle_of(np.vstack([pmf.weights, pmf.stacked]))


def _by_row(pmf: JointPMF, steps: NDArray[np.float32]) -> Floats:
    """Return the length of a step for each parameter, (1 + n_categories, rank)."""
    return np.repeat(steps.astype(np.float64), [1, *pmf.schema.sizes], axis=0)


def _columns(factor: Floats) -> Floats:
    columns: Floats = factor / factor.sum(axis=0)
    return columns
