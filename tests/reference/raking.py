"""Slow, obvious versions of raking: one Python loop over tables and persons, and the same on a whole joint."""

import numpy as np


def rake(cells, weights, low, high, blocks, totals, starts, powers):
    """Return the weights after each table was fitted once, and how far off each was before that."""
    weights, off = list(weights), []
    for t, row in enumerate(cells):
        sums = {c: sum(w for w, own in zip(weights, row, strict=True) if own == c) for c in range(*starts[t : t + 2])}
        scale = dict.fromkeys(sums, 1.0)
        for c in sums:
            if blocks[c] >= 0:
                scale[c] = sum(sums[other] for other in sums if blocks[other] == blocks[c]) / totals[blocks[c]]
        goal = {c: min(max(total, low[c] * scale[c]), high[c] * scale[c]) for c, total in sums.items()}
        off.append(max(abs(goal[c] - total) for c, total in sums.items()))
        factor = {c: (goal[c] / total) ** powers[t] if total > 0 else 1.0 for c, total in sums.items()}
        weights = [w * factor.get(own, 1.0) for w, own in zip(weights, row, strict=True)]
    return np.array(weights), np.array(off)


def badness(cells, chosen, goals, importance):
    """Return the sum of squared differences between the tables of chosen persons and their goals; ``cells`` (K, T)."""
    total = 0.0
    for t in range(cells.shape[1]):
        for c in set(range(len(goals))) & {*cells[:, t]}:
            total += importance[t] * (np.count_nonzero(chosen & (cells[:, t] == c)) - goals[c]) ** 2
    return total


def fit_joint(joint, margins, rounds=2000):
    """Return a joint after iterative proportional fitting; ``margins`` maps axes that stay to a table."""
    for _ in range(rounds):
        for axes, table in margins.items():
            others = tuple(axis for axis in range(joint.ndim) if axis not in axes)
            now = joint.sum(axis=others, keepdims=True)
            joint = joint * np.divide(table.reshape(now.shape), now, out=np.zeros_like(now), where=now > 0)
    return joint
