"""The E-step, and what it is made of: the probability of each component given a record.

Records are compressed: record s owns ``cells[pointers[s]:pointers[s + 1]]``. A cell is a row of θ, so
neither kernel needs to know which variable it belongs to, nor that others are missing.

The promise of both kernels for each record, whatever the size of the entries of θ (0 to 1, the smallest double
included): its log-probability and the shares of the components in it are right up to rounding, a relative 2e-16 per
cell. Shares below 1e-150 may have an absolute error of 1e-170 instead. The reason: products only fall from cell to
cell, so one that ends at 1e-300 or more was always a normal double (above 2.2e-308), and sums are accepted as they
are from 1e-150 on.
"""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.kernels.jit import Cells, Compressed, jit, jit_inline, jit_sums
from twoway.kernels.lanes import Prototype, add, load, multiply, spread, store, total

# Up to this many cells, a product is rarely so small that it must be checked on the way.
_FEW = 128
# Products are checked, and scaled up where needed, after this many cells.
_SEGMENT = 16
# Below _SMALL a product is scaled up by _STEP. Below _TINY it may have underflowed before; so may those components of
# a sum above _TINY whose share is below 1e-150.
_SMALL = 1e-100
_TINY = 1e-150
_STEP_BITS = 320.0
_STEP = 2.0**_STEP_BITS
_NEAR_ONE_BITS = -64.0
_NEAR_ONE = 2.0**_NEAR_ONE_BITS
# At least so large, a product stays a normal double when multiplied by the smallest one, 2**-1074.
_SAFE = 2.0**64
# The bits of √½: what is above it by whole powers of two leaves a rest between √½ and √2.
_BITS_OF_ROOT_HALF = 0x3FE6A09E667F3BCD
_MANTISSA_BITS = 52
_LN_2 = float(np.log(2.0))


@jit_inline
def _joint_of_few(
    begin: int, end: int, cells: Cells, theta: Floats, width: int, q: Floats, prototype: Prototype
) -> float:
    """Fill q with λ_f · Π θ(cell, f) and return its sum, which may have underflowed."""
    sums = spread(0.0, prototype)
    for f in range(0, width, len(prototype)):
        product = load(theta, f, prototype)
        for t in range(begin, end):
            product = multiply(product, load(theta, (np.int64(cells[t]) + 1) * width + f, prototype))
        store(q, f, product)
        sums = add(sums, product)
    return float(total(sums))


@jit
def _joint_of_many(
    begin: int, end: int, cells: Cells, theta: Floats, width: int, q: Floats, prototype: Prototype
) -> tuple[float, float]:
    """Fill q with λ_f · Π θ(cell, f), up to a scale; return its sum and the logarithm of the scale.

    Each component has its exponent in the second half of q (2 · width): one that is far behind
    after some cells may lead after all of them. A sum of 0 means that the record is impossible.
    """
    for f in range(width):
        q[f] = theta[f]
        q[width + f] = 0.0
    for start in range(begin, end, _SEGMENT):
        stop = min(start + _SEGMENT, end)
        for f in range(0, width, len(prototype)):
            product = load(q, f, prototype)
            for t in range(start, stop):
                product = multiply(product, load(theta, (np.int64(cells[t]) + 1) * width + f, prototype))
            store(q, f, product)
        for f in range(width):
            if q[f] < _SMALL and q[width + f] > -np.inf:
                if q[f] < _TINY:  # it may have underflowed within the segment
                    q[f], q[width + f] = _expect_component(begin, stop, cells, theta, width, f)
                else:
                    q[f] *= _STEP
                    q[width + f] -= _STEP_BITS
    highest = -np.inf
    for f in range(width):
        if q[f] > 0.0:
            while q[f] < _NEAR_ONE:  # so that exponents alone show which component is ahead
                q[f] /= _NEAR_ONE
                q[width + f] += _NEAR_ONE_BITS
            highest = max(highest, q[width + f])
    if highest == -np.inf:
        return 0.0, 0.0
    probability = 0.0
    for f in range(width):
        if q[f] > 0.0:
            q[f] *= 2.0 ** max(q[width + f] - highest, -2000.0)
            probability += q[f]
    return probability, highest * np.log(2.0)


@jit
def _expect_component(begin: int, end: int, cells: Cells, theta: Floats, width: int, f: int) -> tuple[float, float]:
    """Return λ_f · Π θ(cell, f) as a number and a power of two, the latter -inf if the former is 0."""
    value = theta[f]
    exponent = 0.0
    for t in range(begin, end):
        while 0.0 < value < _SAFE:
            value /= _NEAR_ONE
            exponent += _NEAR_ONE_BITS
        value *= theta[(np.int64(cells[t]) + 1) * width + f]
    if value == 0.0:
        return 0.0, -np.inf
    return value, exponent


@jit_inline
def _add_expected(
    begin: int, end: int, cells: Cells, counts: Floats, width: int, q: Floats, factor: float, prototype: Prototype
) -> None:
    """Add q times a factor to the components' counts and to those of each cell of a record."""
    scale = spread(factor, prototype)
    for f in range(0, width, len(prototype)):
        share = multiply(load(q, f, prototype), scale)
        store(counts, f, add(load(counts, f, prototype), share))
        for t in range(begin, end):
            row = (np.int64(cells[t]) + 1) * width + f
            store(counts, row, add(load(counts, row, prototype), share))


@jit
def expect(records: Compressed, theta: Floats, counts: Floats, prototype: Prototype) -> float:
    """Add the expected counts of some records to ``counts`` and return their log-likelihood.

    Each record adds its weight times the shares that the module promises: right up to rounding where they are at least
    1e-150, and to within 1e-170 of the record's weight where they are smaller.

    Parameters
    ----------
    records
        A block of records.
    theta, counts
        Shape (1 + I, width), C-contiguous. Row 0 of ``counts`` gets the expected number of records in each
        component, row 1 + c that of the records that show cell c.
    prototype
        From `layout`.
    """
    pointers, cells, record_weights = records
    width = theta.shape[1]
    parameters = theta.reshape(-1)
    sums = counts.reshape(-1)
    # Long records, and those whose product underflows, wait for another loop: compiled into this
    # one, their code would crowd its registers.
    waiting = np.empty(pointers.size, dtype=np.int64)
    weighted = record_weights.size > 0
    if weighted and width == len(prototype) and _expects_table(pointers):
        log_likelihood, n_waiting = _expect_table(records, parameters, sums, waiting, prototype)
    else:
        log_likelihood, n_waiting = _expect_few(records, parameters, sums, width, waiting, prototype)
    q = np.empty(2 * width)
    for s in waiting[:n_waiting]:
        weight = record_weights[s] if weighted else 1.0
        begin, end = pointers[s], pointers[s + 1]
        probability, log_scale = _joint_of_many(begin, end, cells, parameters, width, q, prototype)
        if probability == 0.0:
            log_likelihood = -np.inf
        else:
            log_likelihood += weight * (np.log(probability) + log_scale)
            _add_expected(begin, end, cells, sums, width, q, weight / probability, prototype)
    return log_likelihood


@jit
def _expect_few(
    records: Compressed, parameters: Floats, sums: Floats, width: int, waiting: Ints, prototype: Prototype
) -> tuple[float, int]:
    """Do the E-step on the short records; return their log-likelihood, and how many others wait."""
    pointers, cells, record_weights = records
    q = np.empty(width)
    weighted = record_weights.size > 0
    log_likelihood = 0.0
    likelihood = 1.0
    n_waiting = 0
    probabilities = np.ones(record_weights.size)
    for s in range(pointers.size - 1):
        weight = record_weights[s] if weighted else 1.0
        begin, end = pointers[s], pointers[s + 1]
        if weight == 0.0:
            continue
        probability = 0.0
        if end - begin <= _FEW:
            probability = _joint_of_few(begin, end, cells, parameters, width, q, prototype)
        if probability < _TINY:
            waiting[n_waiting] = s
            n_waiting += 1
            continue
        if weighted:
            probabilities[s] = probability
        else:
            # A logarithm costs as much as the products: take one for many records.
            likelihood *= probability
            if likelihood < _TINY:
                log_likelihood += np.log(likelihood)
                likelihood = 1.0
        _add_expected(begin, end, cells, sums, width, q, weight / probability, prototype)
    if weighted:
        return expected_log_sum(record_weights, probabilities), n_waiting
    return log_likelihood + float(np.log(likelihood)), n_waiting


@jit
def _expects_table(pointers: Ints) -> bool:
    """Return whether all records have the same number of cells, two or three."""
    order = pointers[1] - pointers[0] if pointers.size > 1 else 0
    same = True
    for s in range(pointers.size - 1):
        same &= pointers[s + 1] - pointers[s] == order
    return same and 2 <= order <= 3


@jit
def _expect_table(
    records: Compressed, parameters: Floats, sums: Floats, waiting: Ints, prototype: Prototype
) -> tuple[float, int]:
    """Do the E-step on table cells; return their log-likelihood, and how many wait.

    Neighbours differ in their last cell only: what they share is multiplied, and added up, once for a whole row.
    """
    pointers, cells, record_weights = records
    width = len(prototype)
    n_records = record_weights.size
    last = pointers[1] - pointers[0] - 1
    probabilities = np.ones(n_records)
    n_waiting = 0
    s = 0
    while s < n_records:
        begin = pointers[s]
        shared = load(parameters, 0, prototype)
        for t in range(begin, begin + last):
            shared = multiply(shared, load(parameters, (np.int64(cells[t]) + 1) * width, prototype))
        seen = spread(0.0, prototype)
        same_row = True
        while same_row:
            row = (np.int64(cells[pointers[s] + last]) + 1) * width
            factor = load(parameters, row, prototype)
            probability = total(multiply(shared, factor))
            weight = record_weights[s]
            if probability >= _TINY:
                probabilities[s] = probability
                share = multiply(factor, spread(weight / probability, prototype))
                seen = add(seen, share)
                store(sums, row, add(load(sums, row, prototype), multiply(shared, share)))
            elif weight > 0.0:
                waiting[n_waiting] = s
                n_waiting += 1
            s += 1
            same_row = s < n_records
            if same_row:
                for t in range(last):
                    same_row &= cells[pointers[s] + t] == cells[begin + t]
        seen = multiply(shared, seen)
        store(sums, 0, add(load(sums, 0, prototype), seen))
        for t in range(begin, begin + last):
            row = (np.int64(cells[t]) + 1) * width
            store(sums, row, add(load(sums, row, prototype), seen))
    return expected_log_sum(record_weights, probabilities), n_waiting


@jit
def expect_memberships(
    pointers: Ints, cells: Cells, theta: Floats, memberships: Floats, log_prob: Floats, prototype: Prototype
) -> None:
    """Fill memberships (S, F) and log_prob (S,) for some records; an impossible one keeps the weights."""
    width = theta.shape[1]
    parameters = theta.reshape(-1)
    q = np.empty(2 * width)
    for s in range(pointers.size - 1):
        probability, log_scale = _joint_of_many(pointers[s], pointers[s + 1], cells, parameters, width, q, prototype)
        possible = probability > 0.0
        log_prob[s] = np.log(probability) + log_scale if possible else -np.inf
        for f in range(memberships.shape[1]):
            memberships[s, f] = q[f] / probability if possible else theta[0, f]


@jit_sums
def expected_log_sum(weights: Floats, numbers: Floats) -> float:
    """Return Σ weight · log(number), for positive numbers that are not subnormal.

    The logarithm of the C library takes one number at a time and as long as all else the E-step does for a table cell.
    Here a number is split into a power of two and a rest near one, whose logarithm is a short series: plain arithmetic,
    which the compiler does on whole vectors, four times faster.
    """
    bits = numbers.view(np.int64)
    rest_bits = np.empty_like(bits)
    powers = 0.0
    for i in range(bits.size):
        power = (bits[i] - _BITS_OF_ROOT_HALF) >> _MANTISSA_BITS
        rest_bits[i] = bits[i] - (power << _MANTISSA_BITS)
        powers += weights[i] * power
    rests = rest_bits.view(np.float64)
    logs = 0.0
    for i in range(rests.size):
        # log r = 2 artanh t; between √½ and √2, t² < 0.03: ten terms reach the last bit.
        t = (rests[i] - 1.0) / (rests[i] + 1.0)
        z = t * t
        series = 2 / 15 + z * (2 / 17 + z * (2 / 19 + z * (2 / 21)))
        series = 2.0 + z * (2 / 3 + z * (2 / 5 + z * (2 / 7 + z * (2 / 9 + z * (2 / 11 + z * (2 / 13 + z * series))))))
        logs += weights[i] * (t * series)
    return powers * _LN_2 + logs
