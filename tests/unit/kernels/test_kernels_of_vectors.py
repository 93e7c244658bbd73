"""Users' vectors against dense linear algebra, and against the marginal distribution of ratings."""

from itertools import pairwise

import numpy as np
import pytest
from reference.vectors import user_posterior

from twoway.kernels.vectors import add_user_moments, user_guesses, user_moments

POINTS = np.array([1.0, 2.0, 3.5])
POINTERS = np.array([0, 3, 3, 4, 9])


def problem(dtype, size, seed=0):
    """Nine ratings of four users, one of whom rated nothing, and the moments of six items."""
    random = np.random.default_rng(seed)
    items = np.array([0, 2, 5, 3, 0, 1, 2, 4, 5])
    codes = random.integers(3, size=9)
    means = random.normal(size=(6, size))
    roots = random.normal(size=(6, size, size))
    moments = means[:, :, None] * means[:, None, :] + 0.1 * roots @ roots.transpose(0, 2, 1)
    return items, POINTS[codes], (items * 3 + codes).astype(dtype), means, moments


def packed(matrices):
    rows, columns = np.tril_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[..., rows, columns])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("size", [2, 4])
def test_users_moments_are_those_of_linear_algebra(dtype, size):
    items, ratings, cells, means, moments = problem(dtype, size)
    found = np.empty((4, size * (size + 1) // 2))
    evidence = user_moments((POINTERS, cells, POINTS), means, packed(moments), 0.7, found)
    squares, products = np.zeros((6, found.shape[1])), np.zeros((6, size))
    add_user_moments((POINTERS, cells, POINTS), found, squares, products)
    expected_evidence, expected_squares, expected_products = 0.0, np.zeros((6, size, size)), np.zeros((6, size))
    for user, (first, last) in enumerate(pairwise(POINTERS)):
        second, one = user_posterior(items[first:last], ratings[first:last], means, moments, 0.7)
        np.testing.assert_allclose(found[user], packed(second), rtol=1e-10, atol=1e-12)
        expected_evidence += one
        for item, rating in zip(items[first:last], ratings[first:last], strict=True):
            expected_squares[item] += second
            expected_products[item] += rating * second[0]
    assert evidence == pytest.approx(expected_evidence)
    np.testing.assert_allclose(squares, packed(expected_squares), atol=1e-12)
    np.testing.assert_allclose(products, expected_products, atol=1e-12)


@pytest.mark.parametrize("size", [2, 4])
def test_users_guesses_are_the_products_of_their_means(size):
    items, ratings, cells, means, moments = problem(np.uint8, size)
    found = np.empty((4, size * (size + 1) // 2))
    user_guesses((POINTERS, cells, POINTS), means, packed(moments), 0.7, found)
    for user, (first, last) in enumerate(pairwise(POINTERS)):
        second, _ = user_posterior(items[first:last], ratings[first:last], means, moments, 0.7)
        np.testing.assert_allclose(found[user], packed(np.outer(second[0], second[0])), rtol=1e-10, atol=1e-12)


def test_known_items_give_the_exact_likelihood():
    """With no doubt about the items, a user's ratings are Gaussian with covariance BBᵀ + σ²I."""
    items, ratings, cells, means, _ = problem(np.uint8, 3)
    moments = means[:, :, None] * means[:, None, :]
    evidence = user_moments((POINTERS, cells, POINTS), means, packed(moments), 0.5, np.empty((4, 6)))
    exact = 0.0
    for first, last in pairwise(POINTERS):
        some = items[first:last]
        covariance = means[some, 1:] @ means[some, 1:].T + 0.5 * np.eye(last - first)
        gaps = ratings[first:last] - means[some, 0]
        exact -= 0.5 * (gaps @ np.linalg.solve(covariance, gaps) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert evidence == pytest.approx(exact)
