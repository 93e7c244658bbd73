"""A mixture of hidden trees: what a model is made of.

Most models are one tree, and that often has one hidden variable: the mixture of independent variables of the paper,
for which the shorter arithmetic of `mixture` holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from twoway.arrays import Floats, log_of, read_only
from twoway.model import mixture
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.model.mixture import Codes
from twoway.schema import Schema


@dataclass(frozen=True, eq=False)
class Trees:
    """Hidden trees of the same variables, and the share of each."""

    shares: Floats
    trees: tuple[HiddenTree, ...]

    @classmethod
    def of(cls, shares: Floats, trees: Sequence[HiddenTree]) -> Trees:
        """Return a mixture of trees; those of one hidden variable become one."""
        single = [(share, tree) for share, tree in zip(shares, trees, strict=True) if tree.n_hidden == 1]
        if len(single) <= 1:
            return cls(np.asarray(shares), tuple(trees))
        others = [(share, tree) for share, tree in zip(shares, trees, strict=True) if tree.n_hidden > 1]
        total = sum(share for share, _ in single)
        weights = np.concatenate([share * tree.weights for share, tree in single]) / total
        factors = [np.hstack(columns) for columns in zip(*(tree.factors for _, tree in single), strict=True)]
        merged = HiddenTree.single(weights, factors)
        return cls(np.array([total, *(share for share, _ in others)]), (merged, *(tree for _, tree in others)))

    @classmethod
    def of_mixture(cls, schema: Schema, weights: Floats, stacked: Floats) -> Trees:
        """Return the tree of one hidden variable, with the factors of all variables below one another."""
        stacked = read_only(stacked)
        factors = [stacked[first:last] for first, last in pairwise(schema.offsets.tolist())]
        trees = cls(np.ones(1), (HiddenTree.single(read_only(weights), factors),))
        vars(trees)["stacked"] = stacked
        return trees

    def as_mixture(self, schema: Schema) -> Trees:
        """Return the tree of one hidden variable with read-only arrays, its factors views of ``stacked``."""
        return self if "stacked" in vars(self) else Trees.of_mixture(schema, self.trees[0].weights, self.stacked)

    def __reduce__(self) -> tuple[type[Trees], tuple[Floats, tuple[HiddenTree, ...]]]:
        return Trees, (self.shares, self.trees)  # without what is cached

    @property
    def single(self) -> HiddenTree | None:
        """The tree, where there is one and it has one hidden variable."""
        return self.trees[0] if len(self.trees) == 1 and self.trees[0].n_hidden == 1 else None

    @property
    def matrices(self) -> list[Floats]:
        """All parameters, as arrays whose columns sum to one: the shares, then weights, transitions and factors."""
        parts = [(tree.weights[:, None], *tree.transitions, *tree.factors) for tree in self.trees]
        return [self.shares[:, None], *(matrix for some in parts for matrix in some)]

    @property
    def rank(self) -> int:
        """The most states that any hidden variable has."""
        return max(max(tree.n_states) for tree in self.trees)

    @property
    def n_hidden(self) -> int:
        """The number of hidden variables of all trees."""
        return sum(tree.n_hidden for tree in self.trees)

    @cached_property
    def factors(self) -> tuple[Floats, ...]:
        """For each variable an array (n_categories, n_states): the states of its home in each tree, side by side."""
        if len(self.trees) == 1:
            return self.trees[0].factors
        return tuple(np.hstack(columns) for columns in zip(*(tree.factors for tree in self.trees), strict=True))

    def state_shares(self, variable: int) -> Floats:
        """Return the probability of each state in the columns of a variable's factor."""
        parts = zip(self.shares, self.trees, strict=True)
        return np.concatenate([share * tree.shares[tree.homes[variable]] for share, tree in parts])

    def of_variables(self, variables: Sequence[int]) -> Trees:
        """Return the same distribution of some variables only, in the order given."""
        return Trees.of(self.shares, [tree.of_variables(variables) for tree in self.trees])

    @property
    def n_cells(self) -> int:
        """The number of cells of the joint."""
        return math.prod(map(len, self.trees[0].factors))

    @property
    def is_small(self) -> bool:
        """Whether questions are answered by visiting every cell."""
        # A pair is never sampled: its cells are visited in chunks and are not kept.
        return len(self.trees[0].factors) <= 2 or self.n_cells <= mixture.MAX_CELLS

    def joint(self) -> Floats:
        """Return the joint of all variables, one axis each."""
        if len(self.trees) == 1:
            return self.trees[0].joint()
        return np.asarray(sum(share * tree.joint() for share, tree in zip(self.shares, self.trees, strict=True)))

    def tables_with(self, variable: int) -> Floats:
        """Return the joint of a variable with each variable, side by side: shape (its categories, all categories)."""
        if (tree := self.single) is not None:
            return (tree.factors[variable] * tree.weights) @ self.stacked.T
        parts = zip(self.shares, self.trees, strict=True)
        return np.asarray(sum(share * tree.tables_with(variable) for share, tree in parts))

    @cached_property
    def stacked(self) -> Floats:
        """The factors of all variables below one another, (n_categories, n_states); read-only."""
        return read_only(np.vstack(self.factors))

    def joint_chunks(self) -> Iterator[Floats]:
        """Yield the joint flattened, in order, a chunk of cells at a time."""
        if len(self.trees) == 1:
            yield from self.trees[0].joint_chunks()
        else:
            yield self.joint().ravel()

    def log_joint(self, codes: Sequence[Codes]) -> Floats:
        """Return the logarithm of the joint at some cells, shape (n,); ``codes`` holds (n,) for each variable."""
        return self._log_sum([tree.log_joint(codes) for tree in self.trees])

    def _log_sum(self, logs: Sequence[Floats]) -> Floats:
        """Return the logarithm of the trees' probabilities together."""
        return np.asarray(np.logaddexp.reduce(log_of(self.shares)[:, None] + np.array(logs), axis=0))

    def log_probability(self, allowed: Mapping[int, Codes]) -> float:
        """Return the logarithm of the probability that some variables have one of some codes each."""
        logs = [
            tree.log_mass({v: log_of(tree.factors[v][codes].sum(axis=0)) for v, codes in allowed.items()})
            for tree in self.trees
        ]
        return float(self._log_sum([np.array([log]) for log in logs])[0])

    def given(self, allowed: Mapping[int, Codes]) -> Trees | None:
        """Return the mixture given that some variables have one of some codes each; None where that is impossible."""
        times = {variable: np.zeros(len(self.trees[0].factors[variable])) for variable in allowed}
        for variable, codes in allowed.items():
            times[variable][codes] = 1.0
        return self.reweighted(times)

    def reweighted(self, times: Mapping[int, Floats]) -> Trees | None:
        """Return the mixture in which each category of some variables is so many times as probable, up to a scale.

        None where nothing is left.
        """
        trees, logs = zip(*(tree.reweighted(times) for tree in self.trees), strict=True)
        weights = log_of(self.shares) + np.array(logs)
        if weights.max() == -np.inf:
            return None
        shares = np.exp(weights - weights.max())
        return Trees(shares / shares.sum(), trees)

    def softened(self, shares: Floats, part: float) -> Trees:
        """Return trees without zeros: a part of equal states and of overall shares (n_categories,) mixed in."""
        trees = []
        for tree in self.trees:
            # The weights are one row of θ; each other hidden variable has a row for each of its states.
            equal = np.repeat(1.0 / np.array(tree.n_states), [1, *tree.n_states[1:]])
            around = np.concatenate([equal, shares])[:, None]
            trees.append(tree.with_theta((1.0 - part) * packed_tree(tree)[1] + part * around))
        return Trees(self.shares, tuple(trees))

    def draw(self, n: int, rng: np.random.Generator) -> list[Codes]:
        """Return n records drawn from the mixture: codes of shape (n,) for each variable."""
        if len(self.trees) == 1:
            return self.trees[0].draw(n, rng)
        places = mixture.draw_mixture_components(self.shares, n, rng)
        drawn = [np.empty(n, dtype=np.min_scalar_type(len(factor))) for factor in self.trees[0].factors]
        for number, tree in enumerate(self.trees):
            rows = np.flatnonzero(places == number)
            for codes, part in zip(drawn, tree.draw(len(rows), rng), strict=True):
                codes[rows] = part
        return drawn
