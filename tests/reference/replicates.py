"""The replicates that the explorer's page works with, unpacked as its script does it."""

from dataclasses import replace

import numpy as np

from twoway.explorer.page import page_angles, page_steps
from twoway.model.intervals import share_of
from twoway.model.pmf import JointPMF


def unpack(packed, boot):
    """Return a bootstrap with the replicates of a page; ``boot`` is what was packed."""
    model, schema = page_angles(boot.pmf), boot.pmf.schema
    codes = np.frombuffer(packed.codes, np.uint8)
    if packed.bits == 4:
        codes = np.column_stack([codes & 15, codes >> 4]).ravel()
    most = 2 ** (packed.bits - 1) - 1
    moved = codes[: (1 + packed.count) * model.size].reshape(-1, *model.shape).astype(np.float64) - most
    parameters = share_of(model + page_steps(boot.pmf, packed.steps) * moved)
    center, *replicates = (
        JointPMF(columns(one[0]), [columns(one[1:][schema.cells(n)]) for n in range(len(schema))], schema)
        for one in parameters
    )
    return replace(boot, center=center, replicates=tuple(replicates))


def columns(array):
    return array / array.sum(axis=0)
