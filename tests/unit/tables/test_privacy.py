"""Noise on tables: the promised amount, recorded in the file, and its effect on fits."""

import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from strategies import examples

import twoway as tw
from twoway.cli import run
from twoway.data.records import Records
from twoway.data.sql.database_table import DatabaseTable
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, FileFormatError, UnknownNameError
from twoway.schema import Schema, Variable
from twoway.solvers.resampling import TableResampling
from twoway.storage import container
from twoway.tables import privacy
from twoway.tables.privacy import effective_noisy_records, noise_scale, nonnegative_noisy
from twoway.tables.tables import Tables

TRUTH = dirichlet_rows(4, 3, 2, seed=2)
TABLES = tw.count(draw_records(TRUTH, 4000, observed=1.0, seed=1))


@given(st.floats(0.01, 50), st.floats(1e-10, 0.3))
@examples(60)
def test_the_noise_keeps_the_promise_and_is_the_least_that_does(epsilon, delta):
    def worst(scale):
        """Return the largest excess P(A) − e^ε Q(A) over all events A, for normals one apart: by its definition."""
        edge = epsilon * scale**2 + 0.5  # where the two densities have the ratio e^ε
        return norm.sf(edge - 1, scale=scale) - math.exp(epsilon) * norm.sf(edge, scale=scale)

    scale = noise_scale(epsilon, delta)
    assert worst(scale) <= delta * (1 + 1e-6)
    assert worst(scale * 0.999) > delta * (1 - 1e-9)


def test_the_noise_is_less_than_the_classical_rule_asks_for():
    for epsilon in (0.1, 0.5, 1.0):
        assert noise_scale(epsilon, 1e-6) < math.sqrt(2 * math.log(1.25 / 1e-6)) / epsilon


def test_one_record_changes_as_many_counts_as_there_are_tables():
    """The sensitivity, by taking a record away: the distance of all counts together."""
    records = draw_records(TRUTH, 50, observed=1.0, seed=3)
    one, other = Tables.count(records), Tables.count(records.take(np.arange(1, 50)))
    noisy = one.with_noise(1.0, 1e-6)
    assert np.linalg.norm(one.flat - other.flat) == pytest.approx(noisy.releases[0].sensitivity)
    weighted = one.with_noise(1.0, 1e-6, max_weight=3).releases[0]
    assert weighted.sensitivity == pytest.approx(3 * noisy.releases[0].sensitivity)
    assert weighted.sigma == pytest.approx(3 * noisy.releases[0].sigma)


def test_noise_has_the_reported_standard_deviation():
    off = [(TABLES.with_noise(0.5, 1e-5, seed=seed).flat - TABLES.flat) for seed in range(30)]
    # Counts so large that none gets negative.
    large = TABLES.flat > 150
    told = TABLES.with_noise(0.5, 1e-5, seed=0).releases[0].sigma
    assert large.sum() > 20
    assert np.std(np.array(off)[:, large]) == pytest.approx(told, rel=0.1)


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=12))
def test_the_nearest_counts_without_a_negative(counts):
    counts = np.array(counts)
    nearest = nonnegative_noisy(counts)
    assert (nearest >= 0).all()
    if counts.sum() <= 0:
        assert not nearest.any()
        return
    assert nearest.sum() == pytest.approx(counts.sum(), abs=1e-9)
    # The way to any other such point leads away from the counts: the condition of a projection onto a convex set.
    for corner in np.eye(len(counts)) * counts.sum():
        assert (counts - nearest) @ (corner - nearest) <= 1e-6 * (1 + np.abs(counts).max()) ** 2


def test_a_noisy_table_is_worth_fewer_records():
    counts = np.full(16, 1000.0)
    assert effective_noisy_records(counts, 0.0) == 16000.0
    assert effective_noisy_records(counts, 10.0) > effective_noisy_records(counts, 40.0) > 0
    # As many records as have by chance alone the error that chance and noise have together.
    error = 15 / 16 / 16000 + 16 * (40 / 16000) ** 2
    assert effective_noisy_records(counts, 40.0) == pytest.approx(15 / 16 / error)
    assert effective_noisy_records(np.array([5.0, 0.0]), 3.0) > 0
    # The scale of weights does not matter.
    assert effective_noisy_records(7 * counts, 7 * 40.0, 7.0) == pytest.approx(effective_noisy_records(counts, 40.0))


@pytest.mark.slow
def test_more_privacy_costs_accuracy_and_less_noise_gives_it_back():
    errors = []
    for epsilon in (0.05, 0.5, 50.0):
        seeds = range(3)
        fits = [tw.fit(TABLES.with_noise(epsilon, 1e-6, seed=seed), rank=2, solver="coupled-nmf") for seed in seeds]
        errors.append(np.mean([tw.total_variation(TRUTH, pmf, ["x1", "x2", "x3"]) for pmf in fits]))
    assert errors[0] > 1.5 * errors[1] > 1.5 * errors[2]
    exact = tw.total_variation(TRUTH, tw.fit(TABLES, rank=2, solver="coupled-nmf"), ["x1", "x2", "x3"])
    assert errors[2] < 1.2 * exact


def test_the_budget_is_in_the_file_the_notes_and_the_report(tmp_path):
    noisy = TABLES.with_noise(1.0, 1e-6)
    noisy.save(tmp_path / "noisy.tables")
    loaded = Tables.load(tmp_path / "noisy.tables")
    assert loaded == noisy
    assert loaded.releases == noisy.releases
    assert loaded.releases[0].neighbours == "one record added or removed"
    assert "ε = 1, δ = 1e-06 for one record added or removed" in loaded.notes[0]
    assert loaded.notes[0] in tw.fit(loaded, rank=1, solver="spa").report.warnings
    TABLES.save(tmp_path / "exact.tables")
    assert b"releases" not in (tmp_path / "exact.tables").read_bytes()


def test_a_file_with_a_broken_budget_is_refused(tmp_path):
    arrays = {"sets": TABLES.sets, "flat": TABLES.flat, "weights": TABLES.weights}
    header = {"schema": TABLES.schema.to_dict(), "notes": [], "releases": [{"epsilon": 1}]}
    container.write_container(tmp_path / "broken.tables", "tables", header, arrays)
    with pytest.raises(FileFormatError, match=r"broken\.tables'"):
        Tables.load(tmp_path / "broken.tables")


def test_budgets_are_kept_when_tables_are_added_or_chosen_from():
    one, other = TABLES.with_noise(1.0, 1e-6), TABLES.with_noise(0.5, 1e-7)
    assert (one + other).releases == one.releases + other.releases
    assert one.subset(["x1", "x2", "x3"]).releases == one.select([("x1", "x2")]).releases == one.releases
    assert one.with_noise(2.0, 1e-6, max_weight=1).releases[0] == one.releases[0]
    told = "counts without noise were added to noisy ones"
    assert any(told in note for note in (one + TABLES).notes)
    assert not any(told in note for note in (one + other).notes)


def test_noise_differs_without_a_seed():
    assert TABLES.with_noise(1.0, 1e-6) != TABLES.with_noise(1.0, 1e-6)
    assert TABLES.with_noise(1.0, 1e-6, seed=1) == TABLES.with_noise(1.0, 1e-6, seed=1)


def test_noise_that_drowns_everything_leaves_no_negative_and_no_crash():
    few = tw.count({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    drowned = few.with_noise(1e-3, 1e-9, public_schema=True, seed=0)
    assert (drowned.flat >= 0).all()
    assert np.isfinite(drowned.weights).all()
    empty = Tables(TABLES.schema, np.zeros((0, 2), dtype=int), [], heaviest=1.0)
    assert len(empty.with_noise(1.0, 1e-6)) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "told"),
    [
        (0, 1e-6, "epsilon must be"),
        (math.inf, 1e-6, "epsilon must be"),
        (1, 0, "delta must be"),
        (1, 1, "delta must be"),
    ],
)
def test_budgets_that_mean_nothing(epsilon, delta, told):
    with pytest.raises(DataError, match=told):
        TABLES.with_noise(epsilon, delta)


SCHEMA = Schema((Variable("a", ("x", "y", "z")), Variable("b", (1, 2)), Variable("c", ("u", "v"))))
FEW = {"a": ["x", "y", None, "x"], "b": [1, 2, 1, None], "c": [None, None, "u", None]}  # no record shows a and c
NEIGHBOURS = {
    "one that shows a pair not seen before": {"a": "z", "b": None, "c": "v"},
    "one of a category not seen before": {"a": "z", "b": 1, "c": None},
    "one that shows everything": {"a": "x", "b": 2, "c": "u"},
    "one that shows nothing": {"a": None, "b": None, "c": None},
}


def released(columns, tmp_path, **options):
    """Return the counts of some records with noise, the tables made of them, and the header of their file."""
    seen = []
    tables = Tables.count(Records(columns, schema=SCHEMA, **options))
    with pytest.MonkeyPatch.context() as patched:
        add_noise = privacy.add_noise
        patched.setattr(privacy, "add_noise", lambda *arguments: seen.append(add_noise(*arguments)) or seen[-1])
        noisy = tables.with_noise(1.0, 1e-6, seed=7)
    noisy.save(tmp_path / "released.tables")
    with zipfile.ZipFile(tmp_path / "released.tables") as archive:
        return seen[0], noisy, archive.read("header.json")


@pytest.mark.parametrize("which", NEIGHBOURS)
@pytest.mark.parametrize("before", [FEW, {"a": [], "b": [], "c": []}], ids=["some records", "no record"])
def test_one_record_more_changes_nothing_but_the_counts_below_the_noise(before, which, tmp_path):
    record = NEIGHBOURS[which]
    after = {name: [*before[name], record[name]] for name in before}
    one, noisy, header = released(before, tmp_path)
    other, noisier, header_after = released(after, tmp_path)
    assert header == header_after
    assert noisy.releases == noisier.releases
    assert noisy.notes == noisier.notes
    assert (noisy.schema, noisy.heaviest) == (noisier.schema, noisier.heaviest)
    assert not any(variable.is_found for variable in noisy.schema)
    # All pairs of the schema, in their order, each with the counts of this one record and the same noise.
    alone = [
        [
            float((record[first], record[second]) == (x, y))
            for x in SCHEMA[first].categories
            for y in SCHEMA[second].categories
        ]
        for first, second in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    np.testing.assert_allclose(other - one, np.concatenate(alone), atol=1e-9)
    assert noisy.releases[0].n_tables == 3
    assert noisy.releases[0].sensitivity == pytest.approx(math.sqrt(3))
    assert np.linalg.norm(other - one) <= noisy.releases[0].sensitivity + 1e-9
    # A table that drowned in noise is left out, and it is still known that it was released.
    for tables in (noisy, noisier):
        assert len(tables) + len(tables.empty) == 3


def test_categories_found_in_the_data_are_not_released_by_default(tmp_path):
    found = tw.count(FEW)
    with pytest.raises(DataError, match=r"'a', 'b', 'c' were found in the data.*public_schema=True"):
        found.with_noise(1.0, 1e-6)
    noisy = found.with_noise(1.0, 1e-6, public_schema=True)
    assert noisy.releases[0].n_tables == 3
    # What is declared once is known from then on; what was found stays so, wherever it goes.
    noisy.with_noise(1.0, 1e-6)
    found.save(tmp_path / "found.tables")
    declared = Tables.count(Records(FEW, schema=SCHEMA))
    declared.save(tmp_path / "declared.tables")
    again = Tables.load(tmp_path / "declared.tables")
    assert again.with_noise(1.0, 1e-6, seed=0) == declared.with_noise(1.0, 1e-6, seed=0)
    narrow = {name: SCHEMA[name] for name in ("a", "b")}
    for tables in (
        Tables.load(tmp_path / "found.tables"),
        found + found,
        declared + found,
        found + declared,
        found.subset(["b", "a"]),
        found.select([("a", "b")]),
        Tables.count(Records(FEW, schema=found.schema)),
        Tables.count(Records({"a": ["new"], "b": [1]}, schema=Schema(tuple(narrow.values())), unseen="extend")),
        Tables.count(Records(pd.DataFrame(FEW).astype("category"))),
        Tables.from_crosstabs({("a", "b"): pd.DataFrame({"u": [1, 2], "v": [3, 4]}, index=["x", "y"])}),
    ):
        with pytest.raises(DataError, match="found in the data"):
            tables.with_noise(1.0, 1e-6, max_weight=1)


def test_older_files_do_not_record_the_origin_of_categories(tmp_path):
    Tables.count(Records(FEW, schema=SCHEMA)).save(tmp_path / "new.tables")
    header, arrays = container.read_container(tmp_path / "new.tables")
    for name in ("format", "version", "kind", "written_by", "heaviest"):
        del header[name]
    for entry in header["schema"]:
        del entry["declared"]
    container.write_container(
        tmp_path / "old.tables", "tables", header, {name: arrays[name] for name in ("sets", "flat", "weights")}
    )
    old = Tables.load(tmp_path / "old.tables")
    with pytest.raises(DataError, match="public_schema=True"):
        old.with_noise(1.0, 1e-6)
    with pytest.raises(DataError, match="max_weight"):
        old.with_noise(1.0, 1e-6, public_schema=True)
    assert old.with_noise(1.0, 1e-6, public_schema=True, max_weight=1).releases[0].n_tables == 2


def test_schemas_of_files_and_databases_record_their_origin(tmp_path):
    ibis = pytest.importorskip("ibis")
    frame = pd.DataFrame({**FEW, "w": [1.5, 2.0, 7.0, 1.0]})
    frame.to_csv(tmp_path / "few.csv", index=False)
    database = ibis.duckdb.connect()
    table = database.create_table("few", frame)
    for make in (
        lambda **options: tw.FileRecords(tmp_path / "few.csv", **options),
        lambda **options: DatabaseTable(table, **options),
    ):
        declared = tw.count(make(schema=SCHEMA))
        assert declared.with_noise(1.0, 1e-6).releases[0].n_tables == 3
        assert tw.count(make(schema=SCHEMA, weights="w")).heaviest == 7
        with pytest.raises(DataError, match="found in the data"):
            tw.count(make(columns=["a", "b", "c"])).with_noise(1.0, 1e-6)
    database.disconnect()


def test_values_that_were_found_in_the_data_stay_there():
    """The means of bins are exact numbers about the records."""
    bins = Variable("income", ("below 10", "10 or more"), (3.25, 17.125), is_found=True)
    own = Variable("rating", ("bad", "good"), (1.0, 5.0))
    records = Records({"income": ["below 10"], "rating": ["bad"]}, schema=Schema((bins, own)))
    noisy = Tables.count(records).with_noise(1.0, 1e-6, public_schema=True)
    assert noisy.schema["income"].values is None
    assert noisy.schema["rating"].values == (1.0, 5.0)


def test_notes_about_the_records_are_not_released():
    noted = Tables(SCHEMA, [[0, 1]], np.ones(6), notes=("17 records were left out",), heaviest=1.0)
    noisy = noted.with_noise(1.0, 1e-6)
    assert noisy.notes == (str(noisy.releases[0]),)


def test_tables_that_are_chosen_are_released_also_where_they_are_empty():
    tables = Tables.count(Records(FEW, schema=SCHEMA))
    assert ("a", "c") not in tables
    chosen = tables.select([("c", "a"), ("a", "b")])
    assert chosen.with_noise(1.0, 1e-6).releases[0].n_tables == 2
    assert tables.subset(["c", "a"]).with_noise(50.0, 1e-2, seed=1).releases[0].n_tables == 1
    with pytest.raises(UnknownNameError, match="'b' × 'c'"):
        chosen.select([("b", "c")])
    # Adding fills a table that was empty, and keeps those that still are.
    more = Tables.count(Records({"a": ["x"], "c": ["v"]}, schema=SCHEMA))
    assert (tables + more).empty.tolist() == []
    assert (more + more).empty.tolist() == [[0, 1], [1, 2]]
    assert (tables + more).with_noise(1.0, 1e-6).releases[0].n_tables == 3


def test_weighted_records_need_their_largest_weight(tmp_path):
    weighted = Tables.count(Records({"a": ["x", "y"], "b": [2, 2]}, schema=SCHEMA, weights=[0.5, 50.0]))
    whole = Tables.count(Records({"a": ["x", "y"], "b": [2, 2]}, schema=SCHEMA, weights=[50.0, 50.0]))
    both = Tables.count(Records({"a": ["x", "y"], "b": [2, 2]}, schema=SCHEMA, weights=[0.5, 50.0], counts=[9, 3]))
    weighted.save(tmp_path / "weighted.tables")
    loaded = Tables.load(tmp_path / "weighted.tables")
    for tables in (weighted, whole, both, loaded, weighted + weighted, weighted.subset(["b", "a"])):
        assert tables.heaviest == 50
        with pytest.raises(DataError, match="max_weight"):
            tables.with_noise(1.0, 1e-6)
        with pytest.raises(DataError, match=r"50, .*max_weight"):
            tables.with_noise(1.0, 1e-6, max_weight=1)
        noisy = tables.with_noise(1.0, 1e-6, max_weight=60)
        assert (noisy.releases[0].max_weight, noisy.heaviest) == (60, 60)
    light = Tables.count(Records({"a": ["x", "y"], "b": [2, 2]}, schema=SCHEMA))
    assert (light + weighted).heaviest == 50
    assert light.heaviest == 1
    # A row that stands for several records is as many, each of weight one.
    several = Tables.count(Records({"a": ["x", "y"], "b": [2, 2]}, schema=SCHEMA, counts=[50, 3]))
    assert several.heaviest == 1
    several.with_noise(1.0, 1e-6)
    with pytest.raises(DataError, match="max_weight"):
        Tables(SCHEMA, [[0, 1]], np.ones(6)).with_noise(1.0, 1e-6)


def test_releases_compose(tmp_path):
    one, other = TABLES.with_noise(1.0, 1e-6), TABLES.with_noise(0.5, 1e-7)
    assert one.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert one.privacy.delta == 1e-6
    both = (one + other).privacy
    assert both.n_releases == 2
    assert both.rho == pytest.approx(one.releases[0].rho + other.releases[0].rho)
    assert 1.0 < both.epsilon < 1.5  # less than the sum
    # Two Gaussian releases of the same counts tell as much as one of their best average.
    sigmas = np.array([one.releases[0].sigma, other.releases[0].sigma])
    scale = 1 / np.sqrt((1 / sigmas**2).sum()) / one.releases[0].sensitivity
    assert privacy.privacy_leak(both.epsilon, scale) == pytest.approx(1e-6, rel=1e-5)
    assert both.epsilon_at(1e-9) > both.epsilon
    assert TABLES.privacy is None
    assert (one + TABLES).privacy is None, "exact counts are in there"
    (one + TABLES).save(tmp_path / "mixed.tables")
    assert Tables.load(tmp_path / "mixed.tables").privacy is None


@given(st.floats(1e-6, 100), st.floats(1e-12, 0.1))
def test_the_total_is_the_least_epsilon(rho, delta):
    epsilon = privacy.privacy_epsilon(rho, delta)
    scale = 1 / math.sqrt(2 * rho)
    assert privacy.privacy_leak(epsilon, scale) <= delta * (1 + 1e-6)
    assert epsilon == 0 or privacy.privacy_leak(epsilon * 0.999, scale) > delta


def test_each_table_knows_its_noise(tmp_path):
    one, other = TABLES.with_noise(1.0, 1e-6), TABLES.select([("x1", "x2")]).with_noise(0.5, 1e-7)
    variance = one.releases[0].sigma ** 2
    assert one.noise == pytest.approx(np.full(len(one), variance))
    both = one + other
    assert both.noise[both.pairs.index(("x1", "x2"))] == pytest.approx(variance + other.releases[0].sigma ** 2)
    assert both.noise[both.pairs.index(("x1", "x3"))] == pytest.approx(variance)
    assert (one + TABLES).noise == pytest.approx(one.noise)
    assert both.subset(["x3", "x1", "x2"]).noise.max() == both.noise.max()
    assert TABLES.noise.tolist() == [0.0] * len(TABLES)
    both.save(tmp_path / "both.tables")
    assert Tables.load(tmp_path / "both.tables").noise.tolist() == both.noise.tolist()


def test_intervals_of_noisy_tables_include_the_noise():
    """Replicates of noisy tables vary as noisy tables do; the noise of tables is drawn apart."""
    model = dirichlet_rows(3, 3, 2, seed=4)
    tables = Tables.count(draw_records(model, 3000, observed=1.0, seed=1))
    noisy = tables.with_noise(0.2, 1e-6, seed=3)
    sigma = noisy.releases[0].sigma
    draws = [TableResampling(noisy, model, None).tables(0, number) for number in range(200)]
    shares = np.array([(one.flat / np.repeat(one.totals, np.diff(one.starts))) for one in draws])
    truth = np.concatenate([model.marginal(pair).array.ravel() for pair in noisy.pairs])
    expected = truth * (1 - truth) / 3000 + (sigma / 3000) ** 2 * (1 - 1 / 9)
    large = truth > 5 * sigma / 3000  # which are not cut at zero
    assert large.sum() > 8
    assert shares.var(axis=0)[large].mean() == pytest.approx(expected[large].mean(), rel=0.25)
    exact = (
        np.array([one.flat for one in (TableResampling(tables, model, None).tables(0, n) for n in range(50))]) / 3000
    )
    assert exact.var(axis=0)[large].mean() < 0.3 * expected[large].mean()


def test_the_command_line_counts_with_noise(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TRUTH.sample(500, seed=1).assign(w=2).to_csv("day.csv", index=False)
    count = ["count", "day.csv", "--drop", "w", "-o"]
    assert run([*count, "noisy.tables", "--epsilon", "1", "--seed", "3"]) == 3
    told = capsys.readouterr().err
    assert "(--schema)" in told
    assert "--public-schema" in told
    Path("schema.json").write_text(json.dumps({name: [0, 1, 2] for name in TRUTH.schema.names}))
    count = ["count", "day.csv", "--schema", "schema.json", "-o"]
    assert run([*count, "noisy.tables", "--epsilon", "1", "--seed", "3"]) == 0
    assert "ε = 1, δ = 1e-06" in capsys.readouterr().out
    noisy = Tables.load("noisy.tables")
    exact = tw.count(TRUTH.sample(500, seed=1))
    assert noisy == exact.with_noise(1.0, 1e-6, public_schema=True, seed=3)
    assert run(["count", "day.csv", "--add", "noisy.tables", "--epsilon", "0.5", "--delta", "1e-7"]) == 0
    assert [one.epsilon for one in Tables.load("noisy.tables").releases] == [1.0, 0.5]
    capsys.readouterr()
    assert run(["info", "noisy.tables", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["delta"] for one in shown["releases"]] == [1e-6, 1e-7]
    assert 1 < shown["privacy"]["epsilon"] < 1.5
    assert run(["info", "noisy.tables"]) == 0
    shown = capsys.readouterr().out
    assert "ε = 0.5, δ = 1e-07 for one record added or removed" in shown
    assert "2 releases together: ε = 1." in shown
    weighted = ["count", "day.csv", "--weights", "w", "--schema", "schema.json", "-o", "w.tables", "--epsilon", "1"]
    assert run(weighted) == 3
    assert "give --max-weight" in capsys.readouterr().err
    assert run([*weighted, "--max-weight", "1"]) == 3
    assert "more than 1, the largest that --max-weight allows" in capsys.readouterr().err
    assert run([*weighted, "--max-weight", "2"]) == 0
    assert Tables.load("w.tables").releases[0].max_weight == 2
    assert run([*count, "x.tables", "--seed", "3"]) == 3


def test_the_command_line_publishes_no_cut_points_and_no_means(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    income = random.lognormal(10, 1, 300).round(2)
    pd.DataFrame({"income": income, "vote": random.choice(["no", "yes"], 300)}).to_csv("day.csv", index=False)
    count = ["count", "day.csv", "-o", "public.tables", "--epsilon", "1"]
    for bins in ("income", "income=4"):
        for more in ([], ["--public-schema"]):
            assert run([*count, "--bins", bins, *more]) == 3
            assert "--bins income=10000,20000" in capsys.readouterr().err
    assert run([*count, "--bins", "income=10000,20000"]) == 3
    assert run([*count, "--bins", "income=10000,20000", "--public-schema"]) == 0
    by_flag = Tables.load("public.tables")
    Path("schema.json").write_text('{"income": {"cuts": [10000, 20000]}, "vote": ["no", "yes"]}')
    assert run([*count, "--schema", "schema.json", "--force"]) == 0
    by_schema = Tables.load("public.tables")
    for tables in (by_flag, by_schema):
        assert tables.schema["income"].values is None
        assert tables.schema["income"].categories == ("below 10000", "10000 to below 20000", "20000 or more")
    assert run([*count, "--schema", "public.tables", "--force"]) == 4  # which would be replaced
    for wrong in ('{"income": 3}', "[]", "{", '{"income": {"cuts": [2, 1]}}', '{"a": ["x", "x"]}', '{"a": []}'):
        Path("wrong.json").write_text(wrong)
        assert run([*count, "--schema", "wrong.json", "--force"]) == 4
    assert run([*count, "--schema", "nix.json", "--force"]) == 4
    assert run([*count, "--schema", "schema.json", "--bins", "income", "--force"]) == 3
    assert run(["count", "day.csv", "-o", "x.tables", "--schema", "schema.json"]) == 0  # without noise, too
    capsys.readouterr()


def test_tables_of_merged_records_do_not_know_their_largest_weight():
    """The mean of equal records' weights is less than the largest, and noise for it would be too little."""
    frame = {"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25}
    for weights, heaviest in ((np.where(np.arange(100) == 5, 50.5, 1.0), None), (None, 1.0)):
        found = tw.diagnose(Records(frame, weights=weights), rank=1)
        assert found.tables.heaviest == heaviest


def test_a_release_that_noise_left_empty_promises_nothing_of_what_is_added():
    schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1))))
    exact = tw.count(Records({"a": [0, 1, 1], "b": [1, 1, 0]}, schema=schema))
    nobody = tw.count(Records({"a": [], "b": []}, schema=schema))
    releases = [nobody.with_noise(1.0, 1e-6, seed=seed) for seed in range(5)]
    empty = next(release for release in releases if not len(release))
    assert (empty + exact).privacy is None
    assert (exact + empty).privacy is None
    assert (empty + nobody).privacy.n_releases == 1
