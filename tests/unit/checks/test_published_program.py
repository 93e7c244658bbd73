"""Ranges from published tables against linear programs that are written out, and against those of plain tables."""

import numpy as np
import pytest
from random_models import sized
from scipy.optimize import linprog

import twoway as tw
from twoway.checks.published_program import published_program
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables

SCHEMA = sized([4, 3, 2])
GROUPS = {"v0": {"01": (0, 1), "23": (2, 3)}}


def published_of(joint, *, impossible=()):
    """Return a coarser table, one of some people, and one of percentages, of a joint of three variables."""

    def table(names, categories, counts, **options):
        return PublishedTable(tuple(names), categories, counts, counts, counts, **options)

    pair, by_group = joint.sum(axis=2), joint[:2].sum(axis=0)
    coarse = np.array([pair[:2].sum(axis=0), pair[2:].sum(axis=0)])
    rows = joint.sum(axis=1)
    tables = (
        table(["v0", "v1"], (("01", "23"), (0, 1, 2)), 1000 * coarse),
        table(["v1", "v2"], ((0, 1, 2), (0, 1)), 500 * by_group, within={"v0": ("01",)}),
        table(["v0", "v2"], ((0, 1, 2, 3), (0, 1)), 100 * rows / rows.sum(axis=1, keepdims=True), given=("v0",)),
    )
    return PublishedTables(SCHEMA, tables, groups=GROUPS, impossible=impossible)


def random_joint(seed, ruled=None):
    joint = np.random.default_rng(seed).dirichlet(np.full(24, 0.7)).reshape(4, 3, 2)
    if ruled is not None:
        joint[ruled] = 0.0
    return joint / joint.sum()


def extremes(published, wanted, ruled=None):
    """Return the least and greatest share of a mask of cells, by a program with one row for each published number."""
    shape, rows, right = SCHEMA.sizes, [np.ones(24)], [1.0]
    codes = np.indices(shape)
    for table in published.tables:
        inside = np.ones(shape, dtype=bool)
        for position, own in published.universe(table.within).items():
            inside &= np.isin(codes[position], own)
        for index in np.ndindex(table.counts.shape):
            cell, base = inside.copy(), inside.copy()
            share = table.counts[index]
            for axis, name in enumerate(table.variables):
                own = np.isin(codes[SCHEMA.index(name)], published.axis_codes(table, axis)[index[axis]])
                cell &= own
                if name in table.given:
                    base &= own
            whole = table.counts[index[0]].sum() if table.given else table.counts.sum()
            rows.append(cell.ravel() - share / whole * base.ravel())
            right.append(0.0)
    bounds = [(0, 0 if ruled is not None and ruled.flat[at] else None) for at in range(24)]
    ends = []
    for sign in (1, -1):
        cost = sign * wanted.ravel().astype(float)
        solved = linprog(cost, A_eq=np.array(rows), b_eq=np.array(right), bounds=bounds)
        assert solved.status == 0
        ends.append(sign * solved.fun)
    return ends


@pytest.mark.parametrize("seed", range(6))
def test_a_range_is_that_of_all_joints_with_these_tables(seed):
    published = published_of(random_joint(seed))
    codes = np.indices(SCHEMA.sizes)
    for event in ({"v0": 0}, {"v0": [1, 2], "v2": 1}, {"v1": 1, "v2": 0}, {"v0": 3, "v1": 2, "v2": 1}):
        wanted = np.ones(SCHEMA.sizes, dtype=bool)
        for name, labels in event.items():
            wanted &= np.isin(codes[SCHEMA.index(name)], labels)
        found = tw.probability_range(published, event, level=None)
        assert found.is_sharp
        assert (found.low, found.high) == pytest.approx(extremes(published, wanted), abs=1e-6)


def test_what_is_impossible_narrows_a_range():
    ruled = np.zeros(SCHEMA.sizes, dtype=bool)
    ruled[0, 1:] = True
    joint = random_joint(1, ruled)
    free, bound = published_of(joint), published_of(joint, impossible=({"v0": (0,), "v1": (1, 2)},))
    wanted = np.zeros(SCHEMA.sizes, dtype=bool)
    wanted[1, 1] = True
    event = {"v0": 1, "v1": 1}
    loose, tight = (tw.probability_range(one, event, level=None) for one in (free, bound))
    assert (tight.low, tight.high) == pytest.approx(extremes(bound, wanted, ruled), abs=1e-6)
    assert tight.width < loose.width - 0.01
    assert tw.probability_range(bound, {"v1": 2}, {"v0": 0}, level=None).high == 0


@pytest.mark.parametrize("max_cells", [10_000, 30])
def test_plain_tables_have_the_same_range_either_way(max_cells):
    joint = np.random.default_rng(3).dirichlet(np.full(81, 0.5)).reshape(3, 3, 3, 3)
    schema = sized([3, 3, 3, 3])
    sets = [(0, 1), (1, 2), (2, 3), (0, 3)]
    flat = [1000 * joint.sum(axis=tuple({0, 1, 2, 3} - set(pair))).ravel() for pair in sorted(sets)]
    plain = tw.Tables(schema, np.array(sorted(sets), dtype=np.int32), np.concatenate(flat))
    published = PublishedTables.of([plain], schema=schema)
    for event in ({"v0": 0, "v2": 1}, {"v1": [0, 1], "v3": 2}):
        one, other = (tw.probability_range(own, event, level=None, max_cells=max_cells) for own in (plain, published))
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-6)


@pytest.mark.parametrize("max_cells", [4, 6, 12])
def test_fewer_cells_make_a_range_wider_never_wrong(max_cells):
    joint = random_joint(5)
    published = published_of(joint)
    for event in ({"v0": 2, "v2": 1}, {"v1": 1, "v2": 0}):
        sharp, coarse = (tw.probability_range(published, event, level=None, max_cells=n) for n in (10_000, max_cells))
        assert coarse.low <= sharp.low + 1e-9
        assert coarse.high >= sharp.high - 1e-9
        assert not coarse.is_sharp


def test_bounds_of_suppressed_cells_bound_a_range():
    numbers = {("a", "x"): 40, ("a", "y"): "<5", ("b", "x"): 30, ("b", "y"): 26}
    published = PublishedTables.of([PublishedTable.of(["one", "two"], numbers)])
    found = tw.probability_range(published, {"one": "a", "two": "y"}, level=None)
    assert found.low == 0
    assert 4 / 100 <= found.high <= 4 / 96 + 1e-6
    with_total = {**numbers, ("Total", "Total"): 98}
    known = PublishedTables.of([PublishedTable.of(["one", "two"], with_total)])
    found = tw.probability_range(known, {"one": "a", "two": "y"}, level=None)
    assert (found.low, found.high) == pytest.approx((2 / 98, 2 / 98), abs=1e-6)


def test_sampling_error_widens_a_range():
    published = published_of(random_joint(2))
    exact, within = (tw.probability_range(published, {"v1": 1}, level=level) for level in (None, 0.9))
    assert within.low < exact.low
    assert within.high > exact.high


def test_a_program_uses_every_table_that_it_can():
    published = published_of(random_joint(4))
    program, is_sharp = published_program(published, {0: np.arange(4), 2: np.arange(2)}, 10_000, None)
    assert is_sharp
    assert program.n_cells == 24
    assert len(program.low) == sum(table.counts.size for table in published.tables)
