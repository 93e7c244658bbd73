"""Properties of tables: they add like numbers, round-trip through files and frames, and agree with the records."""

import math
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import NUMBERS, TEXTS, examples, frames, schemas

import twoway as tw
from twoway.data.records import Records
from twoway.tables.tables import Tables

COUNTS = st.integers(0, 10**12).map(float)


@st.composite
def tables(draw, schema, order=2, counts=COUNTS):
    """Tables of some of the pairs or triples, with counts of any size and many zeros."""
    sets = draw(st.lists(st.sampled_from(list(combinations(range(len(schema)), order))), unique=True).map(sorted))
    sizes = [math.prod(schema.sizes[position] for position in row) for row in sets]
    flat = draw(st.lists(st.one_of(st.just(0.0), counts), min_size=sum(sizes), max_size=sum(sizes)))
    return Tables(schema, np.array(sets, dtype=int).reshape(-1, order), np.array(flat))


def saved(one, folder):
    one.save(Path(folder) / "tables")
    return (Path(folder) / "tables").read_bytes()


@given(st.data())
@examples(50)
def test_adding(data):
    schema = data.draw(schemas(min_variables=3, max_categories=2))
    order = data.draw(st.sampled_from([2, 3]))
    a, b, c = (data.draw(tables(schema, order)) for _ in range(3))
    nothing = Tables(schema, np.zeros((0, order), dtype=int), np.zeros(0))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == sum([c, a, b])
    assert a + nothing == nothing + a == a
    assert set((a + b).names) == set(a.names) | set(b.names)
    assert (a + b).flat.sum() == a.flat.sum() + b.flat.sum()
    assert sorted(name for group in (a + b).components() for name in group) == sorted(schema.names)


@given(st.data())
@examples(40)
def test_files_and_frames(data):
    schema = data.draw(schemas(min_variables=2, max_categories=3))
    one = data.draw(tables(schema, counts=st.just(0.0) | st.floats(1e-90, 1e12)))
    with tempfile.TemporaryDirectory() as folder:
        first = saved(one, folder)
        again = Tables.load(Path(folder) / "tables")
        assert again == one
        assert saved(again, folder) == first
    frame = one.to_frame()
    assert len(frame) == one.flat.size
    np.testing.assert_array_equal(frame["value"].to_numpy(dtype=float), one.flat)
    if len(one):
        read = Tables.from_crosstabs(frame, schema=schema)
        assert read.names == one.names
        np.testing.assert_array_equal(read.flat, one.flat)
        np.testing.assert_allclose(read.weights, one.weights, rtol=1e-12)


@given(st.data())
@examples(40)
def test_counting_is_looking_at_every_record(data):
    schema = data.draw(schemas(min_variables=2, max_categories=3))
    frame = data.draw(frames(schema))
    records = Records(frame, schema=schema)
    counted = tw.count(records)
    codes = records.codes()
    for a, b in combinations(range(len(schema)), 2):
        both = codes[(codes[:, a] >= 0) & (codes[:, b] >= 0)][:, [a, b]]
        names = (schema.names[a], schema.names[b])
        assert (names in counted) == (len(both) > 0)
        if len(both):
            expected = np.zeros((schema.sizes[a], schema.sizes[b]))
            np.add.at(expected, tuple(both.T), 1)
            np.testing.assert_allclose(counted[names].array * len(both), expected, atol=1e-12)
            assert counted[names].total == len(both)
            np.testing.assert_allclose(counted[names].array, records.marginal(names).array, atol=1e-15)
    half = len(frame) // 2
    parts = [tw.count(Records(part, schema=schema)) for part in (frame[:half], frame[half:])]
    assert parts[0] + parts[1] == counted


@given(st.data())
@examples(40)
def test_a_subset_has_the_same_tables(data):
    schema = data.draw(schemas(min_variables=3, max_categories=3))
    one = data.draw(tables(schema))
    names = data.draw(st.lists(st.sampled_from(schema.names), min_size=2, unique=True))
    part = one.subset(names)
    assert part.schema.names == tuple(names)
    for pair in part.names:
        np.testing.assert_array_equal(part[pair].array, one[pair].array)
    chosen = data.draw(st.lists(st.sampled_from(one.names), unique=True)) if len(one) else []
    assert set(one.select(chosen).names) == set(chosen)
    for name in schema.names:
        if any(name in pair for pair in one.names):
            assert one.marginal(name).array.sum() == pytest.approx(1)
    cells = one.as_records()
    assert cells.total_weight == pytest.approx(one.weights.sum())
    assert cells.n_records == np.count_nonzero(one.flat)


@pytest.mark.parametrize("kind", ["counts", "joint", "row", "column"])
@given(data=st.data())
@examples(25)
def test_published_tables_become_the_counts_they_were(kind, data):
    import pandas as pd

    schema = data.draw(schemas(min_variables=2, max_variables=2, max_categories=3, kinds=(TEXTS, NUMBERS)))
    rows, columns = schema.variables
    size = len(rows) * len(columns)
    counts = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=size, max_size=size)), dtype=float)
    counts = counts.reshape(len(rows), len(columns))
    one = Tables(schema, [[0, 1]], counts.ravel())
    shown = {
        "counts": counts,
        "joint": counts / counts.sum(),
        "row": counts / counts.sum(axis=1, keepdims=True),
        "column": counts / counts.sum(axis=0, keepdims=True),
    }[kind]
    frame = pd.DataFrame(shown, index=list(rows.categories), columns=list(columns.categories))
    margins = {
        variable.name: dict(zip(variable.categories, counts.sum(axis=1 - axis) / counts.sum(), strict=True))
        for axis, variable in enumerate((rows, columns))
    }
    read = Tables.from_crosstabs(
        {schema.names: frame},
        kind=kind,
        schema=schema,
        totals=counts.sum(),
        margins=margins if kind in ("row", "column") else None,
    )
    assert read.schema == schema
    np.testing.assert_allclose(read.flat, one.flat, rtol=1e-9)


@given(st.data())
@examples(30)
def test_dealing_out_records(data):
    schema = data.draw(schemas(min_variables=1))
    frame = data.draw(frames(schema))
    assume(len(frame) > 0)
    weights = data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.0, 0.5, 1e12]), min_size=len(frame), max_size=len(frame)))
    assume(any(weights))
    records = Records(frame, schema=schema, weights=weights)
    for train, held in records.folds(3, seed=1):
        np.testing.assert_allclose(train.weights + held.weights, weights)
        assert (held.weights >= 0).all()
        assert (train.weights >= 0).all()
    fitted = records.for_fit()
    assert fitted.n_silent == 0
    has_say = (np.diff(records.pointers) > 0) * records.weights
    effective = has_say.sum() ** 2 / np.square(has_say).sum() if has_say.any() else 0.0
    assert fitted.total_weight == pytest.approx(effective)
    unit = has_say.sum() / effective if effective else 1.0
    np.testing.assert_allclose(fitted.cell_totals() * unit, records.cell_totals(), rtol=1e-9)
    counted = Records(frame, schema=schema, counts=np.ceil(weights))
    assert counted.for_fit().total_weight == np.ceil(has_say).sum()
    assert records.sample(10**9, seed=0) is records
    part = records.sample(1, seed=0)
    assert (part.cell_totals() <= records.cell_totals()).all()
    again = Records(records)
    np.testing.assert_array_equal(again.codes(), records.codes())
    assert again.schema == records.schema
    shown = np.array(data.draw(st.lists(st.booleans(), min_size=len(schema), max_size=len(schema))))
    np.testing.assert_array_equal(records.showing(shown).codes(), np.where(shown, records.codes(), -1))
    block_sums = records.map_reduce(lambda block: block.pointers[-1] - block.pointers[0], lambda a, b: a + b, threads=1)
    assert block_sums == records.n_observed
