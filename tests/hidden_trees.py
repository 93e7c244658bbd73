"""Random hidden trees for tests."""

import numpy as np

from twoway.model.hidden_tree import HiddenTree

SIZES = (3, 2, 4, 3, 2, 3)
HOMES = (0, 1, 2, 3, 3, 1)


def random_tree(parents, seed=0, n_states=(3, 2, 4, 3), sizes=SIZES, homes=HOMES, concentration=1.0):
    """Return a tree with the given parents and random parameters."""
    rng = np.random.default_rng(seed)

    def columns(n_rows, n_columns):
        return rng.dirichlet(np.full(n_rows, concentration), size=n_columns).T

    return HiddenTree(
        tuple(parents),
        tuple(homes),
        columns(n_states[0], 1)[:, 0],
        tuple(columns(n_states[k], n_states[parents[k]]) for k in range(1, len(parents))),
        tuple(columns(size, n_states[home]) for size, home in zip(sizes, homes, strict=True)),
    )
