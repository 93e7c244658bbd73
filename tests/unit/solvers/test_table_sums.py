"""Published tables as evidence: the E-step equals brute force, and no step makes the fit worse."""

import numpy as np
import pytest
from hidden_trees import random_tree
from random_models import random_pmf, sized

import twoway as tw
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.table_sums import TableSums, fit_table_sums
from twoway.solvers.theta import theta_of, theta_tree_rows
from twoway.solvers.watch import Watch
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables

SCHEMA = sized([4, 3, 2, 3])


def table(names, categories, counts, **options):
    counts = np.array(counts, dtype=float)
    return PublishedTable(tuple(names), tuple(map(tuple, categories)), counts, counts, counts, **options)


def everything(rng):
    """Return tables of one to three variables, coarser ones, and one of some people."""
    groups = {"v0": {"01": (0, 1), "12": (1, 2)}, "v3": {"02": (0, 2)}}
    tables = (
        table(["v1"], [range(3)], rng.integers(5, 50, 3)),
        table(["v0", "v1", "v2"], [range(4), range(3), range(2)], rng.integers(0, 50, (4, 3, 2))),
        table(["v0", "v3"], [["01", 2, 3], ["02", 1]], rng.integers(1, 50, (3, 2))),
        table(["v2", "v3"], [range(2), range(3)], rng.integers(1, 50, (2, 3)), within={"v0": ("12",), "v1": (0,)}),
        table(["v0", "v2"], [[1, 2], range(2)], rng.integers(1, 50, (2, 2)), within={"v0": ("12",)}),
        table(["v1", "v3"], [range(3), range(3)], rng.integers(1, 50, (3, 3)), given=("v1",)),
    )
    return PublishedTables(SCHEMA, tables, groups=groups)


def models():
    tree = random_tree((-1, 0), 2, n_states=(3, 2), sizes=SCHEMA.sizes, homes=(0, 1, 1, 0))
    return [random_pmf(SCHEMA, 3, seed=1), JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (tree,)))]


def brute_force(published, joint):
    """Return the log-likelihood of what was published, and the counts of the joint's cells that EM expects."""
    value, counts = 0.0, np.zeros(joint.shape)
    for one in published.tables:
        positions = published.schema.indices(one.variables)
        inside = np.ones(joint.shape, dtype=bool)
        for position, codes in published.universe(one.within).items():
            inside &= np.isin(np.indices(joint.shape)[position], codes)
        masks = []
        for index in np.ndindex(one.counts.shape):
            mask = inside.copy()
            for axis, position in enumerate(positions):
                codes = published.axis_codes(one, axis)[index[axis]]
                mask &= np.isin(np.indices(joint.shape)[position], codes)
            masks.append((index, mask))
        slices = {}
        for index, mask in masks:
            key = tuple(index[one.variables.index(name)] for name in one.given)
            slices.setdefault(key, []).append((index, mask))
        for cells in slices.values():
            whole = np.logical_or.reduce([mask for _, mask in cells])
            people = sum(one.counts[index] for index, _ in cells)
            for index, mask in cells:
                value += one.counts[index] * np.log(joint[mask].sum() / joint[whole].sum())
                counts[mask] += one.counts[index] * joint[mask] / joint[mask].sum()
            counts[~whole] += people * joint[~whole] / joint[whole].sum()
    return value, counts


@pytest.mark.parametrize("pmf", models(), ids=["single", "tree"])
def test_the_e_step_equals_brute_force(pmf):
    published = everything(np.random.default_rng(0))
    sums = TableSums.of(published, None)
    expected = sums.expected(theta_of(pmf), pmf.rank, theta_tree_rows(pmf))
    joint = pmf.trees.joint()
    value, _ = brute_force(published, joint)
    assert expected.log_likelihood == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("pmf", models(), ids=["single", "tree"])
def test_counts_of_coarse_cells_and_of_people_outside_equal_brute_force(pmf):
    groups = {"v0": {"01": (0, 1), "12": (1, 2), "23": (2, 3)}}
    coarse = table(["v0", "v1"], [["01", "23"], range(3)], [[3, 4, 5], [6, 7, 8]])
    of_some = table(["v0", "v1"], [[1, 2], range(3)], [[3, 4, 5], [6, 7, 8]], within={"v0": ("12",)})
    for one, known in ((coarse, (0, 1)), (of_some, (0,))):
        published = PublishedTables(SCHEMA, (one,), groups=groups)
        expected = TableSums.of(published, None).expected(theta_of(pmf), pmf.rank, theta_tree_rows(pmf))
        _, counts = brute_force(published, pmf.trees.joint())
        n_hidden = len(expected.counts) - SCHEMA.n_categories
        of_cells = expected.counts[n_hidden:, : pmf.rank].sum(axis=1)
        for position in known:
            margin = counts.sum(axis=tuple(axis for axis in range(4) if axis != position))
            np.testing.assert_allclose(of_cells[SCHEMA.cells(position)], margin, rtol=1e-10)


@pytest.mark.parametrize("pmf", models(), ids=["single", "tree"])
def test_no_step_makes_the_fit_worse(pmf):
    rng = np.random.default_rng(3)
    base = everything(rng)
    low, high = np.array([[0.0, 0.0, 9.0], [5.0, 0.0, 7.0]]), np.array([[4.0, np.inf, 9.0], [15.0, 4.0, 7.0]])
    bounded = PublishedTable(
        ("v2", "v1"), ((0, 1), (0, 1, 2)), np.array([[2.0, 5.0, 9.0], [10.0, 2.0, 7.0]]), low, high
    )
    summed = PublishedTable(
        ("v3", "v2"),
        ((0, 1, 2), (0, 1)),
        np.full((3, 2), 9.0),
        np.array([[9.0, 0], [9, 9], [0, 0]]),
        np.array([[9.0, np.inf], [9, 9], [np.inf, np.inf]]),
        totals={(0,): np.array([30.0, 18.0, 25.0])},
    )
    means = (tw.PublishedMean("v0", 1.2, 80), tw.PublishedMean("v3", 0.7, 60, {"v1": (1, 2)}))
    published = PublishedTables(SCHEMA, (*base.tables, bounded, summed), means, base.groups)
    sums = TableSums.of(published, None)
    assert sums.cells.has_gaps
    descent = fit_cells_by_em(
        sums, pmf, Smoothing(0.1, 0.1), Loop("test", 150, 0.0, Watch()), theta_of(pmf)[:, : pmf.rank]
    )
    assert np.diff(descent.objectives).max() <= 1e-10
    assert descent.objectives[-1] < descent.objectives[0] - 0.01


def test_a_cell_that_a_total_leaves_is_as_good_as_published():
    counts = np.array([[20.0, 30.0], [40.0, 10.0]])
    whole = PublishedTables(sized([2, 2]), (table(["v0", "v1"], [range(2)] * 2, counts),))
    low, high = counts.copy(), counts.copy()
    low[0, 1], high[0, 1] = 0.0, np.inf
    open_one = PublishedTable(("v0", "v1"), ((0, 1), (0, 1)), counts, low, high, totals={(0,): np.array([50.0, 50.0])})
    hidden = PublishedTables(whole.schema, (open_one,))
    pmf = random_pmf(whole.schema, 2, seed=5)
    first, second = (TableSums.of(one, None).expected(theta_of(pmf), 2) for one in (whole, hidden))
    np.testing.assert_allclose(first.counts, second.counts)
    assert first.log_likelihood == pytest.approx(second.log_likelihood)


def test_expected_numbers_within_bounds_equal_sums():
    from scipy.stats import poisson

    rng = np.random.default_rng(0)
    means = np.concatenate([rng.gamma(1.0, 20.0, 40), [1e-9, 1e5, 4.0]])
    low = np.concatenate([rng.integers(0, 20, 40), [0, 0, 200]]).astype(float)
    high = np.concatenate([low[:40] + rng.integers(0, 20, 40), [4, 4, 210]])
    expected, logs = TableSums.expected_in_range(means, low, high)
    for mean, least, most, got, log in zip(means, low, high, expected, logs, strict=True):
        numbers = np.arange(least, most + 1)
        terms = poisson.logpmf(numbers, mean)
        shares = np.exp(terms - terms.max())
        assert got == pytest.approx((numbers * shares).sum() / shares.sum(), rel=0.02, abs=0.02)
        # Far from the mean, the nearest number counts alone.
        nearest = poisson.logpmf(np.clip(mean, least, most), mean)
        if np.exp(terms).sum() < 1e-300:
            assert log == pytest.approx(nearest)
        if np.exp(terms).sum() > 1e-9:
            assert log == pytest.approx(np.log(np.exp(terms).sum()), rel=1e-6)
    unbounded, _ = TableSums.expected_in_range(np.array([3.0]), np.zeros(1), np.full(1, np.inf))
    assert unbounded[0] == pytest.approx(3.0)


def test_tilted_shares_have_the_mean_and_are_nearest():
    rng = np.random.default_rng(0)
    shares, values = np.array([0.3, 0.1, 0.2, 0.25, 0.15]), np.array([0.0, 1, 2, 5, 9])
    tilted, divergence = TableSums.tilted_to(shares, values, 4.0)
    assert tilted @ values == pytest.approx(4.0, abs=1e-9)
    assert tilted.sum() == pytest.approx(1.0)
    for _ in range(20):  # others with the same mean are further away
        move = rng.normal(size=5)
        basis = np.linalg.qr(np.column_stack([np.ones(5), values]))[0]
        move -= basis @ (basis.T @ move)
        other = tilted + 1e-3 * move
        assert (other * np.log(other / shares)).sum() > divergence


def test_sets_of_categories_are_counted_where_single_ones_nearly_fill_a_byte():
    schema = sized([250, 2])
    groups = {"v0": {f"g{n}": (2 * n, 2 * n + 1) for n in range(10)}}
    counts = np.arange(1.0, 241.0)
    coarse = table(["v0"], [[*groups["v0"], *range(20, 250)]], counts)
    published, pmf = PublishedTables(schema, (coarse,), groups=groups), random_pmf(schema, 2, seed=1)
    expected = TableSums.of(published, None).expected(theta_of(pmf), pmf.rank)
    of_groups = np.add.reduceat(np.asarray(pmf.marginal("v0")), [*range(0, 20, 2), *range(20, 250)])
    assert expected.log_likelihood == pytest.approx(counts @ np.log(of_groups), rel=1e-12)


def test_a_fit_that_waits_for_more_quiet_cycles_goes_on_from_where_others_end():
    published, start = everything(np.random.default_rng(0)), random_pmf(SCHEMA, 3, seed=1)
    hasty, patient = (
        fit_table_sums(published, start, Watch(), 1, margins={}, passes=2000, quiet_cycles=n).objectives
        for n in (1, 12)
    )
    assert len(patient) >= len(hasty) + 11
    assert patient[: len(hasty)] == hasty


def test_a_category_of_all_people_says_nothing():
    groups, counts = {"v1": {"all": (0, 1, 2)}}, np.array([5.0, 8.0, 3.0, 9.0])
    alone = table(["v0"], [range(4)], counts)
    beside = table(["v0", "v1"], [range(4), ["all"]], counts[:, None])
    of_one = table(["v0"], [range(4)], counts, within={"v1": ("all",)})
    pmf = random_pmf(SCHEMA, 2, seed=7)
    expected = [
        TableSums.of(PublishedTables(SCHEMA, (one,), groups=groups), None).expected(theta_of(pmf), 2)
        for one in (alone, beside, of_one)
    ]
    for other in expected[1:]:
        np.testing.assert_allclose(other.counts, expected[0].counts)
        assert other.log_likelihood == pytest.approx(expected[0].log_likelihood)


def test_each_table_adds_one_to_the_copies_of_its_variables():
    published = everything(np.random.default_rng(0))
    n_tables = [sum(name in one.variables for one in published.tables) for name in SCHEMA.names]
    assert TableSums.of(published, 1).copies.tolist() == n_tables


def test_open_cells_that_their_total_leaves_nothing_are_empty():
    counts, totals = np.array([[20.0, 0.0], [40.0, 10.0]]), {(0,): np.array([20.0, 50.0])}
    low, high = counts.copy(), counts.copy()
    high[0, 1] = 4.0
    open_one = PublishedTable(("v0", "v1"), ((0, 1), (0, 1)), counts, low, high, totals=totals)
    published = PublishedTables(sized([2, 2]), (open_one,))
    assert [cells.total for cells in TableSums.of(published, None).cells.open_cells] == [0.0]
    contradicting = PublishedTable(
        ("v0", "v1"), ((0, 1), (0, 1)), counts, low, high, totals={(0,): np.array([19.0, 50.0])}
    )
    (cells,) = TableSums.of(PublishedTables(sized([2, 2]), (contradicting,)), None).cells.open_cells
    assert np.isnan(cells.total)


def test_the_model_of_a_table_has_no_divergence_from_it():
    counts = np.array([[20.0, 30.0], [40.0, 10.0]])
    sums = TableSums.of(PublishedTables(sized([2, 2]), (table(["v0", "v1"], [range(2)] * 2, counts),)), None)
    exact = JointPMF.from_joint(counts / 100, sized([2, 2]))
    value = sums.expected(theta_of(exact), exact.rank).log_likelihood
    assert sums.offset - value / sums.total_weight == pytest.approx(0.0, abs=1e-12)
