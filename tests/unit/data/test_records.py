"""Records: blocks, folds, the canonical order, and sums that do not depend on threads."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, frames, schemas

from twoway.data import records as module
from twoway.data.records import Records
from twoway.data.stored_records import Block
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, UnknownNameError
from twoway.parallel import usable_cores
from twoway.schema import Schema, Variable

SCHEMA = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
RECORDS = Records({"age": ["young", None, "old", None], "vote": ["yes", "no", None, None]}, schema=SCHEMA)


def some_records(n=500, seed=0, **options):
    return draw_records(dirichlet_rows(5, 3, 2, seed=seed), n, seed=seed, **{"observed": 0.6} | options)


def bytes_of(records):
    weights = b"" if records.weights is None else records.weights.tobytes()
    return records.pointers.tobytes(), records.cells.tobytes(), weights


def count_cells(records, threads=None):
    """Return how often each cell occurs, block by block."""

    def per_block(block: Block):
        cells = block.cells[block.pointers[0] : block.pointers[-1]]
        weights = None if block.weights is None else np.repeat(block.weights, np.diff(block.pointers))
        return np.bincount(cells, weights, minlength=records.schema.n_categories).astype(float)

    return records.map_reduce(per_block, np.add, threads=threads)


def test_repr():
    assert repr(RECORDS) == "Records(4 records, 2 variables, 4 of 8 cells observed)"
    assert len(RECORDS) == 4
    assert RECORDS.n_observed == 4
    assert RECORDS.total_weight == 4.0
    assert RECORDS.cell_totals().tolist() == [1, 1, 1, 1]
    assert RECORDS.reweighted(np.array([2.0, 0, 1, 5])).cell_totals().tolist() == [2, 1, 0, 2]


def test_a_record_with_nothing_observed_has_no_cells():
    assert np.diff(RECORDS.pointers).tolist() == [2, 1, 1, 0]
    assert RECORDS.codes()[3].tolist() == [-1, -1]


def test_records_in_the_order_of_another_schema():
    other = Schema((SCHEMA["vote"], SCHEMA["age"]))
    assert Records(RECORDS, schema=other).codes().tolist() == RECORDS.codes()[:, ::-1].tolist()


# Marginals


def test_marginal_counts_the_records_that_show_all():
    records = Records({"a": [0, 0, 1, None, 1], "b": ["x", "y", "y", "x", None]}, weights=[1, 2, 4, 8, 16])
    both = records.marginal(["b", "a"])
    assert both.names == ("b", "a")
    assert both.total == 7
    np.testing.assert_allclose(np.asarray(both), np.array([[1, 0], [2, 4]]) / 7)
    np.testing.assert_allclose(np.asarray(records.marginal("a")), np.array([3, 20]) / 23)
    with pytest.raises(UnknownNameError, match="no variable 'c'"):
        records.marginal("c")
    with pytest.raises(DataError, match="no record shows a, b together"):
        Records({"a": [0, None], "b": [None, 1]}).marginal(["a", "b"])


@examples(40)
@given(st.data())
def test_marginal_equals_pandas(data):
    schema = data.draw(schemas(min_variables=2, kinds=(("a", "b", "c"), (1, 2.5))))
    frame = data.draw(frames(schema))
    names = data.draw(st.permutations(schema.names))[:2]
    complete = frame[names].dropna()
    records = Records(frame, schema=schema)
    if complete.empty:
        with pytest.raises(DataError, match="no record shows"):
            records.marginal(names)
        return
    shares = complete.groupby(names).size() / len(complete)
    told = records.marginal(names)
    for labels, share in shares.items():
        assert told[labels] == pytest.approx(share)
    assert np.asarray(told).sum() == pytest.approx(1)


# Blocks and sums


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_cover_all_records_once(monkeypatch, weighted):
    monkeypatch.setattr(module, "_BLOCK_CELLS", 50)
    records = some_records()
    if weighted:
        records = records.reweighted(np.arange(500.0))
    blocks = records.blocks()
    assert 8 < len(blocks) <= 64
    ends = [(int(block.pointers[0]), int(block.pointers[-1])) for block in blocks]
    assert ends[0][0] == 0
    assert ends[-1][1] == records.n_observed
    assert all(left[1] == right[0] for left, right in pairwise(ends))
    assert sum(len(block.pointers) - 1 for block in blocks) == 500
    assert np.concatenate([block.compressed[2] for block in blocks]).tolist() == (list(range(500)) if weighted else [])
    assert max(len(block.pointers) for block in blocks) < 3 * 500 / len(blocks)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_records_have_blocks_too(monkeypatch, n):
    monkeypatch.setattr(module, "_BLOCK_CELLS", 1)
    records = RECORDS.take(np.arange(n))
    assert sum(len(block.pointers) - 1 for block in records.blocks()) == n
    np.testing.assert_array_equal(count_cells(records), records.cell_totals())


def test_records_of_no_cells_have_blocks():
    empty = Records({"age": [None] * 10, "vote": [None] * 10}, schema=SCHEMA)
    assert sum(len(block.pointers) - 1 for block in empty.blocks()) == 10


def test_sums_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CELLS", 20)
    records = some_records().reweighted(np.random.default_rng(0).random(500))
    one = count_cells(records, threads=1)
    for threads in (2, 3, None):
        assert count_cells(records, threads).tobytes() == one.tobytes()
    np.testing.assert_allclose(one, records.cell_totals())


def test_parts_are_combined_in_order(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CELLS", 20)
    records = some_records()
    firsts = [int(block.pointers[0]) for block in records.blocks()]
    assert len(firsts) > 10
    for threads in (1, 2):
        told = records.map_reduce(lambda block: [int(block.pointers[0])], list.__add__, threads=threads)
        assert told == firsts


def test_an_error_in_a_block_comes_out():
    def fail(block):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        RECORDS.map_reduce(fail, lambda a, b: a)


def test_usable_cores():
    assert usable_cores() >= 1


# Parts of the records


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_take(dtype):
    records = Records.from_cells(SCHEMA, RECORDS.pointers, RECORDS.cells.astype(dtype), np.array([1.0, 2, 3, 4]))
    taken = records.take(np.array([2, 0, 0]))
    assert taken.codes().tolist() == [[1, -1], [0, 1], [0, 1]]
    assert taken.weights.tolist() == [3, 1, 1]
    assert taken.cells.dtype == dtype


def test_sample_is_a_part_of_about_the_size_asked_for():
    records = some_records(4000)
    assert records.sample(records.n_observed, seed=0) is records
    part = records.sample(3000, seed=1)
    assert 2500 < part.n_observed < 3500
    assert bytes_of(part) == bytes_of(records.sample(3000, seed=1))
    assert bytes_of(part) != bytes_of(records.sample(3000, seed=2))


WEIGHTS = {
    "none": None,
    "whole": np.arange(500.0) % 4,
    "fractional": np.random.default_rng(0).random(500),
    "large": np.full(500, 1e12),
    "huge": np.full(500, 1e20),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n_folds", [2, 5])
def test_folds_partition_the_weights(kind, n_folds):
    weights = WEIGHTS[kind]
    records = some_records() if weights is None else some_records().reweighted(weights)
    whole = np.ones(500) if weights is None else weights
    folds = records.folds(n_folds, seed=3)
    assert len(folds) == n_folds
    total = np.zeros(500)
    for train, held in folds:
        assert (held.weights >= 0).all()
        assert (train.weights >= 0).all()
        np.testing.assert_array_equal(train.weights + held.weights, whole)
        # Many cards are dealt evenly; few of them only nearly so.
        assert held.weights.sum() == pytest.approx(whole.sum() / n_folds, rel=1e-5 if kind == "large" else 0.25)
        assert np.shares_memory(train.cells, records.cells)
        total += held.weights
    np.testing.assert_allclose(total, whole, rtol=1e-15)
    again = records.folds(n_folds, seed=3)
    assert [bytes_of(held) for _, held in again] == [bytes_of(held) for _, held in folds]
    assert bytes_of(records.folds(n_folds, seed=4)[0][1]) != bytes_of(folds[0][1])


# The canonical order


@examples(40)
@given(st.data())
def test_canonical_does_not_depend_on_the_order_of_rows(data):
    schema = data.draw(schemas())
    frame = data.draw(frames(schema, max_records=12))
    order = data.draw(st.permutations(range(len(frame))))
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(frame), max_size=len(frame))), dtype=float)
    one = Records(frame, schema=schema)
    other = one.take(np.array(order, dtype=np.int64))
    assert bytes_of(one.canonical()) == bytes_of(other.canonical())
    heavy = one.reweighted(weights).canonical()
    np.testing.assert_array_equal(heavy.cell_totals(), one.reweighted(weights).cell_totals())
    assert heavy.total_weight == weights.sum()
    assert sorted(map(tuple, _told(heavy))) == sorted(map(tuple, _told(one.reweighted(weights))))


def _told(records):
    """Return [codes, weight] of each different record."""
    frame = pd.DataFrame(records.codes())
    frame["weight"] = 1.0 if records.weights is None else records.weights
    return frame.groupby(list(frame.columns[:-1]))["weight"].sum().reset_index().to_numpy().tolist()


def test_canonical_merges_where_that_pays():
    repeated = Records({"a": [1, 2, 1, None] * 100, "b": ["x", "y", "x", "y"] * 100})
    merged = repeated.canonical()
    assert merged.n_records == 3
    assert sorted(merged.weights.tolist()) == [100, 100, 200]
    assert np.diff(merged.pointers).tolist() == [1, 2, 2]
    different = Records({"a": np.arange(100)})
    assert different.canonical().n_records == 100
    assert different.canonical().weights is None
    assert RECORDS.take(np.arange(0)).canonical().n_records == 0


def test_cells_of_every_type_have_one_canonical_order():
    records = some_records()
    orders = {
        Records.from_cells(records.schema, records.pointers, records.cells.astype(dtype)).canonical().codes().tobytes()
        for dtype in (np.uint8, np.uint16, np.uint32)
    }
    assert len(orders) == 1


def test_a_sample_keeps_the_shares_of_merged_records():
    """Records that stand for many are thinned, not picked or dropped as a whole."""
    schema = Schema((Variable("a", (0, 1)),))
    merged = Records.from_cells(
        schema, np.array([0, 1, 2]), np.array([0, 1], dtype=np.uint8), np.array([60_000.0, 20_000.0])
    )
    sample = merged.sample(1, seed=0)
    assert sample.total_weight == pytest.approx(40_000, rel=0.05)
    assert np.asarray(sample.marginal("a")) == pytest.approx([0.75, 0.25], abs=0.01)


def test_showing_some_variables_only():
    shown = RECORDS.showing(np.array([True, False]))
    assert (shown.codes()[:, 1] == -1).all()
    np.testing.assert_array_equal(shown.codes()[:, 0], RECORDS.codes()[:, 0])
