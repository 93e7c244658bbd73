"""Joint PMFs of published tables: what was published holds, what is impossible has no probability."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.questions.language import groups_to_parse, parse
from twoway.questions.open_answers import open_notes

NAMES = ["age", "sex", "marital", "work"]
LABELS = [["0-14", "15-24", "25-64", "65+"], ["m", "f"], ["never", "married", "gone"], ["yes", "no"]]
ADULTS = LABELS[0][1:]
RULE = {"age": "0-14", "marital": ["married", "gone"]}


@pytest.fixture(scope="module")
def counts():
    """People of a made-up place; children are not married."""
    rng = np.random.default_rng(0)
    joint = np.exp(0.5 * rng.normal(size=[len(labels) for labels in LABELS]))
    joint[0, :, 1:] = 0.0
    return rng.multinomial(50_000, (joint / joint.sum()).ravel()).reshape(joint.shape)


def numbers(counts, axes, labels=None):
    """Return a table of some axes as a mapping."""
    sums = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in axes))
    own = labels or [LABELS[axis] for axis in axes]
    return {
        tuple(side[place] for side, place in zip(own, index, strict=True)): sums[index]
        for index in np.ndindex(sums.shape)
    }


@pytest.fixture(scope="module")
def published(counts):
    """A three-way table, one in coarser ages, and one of adults only."""
    coarse = np.stack([counts[0], counts[1:3].sum(axis=0), counts[3]])
    tables = [
        tw.PublishedTable.of(["age", "sex", "marital"], numbers(counts, (0, 1, 2))),
        tw.PublishedTable.of(["age", "sex"], numbers(coarse, (0, 1), [["0-14", "15-64", "65+"], LABELS[1]])),
        tw.PublishedTable.of(["age", "work"], numbers(counts[1:], (0, 3), [ADULTS, LABELS[3]]), within={"age": ADULTS}),
    ]
    groups = {"age": {"15-64": ["15-24", "25-64"]}}
    return tw.PublishedTables.of(tables, groups=groups, impossible=[RULE], exact=["age"])


@pytest.fixture(scope="module")
def pmf(published):
    return tw.fit(published)


def test_what_was_published_holds(pmf, counts):
    assert pmf.report.converged
    assert [misfit.variables for misfit in pmf.report.misfits if misfit.total_variation > 1e-3] == []
    shares = counts.sum(axis=3) / counts.sum()
    assert 0.5 * np.abs(np.asarray(pmf.marginal(NAMES[:3])) - shares).sum() < 1e-3
    adults = counts[1:].sum(axis=(1, 2))
    modelled = np.asarray(pmf.given({"age": ADULTS}).marginal(["age", "work"]))[1:]
    assert 0.5 * np.abs(modelled - adults / adults.sum()).sum() < 1e-3


def test_what_is_impossible_has_no_probability(pmf):
    assert pmf.prob(RULE) == 0.0
    people = pmf.sample(20_000, seed=1)
    assert not ((people["age"] == "0-14") & (people["marital"] != "never")).any()
    assert pmf.given({"age": "0-14"}).prob({"marital": "never"}) == pytest.approx(1.0)


def test_an_exact_margin_holds_to_rounding(pmf, counts):
    np.testing.assert_allclose(pmf.marginal("age"), counts.sum(axis=(1, 2, 3)) / counts.sum(), atol=1e-12)


def test_what_no_table_shows_is_the_least_committed(pmf):
    """Sex and work have no table: given age they are independent."""
    for age in ADULTS:
        table = np.asarray(pmf.given({"age": age}).marginal(["sex", "work"]))
        np.testing.assert_allclose(table, np.outer(table.sum(axis=1), table.sum(axis=0)), atol=2e-3)


def test_variables_that_no_table_connects_are_independent_and_said_so(counts):
    tables = [
        tw.PublishedTable.of(["age", "sex"], numbers(counts, (0, 1))),
        tw.PublishedTable.of("work", {"yes": 30, "no": 70}),
    ]
    pmf = tw.fit(tw.PublishedTables.of(tables))
    assert any("work" in warning and "independent" in warning for warning in pmf.report.warnings)
    assert pmf.mutual_information("age", "work") < 1e-9
    np.testing.assert_allclose(pmf.marginal("work"), [0.3, 0.7], atol=1e-3)
    np.testing.assert_allclose(pmf.marginal(["age", "sex"]), counts.sum(axis=(2, 3)) / counts.sum(), atol=1e-3)


def test_a_suppressed_cell_is_found_from_its_total(counts):
    whole = numbers(counts, (1, 2))
    hidden = {**whole, ("m", "married"): None, ("f", "gone"): None}
    hidden |= {(sex, "Total"): counts.sum(axis=(0, 3))[place].sum() for place, sex in enumerate(LABELS[1])}
    pmf = tw.fit(tw.PublishedTables.of([tw.PublishedTable.of(["sex", "marital"], hidden)]))
    np.testing.assert_allclose(pmf.marginal(["sex", "marital"]), counts.sum(axis=(0, 3)) / counts.sum(), atol=2e-3)


def test_a_mean_moves_a_variable_to_it():
    table = tw.PublishedTable.of(["rooms", "city"], {(n, c): 100 for n in (1, 2, 3, 4) for c in ("a", "b")})
    mean = tw.PublishedMean("rooms", 3.2, 1e6, {"city": ("a",)})
    pmf = tw.fit(tw.PublishedTables.of([table], means=[mean]))
    assert pmf.given({"city": "a"}).expect("rooms") == pytest.approx(3.2, abs=0.01)
    assert pmf.given({"city": "b"}).expect("rooms") == pytest.approx(2.5, abs=0.05)


def test_a_three_way_table_is_met_where_pairs_show_nothing():
    """All pairs are independent, and each variable follows from the two others."""
    counts = {(a, b, (a + b) % 3): 100 for a in range(3) for b in range(3)}
    whole = {cell: counts.get(cell, 0) for cell in np.ndindex(3, 3, 3)}
    pmf = tw.fit(tw.PublishedTables.of([tw.PublishedTable.of(["a", "b", "c"], whole)]))
    assert pmf.given({"a": 1, "b": 1}).prob({"c": 2}) > 0.99


def test_files_fit_alike(published, pmf, tmp_path):
    published.save(tmp_path / "county.tables")
    pmf.save(tmp_path / "county.twoway")
    again = tw.load(tmp_path / "county.twoway")
    assert again.prob(RULE) == 0.0
    assert again.report.misfits == pmf.report.misfits


def test_raking_keeps_odds_ratios_and_gives_the_shares():
    frame = {"age": ["young", "old", "old", "young"] * 25, "vote": ["no", "yes", "no", "no"] * 25}
    pmf = tw.fit(frame, rank=2, seed=0)
    raked = tw.rake(pmf, {"age": {"young": 3, "old": 1}, "vote": {"no": 0.5, "yes": 0.5}})
    np.testing.assert_allclose(raked.marginal("age"), [0.25, 0.75], atol=1e-12)
    np.testing.assert_allclose(raked.marginal("vote"), [0.5, 0.5], atol=1e-12)
    odds = [np.asarray(one.marginal(["age", "vote"])) for one in (pmf, raked)]
    ratios = [table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]) for table in odds]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


@pytest.mark.parametrize(
    ("margins", "culprit"),
    [({"ages": {"young": 1}}, "ages"), ({"age": {"young": 1}}, "old"), ({"age": {"young": -1, "old": 2}}, "-1")],
)
def test_bad_margins_are_refused(margins, culprit):
    pmf = tw.fit({"age": ["young", "old"], "vote": ["no", "yes"]}, rank=1)
    with pytest.raises(tw.TwowayError, match=culprit):
        tw.rake(pmf, margins)


def test_answers_say_which_pairs_no_table_is_about(pmf):
    assert pmf.counts.between(["age", "work"]) is None  # of adults
    assert pmf.counts.between(["sex", "work"]) == (("sex", "work"), ("age",))
    silent = {frozenset(pmf.schema.names[n] for n in pair) for pair in np.argwhere(pmf.counts.are_silent).tolist()}
    n_pairs = math.comb(len(pmf.schema), 2)
    assert {"sex", "work"} in silent
    assert {"age", "work"} not in silent
    assert pmf.report.silent.startswith(f"{len(silent)} of {n_pairs} pairs: ")
    assert "sex × work" in pmf.report.silent
    assert f"no table    {pmf.report.silent}\n" in str(pmf.report)
    with pytest.warns(UserWarning, match="'age'"):
        tw.ask(pmf, "P(work | sex, age != 0-14)")


def test_ranges_of_different_tables_are_made_up_of_finest_ones(tmp_path):
    (tmp_path / "one.csv").write_text("age × sex,m,f\nu18,20,30\n18-64,30,40\n65+,10,20\n", encoding="utf-8")
    (tmp_path / "two.csv").write_text("age × work,yes,no\n16-24,20,30\n25+,30,40\n", encoding="utf-8")
    tables = tw.read_published(tmp_path)
    assert tables.schema["age"].categories == ("u16", "16-17", "18-24", "25-64", "65+")
    assert any("some people only" in note for note in tables.notes)
    pmf = tw.fit(tables)
    adults = pmf.given({"age": ["16-17", "18-24"]}).marginal("work")
    np.testing.assert_allclose(adults, [0.4, 0.6], atol=0.02)


def test_published_errors_say_how_many_people_a_table_counts_as(tmp_path):
    (tmp_path / "edu.csv").write_text("age × sex,m,f\nyoung,200,300\nold,100,400\n", encoding="utf-8")
    errors = 1000 * np.sqrt(np.array([0.2 * 0.8, 0.3 * 0.7, 0.1 * 0.9, 0.4 * 0.6]) / 50)
    for name, times in (("edu_se.csv", 1.0), ("edu_moe.csv", 1.645)):
        a, b, c, d = errors * times
        (tmp_path / name).write_text(f"age × sex,m,f\nyoung,{a},{b}\nold,{c},{d}\n", encoding="utf-8")
        tables = tw.read_published(tmp_path / "edu.csv", errors=tmp_path / name)
        assert tables.tables[0].weight == pytest.approx(50)
    assert tw.read_published(tmp_path, errors=tmp_path).tables[0].weight == pytest.approx(50)
    (tmp_path / "edu_se.csv").write_text("age × sex,m,f\nyoung,x,1\nold,1,1\n", encoding="utf-8")
    with pytest.raises(tw.DataError, match="row 2, column B"):
        tw.read_published(tmp_path / "edu.csv", errors=tmp_path / "edu_se.csv")


@pytest.mark.parametrize(
    ("setting", "culprit"),
    [
        ('impossible = [{ age = "old", sex = "m" }]', "one.csv', row 3, column B"),
        ('exact = [["age", "vote"]]', "vote"),
        ('impossible = [{ age = "old" }]', "two variables"),
        ("impossible = 3", "list"),
        ('[groups.ages]\n"all" = ["young", "old"]', "ages"),
    ],
)
def test_declarations_that_contradict_a_sheet_are_refused_with_its_place(tmp_path, setting, culprit):
    path = tmp_path / "one.csv"
    path.write_text("age × sex,m,f\nyoung,20,30\nold,30,40\n", encoding="utf-8")
    layout = tw.find_layout(path).to_toml()
    head, tail = ("", setting) if setting.startswith("[") else (setting, "")
    (tmp_path / "layout.toml").write_text(f"{head}\n{layout}\n{tail}", encoding="utf-8")
    with pytest.raises(tw.TwowayError, match=culprit):
        tw.read_published(path, layout=tmp_path / "layout.toml")


def test_an_empty_universe_is_refused_with_its_place(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("age × sex,m,f\nyoung,20,30\nold,30,40\n", encoding="utf-8")
    layout = tw.find_layout(path).to_toml().replace('kind = "counts"', 'kind = "counts"\nwithin = { age = [] }')
    (tmp_path / "layout.toml").write_text(layout, encoding="utf-8")
    with pytest.raises(tw.DataError, match=r"one\.csv', row 2, column B.*'age'"):
        tw.read_published(path, layout=tmp_path / "layout.toml")


def test_a_fit_that_is_out_of_time_says_so(published):
    pmf = tw.fit(published, seconds=1e-6)
    assert pmf.report.stop_reason == "time limit"
    assert pmf.prob(RULE) == 0.0


def test_one_time_limit_holds_for_all_groups_of_tables_together(monkeypatch):
    groups = [tw.count(draw_records(dirichlet_rows(3, 3, 2, seed=seed), 500, observed=1.0)) for seed in (1, 2)]
    tables = [
        tw.PublishedTable.of(
            [f"{group}{name}" for name in names],
            dict(np.ndenumerate(counted.array(index))),
        )
        for group, counted in enumerate(groups)
        for index, names in enumerate(counted.names)
    ]
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def tick(_):
        clock.now += 1.0

    for module in ("solvers.watch", "fitting.fit", "fitting.published_fit"):
        monkeypatch.setattr(f"twoway.{module}.time", clock)
    pmf = tw.fit(tw.PublishedTables.of(tables), seconds=40, monitor=tick)
    assert pmf.report.stop_reason == "time limit"
    assert len(pmf.schema) == 6
    assert 40 <= clock.now < 50


def test_rounded_numbers_are_met_within_their_rounding():
    random = np.random.default_rng(1)
    joint = random.dirichlet(np.full(18, 0.5)).reshape(3, 3, 2)
    counts = random.multinomial(600, joint.ravel()).reshape(joint.shape)
    tables = []
    for axes in ((0, 1), (1, 2), (0, 2)):
        sums = counts.sum(axis=next(axis for axis in range(3) if axis not in axes))
        rounded = {index: 10 * round(sums[index] / 10) for index in np.ndindex(sums.shape)}
        tables.append(tw.PublishedTable.of([f"v{axis}" for axis in axes], rounded, rounded_to=10))
    published = tw.PublishedTables.of(tables)
    assert all(table.is_known for table in published.tables)
    pmf = tw.fit(published)
    assert pmf.report.misfits[0].total_variation < 0.03
    for table in tables:
        expected = float(table.counts.sum()) * np.asarray(pmf.marginal(list(table.variables)))
        beyond = np.maximum(table.low - expected, expected - table.high)
        assert beyond.max() < 2 * np.sqrt(table.counts.max())  # a range is as sure as its counts


def crosstab(counts):
    return pd.Series(counts).unstack()


def test_a_contradiction_says_which_table_the_fit_followed():
    many = {("m", "yes"): 2000, ("m", "no"): 3000, ("f", "yes"): 2500, ("f", "no"): 2501}
    few = {("m", "old"): 300, ("m", "young"): 301, ("f", "old"): 200, ("f", "young"): 199}
    published = tw.PublishedTables.of({("sex", "vote"): many, ("sex", "age"): few})
    plain = tw.Tables.from_crosstabs({("sex", "vote"): crosstab(many), ("sex", "age"): crosstab(few)})
    for tables in (published, plain):
        pmf = tw.fit(tables)
        (said,) = [warning for warning in pmf.report.warnings if "disagree" in warning]
        assert "sex × vote" in said
        assert "sex × age" in said
        assert any(f"the model has {pmf.prob({'sex': sex}):.2%}" in said for sex in ("m", "f"))
        assert said.endswith("nearer to sex × vote")


def of_adults(**options):
    ages = tw.PublishedTable.of(
        ["age", "sex"], {("0-14", "m"): 90, ("0-14", "f"): 100, ("15+", "m"): 400, ("15+", "f"): 410}
    )
    works = tw.PublishedTable.of(
        ["sex", "work"],
        {("m", "yes"): 250, ("m", "no"): 150, ("f", "yes"): 260, ("f", "no"): 150},
        within={"age": "15+"},
    )
    return tw.PublishedTables.of([ages, works], **options)


@pytest.fixture(scope="module")
def pmf_of_adults(tmp_path_factory):
    """A model of tables of whom some are of adults only, and the same from its file."""
    pmf, path = tw.fit(of_adults()), tmp_path_factory.mktemp("adults") / "model.twoway"
    pmf.save(path)
    return pmf, tw.load(path)


@pytest.mark.parametrize(
    ("question", "is_guess"),
    [
        ("P(work)", True),
        ("P(work | age)", True),
        ("P(work | age = 0-14)", True),
        ("P(work | age = 15+)", False),
        ("P(work = yes, age = 15+)", False),
        ("P(age)", False),
        ("P(work | age = 15+) - P(work)", True),
    ],
)
def test_an_answer_about_people_beyond_a_universe_is_a_guess(question, is_guess, pmf_of_adults):
    for own in pmf_of_adults:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tw.ask(own, question)
        assert any("no table shows 'work' for people with age = 0-14" in str(one.message) for one in caught) == is_guess


def test_what_is_impossible_leaves_nothing_to_guess():
    assert of_adults().unknown_parts("work") == {"age": [0]}
    assert not of_adults(impossible=[{"age": "0-14", "work": "yes"}]).unknown_parts("work")


def test_a_model_keeps_all_that_was_published(pmf_of_adults):
    for pmf in pmf_of_adults:
        found = tw.diagnose(pmf).range({"work": "yes"}, {"age": "15+"})
        assert found.low < 510 / 810 < found.high
        assert found.width < 0.2
        assert len(tw.population(pmf, 100).report.tables) == 2


def test_models_of_pairs_alone_are_not_said_to_fit_published_tables():
    found = tw.diagnose(of_adults(impossible=[{"age": "0-14", "work": "yes"}])).range({"work": "yes"})
    assert found.models is None
    assert found.low < 510 / 1000 < found.high


def test_one_table_of_enough_people_is_the_joint():
    counts = {("north", "yes"): 105, ("north", "no"): 83, ("south", "yes"): 401, ("south", "no"): 213}
    for tables in (
        tw.Tables.from_crosstabs({("region", "work"): crosstab(counts)}),
        tw.PublishedTables.of({("region", "work"): counts}),
    ):
        pmf = tw.fit(tables)
        assert pmf.given({"region": "north"}).prob({"work": "yes"}) == pytest.approx(105 / 188, abs=1e-3)
    few = tw.Tables.from_crosstabs({("a", "b"): pd.DataFrame(np.eye(4))})  # one person in four cells of sixteen
    assert tw.fit(few).prob({"a": 0, "b": 1}) > 0.01


def test_questions_accept_the_labels_of_groups(pmf, published):
    parts = "P(work = yes | age in {15-24, 25-64})"
    assert tw.ask(pmf, "P(work = yes | age = 15-64)") == tw.ask(pmf, parts)
    groups = groups_to_parse(pmf)
    assert groups == groups_to_parse(published) == {"age": {"15-64": ["15-24", "25-64"]}}
    for text, same in (
        ("P(work = yes | age = 15-64)", parts),
        ("P(age != 15-64)", "P(age not in {15-24, 25-64})"),
        ("P(age in {0-14, '15-64'})", "P(age in {0-14, 15-24, 25-64})"),
    ):
        assert str(parse(text, pmf.schema, groups)) == same
    with pytest.raises(tw.QuestionError, match="'15-64' stands for '15-24', '25-64': compare with one of these"):
        parse("P(age < 15-64)", pmf.schema, groups)
    with pytest.raises(tw.QuestionError, match="no category '15-64' of 'age'"):
        parse("P(age = 15-64)", pmf.schema)
    tables = tw.tabulate(pmf, "age", nets={"of working age": "age = 15-64"})
    assert tables["age"].modelled[4, 0] == pytest.approx(tw.ask(pmf, "P(age = 15-64)"))


def test_an_open_answer_comes_with_what_the_tables_allow(pmf_of_adults):
    pmf, _ = pmf_of_adults
    question = parse("P(work = yes)", pmf.schema)
    said = open_notes(pmf, question)
    bounds = tw.probability_range(pmf.counts.published, {"work": "yes"}, level=None)
    assert said[-1] == (
        f"joints with exactly these tables have from {bounds.low:.4f} to {bounds.high:.4f}; the range is "
        "wider if the tables are samples or rounded"
    )
    assert open_notes(pmf, parse("P(age = 15+)", pmf.schema)) == []
    assert len(open_notes(pmf, parse("P(work)", pmf.schema))) == 1  # not one probability
