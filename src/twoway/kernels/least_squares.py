"""The least-squares fit of three-way tables: one sweep over all factors, then the weights.

Legend: table t shows variables j < k < l; X_t (I_j, I_k, I_l) are its shares, in C order from ``shares[starts[t]]`` on,
and [[λ; A_j, A_k, A_l]] is its model. θ (1 + I, width) holds λ above the stacked factors, padded to whole lanes. A
*place* is 3 · t + axis: a variable's axis in a table. With all but A_n fixed, half the squared error is a constant plus

    ½ tr(A_n Q A_nᵀ) − tr(Vᵀ A_n)    Q = λλᵀ ∗ Σ_t A_aᵀA_a ∗ A_bᵀA_b    V = Σ_t (X_t ×_a A_a ×_b A_b) · diag(λ)

over the tables t that hold n, each beside some a and b; for λ it is ½ λᵀHλ − gᵀλ. Only V and g need the tables. Each
table is read once for each of its variables, and what was read for the last one gives its part of g.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.kernels.jit import jit
from twoway.kernels.lanes import Prototype, add, load, multiply, spread, store


class ThreeWay(NamedTuple):
    """Three-way tables, and where each variable is in them."""

    shares: Floats
    """Those of all tables, one table behind the other."""
    starts: Ints
    """(n_tables + 1,): where each table begins."""
    sets: NDArray[np.int32]
    """(n_tables, 3): the variables of each table."""
    offsets: Ints
    """(n_variables + 1,): where the cells of each variable begin."""
    places: Ints
    """Variable n is at ``places[firsts[n]:firsts[n + 1]]``."""
    firsts: Ints


@jit
def contract_least_squares(place: int, tables: ThreeWay, theta: Floats, sums: Floats, prototype: Prototype) -> None:
    """Add a table, multiplied along its two other axes by their factors, to ``sums`` (I_n, width)."""
    shares, starts, sets, offsets, _, _ = tables
    table, axis = place // 3, place % 3
    j, k, l = sets[table]  # noqa: E741  # as in the legend
    row_j, row_k, row_l = offsets[j] + 1, offsets[k] + 1, offsets[l] + 1
    n_j, n_k, n_l = offsets[j + 1] - offsets[j], offsets[k + 1] - offsets[k], offsets[l + 1] - offsets[l]
    width = theta.shape[1]
    parameters, out = theta.reshape(-1), sums.reshape(-1)
    for f in range(0, width, len(prototype)):
        for a in range(n_j):
            of_a = load(parameters, (row_j + a) * width + f, prototype)
            first = starts[table] + a * n_k * n_l
            if axis == 2:
                # Strided reads, but the running sum stays in registers.
                for c in range(n_l):
                    inner = spread(0.0, prototype)
                    for b in range(n_k):
                        share = spread(shares[first + b * n_l + c], prototype)
                        inner = add(inner, multiply(share, load(parameters, (row_k + b) * width + f, prototype)))
                    at = c * width + f
                    store(out, at, add(load(out, at, prototype), multiply(inner, of_a)))
                continue
            for b in range(n_k):
                inner = spread(0.0, prototype)
                for c in range(n_l):
                    share = spread(shares[first + b * n_l + c], prototype)
                    inner = add(inner, multiply(share, load(parameters, (row_l + c) * width + f, prototype)))
                at = (a if axis == 0 else b) * width + f
                beside = load(parameters, (row_k + b) * width + f, prototype) if axis == 0 else of_a
                store(out, at, add(load(out, at, prototype), multiply(inner, beside)))


@jit
def project_on_simplex(values: Floats, first: int, step: int, count: int) -> None:
    """Replace the entries first, first + step, … of a flat array by the nearest point of the simplex.

    Michelot, A finite algorithm for finding the projection of a point onto the canonical simplex of ℝⁿ, 1986.
    """
    threshold = -np.inf
    n_positive = count + 1
    while True:
        total = 0.0
        n_above = 0
        for i in range(count):
            value = values[first + i * step]
            if value > threshold:
                total += value
                n_above += 1
        # Fewer stay positive each time; rounding alone could raise their number again, and never end.
        if n_above >= n_positive or n_above == 0:
            break
        n_positive = n_above
        threshold = (total - 1.0) / n_positive
    for i in range(count):
        at = first + i * step
        values[at] = max(values[at] - threshold, 0.0)


@jit
def _project_on_simplexes(block: Floats, by_columns: bool | np.bool_) -> None:
    """Project each column of a factor, or the single row of weights."""
    rows, rank = block.shape
    flat = block.reshape(-1)
    # One call, and no constants: numba would compile a copy for each.
    n_simplexes, step, count = (rank, rank, rows) if by_columns else (rows, 1, rank)
    for first in range(n_simplexes):
        project_on_simplex(flat, first, step, count)


@jit
def quadratic(block: Floats, q: Floats, v: Floats) -> float:
    """Return ½ tr(B Q Bᵀ) − tr(Vᵀ B) for B (rows, ≥ rank), Q (rank, rank) and V (rows, ≥ rank)."""
    value = 0.0
    rank = len(q)
    for i in range(len(block)):
        for f in range(rank):
            product = 0.0
            for g in range(rank):
                product += q[f, g] * block[i, g]
            value += block[i, f] * (0.5 * product - v[i, f])
    return value


@jit
def _invert_squares(q: Floats, rho: float, inverse: Floats) -> None:
    """Fill (Q + ρI)⁻¹ by Gauss and Jordan's method.

    numpy's own inverse would add many seconds to the compilation. Pivots need no search: the matrix is positive
    definite, and with ρ the mean of Q's eigenvalues its condition number is at most rank + 1.
    """
    rank = len(q)
    inverse[:] = q
    for p in range(rank):
        inverse[p, p] += rho
    for p in range(rank):
        pivot = inverse[p, p]
        inverse[p, p] = 1.0
        for g in range(rank):
            inverse[p, g] /= pivot
        for f in range(rank):
            if f != p:
                factor = inverse[f, p]
                inverse[f, p] = 0.0
                for g in range(rank):
                    inverse[f, g] -= factor * inverse[p, g]


@jit
def minimize_on_simplex(block: Floats, q: Floats, v: Floats, by_columns: bool | np.bool_, n_inner: int) -> None:
    """Lower `quadratic` by some ADMM steps, with the columns of a block (or its single row) on the simplex.

    At the solution, ADMM's scaled duals are the gradient over ρ. They start there, so that a solved block stays as it
    is and a sweep depends on θ alone. ADMM does not descend at each step; where it ends higher, the block takes a
    projected gradient step instead, which cannot rise.
    """
    rows, rank = len(block), len(q)
    trace = np.trace(q)
    if trace <= 0.0 or n_inner == 0:
        return
    rho = trace / rank
    inverse = np.empty((rank, rank))
    _invert_squares(q, rho, inverse)
    point, slope, duals = np.empty((rows, rank)), np.empty((rows, rank)), np.empty((rows, rank))
    for i in range(rows):
        for f in range(rank):
            point[i, f] = block[i, f]
            slope[i, f] = -v[i, f]
            for g in range(rank):
                slope[i, f] += q[f, g] * block[i, g]
            duals[i, f] = slope[i, f] / rho
    free = np.empty(rank)
    for _ in range(n_inner):
        for i in range(rows):
            for f in range(rank):
                free[f] = 0.0
            for g in range(rank):
                right = v[i, g] + rho * (point[i, g] + duals[i, g])
                for f in range(rank):
                    free[f] += right * inverse[g, f]
            for f in range(rank):
                # What is projected is the free solution less the dual; the new dual is what projecting it takes away.
                point[i, f] = free[f] - duals[i, f]
                duals[i, f] = -point[i, f]
        _project_on_simplexes(point, by_columns)
        duals += point
    before = quadratic(block, q, v)
    if not quadratic(point, q, v) <= before:
        # The trace is at least the largest curvature.
        point[:] = block[:, :rank] - slope / trace
        _project_on_simplexes(point, by_columns)
        if not quadratic(point, q, v) <= before:
            return
    block[:, :rank] = point


@jit
def _gram_of_squares(rows: Floats, gram: Floats) -> None:
    """Fill AᵀA (rank, rank) for the rows of a factor."""
    gram[:] = 0.0
    for i in range(len(rows)):
        for f in range(len(gram)):
            for g in range(len(gram)):
                gram[f, g] += rows[i, f] * rows[i, g]


@jit
def sweep_least_squares(theta: Floats, tables: ThreeWay, rank: int, n_inner: int, prototype: Prototype) -> float:
    """Improve each factor in turn, then the weights, in place; return how far the new θ is from the tables.

    That is ½ Σ_t ‖X_t − [[λ; A_j, A_k, A_l]]‖², less ½ Σ_t ‖X_t‖². Each block takes ``n_inner`` ADMM steps; with none,
    θ stays as it is, and each table is read once.
    """
    _, _, sets, offsets, places, firsts = tables
    width = theta.shape[1]
    n_variables = offsets.size - 1
    grams = np.empty((n_variables, rank, rank))
    for n in range(n_variables):
        _gram_of_squares(theta[offsets[n] + 1 : offsets[n + 1] + 1], grams[n])
    overlap = np.zeros((1, width))
    q = np.empty((rank, rank))
    for n in range(n_variables):
        rows = theta[offsets[n] + 1 : offsets[n + 1] + 1]
        # Where n is the last variable of a table, no factor of the table changes any more in this sweep.
        sums, last_sums = np.zeros(rows.shape), np.zeros(rows.shape)
        q[:] = 0.0
        for place in places[firsts[n] : firsts[n + 1]]:
            table, axis = place // 3, place % 3
            if n_inner == 0 and axis < 2:
                continue
            contract_least_squares(place, tables, theta, last_sums if axis == 2 else sums, prototype)
            a, b = sets[table, (axis + 1) % 3], sets[table, (axis + 2) % 3]
            for f in range(rank):
                for g in range(rank):
                    q[f, g] += grams[a, f, g] * grams[b, f, g] * theta[0, f] * theta[0, g]
        sums = (sums + last_sums) * theta[0]
        # Not True and False themselves: numba would compile a copy for each.
        minimize_on_simplex(rows, q, sums, np.bool_(True), n_inner)
        _gram_of_squares(rows, grams[n])
        # The column sums of A ∗ (what the tables gave for A).
        for i in range(len(rows)):
            for f in range(width):
                overlap[0, f] += rows[i, f] * last_sums[i, f]
    # H, the Gram matrix of all tables' components.
    h = np.zeros((rank, rank))
    for table in range(len(sets)):
        j, k, l = sets[table]  # noqa: E741  # as in the legend
        for f in range(rank):
            for g in range(rank):
                h[f, g] += grams[j, f, g] * grams[k, f, g] * grams[l, f, g]
    minimize_on_simplex(theta[:1], h, overlap, np.bool_(False), n_inner)
    return quadratic(theta[:1], h, overlap)
