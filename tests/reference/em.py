"""Slow, obvious versions of the E-step, the M-step and related functions: one Python loop over records."""

import math

import numpy as np


def log_joint(record, weights, factors):
    """Return log(λ_f · Π θ(cell, f)) for each component; -inf where it is impossible."""
    logs = []
    for component, weight in enumerate(weights):
        entries = [weight, *(factors[cell, component] for cell in record)]
        logs.append(sum(math.log(entry) for entry in entries) if all(entry > 0 for entry in entries) else -math.inf)
    return logs


def log_sum(logs):
    highest = max(logs)
    return -math.inf if highest == -math.inf else highest + math.log(math.fsum(math.exp(x - highest) for x in logs))


def posterior(pointers, cells, weights, factors):
    """Return memberships (S, F) and log-probabilities (S,); an impossible record has the weights."""
    n = len(pointers) - 1
    memberships, log_prob = np.empty((n, len(weights))), np.empty(n)
    for s in range(n):
        logs = log_joint([int(cell) for cell in cells[pointers[s] : pointers[s + 1]]], weights, factors)
        log_prob[s] = log_sum(logs)
        possible = log_prob[s] > -math.inf
        memberships[s] = [math.exp(x - log_prob[s]) for x in logs] if possible else weights
    return memberships, log_prob


def expect(pointers, cells, record_weights, weights, factors):
    """Return the expected counts (1 + I, F) and the log-likelihood; an impossible record adds no counts."""
    memberships, log_prob = posterior(pointers, cells, weights, factors)
    counts = np.zeros((1 + len(factors), len(weights)))
    log_likelihood = 0.0
    for s in range(len(pointers) - 1):
        weight = 1.0 if record_weights is None else record_weights[s]
        if weight == 0:
            continue
        log_likelihood += weight * log_prob[s]
        if log_prob[s] > -math.inf:
            counts[0] += weight * memberships[s]
            for cell in cells[pointers[s] : pointers[s + 1]]:
                counts[1 + int(cell)] += weight * memberships[s]
    return counts, log_likelihood


def maximize(counts, pseudo_counts, marginal, sizes):
    """Return θ (1 + I, F): λ above the factors, each a share of what was observed of its variable."""
    total = counts + pseudo_counts[:, None]
    rank = counts.shape[1]
    theta = np.empty_like(total)
    theta[0] = total[0] / total[0].sum() if total[0].sum() > 0 else 1 / rank
    first = 1
    for size in sizes:
        rows = slice(first, first + size)
        for component in range(rank):
            column = total[rows, component]
            theta[rows, component] = (
                column / column.sum() if column.sum() > 0 else marginal[first - 1 : first - 1 + size]
            )
        first += size
    return theta


def log_prior(theta, pseudo_counts):
    return sum(
        count * math.log(entry) for row, count in zip(theta, pseudo_counts, strict=True) if count > 0 for entry in row
    )
