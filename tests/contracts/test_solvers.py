"""Contracts of every solver: it returns a PMF, its objective never rises, and so on."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from degenerate import DEGENERATE, UNCONNECTED
from hidden_trees import SIZES, random_tree
from random_models import sized

import twoway as tw
from twoway.data import records as records_module
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.kernels.maximization import maximize
from twoway.model.comparison import factor_mse, total_variation
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.report import StopReason
from twoway.schema import Schema, Variable
from twoway.solvers import CTD, EM, MLEAD, SOLVERS, SPA, CoupledNMF, Evidence, Problem
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.theta import pmf_of_theta, theta_groups, theta_of, theta_tree_rows
from twoway.tables.tables import Tables

# Mirror descent is slow to settle; what is promised here holds at any point of its way.
CASES = {
    **{name: name for name in SOLVERS},
    "spa+em": "spa+em",
    "spa+coupled-nmf+em": "spa+coupled-nmf+em",
    "symmetric-nmf+coupled-nmf": "symmetric-nmf+coupled-nmf",
    "ctd+em": "ctd+em",
    "mle-ad+em": "mle-ad+em",
    "mirror": CoupledNMF(update="mirror", max_iter=150),
    "euclidean": CoupledNMF(loss="euclidean", max_iter=150),
    "equal": CoupledNMF(pair_weights="equal"),
    "tree": "tree",
}
ITERATIVE = {
    "em": EM(),
    "coupled-nmf": CoupledNMF(),
    "ctd": CTD(),
    "mle-ad": MLEAD(),
    "mirror": CoupledNMF(update="mirror"),
    "euclidean": CoupledNMF(loss="euclidean"),
    "equal": CoupledNMF(pair_weights="equal"),
}
FROM_TRIPLES = ["ctd", "mle-ad", "ctd+mle-ad"]
DIRECT = ["spa", "symmetric-nmf"]
FROM_PAIRS = ["auto", "coupled-nmf", *DIRECT, "mirror", "euclidean", "equal", "spa+coupled-nmf"]
FROM_TABLES = [*FROM_PAIRS, "symmetric-nmf+coupled-nmf", *FROM_TRIPLES]
EXACT = ["em", "auto", "coupled-nmf", "equal", "spa+em", "spa+coupled-nmf+em", "mle-ad", "ctd+em", "mle-ad+em"]
"""The solvers that reach the maximum of a likelihood, not only come near it."""

every_solver = pytest.mark.parametrize("case", CASES)


def solve(source, case, rank=2, **options):
    """Return the fit by one of the cases, from few starts."""
    if case == "tree":
        return tw.fit(source, rank=rank, structure="tree", **{"starts": 2} | options)
    solver = CASES.get(case, case)
    starts = 1 if isinstance(solver, str) and ("+" in solver or solver in DIRECT) else 3
    return tw.fit(source, rank=rank, solver=solver, **{"starts": starts} | options)


@pytest.fixture(scope="module")
def truth():
    return dirichlet_rows(5, 3, 2, seed=4)


@pytest.fixture(scope="module")
def records(truth):
    return draw_records(truth, 400, observed=0.7, seed=1)


@pytest.fixture(scope="module")
def frame(records):
    codes = records.codes()
    return pd.DataFrame(np.where(codes >= 0, codes, np.nan), columns=records.schema.names)


@pytest.fixture
def many_blocks(monkeypatch):
    """Small data in many blocks, so that threads have something to do."""
    monkeypatch.setattr(records_module, "_BLOCK_CELLS", 100)


def exact_tables(pmf, order=2, total=1e6):
    """Return the pair (or triple) tables of a PMF, without any noise."""
    sets = np.array(list(combinations(range(len(pmf.schema)), order)))
    arrays = [np.asarray(pmf.marginal([pmf.schema.names[position] for position in row])) * total for row in sets]
    return Tables(pmf.schema, sets, np.concatenate([array.ravel() for array in arrays]))


def order_for(case):
    """Return how many variables the tables hold that a solver needs."""
    return 3 if any(name in case for name in FROM_TRIPLES) else 2


def separable(rank=3, seed=0):
    """Return a PMF in which the first categories of one variable belong to one component each."""
    random = np.random.default_rng(seed)
    pmf = dirichlet_rows(4, rank + 2, rank, seed=seed)
    factors = [factor.copy() for factor in pmf.factors]
    factors[1][:rank] = 0.6 * np.eye(rank)
    factors[1][rank:] = 0.4 * random.dirichlet(np.ones(2), rank).T
    return JointPMF(random.dirichlet(np.full(rank, 20.0)), factors, pmf.schema)


def assert_is_pmf(pmf):
    for tree in pmf.trees.trees:
        for matrix in (tree.weights[:, None], *tree.transitions, *tree.factors):
            assert np.isfinite(matrix).all()
            assert (matrix >= 0).all()
            np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-9)
    if pmf.n_hidden == 1:
        assert (np.diff(pmf.weights) <= 0).all(), "components are sorted by weight"


def largest_rise(objectives):
    """Return by how much a sequence rises at its worst step, relative to its size there; 0 if it never does."""
    steps = [(after - before) / max(abs(before), 1.0) for before, after in pairwise(objectives)]
    return max([0.0, *steps])


def saved_at(pmf, folder):
    path = folder / "model.twoway"
    pmf.save(path)
    return path


def saved(pmf, folder):
    return saved_at(pmf, folder).read_bytes()


def assert_same_fit(one, other, rtol=1e-9):
    assert [tree.parents for tree in one.trees.trees] == [tree.parents for tree in other.trees.trees]
    np.testing.assert_allclose(theta_of(one), theta_of(other), rtol=rtol, atol=1e-12)


# The helpers can fail


def test_a_rise_is_found_wherever_it_is():
    assert largest_rise([3.0, 2.0, 2.0, 1.0]) == 0.0
    assert largest_rise([-1.0, -2.0, -5.0]) == 0.0
    for rising in ([1.0, 1.1, 0.0], [3.0, 2.0, 2.001, -5.0], [-5.0, -4.9], [0.0, 1e-9]):
        assert largest_rise(rising) > 1e-10


def test_a_wrong_pmf_is_found(truth):
    weights, stacked = truth.weights.copy(), truth.stacked.copy()
    assert_is_pmf(truth.sorted_by_weight())
    for wrong in (
        JointPMF.from_stacked(truth.schema, weights * 1.1, stacked),
        JointPMF.from_stacked(truth.schema, weights, stacked * np.nan),
        JointPMF.from_stacked(truth.schema, weights, stacked * 1.1),
        JointPMF.from_stacked(truth.schema, np.array([0.4, 0.6]), stacked),
        JointPMF.from_stacked(truth.schema, np.array([1.5, -0.5]), stacked),
    ):
        with pytest.raises(AssertionError):
            assert_is_pmf(wrong)
    tree = random_tree((-1, 0, 1, 1))
    assert_is_pmf(JointPMF.from_trees(sized(SIZES), Trees(np.ones(1), (tree,))))
    wrong = replace(tree, transitions=(tree.transitions[0] * 1.1, *tree.transitions[1:]))
    with pytest.raises(AssertionError):
        assert_is_pmf(JointPMF.from_trees(sized(SIZES), Trees(np.ones(1), (wrong,))))


def test_the_tree_has_several_hidden_variables(records, frame):
    """Otherwise what is promised here of trees would be promised of one hidden variable."""
    assert solve(records, "tree").n_hidden > 1
    assert solve(tw.count(records), "tree").n_hidden > 1
    assert solve(pd.concat([frame, frame]), "tree").n_hidden > 1


# What every solver promises


@every_solver
def test_a_pmf_whose_objectives_never_rise(case, records):
    pmf = solve(records, case)
    assert_is_pmf(pmf)
    assert pmf.rank == 2
    assert pmf.schema == records.schema
    report = pmf.report
    for start in report.starts:
        assert len(start.objectives) >= 1
        assert np.isfinite(start.objectives).all()
        assert largest_rise(start.objectives) <= 1e-10
    assert report.objective == min(start.objective for start in report.starts)
    assert (report.stop_reason is StopReason.DIRECT) == (case in DIRECT)
    assert report.stop_reason is not StopReason.OUTRUN
    assert report.seconds > 0


@pytest.mark.parametrize("case", ["em", "coupled-nmf", "auto", "spa+em", "mle-ad", "tree"])
@pytest.mark.parametrize("rank", [3, 6])
@pytest.mark.parametrize("smoothing", [0.0, 0.5, 50.0])
def test_objectives_never_rise_with_smoothing(case, rank, smoothing, records):
    pmf = solve(records, case, rank=rank, smoothing=smoothing)
    assert_is_pmf(pmf)
    for start in pmf.report.starts:
        assert largest_rise(start.objectives) <= 1e-10
    assert pmf.report.smoothing == smoothing


@pytest.mark.parametrize("case", [*FROM_TABLES, "tree"])
def test_the_same_from_tables_alone(case, records, truth):
    pmf = solve(tw.count(records, order_for(case)), case)
    assert_is_pmf(pmf)
    for start in pmf.report.starts:
        assert largest_rise(start.objectives) <= 1e-10
    independent = tw.fit(records, rank=1, solver="em")
    assert tw.kl_divergence(truth, pmf) < tw.kl_divergence(truth, independent)


@pytest.mark.parametrize("case", ["em", "spa+em", "ctd+em"])
def test_em_needs_records(case, records):
    with pytest.raises(DataError, match="'em' needs records"):
        solve(tw.count(records, order_for(case)), case)


@pytest.mark.parametrize("case", FROM_TRIPLES)
def test_pairs_do_not_determine_triples(case, records):
    with pytest.raises(DataError, match="3-way tables or records, but only 2-way"):
        solve(tw.count(records), case)


@every_solver
def test_same_seed_same_bytes_whatever_the_threads(case, records, many_blocks, tmp_path):
    anew = Records.from_cells(records.schema, records.pointers, records.cells)
    assert len(anew.canonical().blocks()) > 3
    one = saved(solve(anew, case, threads=1), tmp_path)
    assert saved(solve(anew, case, threads=1), tmp_path) == one
    assert saved(solve(anew, case, threads=2), tmp_path) == one


@pytest.mark.parametrize("case", ["em", "auto", "coupled-nmf", "ctd", "mle-ad", "tree"])
def test_another_seed_is_another_fit(case, records, tmp_path):
    assert saved(solve(records, case, seed=1), tmp_path) != saved(solve(records, case, seed=2), tmp_path)


@every_solver
def test_the_order_of_records_does_not_matter(case, frame):
    shuffled = frame.sample(frac=1, random_state=3)
    assert not shuffled.equals(frame)
    assert_same_fit(solve(frame, case), solve(shuffled, case))


@pytest.mark.parametrize("case", ["em", "coupled-nmf", "spa+em", "ctd", "mle-ad", "tree"])
def test_the_order_of_weighted_records_does_not_matter(case, frame):
    weights = np.random.default_rng(0).random(len(frame))
    order = np.random.default_rng(1).permutation(len(frame))
    one = solve(Records(frame, weights=weights), case)
    other = solve(Records(frame.iloc[order], weights=weights[order]), case)
    assert_same_fit(one, other)


@pytest.mark.parametrize("case", ITERATIVE)
def test_the_order_of_columns_does_not_matter(case, frame, truth):
    """Random starts are drawn column by column, so both orders start from one PMF."""
    order = [3, 0, 4, 1, 2]
    one, other = Records(frame), Records(frame[[frame.columns[index] for index in order]])
    first = JointPMF(np.array([0.45, 0.55]), truth.factors, one.schema)
    second = JointPMF(first.weights, [truth.factors[index] for index in order], other.schema)
    solver = replace(ITERATIVE[case], max_iter=300)
    solutions = [
        solver.solve(Problem(Evidence(data.schema, records=data, threads=None), 2, start=start))
        for data, start in ((one, first), (other, second))
    ]
    assert solutions[0].objectives[-1] == pytest.approx(solutions[1].objectives[-1], rel=1e-6)
    assert solutions[0].objectives[0] > solutions[0].objectives[-1]


def test_the_order_of_columns_does_not_matter_to_a_tree(frame):
    names = [frame.columns[index] for index in (3, 0, 4, 1, 2)]
    one, other = solve(frame, "tree"), solve(frame[names], "tree")
    assert one.report.objective == pytest.approx(other.report.objective, rel=1e-6)
    for pair in combinations(names, 2):
        np.testing.assert_allclose(one.marginal(pair), other.marginal(pair), atol=1e-6)


def test_the_root_does_not_matter_to_em(frame):
    """With complete records and no smoothing each step is the same from every root.

    Records with holes skip the parts of a tree below which nothing was observed: other steps to the same maximum.
    """
    records = Records(frame.dropna())
    tree, sets = solve(frame, "tree").trees.trees[0], CellSets.of_records(records, None)
    ends = []
    for root in range(tree.n_hidden):
        start = JointPMF.from_trees(records.schema, Trees(np.ones(1), (tree.rooted_at(root),)))
        theta = theta_of(start)
        for _ in range(5):
            counts = sets.expected(theta, start.rank, theta_tree_rows(start)).counts
            theta = maximize(counts, np.zeros(len(theta)), sets.shares, theta_groups(start), start.rank)
        ends.append(pmf_of_theta(start, theta).trees.joint())
    assert np.abs(ends[0] - start.trees.joint()).max() > 1e-4
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


def test_the_order_of_columns_within_a_group_does_not_matter_to_spa(frame):
    names = list(frame.columns)
    one = tw.fit(frame, rank=2, solver=SPA(first=2))
    other = tw.fit(frame[[names[1], names[0], names[4], names[2], names[3]]], rank=2, solver=SPA(first=2))
    assert one.report.objective == pytest.approx(other.report.objective, rel=1e-6)


# How it ends


@pytest.mark.parametrize("case", ITERATIVE)
def test_passes_used_up(case, records):
    pmf = solve(records, replace(ITERATIVE[case], max_iter=3), starts=1)
    assert_is_pmf(pmf)
    assert pmf.report.stop_reason is StopReason.MAX_ITER
    assert not pmf.report.converged
    assert 1 <= pmf.report.starts[0].n_iter <= 3
    assert any("did not converge" in warning for warning in pmf.report.warnings)


def test_passes_used_up_in_a_chain(records):
    report = solve(records, (SPA(), EM(max_iter=3)), starts=None).report
    assert report.solver == "spa+em"
    assert report.stop_reason is StopReason.MAX_ITER


@pytest.mark.parametrize("case", ITERATIVE)
def test_without_a_tolerance_it_never_stops_early(case, records):
    report = solve(records, replace(ITERATIVE[case], max_iter=100, tol=0), starts=1).report
    assert report.stop_reason is StopReason.MAX_ITER
    assert largest_rise(report.starts[0].objectives) <= 1e-10


@pytest.mark.parametrize("case", ["em", "coupled-nmf", "equal", "ctd", "mle-ad"])
def test_converged_means_that_more_passes_change_little(case, records):
    pmf = solve(records, ITERATIVE[case], starts=1)
    assert pmf.report.stop_reason is StopReason.CONVERGED
    assert pmf.report.converged
    assert not any("max_iter" in warning for warning in pmf.report.warnings)
    assert pmf.report.starts[0].n_iter < 2000
    evidence = Evidence(records.schema, records=records, threads=None)
    longer = replace(ITERATIVE[case], tol=0, max_iter=300).solve(Problem(evidence, 2, start=pmf))
    assert longer.objectives[-1] == pytest.approx(pmf.report.objective, rel=1e-4)


@pytest.mark.parametrize("options", [{"max_iter": 0}, {"tol": -1.0}, {"tol": float("nan")}])
@pytest.mark.parametrize("solver", [EM, CoupledNMF, CTD, MLEAD])
def test_loops_check_their_options(solver, options, records):
    with pytest.raises(DataError, match=next(iter(options))):
        tw.fit(records, rank=2, solver=solver(**options), starts=1)


# What is known beforehand


@pytest.mark.parametrize("case", [*EXACT, "tree"])
def test_rank_one_is_the_product_of_marginals(case):
    complete = draw_records(dirichlet_rows(4, 3, 2), 300, observed=1.0)
    pmf = solve(complete, case, rank=1, smoothing=0)
    assert pmf.trees.trees[0].weights.tolist() == [1.0]
    for name in complete.schema.names:
        np.testing.assert_allclose(np.asarray(pmf.marginal(name)), np.asarray(complete.marginal(name)), atol=1e-9)


@pytest.mark.parametrize("case", FROM_TABLES)
def test_rank_one_from_exact_tables(case):
    truth = dirichlet_rows(4, 3, 1, seed=2)
    smoothing = None if case in ("mirror", "euclidean") else 0
    pmf = solve(exact_tables(truth, order_for(case)), case, rank=1, smoothing=smoothing)
    np.testing.assert_allclose(pmf.stacked, truth.stacked, atol=1e-5)
    assert pmf.report.objective < 1e-8


def test_rank_one_from_records_with_holes(frame):
    pmf = solve(frame, "em", rank=1)
    for name in frame.columns:
        shares = frame[name].dropna().value_counts(normalize=True).sort_index()
        np.testing.assert_allclose(np.asarray(pmf.marginal(name)), shares, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_spa_recovers_a_separable_model_exactly(seed):
    truth = separable(seed=seed)
    pmf = tw.fit(exact_tables(truth), rank=3, solver="spa")
    assert factor_mse(truth, pmf) < 1e-12
    assert pmf.report.objective < 1e-9
    assert pmf.report.stop_reason is StopReason.DIRECT
    # The paper's split: the separable variable must be in the second group.
    names = ["x1", "x3", "x4", "x2"]
    naive = tw.fit(exact_tables(truth).subset(names), rank=3, solver=SPA(first=3))
    expected = JointPMF(truth.weights, [truth.factors[truth.schema.index(name)] for name in names], naive.schema)
    assert factor_mse(expected, naive) < 1e-12


@pytest.mark.parametrize("case", ["coupled-nmf", "equal", "spa+coupled-nmf", "symmetric-nmf", "auto", "ctd", "mle-ad"])
def test_exact_tables_are_fitted_exactly(case):
    truth = separable(seed=1)
    pmf = solve(exact_tables(truth, order_for(case)), case, rank=3)
    assert pmf.report.objective < 1e-5
    assert factor_mse(truth, pmf) < 1e-3
    worst = pmf.report.misfits[0]
    assert worst.total_variation < 0.01


def test_complete_data_is_ordinary_em():
    """EM as written for matrices without holes, from the same start."""
    complete = draw_records(dirichlet_rows(4, 3, 2, seed=3), 250, observed=1.0)
    start = dirichlet_rows(4, 3, 2, seed=9)
    hot = np.zeros((250, complete.schema.n_categories))
    hot[np.arange(250)[:, None], complete.codes() + complete.schema.offsets[:-1]] = 1.0
    weights, stacked = start.weights, start.stacked
    for _ in range(400):
        joint = np.exp(hot @ np.log(stacked)) * weights
        value = -np.log(joint.sum(axis=1)).mean()
        shares = joint / joint.sum(axis=1, keepdims=True)
        weights, stacked = shares.mean(axis=0), np.maximum(hot.T @ shares / shares.sum(axis=0), 1e-300)
    evidence = Evidence(complete.schema, records=complete, threads=None)
    found = EM(tol=0, max_iter=900).solve(Problem(evidence, 2, start=start))
    assert found.objectives[-1] == pytest.approx(value, rel=1e-7)
    plain = EM(tol=0, max_iter=2).solve(Problem(evidence, 2, start=start))
    assert plain.objectives[1] < plain.objectives[0]


# What has no effect


@every_solver
def test_a_record_with_nothing_observed_has_no_effect(case, frame):
    empty = pd.DataFrame([[None] * 5] * 3, columns=frame.columns, dtype=float)
    more = pd.concat([frame.iloc[:200], empty, frame.iloc[200:]])
    one, other = solve(frame, case), solve(more, case)
    assert_same_fit(one, other)
    assert one.report.log_likelihood == pytest.approx(other.report.log_likelihood, rel=1e-12)
    shown = int((frame.notna().sum(axis=1) > 0).sum())
    assert f"{len(more) - shown} of {len(more)} records have no observed cell" in " ".join(other.report.warnings)


@every_solver
def test_counts_of_two_are_records_doubled(case, frame):
    doubled = solve(pd.concat([frame, frame]), case)
    counted = solve(Records(frame, counts=np.full(len(frame), 2)), case)
    assert_same_fit(doubled, counted)
    assert doubled.report.n_records == counted.report.n_records


@every_solver
def test_a_constant_weight_has_no_effect(case, frame):
    plain, weighted = solve(frame, case), solve(Records(frame, weights=np.full(len(frame), 0.3)), case)
    assert_same_fit(plain, weighted)
    assert plain.report.n_records == weighted.report.n_records


@pytest.mark.parametrize("case", ["em", "coupled-nmf", *DIRECT, "spa+em", "ctd", "mle-ad", "tree"])
def test_records_of_weight_zero_have_no_effect(case, frame):
    kept = np.arange(len(frame)) % 3 > 0
    # The categories are the same: all occur among those kept.
    one = solve(frame[kept], case)
    other = solve(Records(frame, weights=kept.astype(float)), case)
    assert_same_fit(one, other, rtol=1e-6)


# Degenerate data


@pytest.mark.parametrize("data", DEGENERATE)
@every_solver
def test_degenerate_data(case, data, tmp_path):
    """A PMF or a refusal with a reason; never a NaN, never a warning of numpy's."""
    source, rank = DEGENERATE[data]
    rank = min(rank, 6) if case == "tree" else rank  # kernels of so many states are compiled for other tests, too
    try:
        pmf = solve(source, case, rank=rank)
    except DataError as error:
        refused = str(error)
    else:
        assert_is_pmf(pmf)
        assert np.isfinite(pmf.report.objective)
        assert pmf.report.log_likelihood is None or np.isfinite(pmf.report.log_likelihood)
        assert tw.load(saved_at(pmf, tmp_path)).report == pmf.report
        assert np.isfinite(pmf.log_prob([{}])).all()
        return
    assert case not in ("em", "auto"), f"records of any kind can be fitted, but: {refused}"
    if "ctd" in case or "mle-ad" in case:
        assert "at least 3 variables" in refused or "no 3 variables were observed" in refused
        assert len(Records(source).schema) < 3 or len(tw.count(source, order=3)) == 0
    elif "spa" in case:
        assert "spa" in refused or "connects" in refused
        assert data in UNCONNECTED or rank > 1
    else:
        assert data in (*UNCONNECTED, "one record with a hole")


@pytest.mark.parametrize("case", ["auto", "coupled-nmf", "symmetric-nmf", "mirror", "euclidean", "equal", "tree"])
def test_degenerate_tables(case):
    for counts in ([[1e12, 1.0], [0.0, 3e11]], [[1e-9, 0], [0, 1e-9]], [[5.0, 0], [0, 0]]):
        schema = Schema((Variable("a", "xy"), Variable("b", "xy")))
        # The usual smoothing of a tree outweighs a billionth of a record.
        options = {"smoothing": 0} if case == "tree" else {}
        pmf = solve(Tables(schema, [[0, 1]], np.array(counts).ravel()), case, rank=2, **options)
        assert_is_pmf(pmf)
        shares = np.array(counts) / np.sum(counts)
        assert np.abs(np.asarray(pmf.marginal(["a", "b"])) - shares).sum() < 0.1


def test_more_categories_than_records_fill_the_table(frame):
    """With as many components as cells, the fit of one pair is the table itself."""
    records = Records(frame[["x1", "x2"]].dropna())
    pmf = tw.fit(records, rank=3, solver="em")
    assert total_variation(records, pmf, ["x1", "x2"]) < 1e-3
