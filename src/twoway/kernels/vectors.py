"""Vectors of users and items: what each user's ratings say about the user's vector, and the sums over users.

Legend: a rating of item i by user u is y = aᵢ · x + noise of variance σ². The user's x = (1, z) has z ~ N(0, I); the
item's a = (offset, loadings) has mean āᵢ and second moments E[a aᵀ]. Symmetric matrices are packed, the lower triangle
row by row, so that entry (p, q ≤ p) is at p(p + 1)/2 + q, and E[x xᵀ] has E[x_p] at p(p + 1)/2. Given the items, z is
Gaussian with precision I + Σ E[b bᵀ]/σ² and linear term Σ (y b̄ − E[offset · b])/σ², b the loadings.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.kernels.jit import Cells, jit_inline, jit_sums

Ratings: TypeAlias = tuple[Ints, Cells, Floats]
"""Pointers and cells of users' ratings, a cell for each item and point of the scale, and these points."""


@jit_inline
def _invert_precision(matrix: Floats) -> float:
    """Replace a positive definite matrix by its inverse; return the logarithm of its determinant.

    Elimination without exchanges: a precision of at least the identity needs none.
    """
    log_determinant = 0.0
    for p in range(len(matrix)):
        log_determinant += math.log(matrix[p, p])
        factor = 1.0 / matrix[p, p]
        matrix[p, p] = 1.0
        for q in range(len(matrix)):
            matrix[p, q] *= factor
        for r in range(len(matrix)):
            if r != p:
                share = matrix[r, p]
                matrix[r, p] = 0.0
                for q in range(len(matrix)):
                    matrix[r, q] -= share * matrix[p, q]
    return log_determinant


@jit_inline
def _sum_ratings(user: int, ratings: Ratings, means: Floats, moments: Floats, total: Floats, products: Floats) -> float:
    """Write Σ E[a aᵀ] and Σ y ā over a user's ratings; return Σ y²."""
    pointers, cells, points = ratings
    total[:] = 0.0
    products[:] = 0.0
    squares = 0.0
    for place in range(pointers[user], pointers[user + 1]):
        item, rating = cells[place] // len(points), points[cells[place] % len(points)]
        squares += rating * rating
        for t in range(len(total)):
            total[t] += moments[item, t]
        for p in range(len(products)):
            products[p] += rating * means[item, p]
    return squares


@jit_sums
def user_moments(ratings: Ratings, means: Floats, moments: Floats, noise: float, out: Floats) -> float:
    """Write E[x xᵀ] of each user, packed, (n_users, n_packed); return the sum of the users' log-evidence.

    Parameters
    ----------
    means
        āᵢ, (n_items, 1 + k).
    moments
        E[a aᵀ] of each item, packed, (n_items, n_packed).
    """
    size = means.shape[1]
    total, products, mean = np.empty(moments.shape[1]), np.empty(size), np.empty(size)
    inverse = np.empty((size - 1, size - 1))
    pointers, evidence = ratings[0], 0.0
    for user in range(len(pointers) - 1):
        squares = _sum_ratings(user, ratings, means, moments, total, products)
        for p in range(1, size):
            for q in range(1, p + 1):
                entry = total[p * (p + 1) // 2 + q] / noise
                inverse[p - 1, q - 1] = inverse[q - 1, p - 1] = entry + 1.0 if p == q else entry
        n_ratings = pointers[user + 1] - pointers[user]
        unexplained = (squares - 2.0 * products[0] + total[0]) / noise + n_ratings * math.log(2.0 * math.pi * noise)
        unexplained += _invert_precision(inverse)
        out[user, 0] = 1.0
        for p in range(1, size):
            mean[p] = 0.0
            for q in range(1, size):
                mean[p] += inverse[p - 1, q - 1] * (products[q] - total[q * (q + 1) // 2]) / noise
            row = p * (p + 1) // 2
            unexplained -= mean[p] * (products[p] - total[row]) / noise
            out[user, row] = mean[p]
            for q in range(1, p + 1):
                out[user, row + q] = inverse[p - 1, q - 1] + mean[p] * mean[q]
        evidence -= 0.5 * unexplained
    return evidence


@jit_sums
def user_guesses(ratings: Ratings, means: Floats, moments: Floats, noise: float, out: Floats) -> None:
    """Write x xᵀ of each user, packed, (n_users, n_packed), with z at its mean: as `user_moments`, without variances.

    The mean is solved for by a Cholesky factorisation, which takes fewer operations than an inverse.
    """
    size = means.shape[1]
    total, products, mean = np.empty(moments.shape[1]), np.empty(size), np.empty(size)
    root = np.empty((size, size))
    for user in range(len(ratings[0]) - 1):
        _sum_ratings(user, ratings, means, moments, total, products)
        for p in range(1, size):
            row = p * (p + 1) // 2
            for q in range(1, p + 1):
                entry = total[row + q] / noise
                for s in range(1, q):
                    entry -= root[p, s] * root[q, s]
                root[p, q] = math.sqrt(entry + 1.0) if p == q else entry / root[q, q]
            mean[p] = (products[p] - total[row]) / noise
            for s in range(1, p):
                mean[p] -= root[p, s] * mean[s]
            mean[p] /= root[p, p]
        mean[0] = 1.0
        for p in range(size - 1, 0, -1):
            mean[p] /= root[p, p]
            for s in range(1, p):
                mean[s] -= root[p, s] * mean[p]
        for p in range(size):
            for q in range(p + 1):
                out[user, p * (p + 1) // 2 + q] = mean[p] * mean[q]


@jit_sums
def add_user_moments(ratings: Ratings, of_user: Floats, squares: Floats, products: Floats) -> None:
    """Add Σ E[x xᵀ] over each item's ratings to ``squares`` (n_items, n_packed), and Σ y E[x] to ``products``."""
    pointers, cells, points = ratings
    n_points, n_packed, size = len(points), of_user.shape[1], products.shape[1]
    for user in range(len(pointers) - 1):
        for place in range(pointers[user], pointers[user + 1]):
            item, rating = cells[place] // n_points, points[cells[place] % n_points]
            for t in range(n_packed):
                squares[item, t] += of_user[user, t]
            for p in range(size):
                products[item, p] += rating * of_user[user, p * (p + 1) // 2]
