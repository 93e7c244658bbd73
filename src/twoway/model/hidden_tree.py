"""Hidden variables on a tree, with visible ones attached: all arithmetic of one class, on arrays alone.

    Pr(x) = Σ_z weights(z_0) · Π_{k>0} transition_k(z_k, z_parent(k)) · Π_n factor_n(x_n, z_home(n))

One hidden variable is the mixture of independent variables of the paper. Logarithms are used throughout, so that no
product underflows, whatever the number of variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.arrays import Floats, log_of, log_product
from twoway.model.mixture import Codes, draw_memberships, draw_mixture_codes, draw_mixture_components

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class HiddenTree:
    """Hidden variables on a rooted tree, and the visible variables attached to each."""

    parents: tuple[int, ...]
    """The parent of each hidden variable: a smaller number, and -1 for the root, which is 0."""
    homes: tuple[int, ...]
    """The hidden variable that each visible one is attached to."""
    weights: Floats
    """The probability of each state of the root."""
    transitions: tuple[Floats, ...]
    """For each hidden variable but the root an array (n_states, n_states of its parent); columns sum to one."""
    factors: tuple[Floats, ...]
    """For each visible variable an array (n_categories, n_states of its home); columns sum to one."""

    def __post_init__(self) -> None:
        # A product of matrices is rounded by their order in memory: a model and its file must agree to the last bit.
        for name in ("transitions", "factors"):
            object.__setattr__(self, name, tuple(map(np.ascontiguousarray, getattr(self, name))))

    def __reduce__(self) -> tuple[type[HiddenTree], tuple[Any, ...]]:
        return HiddenTree, (self.parents, self.homes, self.weights, self.transitions, self.factors)  # nothing cached

    def __repr__(self) -> str:
        return f"HiddenTree({self.n_hidden} hidden of {self.n_states} states, {len(self.homes)} visible variables)"

    @classmethod
    def single(cls, weights: Floats, factors: Sequence[Floats]) -> HiddenTree:
        """Return the tree of one hidden variable."""
        return cls((-1,), (0,) * len(factors), weights, (), tuple(factors))

    @property
    def n_hidden(self) -> int:
        """The number of hidden variables."""
        return len(self.parents)

    @cached_property
    def n_states(self) -> tuple[int, ...]:
        """The number of states of each hidden variable."""
        return (len(self.weights), *map(len, self.transitions))

    @cached_property
    def shares(self) -> tuple[Floats, ...]:
        """The probability of each state of each hidden variable."""
        shares = [self.weights]
        for parent, transition in zip(self.parents[1:], self.transitions, strict=True):
            shares.append(transition @ shares[parent])
        return tuple(shares)

    # The same distribution, written in another way

    def rooted_at(self, root: int) -> HiddenTree:
        """Return the same tree with another hidden variable as its root."""
        neighbours: list[list[int]] = [[] for _ in self.parents]
        for child, parent in enumerate(self.parents[1:], start=1):
            neighbours[child].append(parent)
            neighbours[parent].append(child)
        order, above = [root], {root: -1}
        for here in order:
            below = [other for other in neighbours[here] if other != above[here]]
            above |= dict.fromkeys(below, here)
            order += below
        number = {old: new for new, old in enumerate(order)}
        transitions = tuple(
            self.transitions[old - 1] if self.parents[old] == above[old] else self._turned(above[old])
            for old in order[1:]
        )
        parents, homes = (-1, *(number[above[old]] for old in order[1:])), tuple(number[home] for home in self.homes)
        return HiddenTree(parents, homes, self.shares[root], transitions, self.factors)

    def _turned(self, child: int) -> Floats:
        """Return the probabilities of the states of a hidden variable's parent, given its own."""
        joint = self.transitions[child - 1] * self.shares[self.parents[child]]
        mass = self.shares[child]
        # A state that does not occur may be followed by any other.
        plain = np.broadcast_to(self.shares[self.parents[child]], joint.shape)
        return np.divide(joint, mass[:, None], out=plain.copy(), where=mass[:, None] > 0).T

    def of_variables(self, variables: Sequence[int]) -> HiddenTree:
        """Return a tree of some of the variables only, in the order given, without the hidden ones they do not need.

        Of one or two variables, and wherever a hidden variable lies between all of them, it has one hidden variable.
        Its root splits the variables into parts with few cells each.
        """
        if self.n_hidden == 1:
            return HiddenTree.single(self.weights, [self.factors[variable] for variable in variables])
        tree = self.rooted_at(self._middle(variables))
        attached: list[list[int]] = [[] for _ in tree.parents]
        for position, variable in enumerate(variables):
            attached[tree.homes[variable]].append(position)
        factors = {position: tree.factors[variable] for position, variable in enumerate(variables)}
        # From the leaves to the root: a hidden variable with nothing below it goes; one with a single variable hands
        # it to its parent; one with a single hidden variable below it hands that on.
        below: list[list[int]] = [[] for _ in tree.parents]
        transitions = dict(enumerate(tree.transitions, start=1))
        for here in range(tree.n_hidden - 1, 0, -1):
            parent = tree.parents[here]
            if not attached[here] and not below[here]:
                continue
            if len(attached[here]) == 1 and not below[here]:
                position = attached[here][0]
                factors[position] = factors[position] @ transitions[here]
                attached[parent].append(position)
            elif not attached[here] and len(below[here]) == 1:
                child = below[here][0]
                transitions[child] = transitions[child] @ transitions[here]
                below[parent].append(child)
            else:
                below[parent].append(here)
        order, parents, homes = [0], [-1], [0] * len(variables)
        for number, here in enumerate(order):
            for position in attached[here]:
                homes[position] = number
            order += below[here]
            parents += [number] * len(below[here])
        kept = tuple(transitions[here] for here in order[1:])
        own = tuple(factors[position] for position in range(len(variables)))
        return HiddenTree(tuple(parents), tuple(homes), tree.weights, kept, own)

    def _middle(self, variables: Sequence[int]) -> int:
        """Return the hidden variable whose removal leaves parts with the fewest cells of these variables."""
        sizes, largest = np.zeros((2, self.n_hidden))
        for variable in variables:
            size = math.log(len(self.factors[variable]))
            sizes[self.homes[variable]] += size
            largest[self.homes[variable]] = max(largest[self.homes[variable]], size)
        for here in range(self.n_hidden - 1, 0, -1):
            parent = self.parents[here]
            sizes[parent] += sizes[here]
            largest[parent] = max(largest[parent], sizes[here])
        return int(np.argmin(np.maximum(largest, sizes[0] - sizes)))

    def seen_from(self, hidden: int) -> tuple[HiddenTree, list[int]]:
        """Return the tree of one of the hidden variables alone, and the number of the side that each variable is on.

        Given its state the sides are independent: the new tree has all tables between them, not those within one.
        """
        tree = self.rooted_at(hidden)
        given_root, side = [np.eye(tree.n_states[0])], [0]
        for child, (parent, transition) in enumerate(zip(tree.parents[1:], tree.transitions, strict=True), start=1):
            given_root.append(transition @ given_root[parent])
            side.append(side[parent] or child)
        factors = [factor @ given_root[home] for factor, home in zip(tree.factors, tree.homes, strict=True)]
        # A variable attached to the root is a side of its own.
        sides = [side[home] or -1 - variable for variable, home in enumerate(tree.homes)]
        return HiddenTree.single(tree.weights, factors), sides

    # Questions

    def log_mass(self, rows: Mapping[int, Floats]) -> float:
        """Return the logarithm of Σ_x Pr(x) · Π_n likelihood_n(x_n).

        ``rows`` holds for each variable concerned the logarithm of its likelihood in each state of its home.
        """
        return float(self._at_root(self._up(self._at_homes(rows))[0])[0])

    def log_joint(self, codes: Sequence[Codes]) -> Floats:
        """Return the logarithm of the joint at some cells, shape (n,); ``codes`` holds (n,) for each variable."""
        result = np.empty(len(codes[0]))
        step = max(1, _CHUNK // sum(self.n_states))
        logs = [log_of(factor) for factor in self.factors]
        for first in range(0, len(result), step):
            part = slice(first, first + step)
            rows = ((home, log[code[part]]) for log, home, code in zip(logs, self.homes, codes, strict=True))
            result[part] = self._at_root(self._up(rows)[0])
        return result

    def reweighted(self, times: Mapping[int, Floats]) -> tuple[HiddenTree, float]:
        """Return the tree in which each category of some variables is so many times as probable, up to a scale.

        And the logarithm of that scale: of the sum of all probabilities before it.
        """
        raised = {variable: self.factors[variable] * own[:, None] for variable, own in times.items()}
        up, messages = self._up(self._at_homes({variable: log_of(raised[variable].sum(axis=0)) for variable in times}))
        log_probability = float(self._at_root(up)[0])
        if log_probability == -np.inf:
            return self, log_probability
        factors = list(self.factors)
        for variable, own in times.items():
            # A state that is ruled out has no weight left, but is still a PMF.
            columns = np.where(raised[variable].any(axis=0), raised[variable], own[:, None])
            factors[variable] = columns / columns.sum(axis=0)
        weights = np.exp(log_of(self.weights) + (0.0 if up[0] is None else up[0][0]) - log_probability)
        transitions = []
        for transition, likelihood, message in zip(self.transitions, up[1:], messages[1:], strict=True):
            if likelihood is not None and message is not None:
                with np.errstate(invalid="ignore"):
                    following = np.exp(log_of(transition) + likelihood[0][:, None] - message[0])
                # A state of the parent that the evidence rules out may be followed by any.
                transition = np.where(message[0] > -np.inf, following, transition)
            transitions.append(transition)
        weights = weights / weights.sum()
        return replace(self, weights=weights, transitions=tuple(transitions), factors=tuple(factors)), log_probability

    def joint(self) -> Floats:
        """Return the joint of all variables, one axis each."""
        axes, left, right = self._halves
        joint = (left @ right.T).reshape([len(self.factors[axis]) for axis in axes])
        return joint.transpose(np.argsort(axes))

    def joint_chunks(self) -> Iterator[Floats]:
        """Yield the joint flattened, in order, a chunk of cells at a time where the order of the halves allows it."""
        axes, left, right = self._halves
        if axes != sorted(axes):
            yield self.joint().ravel()
            return
        step = max(1, _CHUNK // len(right))
        for first in range(0, len(left), step):
            yield (left[first : first + step] @ right.T).ravel()

    @property
    def _halves(self) -> tuple[list[int], Floats, Floats]:
        """Two matrices (cells, n_states) whose product is the joint, as small as possible, and the axes of both."""
        parts: list[list[tuple[list[int], Floats]]] = [[] for _ in self.parents]
        for variable, home in enumerate(self.homes):
            parts[home].append(([variable], self.factors[variable]))
        for here in range(self.n_hidden - 1, 0, -1):
            axes, product = _hidden_tree_product(parts[here])
            parts[self.parents[here]].append((axes, product @ self.transitions[here - 1]))
        items = parts[0]
        sizes = [len(item) for _, item in items]
        split = min(range(len(sizes) + 1), key=lambda at: math.prod(sizes[:at]) + math.prod(sizes[at:]))
        plain = np.ones((1, len(self.weights)))
        first, left = _hidden_tree_product([([], self.weights[None]), *items[:split]])
        second, right = _hidden_tree_product([([], plain), *items[split:]])
        return first + second, left, right

    def tables_with(self, variable: int) -> Floats:
        """Return the joint of a variable with each variable, side by side: shape (its categories, all categories).

        With itself, it is the joint of two draws that are independent given the variable's home.
        """
        tree = self.rooted_at(self.homes[variable])
        joints = [tree.factors[variable] * tree.weights]
        for parent, transition in zip(tree.parents[1:], tree.transitions, strict=True):
            joints.append(joints[parent] @ transition.T)
        return np.hstack([joints[home] @ factor.T for home, factor in zip(tree.homes, tree.factors, strict=True)])

    def likeliest_cells(self) -> Codes:
        """Return the codes in the most probable cell and states together, given each state of the root.

        Shape (n_variables, n_states of the root).
        """
        up = [np.zeros(n_states) for n_states in self.n_states]
        for factor, home in zip(self.factors, self.homes, strict=True):
            up[home] += log_of(factor).max(axis=0)
        for here in range(self.n_hidden - 1, 0, -1):
            up[self.parents[here]] += (log_of(self.transitions[here - 1]) + up[here][:, None]).max(axis=0)
        states = [np.arange(len(self.weights))]
        for parent, transition, own in zip(self.parents[1:], self.transitions, up[1:], strict=True):
            states.append((log_of(transition[:, states[parent]]) + own[:, None]).argmax(axis=0))
        cells = zip(self.factors, self.homes, strict=True)
        return np.array([factor.argmax(axis=0)[states[home]] for factor, home in cells])

    def draw(self, n: int, rng: np.random.Generator) -> list[Codes]:
        """Return n records drawn from the tree: codes of shape (n,) for each variable."""
        states = [draw_mixture_components(self.weights, n, rng)]
        for parent, transition in zip(self.parents[1:], self.transitions, strict=True):
            states.append(draw_mixture_codes(transition, states[parent], rng))
        visible = zip(self.factors, self.homes, strict=True)
        return [draw_mixture_codes(factor, states[home], rng) for factor, home in visible]

    def log_beliefs(self, rows: Floats) -> Floats:
        """Return the logarithm of Σ_x Pr(x) · Π likelihood for each state of each hidden variable.

        Shape (n_hidden, n_states). ``rows`` holds for each variable the logarithm of its likelihood in each state of
        its home, (n_variables, n_states). Where hidden variables differ in states, both have more columns than some.
        """
        homes, states = np.array(self.homes), self.n_states
        beliefs = np.array([rows[homes == here].sum(axis=0) for here in range(self.n_hidden)])
        messages = [np.zeros(0)] * self.n_hidden
        for here in range(self.n_hidden - 1, 0, -1):
            messages[here] = log_product(beliefs[None, here, : states[here]], self.transitions[here - 1])[0]
            beliefs[self.parents[here], : len(messages[here])] += messages[here]
        beliefs[0, : states[0]] += log_of(self.weights)
        beliefs[0, states[0] :] = -np.inf
        for here, (parent, message) in enumerate(zip(self.parents[1:], messages[1:], strict=True), start=1):
            # A state of the parent from which nothing comes is ruled out below.
            others = np.where(message > -np.inf, beliefs[parent, : len(message)], -np.inf)
            others = others - np.where(message > -np.inf, message, 0.0)
            beliefs[here, : states[here]] += log_product(others[None], self.transitions[here - 1].T)[0]
        return beliefs

    def draw_states(self, codes: Codes, rng: np.random.Generator) -> list[Codes]:
        """Return a state of each hidden variable for each record, drawn given what is observed of it.

        ``codes`` has the shape (n_records, n_variables), -1 where a cell is missing. No record may be impossible.
        """
        # The row behind the last, which -1 finds, stands for a missing cell.
        tables = (np.vstack([log_of(factor), np.zeros(factor.shape[1])]) for factor in self.factors)
        up, _ = self._up((home, logs[own]) for home, logs, own in zip(self.homes, tables, codes.T, strict=True))
        given = [log_of(self.weights)[None], *(log_of(transition).T for transition in self.transitions)]
        states: list[Codes] = []
        for parent, table, likelihood in zip(self.parents, given, up, strict=True):
            logs = table[states[parent]] if states else np.broadcast_to(table, (len(codes), table.shape[1]))
            logs = logs if likelihood is None else logs + likelihood
            states.append(draw_memberships(np.exp(logs - logs.max(axis=1, keepdims=True)), rng))
        return states

    @cached_property
    def _packed(self) -> tuple[TreeRows, Floats]:
        """The tree as the kernels take it: where its rows are, and θ."""
        from twoway.kernels.lanes import lane_layout
        from twoway.kernels.trees import TreeRows

        width, _ = lane_layout(max(self.n_states))
        matrices = (self.weights[None], *self.transitions, *self.factors)
        starts = np.cumsum([0, *map(len, matrices)])
        theta = np.zeros((starts[-1], width))
        for first, matrix in zip(starts, matrices, strict=False):
            theta[first : first + len(matrix), : matrix.shape[1]] = matrix
        homes = np.repeat(np.array(self.homes, dtype=np.int64), [len(factor) for factor in self.factors])
        return TreeRows(np.array(self.parents, dtype=np.int64), starts[: self.n_hidden + 1], homes), theta

    def _at_root(self, up: Sequence[Floats | None]) -> Floats:
        """Return the logarithm of the probability of what was sent up."""
        if (likelihood := up[0]) is None:
            return np.zeros(1)
        return np.asarray(np.logaddexp.reduce(likelihood + log_of(self.weights), axis=1))

    def _at_homes(self, rows: Mapping[int, Floats]) -> Iterator[tuple[int, Floats]]:
        """Yield the home of each variable concerned, and a copy of its row as an array of one."""
        return ((self.homes[variable], row[None].copy()) for variable, row in rows.items())

    def _up(self, rows: Iterable[tuple[int, Floats]]) -> tuple[list[Floats | None], list[Floats | None]]:
        """Return the log-likelihood (n, n_states) of what lies below each hidden variable, and its message upward.

        ``rows`` has the home of each variable concerned, and an array (n, n_states), which is overwritten. None means
        that nothing is known.
        """
        up: list[Floats | None] = [None] * self.n_hidden
        messages: list[Floats | None] = [None] * self.n_hidden
        for home, row in rows:
            before = up[home]
            up[home] = row if before is None else np.add(before, row, out=before)
        for here in range(self.n_hidden - 1, 0, -1):
            if (likelihood := up[here]) is not None:
                message = messages[here] = log_product(likelihood, self.transitions[here - 1])
                before = up[self.parents[here]]
                up[self.parents[here]] = message if before is None else before + message
        return up, messages

    def with_theta(self, theta: Floats) -> HiddenTree:
        """Return a tree of the same form with other parameters, as the kernels take them."""
        matrices = (*self.transitions, *self.factors)
        rows = np.split(theta[1:], np.cumsum([len(matrix) for matrix in matrices])[:-1])
        own = [part[:, : matrix.shape[1]].copy() for part, matrix in zip(rows, matrices, strict=True)]
        n = len(self.transitions)
        return replace(self, weights=theta[0, : len(self.weights)].copy(), transitions=(*own[:n],), factors=(*own[n:],))


def _hidden_tree_product(items: Sequence[tuple[list[int], Floats]]) -> tuple[list[int], Floats]:
    """Return the product of arrays (cells, n_states) for every combination of their cells, and all their axes."""

    def times(product: Floats, item: Floats) -> Floats:
        return (product[:, None, :] * item).reshape(-1, item.shape[1])

    return [axis for axes, _ in items for axis in axes], reduce(times, (item for _, item in items))


def packed_tree(tree: HiddenTree) -> tuple[TreeRows, Floats]:
    """Return a tree as the kernels take it: where its rows are, and θ."""
    return tree._packed
