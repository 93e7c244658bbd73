"""The E-step of hidden variables on a tree: one kernel, up and down in batches, and once more in logarithms.

A hidden variable is a variable whose categories, its states, are never seen; its factor holds the probability of each
state in each state of its parent. So θ has a group of rows for each hidden variable but the root, between the root's
weights and the factors of the visible variables, and the columns of every group sum to one, as with one hidden
variable alone.

Hidden variables are numbered so that parents come before children. For each record, likelihoods go up from the observed
cells to the root, and shares come down again. A part of the tree without an observed cell takes no part: it says
nothing, and its expected counts would only repeat θ. Records are worked off in batches, because a batch times a
transition is a matrix product: its sums stay in registers, and each row of θ is loaded once for four records.

The promise is that of `kernels.expectation`: log-probabilities and shares are right up to rounding, and shares below
1e-150 to within an absolute 1e-150.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.kernels.jit import Cells, Compressed, jit, jit_inline
from twoway.kernels.lanes import Prototype, add, divide, load, multiply, multiply_add, spread, store, total

_BATCH = 64
# Products are checked, and scaled up where needed, after this many factors.
_SEGMENT = 16
_SMALL = 1e-100
_SCALE = 1e100
_LOG_SCALE = float(np.log(_SCALE))
# Below _TINY the probability of a record may have underflowed: it is calculated again, in logarithms.
_TINY = 1e-150
_LEAST = 1e-300


class TreeRows(NamedTuple):
    """Where the rows of θ are that belong to each hidden variable."""

    parents: Ints
    """(K,): the parent of each hidden variable, a smaller number; -1 for the root, which is 0."""
    firsts: Ints
    """(K + 1,): the factor of hidden variable k is in the rows from firsts[k] to firsts[k + 1]; the root's is row 0.
    The rows of the visible cells follow."""
    homes: Ints
    """(I,): the hidden variable that the variable of each cell is attached to."""


class _TreeBatch(NamedTuple):
    """What goes up and down for some records: (K · _BATCH · width) each, a row per hidden variable and record."""

    up: Floats
    """The likelihood of what was observed at and below a hidden variable, in each of its states."""
    message: Floats
    """The same in each state of its parent; on the way down, the parent's shares divided by it."""
    down: Floats
    """The shares of the states, times the weight of the record."""
    pending: Ints
    """(K, _BATCH): how many factors ``up`` has got since it was last checked; 0 where nothing was observed."""
    active: Bools
    """(K,): whether any record of the batch has an observed cell at or below the hidden variable."""
    log_scales: Floats
    """(_BATCH,): the logarithm of what ``up`` at the root must be multiplied by."""


@jit_inline
def _four_tree_sums(
    left: Floats, at: int, across: int, along: int, rows: Floats, first: int, width: int, n: int, prototype: Prototype
) -> tuple[Any, Any, Any, Any]:
    """Return Σ_t left[at + i · across + t · along] · rows[first + t · width] for i = 0 … 3, for the lanes of a row.

    This is the inner part of a matrix product. The four sums stay in registers, and each row serves all four.
    """
    a = b = c = d = spread(0.0, prototype)
    for t in range(n):
        row = load(rows, first + t * width, prototype)
        place = at + t * along
        a = multiply_add(spread(left[place], prototype), row, a)
        b = multiply_add(spread(left[place + across], prototype), row, b)
        c = multiply_add(spread(left[place + 2 * across], prototype), row, c)
        d = multiply_add(spread(left[place + 3 * across], prototype), row, d)
    return a, b, c, d


@jit_inline
def _store_tree_sums(
    target: Floats, at: int, width: int, combine: Any, source: Floats, four: Any, prototype: Prototype
) -> None:
    """Store four sums below one another, each combined with what ``source`` has in its place."""
    a, b, c, d = four
    store(target, at, combine(load(source, at, prototype), a))
    store(target, at + width, combine(load(source, at + width, prototype), b))
    store(target, at + 2 * width, combine(load(source, at + 2 * width, prototype), c))
    store(target, at + 3 * width, combine(load(source, at + 3 * width, prototype), d))


@jit_inline
def _latest_tree_sum(before: Any, now: Any) -> Any:
    return now


@jit_inline
def _rescale_up_tree(up: Floats, at: int, width: int) -> float:
    """Scale a row up where it is small; return the logarithm of what it must be multiplied by."""
    largest = 0.0
    for f in range(at, at + width):
        largest = max(largest, up[f])
    log_scale = 0.0
    while 0.0 < largest < _SMALL:
        largest *= _SCALE
        log_scale -= _LOG_SCALE
        for f in range(at, at + width):
            up[f] *= _SCALE
    return log_scale


@jit
def _go_up_tree(
    pointers: Ints, cells: Cells, rows: TreeRows, theta: Floats, batch: _TreeBatch, prototype: Prototype
) -> None:
    """Fill ``up`` and ``message`` with the likelihood of a batch of records; those have the pointers (n_batch + 1,)."""
    # Arrays by their own names: a field of a tuple is counted as one more reference each time it is used.
    parents, firsts, homes = rows
    up, message, _, pending, active, log_scales = batch
    n_batch, n_hidden, width = pointers.size - 1, parents.size, theta.shape[1]
    first_cell, parameters = firsts[n_hidden], theta.reshape(-1)
    pending[:] = 0
    active[:] = False
    log_scales[:] = 0.0
    # All begin as 1, so that no branch asks for the first factor, and what says nothing sends 1.
    ones = spread(1.0, prototype)
    for at in range(0, up.size, len(prototype)):
        store(up, at, ones)
    for b in range(n_batch):
        for t in range(pointers[b], pointers[b + 1]):
            cell = np.int64(cells[t])
            k = homes[cell]
            at, row = (k * _BATCH + b) * width, (first_cell + cell) * width
            for f in range(0, width, len(prototype)):
                store(up, at + f, multiply(load(up, at + f, prototype), load(parameters, row + f, prototype)))
            pending[k, b] += 1
            if pending[k, b] > _SEGMENT:
                pending[k, b] = 1
                log_scales[b] += _rescale_up_tree(up, at, width)
    for k in range(n_hidden):
        for b in range(n_batch):
            if pending[k, b] > 0:
                active[k] = True
                break
    for k in range(n_hidden - 1, 0, -1):
        if not active[k]:
            continue
        above = parents[k]
        active[above] = True
        n_states = firsts[k + 1] - firsts[k]
        for b in range(0, n_batch, 4):
            at = (k * _BATCH + b) * width
            parent = (above * _BATCH + b) * width
            for f in range(0, width, len(prototype)):
                first = firsts[k] * width + f
                four = _four_tree_sums(up, at, width, 1, parameters, first, width, n_states, prototype)
                _store_tree_sums(message, at + f, width, _latest_tree_sum, message, four, prototype)
                _store_tree_sums(up, parent + f, width, multiply, up, four, prototype)
        for b in range(n_batch):
            pending[above, b] += pending[k, b]
            if pending[above, b] > _SEGMENT:
                pending[above, b] = 1
                log_scales[b] += _rescale_up_tree(up, (above * _BATCH + b) * width, width)


@jit
def _go_down_tree(
    n_batch: int, rows: TreeRows, turned: Floats, width: int, batch: _TreeBatch, ratios: Floats, prototype: Prototype
) -> None:
    """Fill ``down`` below the root, and add what θ must be multiplied by to give the expected transitions."""
    parents, firsts, _ = rows
    up, message, down, pending, active, _ = batch
    least = spread(_LEAST, prototype)
    nothing = spread(0.0, prototype)
    for k in range(1, parents.size):
        if not active[k]:
            continue
        for b in range(n_batch):
            at = (k * _BATCH + b) * width
            above = (parents[k] * _BATCH + b) * width
            for f in range(0, width, len(prototype)):
                if pending[k, b] > 0:
                    # Where the message is 0, so is the share.
                    likelihood = add(load(message, at + f, prototype), least)
                    store(message, at + f, divide(load(down, above + f, prototype), likelihood))
                else:
                    store(message, at + f, nothing)
        here = k * _BATCH * width
        for f in range(0, width, len(prototype)):
            for z in range(0, firsts[k + 1] - firsts[k], 4):
                # States beyond the last are padding: their likelihood is 0, and adds nothing to the rows behind.
                four = _four_tree_sums(up, here + z, 1, width, message, here + f, width, n_batch, prototype)
                place = (firsts[k] + z) * width + f
                _store_tree_sums(ratios, place, width, add, ratios, four, prototype)
            for b in range(0, n_batch, 4):
                at = here + b * width
                four = _four_tree_sums(message, at, width, 1, turned, k * width * width + f, width, width, prototype)
                _store_tree_sums(down, at + f, width, multiply, up, four, prototype)


@jit
def _turn_tree(theta: Floats, firsts: Ints) -> Floats:
    """Return the factors of hidden variables (K · width, width), flat, with a row for each state of the parent."""
    n_hidden, width = firsts.size - 1, theta.shape[1]
    turned = np.zeros((n_hidden, width, width))
    for k in range(1, n_hidden):
        turned[k, :, : firsts[k + 1] - firsts[k]] = theta[firsts[k] : firsts[k + 1]].T
    return turned.reshape(-1)


@jit
def expect_tree(
    records: Compressed, rows: TreeRows, theta: Floats, results: tuple[Floats, Floats, Floats], prototype: Prototype
) -> float:
    """Do the E-step on some records, whose results are added to counts or fill the others; return the log-likelihood.

    Parameters
    ----------
    records, rows
        A block of records, and the tree.
    theta
        Shape (firsts[-1] + I, width), C-contiguous.
    results
        Counts like ``theta``; the shares of states (S, K, width) and the log-probability (S,) of each record. The
        shares of a hidden variable without an observed cell at or below it follow from its parent's; those of an
        impossible record are NaN. Any of size 0 are left out.
    prototype
        From `layout`.
    """
    pointers, cells, record_weights = records
    counts, shares, log_prob = results
    width = theta.shape[1]
    parents, firsts, homes = rows
    n_hidden = parents.size
    n_hidden_rows = firsts[n_hidden]
    parameters = theta.reshape(-1)
    sums = counts.reshape(-1)
    size = n_hidden * _BATCH * width
    up, down, log_scales = np.ones(size), np.zeros(size), np.zeros(_BATCH)
    pending, active = np.zeros((n_hidden, _BATCH), dtype=np.int64), np.zeros(n_hidden, dtype=np.bool_)
    batch = _TreeBatch(up, np.ones(size), down, pending, active, log_scales)
    ratios = np.zeros((n_hidden_rows + 4) * width)
    turned = _turn_tree(theta, firsts)
    logs, nothing = np.empty((0, 0)), np.empty((0, 0))
    n_records = pointers.size - 1
    log_likelihood = 0.0
    for begin in range(0, n_records, _BATCH):
        n_batch = min(_BATCH, n_records - begin)
        _go_up_tree(pointers[begin : begin + n_batch + 1], cells, rows, theta, batch, prototype)
        for b in range(n_batch):
            weight = record_weights[begin + b] if record_weights.size > 0 else 1.0
            root, factor = b * width, 0.0
            if pending[0, b] == 0:  # it says nothing
                for f in range(width):
                    down[root + f] = parameters[f]
                factor = 0.0 if sums.size > 0 else 1.0
            elif weight != 0.0:
                # The probability of the record in each state of the root, and in all of them.
                shares_of_root = spread(0.0, prototype)
                for f in range(0, width, len(prototype)):
                    share = multiply(load(parameters, f, prototype), load(up, root + f, prototype))
                    store(down, root + f, share)
                    shares_of_root = add(shares_of_root, share)
                probability = total(shares_of_root)
                if probability >= _TINY:
                    log_scales[b] += np.log(probability)
                    factor = weight / probability
                else:
                    log_scales[b] = np.nan
            for f in range(0, width, len(prototype)):
                scaled = multiply(load(down, root + f, prototype), spread(factor, prototype))
                store(down, root + f, scaled)
                if sums.size > 0:
                    store(sums, f, add(load(sums, f, prototype), scaled))
        if sums.size > 0 or shares.size > 0:
            _go_down_tree(n_batch, rows, turned, width, batch, ratios, prototype)
        for b in range(n_batch):
            s = begin + b
            weight = record_weights[s] if record_weights.size > 0 else 1.0
            here = shares[s] if shares.size > 0 else nothing
            if np.isnan(log_scales[b]):
                if logs.size == 0:
                    logs = np.log(theta)
                log_scales[b] = _expect_tree_logs(pointers[s], pointers[s + 1], cells, weight, rows, logs, counts, here)
            else:
                for t in range(pointers[s], pointers[s + 1] if sums.size > 0 else 0):
                    cell = np.int64(cells[t])
                    row = (n_hidden_rows + cell) * width
                    at = (homes[cell] * _BATCH + b) * width
                    for f in range(0, width, len(prototype)):
                        store(sums, row + f, add(load(sums, row + f, prototype), load(down, at + f, prototype)))
                for k in range(n_hidden if shares.size > 0 else 0):
                    if k == 0 or pending[k, b] > 0:
                        at = (k * _BATCH + b) * width
                        for f in range(width):
                            here[k, f] = down[at + f]
                    else:
                        _follow_tree(k, rows, theta, here)
            if weight != 0.0:
                log_likelihood += weight * log_scales[b]
            if log_prob.size > 0:
                log_prob[s] = log_scales[b]
    for place in range(width, n_hidden_rows * width if sums.size > 0 else 0):
        sums[place] += parameters[place] * ratios[place]
    return log_likelihood


@jit
def _follow_tree(k: int, rows: TreeRows, theta: Floats, shares: Floats) -> None:
    """Fill the shares (K, width) of a hidden variable below which nothing was observed."""
    shares[k] = 0.0
    for z in range(rows.firsts[k + 1] - rows.firsts[k]):
        for y in range(theta.shape[1]):
            shares[k, z] += theta[rows.firsts[k] + z, y] * shares[rows.parents[k], y]


@jit
def _expect_tree_logs(
    begin: int, end: int, cells: Cells, weight: float, rows: TreeRows, logs: Floats, counts: Floats, shares: Floats
) -> float:
    """Do the E-step of one record in logarithms, where nothing underflows; return its log-probability.

    Its expected counts are added to ``counts``, where it has a size; its shares (K, width) go to ``shares`` likewise.
    """
    n_hidden, width = rows.parents.size, logs.shape[1]
    up = np.zeros((n_hidden, width))
    message = np.zeros((n_hidden, width))
    seen = np.zeros(n_hidden, dtype=np.bool_)
    n_hidden_rows = rows.firsts[n_hidden]
    for t in range(begin, end):
        cell = np.int64(cells[t])
        seen[rows.homes[cell]] = True
        up[rows.homes[cell]] += logs[n_hidden_rows + cell]
    for k in range(n_hidden - 1, 0, -1):
        if seen[k]:
            seen[rows.parents[k]] = True
            for y in range(width):
                message[k, y] = _tree_log_sum(logs, rows.firsts[k], rows.firsts[k + 1], y, up[k])
                up[rows.parents[k], y] += message[k, y]
    up[0] += logs[0]
    top = up[0].max()
    if top == -np.inf:
        shares[:] = np.nan
        return -np.inf
    log_probability = float(top + np.log(np.exp(up[0] - top).sum()))
    # From here on the root's row of ``down`` holds logarithms of shares.
    down = np.full((n_hidden, width), -np.inf)
    down[0] = up[0] - log_probability
    for k in range(1, n_hidden):
        if not seen[k] and shares.size == 0:
            continue
        for z in range(rows.firsts[k + 1] - rows.firsts[k]):
            mass = 0.0
            for y in range(width):
                above = down[rows.parents[k], y]
                if above > -np.inf:
                    row = rows.firsts[k] + z
                    share = np.exp(above - message[k, y] + logs[row, y] + up[k, z])
                    mass += share
                    if counts.size > 0:
                        counts[row, y] += weight * share
            down[k, z] = np.log(mass)
    if counts.size > 0:
        counts[0] += weight * np.exp(down[0])
        for t in range(begin, end):
            cell = np.int64(cells[t])
            counts[n_hidden_rows + cell] += weight * np.exp(down[rows.homes[cell]])
    if shares.size > 0:
        shares[:] = np.exp(down)
    return log_probability


@jit
def _tree_log_sum(logs: Floats, first: int, last: int, y: int, up: Floats) -> float:
    """Return log Σ_z exp(up[z]) · θ[first + z, y]."""
    terms = logs[first:last, y] + up[: last - first]
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum())) if top > -np.inf else -np.inf
