"""Posteriors: records read by a model's schema, and the probability of each component given a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.data.missing import Unseen
from twoway.data.records import Records
from twoway.data.source import Block
from twoway.errors import DataError
from twoway.schema import Schema


def records_for(schema: Schema, source: Any, unseen: Unseen = "error") -> Records:
    """Return a source of any kind as records read by a model's schema.

    The columns of an array are the variables in order, where there are as many.
    """
    if isinstance(source, Records) and (difference := schema.difference(source.schema)):
        raise DataError(f"the records have another schema than the model: {difference}")
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(schema):
        return Records(source, schema=schema, columns=schema.names, unseen=unseen)
    if isinstance(source, list | tuple):
        if not all(isinstance(record, Mapping) for record in source):
            raise DataError("a list of records must hold mappings from name to label; or give a frame")
        names = dict.fromkeys([name for record in source for name in record] or schema.names)
        source = {name: np.array([*(r.get(name) for r in source), None], dtype=object)[:-1] for name in names}
    return source if isinstance(source, Records) else Records(source, schema=schema, unseen=unseen)


def posterior_of(
    block: Block, weights: Floats, stacked: Floats, *, impossible: float | None = None
) -> tuple[Floats, Floats]:
    """Return Pr(component | record), shape (n, rank), and log Pr(record), shape (n,), of a block.

    A record that is impossible under the model has the weights, as a record without observed cells, so that there is
    something to predict from; or ``impossible``, such as NaN.
    """
    from twoway.kernels.expectation import posterior
    from twoway.kernels.lanes import layout, pad_to_lanes

    n = len(block.pointers) - 1
    memberships, log_prob = np.empty((n, len(weights))), np.empty(n)
    _, prototype = layout(len(weights))
    posterior(block.pointers, block.cells, pad_to_lanes(weights, stacked), memberships, log_prob, prototype)
    if impossible is not None:
        memberships[log_prob == -np.inf] = impossible
    return memberships, log_prob
