"""The counting kernels equal their reference versions, for every cell type, with and without weights."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.counting import count_sets
from strategies import examples

from twoway.kernels import counting

KERNELS = {2: counting.count_pairs, 3: counting.count_triples}


def make_records(seed, sizes, n_records, observed):
    """Return pointers and cells of random records; about the share ``observed`` of cells is there."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    seen = rng.random((n_records, len(sizes))) < observed
    cells = np.floor(rng.random((n_records, len(sizes))) * sizes).astype(np.int64) + offsets[:-1]
    pointers = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    return offsets, pointers, cells[seen], rng.integers(1, 9, n_records)


def count_flat(pointers, cells, weights, offsets, order):
    first, n_entries = counting.counting_strips(offsets, order)
    kind = np.uint32 if weights is None else np.int64
    counts = np.zeros(n_entries, dtype=kind)
    KERNELS[order](pointers, cells, np.ones(1, dtype=kind) if weights is None else weights, first, counts)
    return counting.unstrip_counts(counts, offsets, order)


def twin_flat(pointers, cells, weights, sizes, order):
    tables = count_sets(pointers, cells, weights, sizes, order)
    return np.concatenate([np.zeros(0)] + [tables[chosen].ravel() for chosen in combinations(range(len(sizes)), order)])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernels_equal_their_twin(dtype, order, weighted):
    sizes = [3, 1, 4, 2, 5]
    offsets, pointers, cells, weights = make_records(3, sizes, 60, 0.6)
    weights = weights if weighted else None
    counted = count_flat(pointers, cells.astype(dtype), weights, offsets, order)
    assert counted.any()
    np.testing.assert_array_equal(counted, twin_flat(pointers, cells, weights, sizes, order))


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    n_records=st.integers(0, 25),
    observed=st.sampled_from([0.0, 0.3, 1.0]),
    order=st.sampled_from([2, 3]),
)
def test_any_records(seed, sizes, n_records, observed, order):
    offsets, pointers, cells, weights = make_records(seed, sizes, n_records, observed)
    for given_weights in (None, weights):
        counted = count_flat(pointers, cells.astype(np.uint16), given_weights, offsets, order)
        np.testing.assert_array_equal(counted, twin_flat(pointers, cells, given_weights, sizes, order))


def test_pointers_need_not_start_at_zero():
    sizes = [2, 3, 2]
    offsets, pointers, cells, _ = make_records(5, sizes, 40, 0.7)
    whole = count_flat(pointers, cells.astype(np.uint8), None, offsets, 2)
    parts = [count_flat(part, cells.astype(np.uint8), None, offsets, 2) for part in (pointers[:18], pointers[17:])]
    assert parts[1].any()
    np.testing.assert_array_equal(whole, parts[0] + parts[1])


def test_counts_add_to_an_existing_file():
    offsets, pointers, cells, _ = make_records(1, [2, 2], 10, 1.0)
    first, n_entries = counting.counting_strips(offsets, 2)
    counts = np.full(n_entries, 7, dtype=np.uint32)
    counting.count_pairs(pointers, cells.astype(np.uint8), np.ones(1, dtype=np.uint32), first, counts)
    assert counts.sum() == 7 * n_entries + 10
