"""fit, count and choose_rank: errors, reports and stop reasons."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from reference import em as twin

import twoway as tw
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, FileFormatError, MissingFileError, UnknownNameError
from twoway.model.pmf import JointPMF
from twoway.report import Progress, StopReason
from twoway.schema import Schema, Variable
from twoway.solvers import EM, SPA, Auto, Chain, CoupledNMF, MultiStart, find_solver
from twoway.tables.tables import Tables

COLUMNS = {"age": ["young", "old", None, "old"] * 5, "vote": ["no", "yes", "yes", None] * 5}


@pytest.fixture(scope="module")
def records():
    return draw_records(dirichlet_rows(4, 3, 2, seed=1), 300, observed=0.7)


def crosstab(counts, rows=("young", "old"), columns=("no", "yes"), names=("age", "vote")):
    return pd.DataFrame(counts, index=pd.Index(rows, name=names[0]), columns=pd.Index(columns, name=names[1]))


# What bad input gets


@pytest.mark.parametrize("rank", [0, -1, 2.5, "3", True, float("nan")])
def test_ranks_below_one(rank):
    with pytest.raises(DataError, match=f"rank must be a whole number of at least 1, not {rank!r}"):
        tw.fit(COLUMNS, rank=rank)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": 1.5}, "seed .* not 1[.]5"),
        ({"starts": 0}, "starts must be a whole number of at least 1, not 0"),
        ({"starts": 2.5}, "starts .* not 2[.]5"),
        ({"smoothing": -1}, "smoothing must be .* not -1"),
        ({"smoothing": float("nan")}, "smoothing .* not nan"),
        ({"smoothing": float("inf")}, "smoothing .* not inf"),
        ({"smoothing": "much"}, "smoothing .* not 'much'"),
        ({"smoothing": "auto"}, "smoothing .* not 'auto'"),
        ({"threads": 0}, "threads must be a whole number of at least 1, not 0"),
        ({"solver": 3}, "a solver is .* got 3"),
        ({"solver": ()}, "at least one solver; got none"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(DataError, match=message):
        tw.fit(COLUMNS, rank=2, **options)


def test_unknown_solver():
    with pytest.raises(UnknownNameError, match=r"no solver 'emm'; did you mean 'em'\? known: .*'coupled-nmf'"):
        tw.fit(COLUMNS, rank=2, solver="emm")
    with pytest.raises(UnknownNameError, match="no solver 'spam'"):
        tw.fit(COLUMNS, rank=2, solver="spam+em")


def test_unknown_variable_or_category():
    pmf = tw.fit(COLUMNS, rank=1, smoothing=1.0)
    with pytest.raises(UnknownNameError, match=r"no variable 'vot'; did you mean 'vote'\? known: 'age', 'vote'"):
        pmf.marginal("vot")
    with pytest.raises(
        UnknownNameError, match=r"no category 'yess' of 'vote'; did you mean 'yes'\? known: 'no', 'yes'"
    ):
        pmf.prob({"vote": "yess"})
    with pytest.raises(UnknownNameError, match=r"no category 'maybe' of 'vote' \(record 1\)"):
        pmf.log_prob({"vote": ["no", "maybe"]})


def test_columns_without_an_observed_cell():
    with pytest.raises(DataError, match=r"column 'vote' has no observed cell in 2 records"):
        tw.fit({"age": ["a", "b"], "vote": [None, None]}, rank=1)
    schema = Schema((Variable("age", ("a", "b")), Variable("vote", ("no", "yes"))))
    pmf = tw.fit(Records({"age": ["a", "b"], "vote": [None, None]}, schema=schema), rank=1, solver="em")
    np.testing.assert_allclose(np.asarray(pmf.marginal("vote")), 0.5)
    with pytest.raises(DataError, match="none of the 2 records"):
        tw.fit(Records({"age": [None, None], "vote": [None, None]}, schema=schema), rank=1)


def test_duplicate_column_names():
    with pytest.raises(DataError, match="duplicate column name 'age'"):
        tw.fit(pd.DataFrame([["a", "b"]], columns=["age", "age"]), rank=1)


def test_weights_of_the_wrong_length():
    with pytest.raises(DataError, match="20 records and 3 weights; each record needs one"):
        tw.fit(Records(COLUMNS, weights=[1, 2, 3]), rank=1)


def test_weight_only_where_nothing_is_observed():
    """All that is left to fit weighs nothing: an error, not a division by zero."""
    records = Records({"a": [1, None], "b": [1, None]}, weights=[0, 1])
    with pytest.raises(DataError, match=r"nothing to fit|weigh"):
        tw.fit(records, rank=1, solver="em")


def test_unconnected_tables():
    pairs = {
        ("age", "vote"): crosstab([[1, 2], [3, 4]]),
        ("sex", "job"): crosstab([[1, 2], [3, 4]], names=("sex", "job")),
    }
    tables = Tables.from_crosstabs(pairs)
    for solver in ("auto", "coupled-nmf", "spa"):
        with pytest.raises(DataError, match=r"no table connects '(age|sex)'.* with the other variables"):
            tw.fit(tables, rank=1, solver=solver)
    alone = tables.select([("age", "vote")])
    with pytest.raises(DataError, match=r"no table connects '(sex|job)'"):
        tw.fit(alone, rank=1)


@pytest.mark.parametrize(("wrong", "shown"), [(-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf")])
def test_negative_or_nan_counts(wrong, shown):
    schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    with pytest.raises(DataError, match=rf"'age' = 'old', 'vote' = 'no'.*{shown}"):
        tw.fit(Tables(schema, [[0, 1]], [1.0, 2.0, wrong, 3.0]), rank=1)


def test_labels_that_do_not_match_the_schema():
    with pytest.raises(tw.TwowayError, match="vote"):
        Tables.from_crosstabs(
            {
                ("age", "vote"): crosstab([[1, 2], [3, 4]]),
                ("vote", "job"): crosstab([[1, 2], [3, 4]], ("no", "yess"), names=("vote", "job")),
            },
            schema=Schema(
                (Variable("age", ("young", "old")), Variable("vote", ("no", "yes")), Variable("job", ("no", "yes")))
            ),
        )


def test_tables_without_a_table():
    with pytest.raises(DataError, match="table"):
        tw.fit(tw.count({"a": [1, 2]}), rank=1)
    with pytest.raises(DataError, match=r"two-way|2-way|pair|table|variable"):
        tw.fit({"a": [1, 2]}, rank=1, solver="coupled-nmf")


def test_triples_are_not_pairs(records):
    triples = tw.count(records, order=3)
    with pytest.raises(DataError, match="needs 2-way tables or records"):
        tw.fit(triples, rank=2, solver="coupled-nmf")
    assert "mle-ad" in tw.fit(triples, rank=2, starts=2).report.starts[0].solver


@pytest.mark.parametrize("solver", ["auto", "em", "coupled-nmf"])
def test_the_order_of_columns_does_not_matter(solver):
    frame = draw_records(dirichlet_rows(5, 3, 2, seed=3), 400, observed=0.8, seed=4)
    codes = pd.DataFrame(frame.codes(), columns=frame.schema.names).astype(float).where(lambda one: one >= 0)
    one = tw.fit(codes, rank=2, solver=solver, starts=3)
    other = tw.fit(codes[list(reversed(codes.columns))], rank=2, solver=solver, starts=3)
    names = list(codes.columns)
    np.testing.assert_allclose(np.asarray(one.marginal(names)), np.asarray(other.marginal(names)), atol=1e-9)


def test_auto_does_not_depend_on_the_order_of_weighted_rows():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.integers(0, 3, (300, 4)), columns=list("abcd")).astype(float)
    weights = random.integers(1, 5, 300).astype(float)
    order = random.permutation(300)
    one = tw.fit(tw.Records(frame, weights=weights), rank=2, starts=3)
    other = tw.fit(tw.Records(frame.iloc[order], weights=weights[order]), rank=2, starts=3)
    np.testing.assert_allclose(one.stacked, other.stacked, atol=1e-9)


def test_large_data_are_raced_and_tuned_on_a_sample(monkeypatch):
    monkeypatch.setattr("twoway.solvers.auto._SAMPLE_CELLS", 1500)
    truth = dirichlet_rows(5, 4, 2, seed=3)
    pmf = tw.fit(draw_records(truth, 4000, observed=0.6, seed=4), rank=2, starts=3)
    assert [start.solver.endswith("on a sample") for start in pmf.report.starts] == [False, True, True, True]
    assert tw.factor_mse(truth, pmf) < 0.01


@pytest.mark.slow
def test_an_identifier_does_not_ruin_the_smoothing():
    truth = dirichlet_rows(5, 3, 2, seed=3)
    codes = draw_records(truth, 600, observed=1.0, seed=4).codes()
    plain = pd.DataFrame(codes, columns=list("abcde"))
    with_id = plain.assign(id=range(600))
    smoothing = [tw.fit(one, rank=2, starts=2).report.smoothing for one in (plain, with_id)]
    assert smoothing[1] < 4 * smoothing[0]
    assert tw.choose_rank(with_id).rank <= 4


def test_an_absurd_rank_is_pointed_out():
    report = tw.fit({"a": [1, 2, 1], "b": [1, 2, 2]}, rank=7, solver="em", starts=1).report
    assert any("rank 7 is more than any joint" in warning for warning in report.warnings)


def test_foreign_and_truncated_files(tmp_path):
    path = tmp_path / "model.twoway"
    with pytest.raises(MissingFileError, match=r"model\.twoway"):
        tw.load(path)
    path.write_bytes(b"not a model")
    with pytest.raises(FileFormatError, match=r"model\.twoway"):
        tw.load(path)
    tw.fit(COLUMNS, rank=1, smoothing=1.0).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"model\.twoway"):
        tw.load(path)
    tw.count(COLUMNS).save(path)
    with pytest.raises(FileFormatError, match="'tables'"):
        tw.load(path)


# Choosing a solver


def test_names_chains_instances_and_sequences():
    assert isinstance(find_solver("auto"), Auto)
    assert find_solver("auto", 3).n_starts == 3
    assert find_solver("em") == MultiStart(EM(), 10)
    assert find_solver("em", 1) == EM()
    assert find_solver("spa") == SPA()
    assert find_solver(" spa + em ") == Chain((SPA(), EM()))
    assert find_solver([SPA(), "em"]) == find_solver("spa+em")
    assert find_solver("spa+em", 4) == MultiStart(Chain((SPA(), EM())), 4)
    assert find_solver(CoupledNMF(loss="euclidean"), 1) == CoupledNMF(loss="euclidean")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"loss": "l1"}, UnknownNameError),
        ({"update": "newton"}, UnknownNameError),
        ({"loss": "euclidean", "update": "em"}, DataError),
        ({"pair_weights": "none"}, UnknownNameError),
    ],
    ids=str,
)
def test_options_of_coupled_nmf(options, error):
    with pytest.raises(error, match=next(reversed(options))):
        CoupledNMF(**options)


def test_mirror_descent_takes_no_smoothing(records):
    with pytest.raises(DataError, match="smoothing needs update='em'"):
        tw.fit(records, rank=2, solver=CoupledNMF(update="mirror"), smoothing=1.0)


@pytest.mark.parametrize(
    ("n_variables", "missing"),
    [
        (3, []),
        pytest.param(4, [("x1", "x2")], marks=pytest.mark.slow),
        pytest.param(5, [("x1", "x2"), ("x3", "x4")], marks=pytest.mark.slow),
    ],
)
def test_fit_and_diagnose_agree_about_splits(n_variables, missing):
    """Binary variables: two of them show rank 3 at most, though they have four categories together."""
    records = draw_records(dirichlet_rows(n_variables, 2, 2, seed=1), 2000, seed=1)
    tables = tw.count(records)
    tables = tables.select([names for names in tables.names if names not in missing])
    for rank in (2, 3, 4):
        warnings = tw.fit(tables, rank=rank, solver="coupled-nmf", starts=1).report.warnings
        told = [warning for warning in warnings if "no two groups of variables" in warning]
        diagnosis = tw.diagnose(tables, rank=rank)
        fails = [check.detail for check in diagnosis.checks if "split" in check.name and check.status == "fails"]
        assert len(told) == len(fails)
        if told:
            assert fails[0] in told[0]


@pytest.mark.slow
def test_too_large_a_rank_for_tables(records):
    tables = tw.count(records)
    with pytest.raises(DataError, match="rank 7 is more than 'spa' can find here"):
        tw.fit(tables, rank=7, solver="spa")
    for solver in ("coupled-nmf", "auto"):
        report = tw.fit(tables, rank=7, solver=solver, starts=2).report
        assert any("two-way tables cannot identify rank 7" in warning for warning in report.warnings)
    report = tw.fit(tables, rank=2, solver="coupled-nmf", starts=2).report
    assert not any("identify" in warning for warning in report.warnings)
    with pytest.raises(DataError, match="first must be between 1 and 3"):
        tw.fit(tables, rank=2, solver=SPA(first=4))


# The report


def test_likelihood_and_criteria(records):
    weighted = records.reweighted(np.random.default_rng(0).integers(1, 4, records.n_records).astype(float))
    pmf = tw.fit(weighted, rank=2, solver="em", starts=2)
    report = pmf.report
    memberships, log_prob = twin.posterior(records.pointers, records.cells, pmf.weights, pmf.stacked)
    shown = np.diff(records.pointers) > 0
    weights = np.where(shown, weighted.weights, 0.0)
    log_likelihood = float(log_prob @ weights)
    assert report.log_likelihood == pytest.approx(log_likelihood, rel=1e-12)
    assert report.n_parameters == 1 + 2 * (12 - 4)
    assert report.n_records == weights.sum()
    assert report.aic == pytest.approx(2 * 17 - 2 * log_likelihood)
    assert report.bic == pytest.approx(math.log(weights.sum()) * 17 - 2 * log_likelihood)
    entropies = np.array([-sum(p * math.log(p) for p in row if p > 0) for row in memberships])
    expected = 1 - float(entropies @ weights) / (weights.sum() * math.log(2))
    assert report.relative_entropy == pytest.approx(expected, rel=1e-10)
    assert report.objective == pytest.approx(-log_likelihood / weights.sum())
    assert report.misfits == ()
    assert report.rank == 2
    assert report.solver == "em"
    assert len(report.starts) == 2


def test_observed_cells_and_rank_one(records):
    report = tw.fit(Records({"a": [1, 2, 3], "b": [1, None, 2]}), rank=1, solver="em").report
    assert report.n_records == 3
    assert report.n_observed == 5
    assert report.relative_entropy is None


def test_misfits_of_tables(records):
    tables = tw.count(records)
    pmf = tw.fit(tables, rank=2, solver="coupled-nmf", starts=2)
    report = pmf.report
    assert report.log_likelihood is report.aic is report.bic is report.relative_entropy is report.n_records is None
    assert len(report.misfits) == 6
    worst_first = [misfit.total_variation for misfit in report.misfits]
    assert worst_first == sorted(worst_first, reverse=True)
    for misfit in report.misfits:
        table, model = np.asarray(tables[misfit.variables]), np.asarray(pmf.marginal(misfit.variables))
        seen = table > 0
        assert misfit.total_variation == pytest.approx(0.5 * np.abs(table - model).sum())
        assert misfit.kl == pytest.approx((table[seen] * np.log(table[seen] / model[seen])).sum(), abs=1e-12)
        assert misfit.total == tables[misfit.variables].total
    # The objective is the mean of these divergences, by the tables' totals.
    totals = [misfit.total for misfit in report.misfits]
    mean = np.average([misfit.kl for misfit in report.misfits], weights=totals)
    assert report.objective == pytest.approx(mean, rel=1e-9)


def test_equal_weights_of_pairs(records):
    report = tw.fit(tw.count(records), rank=2, solver=CoupledNMF(pair_weights="equal"), starts=1).report
    assert report.objective == pytest.approx(np.mean([misfit.kl for misfit in report.misfits]), rel=1e-9)


def test_warnings_name_the_problem():
    columns = {"a": [0, 1, 1, None], "constant": ["x", "x", None, None]}
    warnings = tw.fit(columns, rank=1, solver="em").report.warnings
    assert any("constant" in warning and "only one category" in warning for warning in warnings)
    assert any("1 of 4 records have no observed cell" in warning for warning in warnings)
    assert tw.fit({"a": [0, 1] * 5, "b": [1, 0] * 5}, rank=1, solver="em").report.warnings == ()


def test_smoothing_is_chosen_by_auto_only(records):
    chosen = tw.fit(records, rank=2, starts=2).report
    assert chosen.smoothing > 0
    assert chosen.candidates
    held_out = {one["smoothing"]: one["held_out"] for one in chosen.candidates}
    # It was chosen on four fifths of the records.
    assert any(math.isclose(chosen.smoothing, math.sqrt(1.25) * smoothing) for smoothing in held_out)
    assert all(math.isfinite(value) for value in held_out.values())
    named = tw.fit(records, rank=2, solver="em", starts=2).report
    assert (named.smoothing, named.weight_smoothing, named.candidates) == (0, 0, ())


@pytest.mark.parametrize("solver", ["auto", "em"])
def test_a_number_of_pseudo_records(records, solver):
    report = tw.fit(records, rank=2, solver=solver, starts=2, smoothing=3).report
    assert (report.smoothing, report.weight_smoothing) == (3, 3)
    assert not report.candidates
    most = tw.fit(records, rank=2, solver=solver, starts=2, smoothing=1e9)
    # Under so many of them the components are all alike, and equally heavy.
    np.testing.assert_allclose(most.weights, 0.5, atol=1e-4)
    np.testing.assert_allclose(most.stacked[:, 0], most.stacked[:, 1], atol=1e-4)
    none = tw.fit(records, rank=2, solver=solver, starts=2, smoothing=0)
    assert none.report.log_likelihood > report.log_likelihood > most.report.log_likelihood


def test_saved_and_loaded_with_its_report(records, tmp_path):
    for source, options in ((records, {"rank": 2}), (tw.count(records), {"rank": 2}), (records, {"solver": "em"})):
        pmf = tw.fit(source, starts=2, **options)
        pmf.save(tmp_path / "model.twoway")
        again = tw.load(tmp_path / "model.twoway")
        assert again.report == pmf.report
        assert again.report.seconds is None
        assert pmf.report.seconds > 0
        assert again.schema == pmf.schema
        assert again.stacked.tobytes() == pmf.stacked.tobytes()
        assert str(again.report)


# Choosing the rank


def test_rank_none_chooses_it(records):
    pmf = tw.fit(records, solver="em", starts=2)
    tried = [one for one in pmf.report.candidates if "rank" in one]
    assert [one["rank"] for one in tried][:3] == [1, 2, 3]
    best = max(tried, key=lambda one: one["held_out"])
    assert pmf.rank == best["rank"]


@pytest.mark.parametrize("n_variables", [8])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_true_rank_is_found(n_variables, rank):
    records = draw_records(dirichlet_rows(n_variables, 4, rank, seed=2), 3000, observed=0.9)
    assert tw.choose_rank(records, range(1, 6)).rank == rank
    assert tw.choose_rank(tw.count(records), range(1, 6)).rank == rank


def test_the_search_ends_after_two_ranks_that_are_no_better(records):
    choice = tw.choose_rank(draw_records(dirichlet_rows(8, 4, 2, seed=2), 2000), [8, 1, 2, 3, 4, 5, 6, 7])
    assert [one["rank"] for one in choice.candidates] == [1, 2, 3, 4]
    assert choice.rank == 2


@pytest.mark.parametrize("ranks", [[], [0], [1, -2], [1.5], ["x", 1]], ids=str)
def test_bad_ranks(ranks, records):
    with pytest.raises(DataError, match="rank"):
        tw.choose_rank(records, ranks)


@pytest.mark.parametrize(
    "source",
    [
        {"a": ["x"], "b": ["y"]},
        {"a": ["x", "y"], "b": [1, 2]},
        {"a": ["x", "y", None], "b": [1, 2, 1]},
        {"a": ["x", "x"], "b": [1, 1]},
    ],
    ids=["one record", "two records", "three records", "all constant"],
)
@pytest.mark.parametrize("tables", [False, True])
def test_rank_none_on_next_to_nothing(source, tables):
    pmf = tw.fit(tw.count(source) if tables else source)
    assert pmf.rank >= 1
    assert np.isfinite(pmf.stacked).all()


# While it runs


@pytest.mark.parametrize("function", [tw.fit, tw.count])
def test_options_of_reading_belong_to_records(records, function):
    with pytest.raises(
        TypeError, match=r"belongs to Records: (fit|count)\(tw.Records\(source, weights=…\)\)"
    ) as caught:
        function(records, weights="w")
    assert isinstance(caught.value, tw.TwowayError)
    with pytest.raises(TypeError, match="has no option 'thread'; did you mean 'threads'"):
        function(records, thread=1)


@pytest.mark.parametrize(
    "options",
    [
        {"structure": "mixture"},
        {"structure": "tree", "rank": 2},
        {"rank": 2},
        {"solver": "symmetric-nmf+em", "rank": 2},
    ],
    ids=str,
)
def test_each_progress_has_a_task_and_an_end(records, options):
    shown = []
    tw.fit(records, **options, monitor=shown.append)
    assert shown
    for progress in shown:
        assert progress.task
        assert 0 <= progress.done <= progress.at_most


def test_published_tables_show_their_progress():
    shown = []
    cells = {(a, b, c): 3 + len(a + b) + c for a in ("x", "yy") for b in ("u", "vvv") for c in (0, 1)}
    table = tw.PublishedTable.of(["a", "b", "c"], cells)
    tw.fit(tw.PublishedTables.of([table]), rank=2, monitor=shown.append)
    assert "published tables" in {progress.task for progress in shown}
    assert all(0 <= progress.done <= progress.at_most for progress in shown)


def test_the_monitor_gets_each_progress(records):
    told = []
    pmf = tw.fit(records, rank=2, solver=EM(max_iter=50), starts=1, monitor=told.append)
    assert told
    assert all(isinstance(one, Progress) for one in told)
    assert {one.task for one in told} == {"em"}
    assert {one.at_most for one in told} == {50}
    done = [one.done for one in told]
    assert done == sorted(done)
    assert done[0] == 1
    assert [one.objective for one in told] == sorted((one.objective for one in told), reverse=True)
    assert told[-1].objective == pmf.report.objective
    everything = []
    tw.fit(records, starts=2, monitor=everything.append)
    assert {"choosing the rank", "choosing the smoothing", "em, 2 starts"} <= {one.task for one in everything}


def test_a_progress_bar(records, capsys):
    pmf = tw.fit(records, rank=2, solver="em", starts=1, monitor=True)
    assert pmf.report.converged
    assert tw.fit(records, rank=2, solver="em", starts=1, monitor=False).stacked.tobytes() == pmf.stacked.tobytes()
    capsys.readouterr()


class Impatient:
    """A monitor that presses Ctrl-C at its n-th call, once."""

    def __init__(self, at, task=None):
        self.left, self.task = at, task

    def __call__(self, progress):
        if self.task is None or progress.task == self.task:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 3, 12])
@pytest.mark.parametrize("solver", [EM(tol=0), CoupledNMF(tol=0), CoupledNMF(update="mirror", tol=0), "auto"], ids=str)
def test_ctrl_c_gives_the_best_so_far(records, solver, at):
    task = "em, 3 starts" if solver == "auto" else None
    pmf = tw.fit(records, rank=2, solver=solver, starts=3, monitor=Impatient(at, task))
    assert any("interrupted" in warning for warning in pmf.report.warnings)
    assert StopReason.INTERRUPTED in [start.stop_reason for start in pmf.report.starts]
    assert sum(start.n_iter for start in pmf.report.starts) < 600
    np.testing.assert_allclose(pmf.weights.sum(), 1)
    assert pmf.report.objective == min(start.objective for start in pmf.report.starts)


def test_ctrl_c_in_the_middle_of_one_start(records):
    pmf = tw.fit(records, rank=2, solver=EM(tol=0), starts=1, monitor=Impatient(5))
    assert pmf.report.stop_reason is StopReason.INTERRUPTED
    assert not pmf.report.converged
    # Its objective belongs to what is returned.
    assert pmf.report.objective == pytest.approx(-pmf.report.log_likelihood / pmf.report.n_records, rel=1e-12)


@pytest.mark.parametrize("task", ["choosing the rank", "choosing the smoothing"])
def test_ctrl_c_while_choosing(records, task):
    """At the third candidate there is something to return: the best of the first two."""
    try:
        pmf = tw.fit(records, starts=2, monitor=Impatient(3, task))
    except KeyboardInterrupt:  # which would end pytest itself
        pytest.fail("Ctrl-C came out of fit")
    assert any("interrupted" in warning for warning in pmf.report.warnings)
    assert isinstance(pmf, JointPMF)


def test_several_starts_are_one_bar(records):
    told = []
    tw.fit(records, rank=2, solver=EM(max_iter=600, tol=1e-12), starts=7, monitor=told.append)
    assert {(one.task, one.at_most) for one in told} == {("em, 7 starts", 7 * 240 + 3 * 240 + 1 * 120)}
    done = [one.done for one in told]
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] <= told[0].at_most


def test_other_errors_of_a_monitor_come_out(records):
    def fail(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tw.fit(records, rank=2, solver="em", monitor=fail)


# The public names


def test_every_public_name_is_there():
    for name in tw.__all__:
        assert getattr(tw, name) is not None
        assert name in dir(tw)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        tw.fitt  # noqa: B018


def test_tables_are_not_counted_again():
    with pytest.raises(DataError, match="tables already"):
        tw.count(tw.count(COLUMNS))


def test_count_takes_what_fit_takes():
    assert tw.count(COLUMNS) == tw.count(pd.DataFrame(COLUMNS)) == tw.count(Records(COLUMNS))
    assert tw.count(COLUMNS, threads=1) == tw.count(COLUMNS, threads=2)


def test_an_identifier_is_pointed_out():
    source = {"id": list(range(120)), "a": ["x", "y"] * 60}
    assert any("'id'" in warning for warning in tw.fit(source, rank=1, starts=1).report.warnings)
    assert tw.fit({"a": source["a"]}, rank=1, starts=1).report.warnings == ()


def test_records_are_drawn_in_the_library_that_was_fitted(tmp_path):
    pl = pytest.importorskip("polars")
    rows = {"a": ["x", "y"] * 20, "b": [1, 2, 2, 1] * 10}
    for frame, library in ((pl.DataFrame(rows), "polars"), (pl.LazyFrame(rows), "polars"), (rows, "pandas")):
        for source in (frame, tw.Records(frame)):
            pmf = tw.fit(source, rank=1, smoothing=1.0)
            for one in (pmf, pmf.given({"a": "x"}), pickle.loads(pickle.dumps(pmf))):
                assert type(one.sample(3)).__module__.partition(".")[0] == library
    pmf.with_library("polars").save(tmp_path / "m")
    assert type(tw.load(tmp_path / "m").sample(3)).__module__.startswith("pandas")


@pytest.mark.slow
def test_one_thread_is_all_that_a_fit_takes_if_so_asked(monkeypatch):
    """Also where it predicts held-out records, to choose the rank, the smoothing and the structure."""
    records = tw.Records(draw_records(dirichlet_rows(4, 3, 2, seed=2), 600, observed=0.8, seed=1))
    monkeypatch.setattr("twoway.data.records._BLOCK_CELLS", 100)
    monkeypatch.setattr("twoway.parallel.usable_cores", lambda: 4)

    def no_pool(workers, process):
        raise AssertionError(f"{workers} threads")

    monkeypatch.setattr("twoway.parallel._parallel_pool", no_pool)
    with pytest.raises(AssertionError, match="4 threads"):
        tw.fit(records)
    for structure in ("single", "tree", "mixture"):
        assert tw.fit(records, structure=structure, threads=1).report.converged
