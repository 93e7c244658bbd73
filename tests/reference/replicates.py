"""The replicates that the explorer's page works with, unpacked as its script does it."""

import base64
from dataclasses import replace

import numpy as np

from twoway.explorer.page import page_columns, page_numbers
from twoway.model.hidden_tree import HiddenTree
from twoway.model.intervals import interval_angle, interval_share
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees


def unpack(described, boot):
    """Return a bootstrap with the replicates of a page; ``boot`` is what was described."""
    model = interval_angle(page_numbers(boot.pmf))
    codes, steps = (decoded(described[name]) for name in ("codes", "steps"))
    if described["bits"] == 4:
        codes = np.column_stack([codes & 15, codes >> 4]).ravel()
    most = 2 ** (described["bits"] - 1) - 1
    moved = codes[: (1 + described["count"]) * model.size].reshape(-1, model.size).astype(np.float64) - most
    numbers = interval_share(model + steps.astype(np.float64)[page_columns(boot.pmf)] * moved)
    center, *replicates = (JointPMF.from_trees(boot.pmf.schema, like(boot.pmf.trees, one)) for one in numbers)
    return replace(boot, center=center, replicates=tuple(replicates))


def decoded(array):
    """Return the numbers of an array of a page."""
    return np.frombuffer(base64.b64decode(array["base64"]), f"<{array['kind']}")


def like(trees, numbers):
    """Return trees of the same form with other numbers; each column is rescaled to sum to one."""
    matrices = iter(np.split(numbers, np.cumsum([matrix.size for matrix in trees.matrices])[:-1]))

    def scaled(shape):
        matrix = next(matrices).reshape(shape)
        return matrix / matrix.sum(axis=0)

    shares = scaled(trees.shares.shape)
    made = []
    for tree in trees.trees:
        weights = scaled(tree.weights.shape)
        transitions, factors = (tuple(scaled(m.shape) for m in some) for some in (tree.transitions, tree.factors))
        made.append(HiddenTree(tree.parents, tree.homes, weights, transitions, factors))
    return Trees(shares, tuple(made))
