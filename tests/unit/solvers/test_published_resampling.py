"""Published tables counted on other samples: right in the mean, as far off as chance makes them, and rules kept."""

import math

import numpy as np
import pytest
from random_models import random_pmf, sized

from twoway.errors import DataError
from twoway.solvers.resampling import PublishedResampling
from twoway.solvers.watch import Watch
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables

SCHEMA = sized([3, 3, 2])


def modelled_table(pmf, published, number):
    return PublishedResampling.of(published, pmf, None)._modelled[number][1]


def table(names, categories, counts, low=None, high=None, **options):
    counts = np.array(counts, dtype=float)
    bounds = [counts if end is None else np.array(end, dtype=float) for end in (low, high)]
    return PublishedTable(tuple(names), tuple(map(tuple, categories)), counts, *bounds, **options)


def published(**options):
    tables = (
        table(["v0", "v1"], [["01", 2], range(3)], [[200, 150, 150], [100, 200, 200]]),
        table(["v1", "v2"], [range(3), range(2)], [[60, 40], [30, 20], [25, 25]], within={"v0": ("01",)}),
        table(["v0", "v2"], [range(3), range(2)], [[30, 70], [50, 50], [60, 40]], given=("v0",), weight=300),
    )
    return PublishedTables(SCHEMA, tables, groups={"v0": {"01": (0, 1)}}, **options)


def test_modelled_tables_are_sums_of_the_joint():
    pmf, tables = random_pmf(SCHEMA, 2, seed=1), published()
    joint = np.asarray(pmf.marginal(list(SCHEMA.names)))
    coarse, some, rows = (modelled_table(pmf, tables, number) for number in range(3))
    pair = joint.sum(axis=2)
    assert coarse == pytest.approx(np.array([pair[:2].sum(axis=0), pair[2]]))
    within = joint[:2].sum(axis=0)
    assert some == pytest.approx(within / within.sum())
    by_row = joint.sum(axis=1)
    assert rows == pytest.approx(by_row / by_row.sum(axis=1, keepdims=True) / 3)


@pytest.mark.parametrize("n_records", [None, math.inf])
def test_drawn_tables_spread_as_chance_makes_them(n_records):
    pmf, tables = random_pmf(SCHEMA, 2, seed=1), published()
    resampling = PublishedResampling.of(tables, pmf, n_records)
    draws = [resampling.draw(0, number) for number in range(300)]
    for at, own in enumerate(tables.tables):
        expected = modelled_table(pmf, tables, at)
        shares = np.array([drawn.tables[at].shares for drawn in draws])
        if own.given:  # each row by itself
            expected, shares = 3 * expected, 3 * shares
        n = own.weight / (3 if own.given else 1)
        error = np.sqrt(expected * (1 - expected) / n)
        assert np.abs(shares.mean(axis=0) - expected).max() < 5 * error.max() / math.sqrt(300)
        assert shares.std(axis=0) == pytest.approx(error, rel=0.2)


def test_tables_of_the_same_people_agree_and_others_do_not():
    one = table(["v0", "v1"], [range(3), range(3)], np.full((3, 3), 100.0))
    other = table(["v0", "v2"], [range(3), range(2)], np.full((3, 2), 150.0))
    pmf, tables = random_pmf(SCHEMA, 2, seed=1), PublishedTables(SCHEMA, (one, other))
    for n_records, together in ((None, True), (math.inf, False)):
        first, second = PublishedResampling.of(tables, pmf, n_records).draw(0, 0).tables
        agree = np.allclose(first.shares.sum(axis=1), second.shares.sum(axis=1), atol=1e-12)
        assert agree is together


def test_exact_tables_and_impossible_combinations_stay():
    rules = {"exact": (("v0",),), "impossible": ({"v0": (2,), "v2": (1,)},)}
    base = published()
    tables = (
        table(["v0"], [range(3)], [200, 300, 500]),
        table(["v0", "v2"], [range(3), range(2)], [[100, 100], [200, 100], [500, 0]]),
        base.tables[0],
    )
    known = PublishedTables(SCHEMA, tables, groups=base.groups, **rules)
    joint = np.random.default_rng(0).dirichlet(np.ones(18)).reshape(3, 3, 2)
    joint[2, :, 1] = 0.0
    from twoway.model.pmf import JointPMF

    pmf = JointPMF.from_joint(joint / joint.sum(), SCHEMA)
    resampling = PublishedResampling.of(known, pmf, None)
    assert resampling.draw(0, 0).tables[0] is tables[0]
    refitted = resampling.refit(0, 0, Watch()).pmf
    assert np.asarray(refitted.marginal("v0")) == pytest.approx([0.2, 0.3, 0.5], abs=1e-9)
    assert refitted.prob({"v0": 2, "v2": 1}) == 0


def test_an_exact_margin_of_a_larger_table_is_known():
    tables = published(exact=(("v1",),))
    resampling = PublishedResampling.of(tables, random_pmf(SCHEMA, 2, seed=1), None)
    margins = [np.asarray(resampling.refit(0, number, Watch()).pmf.marginal("v1")) for number in range(2)]
    assert margins[0] == pytest.approx([0.3, 0.35, 0.35], abs=1e-9)
    assert margins[1] == pytest.approx(margins[0], abs=1e-9)


def test_bounds_stay_as_far_apart():
    counts, low, high = [[50, 3], [40, 7]], [[50, 0], [40, 5]], [[50, 4], [40, 9]]
    one = table(["v0", "v2"], [[0, 1], range(2)], counts, low, high, within={"v0": (0, 1)})
    tables = PublishedTables(SCHEMA, (one,))
    pmf = random_pmf(SCHEMA, 2, seed=1)
    for number in range(20):
        (drawn,) = PublishedResampling.of(tables, pmf, None).draw(0, number).tables
        assert drawn.low[0, 1] == 0
        assert drawn.high[0, 1] >= 0
        assert drawn.high[1, 1] - drawn.low[1, 1] == 4 or drawn.low[1, 1] == 0
        assert (drawn.low[:, 0] == drawn.high[:, 0]).all()


def test_a_draw_depends_on_its_number_and_seed_alone():
    pmf, tables = random_pmf(SCHEMA, 2, seed=1), published()
    one, same, other = (PublishedResampling.of(tables, pmf, None).draw(seed, 3).tables[0].counts for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


def test_other_variables_are_refused():
    with pytest.raises(DataError, match="different variables"):
        PublishedResampling.of(published(), random_pmf(sized([3, 3, 3]), 2, seed=1), None)


def test_totals_that_were_published_are_those_of_the_drawn_table():
    counts = np.array([[200.0, 150, 150], [100, 200, 200], [30, 30, 40]])
    totals = {(0,): counts.sum(axis=1), (1,): counts.sum(axis=0), (): counts.sum()}
    one = table(["v0", "v1"], [range(3), range(3)], counts, totals=totals)
    pmf, tables = random_pmf(SCHEMA, 2, seed=1), PublishedTables(SCHEMA, (one,))
    (drawn,) = PublishedResampling.of(tables, pmf, None).draw(0, 0).tables
    assert drawn.totals.keys() == totals.keys()
    np.testing.assert_allclose(drawn.totals[0,], drawn.counts.sum(axis=1))
    np.testing.assert_allclose(drawn.totals[1,], drawn.counts.sum(axis=0))
    np.testing.assert_allclose(drawn.totals[()], counts.sum())
    assert (drawn.counts != counts).any()
