"""The posterior of users' vectors, one user at a time, in dense linear algebra."""

import numpy as np


def user_posterior(items, ratings, means, moments, noise):
    """Return E[x xᵀ] of a user, x = (1, z), and the log-evidence, from E[a aᵀ] of each item, (n_items, size, size)."""
    size = means.shape[1]
    precision, linear, squares = np.eye(size - 1), np.zeros(size - 1), 0.0
    for item, rating in zip(items, ratings, strict=True):
        precision += moments[item][1:, 1:] / noise
        linear += (rating * means[item][1:] - moments[item][0, 1:]) / noise
        squares += (rating**2 - 2 * rating * means[item][0] + moments[item][0, 0]) / noise + np.log(2 * np.pi * noise)
    covariance = np.linalg.inv(precision)
    mean = np.concatenate([[1.0], covariance @ linear])
    second = np.outer(mean, mean)
    second[1:, 1:] += covariance
    log_evidence = 0.5 * (linear @ covariance @ linear - np.linalg.slogdet(precision)[1] - squares)
    return second, log_evidence
