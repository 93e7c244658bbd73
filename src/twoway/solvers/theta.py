"""θ: the parameters of a model as the kernels take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.model.pmf import JointPMF

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

Theta = Floats
"""Parameters as the kernels take them, (1 + n_categories, width): the weights above the stacked factors."""


def theta_of(pmf: JointPMF) -> Theta:
    """Return a PMF's parameters as the kernels take them; those of hidden variables on a tree are above the factors."""
    return packed_tree(_theta_tree(pmf))[1].copy()


def pmf_of_theta(form: JointPMF, theta: Theta) -> JointPMF:
    """Return the PMF of parameters, of the same form as another: with its variables, and as many hidden states."""
    return JointPMF.from_tree(form.schema, _theta_tree(form).with_theta(theta))


def theta_groups(pmf: JointPMF) -> Ints:
    """Return where the groups of rows of θ begin, behind its first row: hidden variables, then visible ones."""
    hidden = np.cumsum([0, *_theta_tree(pmf).n_states[1:]])
    return np.concatenate([hidden[:-1], hidden[-1] + pmf.schema.offsets])


def theta_tree_rows(pmf: JointPMF) -> TreeRows | None:
    """Return which rows of θ belong to which hidden variable, None where there is one."""
    return packed_tree(_theta_tree(pmf))[0] if pmf.n_hidden > 1 else None


def _theta_tree(pmf: JointPMF) -> HiddenTree:
    (tree,) = pmf.trees.trees
    return tree
