"""Slow, obvious versions of what the label aggregator computes: loops over items, annotators and classes."""

import math

import numpy as np


def posteriors(labels, gold, priors, matrices):
    """Return the probabilities of each item's class (n_items, K), and the log-likelihood.

    ``labels`` are, for each item, pairs of annotator and label; ``gold`` its class or -1; ``matrices[m][j][k]`` is
    Pr(annotator m says j | the truth is k).
    """
    rows, log_likelihood = [], 0.0
    for pairs, known in zip(labels, gold, strict=True):
        joint = []
        for k, prior in enumerate(priors):
            likelihood = prior * math.prod(matrices[m][j][k] for m, j in pairs)
            joint.append(likelihood if known in (-1, k) else 0.0)
        rows.append([value / sum(joint) for value in joint])
        log_likelihood += math.log(sum(joint))
    return np.array(rows), log_likelihood


def counts_of(labels, probabilities, n_annotators):
    """Return how often each annotator is expected to have given each label in each class, (n_annotators, K, K)."""
    n_classes = len(probabilities[0])
    counts = np.zeros((n_annotators, n_classes, n_classes))
    for pairs, shares in zip(labels, probabilities, strict=True):
        for m, j in pairs:
            for k in range(n_classes):
                counts[m, j, k] += shares[k]
    return counts


def usual_confusions(counts, usual_right, usual_labels):
    """Return what is usual for each annotator, column by column."""
    n_annotators, n_classes, _ = counts.shape
    classes = range(n_classes)
    pooled = np.zeros((n_classes, n_classes))
    for k in classes:
        column = [counts[:, j, k].sum() + 0.5 * (j == k) + 0.5 / n_classes for j in classes]
        column[k] = max(column)
        pooled[:, k] = [value / sum(column) for value in column]
    expected_right = [sum(counts[m, :, k].sum() * pooled[k, k] for k in classes) for m in range(n_annotators)]
    mean_right = (sum(expected_right) + sum(pooled[k, k] for k in classes) / n_classes) / (counts.sum() + 1.0)
    tilted = np.zeros(counts.shape)
    for m in range(n_annotators):
        n_labels = counts[m].sum() + usual_right
        accuracy = (sum(counts[m, k, k] for k in classes) + usual_right * mean_right) / n_labels
        usually = (expected_right[m] + usual_right * mean_right) / n_labels
        odds = accuracy / (1 - accuracy) / (usually / (1 - usually))
        for k in classes:
            column = [pooled[j, k] * (odds if j == k else 1.0) for j in classes]
            tilted[m, :, k] = [value / sum(column) for value in column]
    expected = np.array(
        [[sum(tilted[m, j, k] * counts[m, :, k].sum() for k in classes) for j in classes] for m in range(n_annotators)]
    )
    use = [expected[:, j].sum() + 1.0 / n_classes for j in classes]
    use = [usual_labels * value / sum(use) for value in use]
    for m in range(n_annotators):
        for k in classes:
            column = [tilted[m, j, k] * (counts[m, j].sum() + use[j]) / (expected[m, j] + use[j]) for j in classes]
            tilted[m, :, k] = [value / sum(column) for value in column]
    return tilted


def em_pass(labels, gold, priors, matrices, largest_shares, smoothing, usual_right, usual_labels):
    """Return the priors and matrices after one pass, and the log-likelihood before it."""
    probabilities, log_likelihood = posteriors(labels, gold, priors, matrices)
    counts = counts_of(labels, probabilities, len(matrices))
    following = counts + smoothing * usual_confusions(counts, usual_right, usual_labels)
    weights = probabilities.sum(axis=0) + 1.0
    shares = np.array([min(*pair) for pair in zip(weights / weights.sum(), largest_shares, strict=True)])
    return shares / shares.sum(), following / following.sum(axis=1, keepdims=True), log_likelihood


def entropy(shares):
    return -sum(share * math.log(share) for share in shares if share > 0)


def gain(shares, matrix):
    """Return the entropy of the truth less what is left of it, on average, after a label: ``matrix[j][k]``."""
    left = 0.0
    for row in matrix:
        joint = [share * probability for share, probability in zip(shares, row, strict=True)]
        if sum(joint) > 0:
            left += sum(joint) * entropy([value / sum(joint) for value in joint])
    return entropy(shares) - left
