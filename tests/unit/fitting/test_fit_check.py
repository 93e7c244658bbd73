"""The check at the end of every fit: tables that are off by more than chance, and tables that contradict others."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import twoway as tw
from twoway.checks.contradiction import contradicting_shares
from twoway.checks.fit_quality import fit_quality
from twoway.cli import run
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.fitting.sources import evidence_of_source
from twoway.report import FitCheck, Report
from twoway.tables.tables import Tables

RECORDS = draw_records(dirichlet_rows(5, 3, 3, seed=3), 4000, observed=0.8, seed=4)
FRAME = pd.DataFrame(RECORDS.codes(), columns=RECORDS.schema.names).astype("Int64")
FRAME = FRAME.mask(FRAME < 0)


def pearson(pmf, tables, index):
    """Return χ², its degrees of freedom and the worst cell of one table: the obvious way."""
    total = float(tables.weights[index])
    shares = tables.array(index).ravel() / tables.totals[index]
    modelled = np.asarray(pmf.marginal(tables.names[index])).ravel()
    few = total * modelled < 5
    observed, expected = np.append(shares[~few], shares[few].sum()), np.append(modelled[~few], modelled[few].sum())
    possible = expected > 0
    statistic = total * ((observed - expected)[possible] ** 2 / expected[possible]).sum()
    if (observed[~possible] > 0).any():
        statistic = math.inf
    errors = np.sqrt(np.maximum(modelled * (1 - modelled), 1 / total) / total)
    return statistic, max(1, possible.sum() - 1), int(np.abs((shares - modelled) / errors).argmax())


@pytest.mark.parametrize("order", [2, 3])
def test_all_tables_at_once_are_each_table_alone(order):
    tables = Tables.count(RECORDS, order)
    pmf = dirichlet_rows(5, 3, 2, seed=8)
    factors = [factor.copy() for factor in pmf.factors]
    factors[1][0] = 0.0  # a category that the model rules out and the records show
    factors[1] /= factors[1].sum(axis=0)
    pmf = tw.JointPMF(pmf.weights, factors, RECORDS.schema)
    quality = fit_quality(pmf, tables)
    assert len(quality.pairs) == math.comb(5, order)
    for index, names in enumerate(tables.names):
        statistic, degrees, worst = pearson(pmf, tables, index)
        pair = quality[names]
        assert pair.chi_square == pytest.approx(statistic, rel=1e-9)
        assert pair.degrees == degrees
        assert pair.p_value == pytest.approx(chi2.sf(statistic, degrees), rel=1e-9, abs=1e-300)
        assert pair.observed == pytest.approx(tables.array(index).ravel()[worst] / tables.totals[index])
        at = tuple(tables.schema[name].code(label) for name, label in zip(pair.variables, pair.worst_cell, strict=True))
        assert tables.array(index)[at] / tables.totals[index] == pytest.approx(pair.observed)
    assert any(math.isinf(pair.chi_square) for pair in quality.pairs)


def sources(tmp_path):
    FRAME.to_csv(tmp_path / "survey.csv", index=False)
    return {
        "records": RECORDS,
        "frame": FRAME,
        "file": str(tmp_path / "survey.csv"),
        "tables": tw.count(RECORDS),
        "several": [FRAME.iloc[:2000], FRAME.iloc[2000:]],
    }


@pytest.mark.parametrize("kind", ["records", "frame", "file", "tables", "several"])
def test_every_fit_reports_where_it_does_not_fit(kind, tmp_path):
    source = sources(tmp_path)[kind]
    poor = tw.fit(source, rank=1, smoothing=1.0)
    check = poor.report.check
    quality = fit_quality(poor, tw.count(RECORDS) if kind in ("tables", "several") else source)
    assert check.n_off == len(quality.misfits) > 5
    assert (check.n_tables, check.n_compared) == (10, 10)
    worst = quality.pairs[0]
    assert (check.variables, check.cell) == (worst.variables, worst.worst_cell)
    assert (check.observed, check.modelled) == pytest.approx((worst.observed, worst.modelled))
    assert f"{check.n_off} of 10 two-way tables are off by more than chance; worst x" in str(poor.report)
    assert f"observed {worst.observed:.4f}, modelled {worst.modelled:.4f}" in str(poor.report)
    good = tw.fit(source, rank=3, smoothing=1.0).report
    assert good.check.n_off == 0
    assert "0 of 10 two-way tables are off by more than chance" in str(good)


def test_partitions_of_a_cluster_are_checked_too():
    dask = pytest.importorskip("dask.dataframe", reason='clusters need Dask: pip install "twoway[dask]"')
    there, here = (tw.fit(frame, rank=1, smoothing=1.0) for frame in (dask.from_pandas(FRAME, npartitions=3), FRAME))
    assert there.report.check == here.report.check


def test_one_variable_alone_has_no_table():
    assert tw.fit({"a": ["x", "y", "y"]}, rank=1).report.check is None


def test_very_many_tables_are_sampled():
    records = draw_records(dirichlet_rows(30, 3, 2, seed=1), 500, observed=0.9, seed=2)
    whole = Tables.count(records)
    counted, _, _ = evidence_of_source(records, None)
    counted.tables(2)
    for evidence in (evidence_of_source(records, None)[0], counted, evidence_of_source(whole, None)[0]):
        tables, n_tables = evidence.compared_tables(50, 2**22, seed=0)
        again, _ = evidence.compared_tables(50, 2**22, seed=0)
        assert n_tables == math.comb(30, 2)
        assert 40 < len(tables) <= 50
        assert tables == again
        assert tables == whole.select(tables.names)
        few_cells, _ = evidence.compared_tables(10_000, 200, seed=0)
        assert 10 < len(few_cells) <= 200 // 9
    check = FitCheck(435, 50, 3, ("a", "b"), ("x", "y"), 0.25, 0.125)
    assert "3 of 50 two-way tables compared, of 435 in all, are off" in str(check)


def test_the_check_is_saved_and_belongs_to_the_fit(tmp_path):
    pmf = tw.fit(RECORDS, rank=1)
    pmf.save(tmp_path / "m.twoway")
    assert tw.load(tmp_path / "m.twoway").report.check == pmf.report.check
    assert tw.update(pmf, FRAME.iloc[:50]).report.check is None
    described = pmf.report.to_dict()
    for name, value in {"n_off": "many", "cell": ["x"], "variables": [1, 2], "observed": None}.items():
        with pytest.raises(DataError, match="report"):
            Report.from_dict({**described, "check": {**described["check"], name: value}})


def test_the_command_prints_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("survey.csv", index=False)
    assert run(["fit", "survey.csv", "--rank", "1"]) == 0
    assert "of 10 two-way tables are off by more than chance; worst x" in capsys.readouterr().out
    assert run(["fit", "survey.csv", "--rank", "1", "--json", "--force"]) == 0
    check = json.loads(capsys.readouterr().out)["check"]
    assert check["n_off"] > 5
    assert check["n_compared"] == 10


# Tables that contradict one another


def crosstabs(rng, n=2000, **factors):
    """Return tables of sex with age and with vote, each of a sample of its own, men weighed by a factor."""
    tables = {}
    for other, labels in {"age": ["young", "middle", "old"], "vote": ["no", "yes"]}.items():
        counts = rng.multinomial(n, rng.dirichlet(np.full(len(labels), 9.0)).repeat(2) / 2).reshape(-1, 2).T
        counts[0] *= factors.get(other, 1)
        tables["sex", other] = pd.DataFrame(counts, index=["men", "women"], columns=labels)
    return tables


def test_a_table_with_men_doubled_is_named_with_both_numbers():
    tables = Tables.from_crosstabs(crosstabs(np.random.default_rng(0), vote=2))
    warnings = tw.fit(tables, rank=1).report.warnings
    (sentence,) = [warning for warning in warnings if "disagree" in warning]
    men = [np.asarray(tables["sex", other]).sum(axis=1)[tables.schema["sex"].code("men")] for other in ("age", "vote")]
    for text in ("about sex", "sex × age", "sex × vote"):
        assert text in sentence
    shares = [f"{share:.2%}" for share in men]
    others = [f"{1 - share:.2%}" for share in men]
    assert all(share in sentence for share in shares) or all(share in sentence for share in others)
    assert any("totals of tables differ: 2,000 in sex × age" in warning for warning in warnings)


def test_weighted_tables_are_not_taken_for_rounded_ones():
    """Whole percentages of eight cells would allow for four points in a hundred."""
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"sex": random.choice(["m", "f"], 20_000), "region": random.integers(0, 8, 20_000)})
    frame["vote"] = random.integers(0, 3, 20_000)
    weights = random.lognormal(0, 0.4, 20_000)

    def counted(factor, names):
        more_men = weights * np.where(frame["sex"] == "m", factor, 1.0)
        return tw.count(tw.Records(frame, weights=more_men)).select([names])

    (sentence,) = contradicting_shares(counted(1.0, ("sex", "vote")) + counted(1.25, ("sex", "region")))
    assert "sex × vote" in sentence
    assert "sex × region" in sentence
    assert contradicting_shares(counted(1.0, ("sex", "vote")) + counted(1.0, ("sex", "region"))) == []


def test_chance_differences_are_not_contradictions():
    rng = np.random.default_rng(1)
    n_suspected = sum(bool(contradicting_shares(Tables.from_crosstabs(crosstabs(rng)))) for _ in range(200))
    assert n_suspected <= 4


def test_cells_missing_at_random_are_not_contradictions():
    for seed in range(20):
        records = draw_records(dirichlet_rows(8, 4, 3, seed=seed), 1000, observed=0.5, seed=seed)
        assert contradicting_shares(Tables.count(records)) == []


def test_holes_that_depend_on_another_answer_are_one():
    rng = np.random.default_rng(0)
    age, sick = rng.random(20_000) < 0.5, rng.random(20_000)
    sick = sick < np.where(age, 0.5, 0.1)
    asked = rng.random(20_000) < np.where(age, 0.9, 0.2)
    frame = pd.DataFrame({"age": np.where(age, "old", "young"), "sick": np.where(sick, "yes", "no")})
    frame["drug"] = pd.Series(np.where(rng.random(20_000) < 0.5, "a", "b")).where(asked)
    assert any(
        "about age: " in sentence or "about sick: " in sentence for sentence in contradicting_shares(tw.count(frame))
    )


@pytest.mark.parametrize("decimals", [0, 1])
def test_rounding_is_not_a_contradiction(decimals):
    rng = np.random.default_rng(2)
    for _ in range(50):
        joint = rng.dirichlet(np.ones(24)).reshape(4, 3, 2)
        tables = {}
        for (row, column), axis in {("a", "b"): 2, ("a", "c"): 1, ("b", "c"): 0}.items():
            shares = 100 * joint.sum(axis=axis)
            rounded = np.round(shares, decimals)
            tables[row, column] = pd.DataFrame([[f"{x}%" for x in line] for line in rounded.tolist()])
        assert contradicting_shares(Tables.from_crosstabs(tables, kind="joint", totals=1e6)) == []


def test_totals():
    counts = pd.DataFrame([[400_000, 300_000], [340_000, 300_000]], index=["m", "f"], columns=["no", "yes"])
    more = pd.DataFrame([[450_000, 310_000], [440_000, 320_000]], index=["m", "f"], columns=["low", "high"])
    notes = Tables.from_crosstabs({("sex", "vote"): counts, ("sex", "trust"): more}).notes
    assert any("1,340,000 in sex × vote, 1,520,000 in sex × trust" in note for note in notes)
    scaled = Tables.from_crosstabs({("sex", "vote"): counts, ("sex", "trust"): more}, totals=1000)
    assert not any("totals" in note for note in scaled.notes)
    rounded = pd.DataFrame([[400_000, 301_000], [339_000, 301_000]], index=["m", "f"], columns=["low", "high"])
    assert Tables.from_crosstabs({("sex", "vote"): counts, ("sex", "trust"): rounded}).notes == ()


def test_tables_that_no_joint_has():
    different = {("a", "b"): 0.2, ("b", "c"): 0.1, ("a", "c"): 0.8}
    tables = {pair: 500 * np.array([[1 - p, p], [p, 1 - p]]) for pair, p in different.items()}
    frames = {pair: pd.DataFrame(counts, index=["no", "yes"], columns=["no", "yes"]) for pair, counts in tables.items()}
    warnings = tw.fit(Tables.from_crosstabs(frames), rank=2).report.warnings
    assert any("the tables of 'a', 'b', 'c' contradict each other" in warning for warning in warnings)
