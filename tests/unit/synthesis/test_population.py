"""Whole persons: their tables, exact margins, zeros, rules, seeds, files, and what goes wrong."""

import numpy as np
import pandas as pd
import pytest
from hostile import HOSTILE, is_safe
from random_models import random_pmf, sized
from reference.raking import fit_joint

import twoway as tw
from twoway.errors import DataError, TwowayError
from twoway.model.counts import Counts
from twoway.solvers.watch import Watch
from twoway.synthesis import persons
from twoway.synthesis.exact import settle_exact_margins
from twoway.synthesis.persons import draw_persons
from twoway.synthesis.targets import Target, TargetCells, table_targets
from twoway.synthesis.weights import rake_weights, round_by_share, round_weights

SIZES = (4, 3, 3, 2, 3)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(persons, "_FEWEST_DRAWS", 10_000)


def tables_of(pmf, n, seed=5, library="pandas"):
    """Return the tables of a sample, which differ from the model by chance."""
    return tw.count(tw.Records(pmf.sample(n, seed=seed, library=library), schema=pmf.schema))


def known_model(sizes=SIZES, n=3000, seed=0, **options):
    pmf = random_pmf(sized(sizes), 3, seed=seed, **options)
    return pmf.with_counts(Counts.of_tables(tables_of(pmf, n)))


PMF = known_model()
TABLES = PMF.counts.tables


def counted(population, names):
    return np.rint(np.asarray(population.marginal(names)) * len(population))


def worst(population, tables):
    """Return how far the tables of persons are from published ones, in persons, by another route: their frame."""
    n = len(population)
    own = tw.count(tw.Records(population.to_frame(), schema=population.schema))
    differences = [
        np.abs(np.asarray(tables[names]) * n - np.asarray(own[names]) * n).max()
        for names in tables.names
        if names in own
    ]
    assert len(differences) == len(tables)
    return max(differences)


# Agreement


@pytest.mark.parametrize("n", [3000, 20_000, 1234])
def test_tables_agree(n):
    population = tw.population(PMF, n)
    assert len(population) == len(population.to_frame()) == n == population.report.n_persons
    assert worst(population, TABLES) == pytest.approx(population.report.worst.off)
    assert population.report.worst.off < max(0.001 * n, 3)
    assert population.report.warnings == ()


def test_raking_all_persons_is_iterative_proportional_fitting():
    """With every combination among the draws, raking is what it is on the whole joint."""
    sizes = (3, 2, 4)
    schema, rng = sized(sizes), np.random.default_rng(0)
    truth, start = rng.dirichlet(np.ones(24)).reshape(sizes), rng.random(sizes)
    margins = {(0, 1): truth.sum(2), (0, 2): truth.sum(1), (1, 2): truth.sum(0)}
    targets = [Target.of_counts(axes, table, 1) for axes, table in margins.items()]
    codes = np.stack(np.unravel_index(np.arange(24), sizes))
    weights = rake_weights(TargetCells.of(targets, codes), start.ravel(), 1, Watch())
    np.testing.assert_allclose(weights, fit_joint(start, margins).ravel(), atol=2e-6)
    assert len(schema) == 3


@pytest.mark.parametrize("n", [1, 2, 7, 25])
def test_few_persons(n):
    population = tw.population(PMF, n, exact=[("v0", "v1"), "v2"])
    frame = population.to_frame()
    assert frame.shape == (n, len(SIZES))
    goals = np.asarray(TABLES["v0", "v1"]) * n
    table = counted(population, ["v0", "v1"])
    assert ((table >= np.floor(goals - 1e-6)) & (table <= np.ceil(goals + 1e-6))).all()


@pytest.mark.parametrize("n", [0, -1, 10**8 + 1, 1.5, "many", True])
def test_numbers_of_persons(n):
    with pytest.raises(DataError, match="n, the number of persons, must be a whole number of at"):
        tw.population(PMF, n)


@pytest.mark.slow
def test_tables_are_fitted_first(monkeypatch):
    calls = []

    def quick_fit(source, **options):
        calls.append(options)
        return tw.fit(source, rank=2, starts=1)

    monkeypatch.setattr("twoway.synthesis.population.fit", quick_fit)
    population = tw.population(TABLES, 500, seed=3, threads=1)
    assert worst(population, TABLES) < 4
    assert (calls[0]["seed"], calls[0]["threads"]) == (3, 1)


def test_other_tables_than_those_of_the_model():
    plain = PMF.with_counts(None)
    with pytest.raises(DataError, match="does not keep the tables"):
        tw.population(plain, 10)
    other = tables_of(random_pmf(PMF.schema, 3, seed=0), 2000, seed=9)
    population = tw.population(plain, 2000, tables=other)
    assert worst(population, other) < 4
    assert worst(population, TABLES) > 10
    with pytest.raises(TwowayError, match="v9"):
        tw.population(plain, 10, tables=tw.count({"v0": [0, 1], "v9": [0, 1]}))
    with pytest.raises(TwowayError, match="no category 77"):
        tw.population(plain, 10, tables=tw.count({"v0": [0, 77], "v1": [0, 1]}))


def test_weights_of_records_count():
    frame = pd.DataFrame({"a": ["x", "x", "y", "y"] * 5, "b": ["u", "v", "u", "v"] * 5, "w": [1, 3, 4, 2] * 5})
    pmf = tw.fit(tw.Records(frame, weights="w"), rank=2)
    population = tw.population(pmf, 1000)
    np.testing.assert_allclose(counted(population, ["a", "b"]), [[100, 300], [400, 200]], atol=1)


def test_draws_for_cells_that_the_model_forgets():
    """A cell with persons of which the model draws none, or has none at all."""
    for rare in (1e-7, 0.0):
        factors = [[[1 - rare], [rare]], [[0.5], [0.5]], [[0.3], [0.7]]]
        pmf = tw.JointPMF([1.0], factors, sized((2, 2, 2)))
        table = pd.DataFrame([[450, 450], [60, 40]])
        tables = tw.Tables.from_crosstabs({("v0", "v1"): table}, schema=pmf.schema)
        population = tw.population(pmf, 1000, tables=tables)
        np.testing.assert_array_equal(counted(population, ["v0", "v1"]), table)
        assert counted(population, "v2")[0] == pytest.approx(300, abs=80)


# Exact margins


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "exact",
    [
        ["v0"],
        [("v0", "v1"), ("v1", "v2")],
        [("v0", "v1"), ("v0", "v2"), ("v1", "v2")],
        ["v3", ("v2", "v0"), ("v0", "v1"), ("v0", "v4")],
    ],
)
def test_exact_margins_hold(exact, seed):
    population = tw.population(PMF, 3000, exact=exact, seed=seed)
    for names in exact:
        expected = np.asarray(TABLES.marginal(names)) * 3000
        np.testing.assert_array_equal(counted(population, names), np.rint(expected))
    assert {frozenset(names) for names in population.report.exact} == {
        frozenset([names] if isinstance(names, str) else names) for names in exact
    }
    assert worst(population, TABLES) < 6


def test_an_exact_table_of_three_variables():
    pmf = random_pmf(sized((3, 2, 2, 3)), 2, seed=1)
    tables = tw.count(tw.Records(pmf.sample(1500), schema=pmf.schema), 3)
    exact = ["v0", "v1", "v2"]
    population = tw.population(pmf, 1500, tables=tables, exact=[exact, "v3"])
    np.testing.assert_array_equal(counted(population, exact), np.rint(np.asarray(tables[tuple(exact)]) * 1500))
    np.testing.assert_array_equal(counted(population, "v3"), np.rint(np.asarray(tables.marginal("v3")) * 1500))


def test_numbers_that_are_not_whole_are_rounded_up_or_down():
    population = tw.population(PMF, 997, exact=[("v0", "v1"), ("v1", "v2"), "v0", "v2"])
    for names in (("v0", "v1"), ("v1", "v2"), "v0", "v2"):
        goals = np.asarray(TABLES.marginal(names)) * 997
        assert (np.abs(counted(population, names) - goals) < 1).all()


def test_one_name_is_one_margin():
    assert tw.population(PMF, 50, exact="v1").report.exact == (("v1",),)


def test_an_exact_margin_of_records_with_missing_cells_is_that_of_the_largest_table():
    """Each pair is answered by other people, so that tables differ in the margin of a variable."""
    people = PMF.sample(900, seed=3)
    holes = np.random.default_rng(0).random(people.shape) < [0.1, 0.3, 0.2, 0.3, 0.3]
    pmf = tw.fit(tw.Records(people.mask(holes), schema=PMF.schema), rank=2)
    population = tw.population(pmf, 500, exact=[("v0", "v2"), "v1"])
    largest = max((("v0", "v1"), ("v2", "v1"), ("v3", "v1"), ("v4", "v1")), key=lambda pair: pmf.counts.of(pair).sum())
    goals = pmf.counts.of(largest).sum(axis=0)
    assert (np.abs(counted(population, "v1") - goals / goals.sum() * 500) < 1).all()
    goals = pmf.counts.of(("v0", "v2"))
    assert (np.abs(counted(population, ("v0", "v2")) - goals / goals.sum() * 500) < 1).all()


def test_exact_margins_that_contradict_each_other():
    tables = tw.Tables.from_crosstabs(
        {
            ("a", "b"): pd.DataFrame([[30, 20], [25, 25]]),
            ("a", "c"): pd.DataFrame([[20, 20], [35, 25]]),
        }
    )
    pmf = tw.fit(tables, rank=2)
    for exact in ([("a", "b"), ("a", "c")], ["a"]):
        with pytest.raises(
            DataError, match=r"contradict each other: a = 0 has (50|40)\.0 in .* and (50|40)\.0 in .* × "
        ):
            tw.population(pmf, 100, exact=exact)
    assert tw.population(pmf, 100, exact=[("a", "b")]).report.exact == (("a", "b"),)


@pytest.mark.parametrize(
    ("exact", "message"),
    [
        ([("v0", "v1", "v2")], "no table of all people has the exact margin 'v0 × v1 × v2'"),
        ([()], "no table of all people has the exact margin"),
        (["v7"], "no variable 'v7'"),
    ],
)
def test_margins_that_no_table_has(exact, message):
    with pytest.raises(TwowayError, match=message):
        tw.population(PMF, 10, exact=exact)


def test_exact_margins_that_no_persons_can_have():
    """Two persons who must be alike in v0 and v1, in v1 and v2, and different in v0 and v2."""
    schema, alike = sized((2, 2, 2)), np.eye(2)
    tables = [((0, 1), alike), ((1, 2), alike), ((0, 2), 1 - alike)]
    targets = [Target.of_counts(axes, table, 2, is_exact=True) for axes, table in tables]
    codes = np.stack(np.unravel_index(np.arange(8), (2, 2, 2)))
    with pytest.raises(DataError, match="no population of 2 persons was found"):
        settle_exact_margins(
            schema,
            TargetCells.of(targets, codes),
            np.ones(8),
            np.array([1, 0, 0, 0, 0, 0, 0, 1]),
            np.random.default_rng(),
        )


# Zeros and rules


def test_an_empty_cell_stays_empty():
    pmf = known_model(sizes=(6, 5, 6, 4), n=200, concentration=0.5)
    tables = pmf.counts.tables
    n_empty = 0
    population = tw.population(pmf, 5000)
    for names in tables.names:
        empty = np.asarray(tables[names]) == 0
        n_empty += np.count_nonzero(empty)
        assert (counted(population, names)[empty] == 0).all()
    assert n_empty > 10


def test_a_category_that_nobody_has():
    schema = tw.Schema((tw.Variable("a", ("x", "y", "never")), tw.Variable("b", (0, 1))))
    records = tw.Records({"a": ["x", "y", "x"], "b": [0, 1, 1]}, schema=schema)
    population = tw.population(tw.fit(records, rank=1), 300)
    assert "never" not in set(population.to_frame()["a"])
    assert counted(population, "a").tolist() == [200, 100, 0]


def test_rules_exclude_persons():
    """The tables are those of people of whom none is impossible, which the model does not know."""

    def breaks_a_rule(frame):
        first = (frame.v0 == 0) & (frame.v3 == 1) & frame.v4.isin([0, 1])
        return first | ((frame.v1 == 2) & (frame.v2 == 0) & (frame.v4 == 2))

    people = PMF.sample(4000, seed=2)
    tables = tw.count(tw.Records(people[~breaks_a_rule(people)], schema=PMF.schema))
    rules = [{"v0": 0, "v3": 1, "v4": {0, 1}}, {"v1": 2, "v2": 0, "v4": 2}]
    population = tw.population(PMF, 3000, tables=tables, impossible=rules)
    assert not breaks_a_rule(population.to_frame()).any()
    assert worst(population, tables) < 4
    assert breaks_a_rule(tw.population(PMF, 3000, tables=tables).to_frame()).any()


def test_a_rule_against_a_table():
    number = f"{np.asarray(TABLES['v0', 'v1'])[0, 1] * 100:,.1f}"
    with pytest.raises(DataError, match=rf"v0 = 0, v1 = 1 contradicts the table v0 × v1, which has {number} persons"):
        tw.population(PMF, 100, impossible=[{"v0": 0, "v1": 1}])
    with pytest.raises(DataError, match="must be a list of mappings"):
        tw.population(PMF, 100, impossible={"v0": 0})
    with pytest.raises(DataError, match="names no category"):
        tw.population(PMF, 100, impossible=[{}])
    with pytest.raises(TwowayError, match="no category 9"):
        tw.population(PMF, 100, impossible=[{"v0": 9}])


def test_tables_that_hold_no_table_ask_for_nothing():
    tables = tw.Tables.count(tw.Records({"v0": [0, None], "v1": [None, 1]}))
    population = tw.population(PMF, 100, tables=tables)
    assert (len(population), population.report.tables, population.report.warnings) == (100, (), ())


# Contradictions


@pytest.mark.parametrize(
    "of", [lambda records: tw.fit(records, rank=2), tw.count, lambda r: tw.fit(tw.count(r), rank=2)]
)
def test_tables_of_records_with_missing_cells_do_not_contradict_each_other(of):
    random = np.random.default_rng(1)
    group = random.integers(0, 2, 2000)
    a, b, c = (np.where(random.random(2000) < 0.8, group, 1 - group).astype(object) for _ in range(3))
    b[(random.random(2000) < 0.6) & (a == 0)] = None
    records = {"a": a, "b": b, "c": c}
    population = tw.population(of(records), 2000)
    (warning,) = population.report.warnings
    assert warning.startswith("the tables count different people, as where cells are missing, or the model lacks")
    assert "contradict" not in warning


def test_tables_that_contradict_each_other():
    tables = tw.Tables.from_crosstabs(
        {
            ("a", "b"): pd.DataFrame([[300, 200], [250, 250]]),
            ("a", "c"): pd.DataFrame([[200, 200], [350, 250]]),
        }
    )
    population = tw.population(tw.fit(tables, rank=2), 1000)
    assert 400 < counted(population, "a")[0] < 500  # between the two
    (warning,) = population.report.warnings
    assert "2 of 2 tables are off by more than 0.1%" in warning
    assert "the worst is a × " in warning
    assert population.report.worst.off == pytest.approx(25, abs=15)


@pytest.mark.parametrize("n_more", [0, 2])
def test_tables_that_differ_by_more_than_their_totals_contradict_each_other(n_more):
    half, most = pd.DataFrame([[250, 250], [250, 250]]), pd.DataFrame([[400, 400 + n_more], [100, 100]])
    (warning,) = tw.population(tw.Tables.from_crosstabs({("a", "b"): half, ("a", "c"): most}), 1000).report.warnings
    assert warning.startswith("the tables contradict each other, or the model lacks")


@pytest.mark.slow
def test_a_table_of_many_counts_for_more():
    few, many = pd.DataFrame([[30, 20], [25, 25]]), pd.DataFrame([[20_000, 20_000], [35_000, 25_000]])
    tables = tw.Tables.from_crosstabs({("a", "b"): few, ("a", "c"): many})
    population = tw.population(tw.fit(tables, rank=2), 1000)
    assert counted(population, "a")[0] == pytest.approx(400, abs=5)


# Targets of other kinds


def test_groups_universes_and_ranges():
    """Cells that are coarser than categories, tables about a part of all, and numbers known within bounds."""
    schema, n = sized((6, 2, 3)), 4000
    pmf = random_pmf(schema, 3, seed=3)
    ages = Target((0,), np.array([0, 0, 1, 1, 1, 2], dtype=np.int32), *[np.array([1000.0, 1800.0, 1200.0])] * 2)
    within = np.full((6, 3), -1, dtype=np.int32)
    within[3:] = np.arange(3)  # of those in the upper half
    work = Target((0, 2), within, *[np.array([700.0, 500.0, 300.0])] * 2, is_exact=True)
    sexes = Target((1,), np.arange(2, dtype=np.int32), np.array([0.0, 3000.0]), np.array([900.0, 4000.0]))
    targets, rng = [ages, work, sexes], np.random.default_rng(0)
    drawn = draw_persons(pmf, targets, [], n, rng)
    cells = TargetCells.of(targets, drawn.codes)
    weights = rake_weights(cells, drawn.draws, n, Watch())
    counts = settle_exact_margins(schema, cells, weights, round_weights(cells, weights, n, rng, Watch()), rng)
    assert counts.sum() == n
    age, sex, job = drawn.codes
    groups = np.bincount(np.array([0, 0, 1, 1, 1, 2])[age], counts)
    np.testing.assert_allclose(groups, [1000, 1800, 1200], atol=2)
    np.testing.assert_array_equal(np.bincount(job[age >= 3], counts[age >= 3]), [700, 500, 300])
    assert np.bincount(sex, counts)[0] <= 902


# Seeds and rounding


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for ending in ("parquet", "csv"):
        for number, seed in enumerate((1, 1, 2)):
            tw.population(PMF, 800, seed=seed, exact=["v0"]).save(tmp_path / f"{number}.{ending}")
        first, again, other = ((tmp_path / f"{number}.{ending}").read_bytes() for number in range(3))
        assert first == again != other


def test_persons_are_in_random_order():
    codes = tw.population(PMF, 3000).to_frame()["v0"].to_numpy()
    assert np.abs(np.bincount(codes[:1000]) / 1000 - np.bincount(codes) / 3000).max() < 0.06


@pytest.mark.parametrize("seed", range(3))
def test_choices_by_share(seed):
    rng = np.random.default_rng(seed)
    shares = rng.random(50)
    n = int(shares.sum())
    chosen = np.array([round_by_share(shares, n, rng) for _ in range(2000)])
    assert (chosen.sum(axis=1) == n).all()
    np.testing.assert_allclose(chosen.mean(axis=0), shares * n / shares.sum(), atol=0.06)


@pytest.mark.parametrize("shares", [np.zeros(3), np.ones(3), np.full(3, 1 / 3)])
def test_choices_of_none_and_all(shares):
    for n in range(4):
        assert np.count_nonzero(round_by_share(shares, n, np.random.default_rng(0))) == n


def test_each_weight_is_rounded_up_or_down():
    rng = np.random.default_rng(0)
    targets = table_targets(TABLES, 5000)
    drawn = draw_persons(PMF, targets, [], 5000, rng)
    cells = TargetCells.of(targets, drawn.codes)
    weights = rake_weights(cells, drawn.draws, 5000, Watch())
    counts = round_weights(cells, weights, 5000, rng, Watch())
    assert (np.abs(counts - weights) < 1).all()
    assert counts.sum() == 5000


def test_more_combinations_than_a_number_holds():
    """Persons of sixty variables: no whole number has a digit for each."""
    pmf = random_pmf(sized((4,) * 60), 3)
    tables = tables_of(pmf, 500).select([(f"v{n}", f"v{n + 1}") for n in range(59)])
    population = tw.population(pmf, 100, tables=tables)
    assert population.to_frame().shape == (100, 60)
    assert population.codes.shape[1] == 100


# Frames, files and reports


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "arrow", "jsonl"])
def test_files_of_many_groups(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("twoway.synthesis.population._ROWS_PER_GROUP", 64)
    schema = tw.Schema(
        (tw.Variable("age", ("young", "old, very")), tw.Variable("n", (1, 2, 3)), tw.Variable("x", (True, False)))
    )
    pmf = random_pmf(schema, 2)
    population = tw.population(pmf.with_counts(Counts.of_tables(tables_of(pmf, 500))), 1000)
    population.save(path := tmp_path / f"people.{ending}")
    again = tw.Records(path, schema=schema)
    np.testing.assert_array_equal(again.codes(), tw.Records(population.to_frame(), schema=schema).codes())
    if ending == "parquet":
        import pyarrow.parquet as pq

        assert pq.ParquetFile(path).num_row_groups == 16


def test_labels_of_several_types_become_text_in_files(tmp_path):
    schema = tw.Schema((tw.Variable("a", (1, "one")), tw.Variable("b", (0, 1))))
    pmf = random_pmf(schema, 1).with_counts(Counts.of_tables(tables_of(random_pmf(schema, 1), 50)))
    tw.population(pmf, 20).save(tmp_path / "x.csv")
    assert set(pd.read_csv(tmp_path / "x.csv")["a"]) == {"1", "'one'"}


def test_an_interruption_leaves_no_file(tmp_path):
    seen = []

    def interrupt(progress):
        seen.append(progress.task)
        if progress.task == "writing":
            raise KeyboardInterrupt

    population = tw.population(PMF, 500, monitor=interrupt)
    with pytest.raises(KeyboardInterrupt):
        population.save(tmp_path / "people.parquet", monitor=interrupt)
    assert list(tmp_path.iterdir()) == []
    assert list(dict.fromkeys(seen)) == ["drawing", "raking", "rounding", "writing"]


def test_an_interrupted_fit_has_no_population(monkeypatch):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tw.population(TABLES, 10, monitor=interrupt)


def test_what_a_report_says():
    report = tw.population(PMF, 3000, exact=[("v0", "v1")]).report
    assert "3,000" in str(report)
    assert "v0 × v1" in str(report)
    assert report.worst is report.tables[0]
    assert [table.is_exact for table in report.tables if table.variables == ("v0", "v1")] == [True]
    assert len(report.tables) == 10
    assert "3,000" in report._repr_html_()
    assert str(report.worst).endswith(f"off by {report.worst.off / 3000:.4%} of all persons")


def test_hostile_names_are_escaped():
    schema = tw.Schema((tw.Variable(HOSTILE[0], ("x", HOSTILE[1])), tw.Variable("b", (0, 1))))
    pmf = random_pmf(schema, 1)
    pmf = pmf.with_counts(Counts.of_tables(tables_of(pmf, 100)))
    population = tw.population(pmf, 100, exact=[HOSTILE[0]])
    for shown in (repr(population), str(population.report)):
        assert is_safe(shown)


def test_coarser_margins_can_be_exact_and_parts_of_all_people_are_compared_by_their_shares():
    by_age = {("u18", "m"): 201, ("u18", "f"): 199, ("18+", "m"): 310, ("18+", "f"): 290}
    work = {("18-64", "yes"): 300, ("18-64", "no"): 120, ("65+", "yes"): 20, ("65+", "no"): 160}
    tables = tw.PublishedTables.of(
        [
            tw.PublishedTable.of(["age", "sex"], by_age),
            tw.PublishedTable.of(["age", "work"], work, within={"age": "18+"}),
        ],
        groups={"age": {"18+": ["18-64", "65+"]}},
    )
    people = tw.population(tables, 1000, exact=[("age", "sex")], impossible=[{"age": "u18", "work": "yes"}])
    frame = people.to_frame()
    is_child = frame["age"] == "u18"
    assert (is_child & (frame["sex"] == "m")).sum() == 201
    assert not (is_child & (frame["work"] == "yes")).any()
    assert all(table.off <= 2e-3 for table in people.report.tables)
