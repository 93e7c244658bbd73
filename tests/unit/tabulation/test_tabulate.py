"""Tables of questions by a banner: by definition from the records, and as the model answers."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden.survey_sample import survey_sample
from scipy import stats

import twoway as tw
from twoway.checks.sampled_table import sampled_table_of_sums
from twoway.checks.significance import column_p_values, holm_corrected

RANDOM = np.random.default_rng(3)
N = 500
AGE = RANDOM.choice(["18-39", "40-59", "60+"], N, p=[0.4, 0.35, 0.25])
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "sex": RANDOM.choice(["f", "m"], N),
        "vote": np.where(RANDOM.random(N) < np.where(AGE == "60+", 0.75, 0.4), "yes", "no"),
        "trust": np.clip(RANDOM.integers(1, 6, N) + (AGE == "60+"), 1, 5),
        "sport": pd.Categorical(RANDOM.choice(["never", "some", "often"], N), ["never", "some", "often"], ordered=True),
    }
)
FRAME.loc[RANDOM.random(N) < 0.15, "vote"] = None
FRAME.loc[RANDOM.random(N) < 0.1, "age"] = None
WEIGHTS = RANDOM.choice([0.5, 1.0, 3.0], N)
MODEL = tw.fit(tw.Records(FRAME, weights=WEIGHTS), rank=2, smoothing=1)
BOOT = tw.bootstrap(MODEL, tw.Records(FRAME, weights=WEIGHTS), n=20)
NETS = {"High": "trust >= 4", "Low": "trust in {1, 2}", "Some": "sport != never"}


@pytest.mark.parametrize("name", ["vote", "trust", "sport"])
def test_observed_shares_and_bases_are_those_of_the_records(name):
    table = tw.tabulate(MODEL, ["vote", "trust", "sport"], ["age", "sex"], nets=NETS)[name]
    assert [column.letter for column in table.columns] == ["", "A", "B", "C", "D", "E"]
    for at, column in enumerate(table.columns):
        among = FRAME[name].notna() & (True if not column.variable else FRAME[column.variable] == column.label)
        own, weights = FRAME[name][among], WEIGHTS[among]
        assert table.records[at] == len(own)
        assert table.effective[at] == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-6)
        for place, row in enumerate(table.rows):
            if row.kind == "mean":
                numbers = own.cat.codes + 1 if name == "sport" else own
                expected = np.average(numbers, weights=weights)
            else:
                members = {"High": [4, 5], "Low": [1, 2], "Some": ["some", "often"]}.get(row.label, [row.label])
                expected = weights[own.isin(members)].sum() / weights.sum()
            assert table.observed[place, at] == pytest.approx(expected, rel=1e-6)


def test_what_is_modelled_is_what_the_model_answers():
    table = tw.tabulate(BOOT, "trust", ["age", "sex"], nets={"High": "trust >= 4"})["trust"]
    alone, by_age = tw.ask(BOOT, "P(trust)"), tw.ask(BOOT, "P(trust | age)")
    for name, part in (("modelled", "estimate"), ("low", "low"), ("high", "high")):
        numbers = getattr(table, name)
        np.testing.assert_allclose(numbers[:5, 0], getattr(alone, part).array)
        np.testing.assert_allclose(numbers[:5, 1:4], getattr(by_age, part).array.T)
    for row, question in ((5, "P(trust >= 4 | sex)"), (6, "E(trust | sex)")):
        answer = tw.ask(BOOT, question)
        np.testing.assert_allclose(table.modelled[row, 4:], answer.estimate.array)
        np.testing.assert_allclose(table.low[row, 4:], answer.low.array)
    assert [(row.label, row.kind) for row in table.rows[5:]] == [("High", "net"), ("Mean", "mean")]
    assert tw.tabulate(BOOT, "vote", "age").level == 0.9
    plain = tw.tabulate(MODEL, "vote", "age")
    assert plain.level is None
    assert np.isnan(plain["vote"].low).all()


def test_the_mean_place_of_ordered_categories_says_what_it_is_a_mean_of():
    tables = tw.tabulate(MODEL, ["sport", "trust"], "sex")
    assert tables["sport"].rows[-1] == tw.BannerRow("Mean place, 1 to 3", "mean")
    assert tables["sport"].notes[0] == "the mean place counts 'never' as 1, …, 'often' as 3"
    assert "\nMean place, 1 to 3  " in str(tables)
    assert tables["trust"].rows[-1] == tw.BannerRow("Mean", "mean")
    assert not any("mean place" in note for note in tables["trust"].notes)


def test_rows_are_all_other_variables_unless_they_are_named():
    tables = tw.tabulate(MODEL, columns=["sex", "age"])
    assert [table.name for table in tables] == ["vote", "trust", "sport"]
    assert [column.variable for column in tables.columns] == ["", "sex", "sex", "age", "age", "age"]
    assert len(tw.tabulate(MODEL, "vote").columns) == 1


@pytest.mark.parametrize("model", [MODEL, BOOT])
def test_a_model_makes_its_tables(model):
    assert str(model.table("vote", "age")) == str(tw.tabulate(model, "vote", "age"))


def test_letters_are_those_of_tests_between_two_columns():
    """Without weights: the z-test of two shares, Welch's of two means, all of a table corrected by Holm."""
    frame = FRAME.dropna()
    model = tw.fit(frame, rank=2, smoothing=1)
    table = tw.tabulate(model, "trust", ["age", "sex"])["trust"]
    found = []
    for first, second in [*combinations(range(1, 4), 2), (4, 5)]:
        columns = [table.columns[at] for at in (first, second)]
        one, other = (frame["trust"][frame[column.variable] == column.label] for column in columns)
        for row, label in enumerate([1, 2, 3, 4, 5]):
            counts, sizes = [(one == label).sum(), (other == label).sum()], [len(one), len(other)]
            share = sum(counts) / sum(sizes)
            z = (counts[0] / sizes[0] - counts[1] / sizes[1]) / np.sqrt(
                share * (1 - share) * (1 / sizes[0] + 1 / sizes[1])
            )
            found.append((row, first, second, 2 * stats.norm.sf(abs(z))))
        errors = [np.var(own) / len(own) for own in (one, other)]
        degrees = sum(errors) ** 2 / sum(e**2 / (len(own) - 1) for e, own in zip(errors, (one, other), strict=True))
        t = (one.mean() - other.mean()) / np.sqrt(sum(errors))
        found.append((5, first, second, 2 * stats.t.sf(abs(t), degrees)))
    expected = np.full(table.observed.shape, "", dtype=object)
    for (row, first, second, _), p_value in zip(found, holm_corrected([p for *_, p in found]), strict=True):
        if p_value < 0.05:
            high, low = sorted((first, second), key=lambda at, row=row: -table.observed[row, at])
            expected[row, high] = f"{expected[row, high]} {table.columns[low].letter}".strip()
    assert (expected != "").sum() >= 2
    np.testing.assert_array_equal(table.higher_than, expected.astype(str))


def association(sums):
    sizes = dict(zip("ab", sums.shape[1:], strict=True))
    return sampled_table_of_sums(
        [tw.Variable(name, tuple(range(size))) for name, size in sizes.items()], sums
    ).independence


def test_too_few_records_get_no_letter():
    sums = np.stack([np.array([[4.0, 0.0], [0.0, 4.0]])] * 3)
    assert np.isnan(column_p_values(sums, np.eye(2))).all()
    assert np.isnan(column_p_values(np.zeros((3, 2, 2)), np.eye(2))).all()


# Sums of weights, records and squared weights of two pairs of the sample of schools `apistrat` of R's survey package,
# and what svychisq(~stype + awards, svydesign(ids = ~1, weights = ~pw)) answers.
SCHOOLS = [(44.21, 44.21), (15.1, 15.1), (20.36, 20.36)], [(27, 73), (34, 16), (26, 24)]
SVYCHISQ = (13.683944, 1.893007, 376.7084, 3.0611324e-06)


def test_tests_of_association_are_those_of_r():
    weights, people = map(np.array, SCHOOLS)
    test = association(np.stack([weights * people, people, weights**2 * people]))
    assert (test.statistic, test.degrees, test.other_degrees, test.p_value) == pytest.approx(SVYCHISQ, rel=1e-5)


def test_a_constant_weight_changes_no_test():
    table = np.array([[30.0, 10.0, 5.0], [20.0, 25.0, 30.0]])
    once, scaled = association(np.stack([table] * 3)), association(np.stack([7 * table, table, 49 * table]))
    assert (scaled.statistic, scaled.p_value) == pytest.approx((once.statistic, once.p_value))
    for scores in (np.eye(2), np.array([[1.0, 4.0]])):
        np.testing.assert_allclose(
            column_p_values(np.stack([7 * table, table, 49 * table]), scores),
            column_p_values(np.stack([table] * 3), scores),
        )


@pytest.mark.parametrize("table", [np.array([[5.0, 0.0], [3.0, 0.0]]), np.ones((1, 3))])
def test_a_table_of_one_row_or_column_shows_nothing(table):
    assert association(np.stack([table] * 3)).p_value == 1


def test_clusters_make_tests_more_careful():
    random = np.random.default_rng(0)
    unit = np.repeat(np.arange(20), 25)
    towns = pd.DataFrame({"size": np.where(unit % 2, "big", "small")})
    towns["vote"] = np.where(random.random(500) < 0.3 + 0.4 * random.random(20)[unit], "yes", "no")
    model = tw.fit(towns, rank=2, smoothing=1)
    (alone,) = tw.tabulate(model, "vote", "size")["vote"].tests
    by_town = tw.tabulate(model, "vote", "size", records=towns, design=tw.Design(units=unit))["vote"]
    (test,) = by_town.tests
    assert (test.degrees, test.other_degrees) == pytest.approx((1, 19))
    assert test.statistic < 0.7 * alone.statistic
    shares = towns["vote"].eq("yes").groupby(unit).mean()
    t = stats.ttest_ind(shares[1::2], shares[::2])  # units are equally large, so a mean of units is one of records
    assert np.sqrt(test.statistic) == pytest.approx(abs(t.statistic), rel=0.1)
    with pytest.raises(tw.DataError, match="a design needs records"):
        tw.tabulate(model, "vote", "size", design=tw.Design(units=unit))


GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "survey.json").read_text())
SURVEY = survey_sample()
DESIGNS = {
    "weights": tw.Design(),
    "strata": tw.Design(strata=SURVEY["region"]),
    "both": tw.Design(strata=SURVEY["region"], units=SURVEY["town"]),
    "finite": tw.Design(strata=SURVEY["region"], units=SURVEY["town"], population=SURVEY["size"]),
    "jackknife": tw.Design(replicates=SURVEY.filter(like="repw")),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_tables_by_a_design_are_those_of_r(name):
    """Tests of all records and within a region as svychisq has them, intervals by the standard errors of svyby."""
    records = tw.Records(SURVEY, columns=["region", "trust", "vote"], weights="weight")
    model = tw.fit(records, rank=1, smoothing=1)
    tables = model.table("vote", ["trust", "region > trust"], records=records, design=DESIGNS[name])
    table, expected = tables["vote"], GOLDEN[name]
    for test, key in ((table.tests[0], "test"), (table.tests[1], "north")):
        np.testing.assert_allclose(
            [test.statistic, test.degrees, test.other_degrees, test.p_value], expected[key], rtol=1e-8
        )
    assert [test.variables for test in table.tests][:2] == [("vote", "trust"), ("vote", "region = north > trust")]
    yes, errors = table.observed[1, 1:4], np.array(expected["yes_by_trust"])
    n_units = {"weights": 300, "strata": 298}.get(name, 13)
    t = stats.t.ppf(0.95, n_units - 1)
    n = yes * (1 - yes) / errors**2
    rtol = (
        0.05 if name == "jackknife" else 1e-6
    )  # R asks each replicate for the share itself, which is not quite linear
    for end in (table.observed_low, table.observed_high):  # where a share is t standard errors of its own away
        other = end[1, 1:4]
        np.testing.assert_allclose((yes - other) ** 2, t**2 * other * (1 - other) / n, rtol=rtol)
    assert tables.level == 0.9
    assert "90 % intervals; those of observed shares are by the design" in str(tables)


def test_columns_within_columns_are_those_of_the_records():
    records = tw.Records(FRAME, weights=WEIGHTS)
    tables = tw.tabulate(BOOT, ["vote", "trust"], ["age > sex", "age"], records=records)
    for table in tables:
        for at, column in enumerate(table.columns[1:7], start=1):
            age = column.variable.removeprefix("age = ").removesuffix(" > sex")
            among = FRAME[table.name].notna() & (FRAME["age"] == age) & (FRAME["sex"] == column.label)
            own, weights = FRAME[table.name][among], WEIGHTS[among]
            assert table.records[at] == len(own)
            assert table.effective[at] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
            label = table.rows[1].label
            assert table.observed[1, at] == pytest.approx(weights[own == label].sum() / weights.sum())
            asked = tw.ask(BOOT, f"P({table.name} = {label} | age = {age}, sex = {column.label})")
            assert (table.modelled[1, at], table.low[1, at]) == pytest.approx((float(asked), asked.low))
        # Compared within the same age only, with the letters of all columns in order.
        assert [column.letter for column in table.columns] == ["", *"ABCDEFGHI"]
        for at, letters in enumerate(table.higher_than[:, 1:7].T, start=1):
            assert {*"".join(letters).split()} <= {"ABCDEF"[(at - 1) ^ 1]}
    np.testing.assert_allclose(
        tables["vote"].observed[:, 7:], tw.tabulate(MODEL, "vote", "age")["vote"].observed[:, 1:]
    )


def test_columns_within_columns_need_records_to_be_observed():
    table = tw.tabulate(MODEL, "vote", ["age > sex"])["vote"]
    assert np.isnan(table.observed[:, 1:]).all()
    assert np.isfinite(table.modelled).all()
    assert "need the records" in table.notes[0]
    # With records, an empty column is one that nobody is in.
    frame = FRAME.assign(sex=np.where(FRAME["age"] == "60+", "f", FRAME["sex"]))
    table = tw.tabulate(tw.fit(frame, rank=2, smoothing=1), "vote", "age > sex", records=frame)["vote"]
    assert table.records[-1] == 0
    assert table.notes[0] == "no record with 'age = 60+ > sex = m' has a value of 'vote': base of zero"
    assert [test.p_value == 1 for test in table.tests] == [False, False, True]


def test_without_counts_only_what_is_modelled_is_shown():
    table = tw.tabulate(MODEL.with_counts(None), "vote", "age")["vote"]
    assert np.isnan(table.observed).all()
    assert np.isnan(table.records).all()
    assert table.tests == ()
    assert not (table.higher_than != "").any()
    shares = pd.DataFrame([[0.1, 0.3], [0.2, 0.4]], index=["low", "high"], columns=["no", "yes"])
    pmf = tw.fit(tw.Tables.from_crosstabs({("trust", "vote"): shares}, kind="joint"), rank=1, smoothing=1)
    table = tw.tabulate(pmf, "vote", "trust")["vote"]
    np.testing.assert_allclose(table.observed[1], [0.7, 0.75, 2 / 3], rtol=1e-6)
    assert np.isnan(table.records).all()
    assert table.tests == ()


def test_a_column_without_records_is_named():
    frame = FRAME[["age", "vote"]].copy()
    frame.loc[frame["age"] == "60+", "vote"] = None
    table = tw.tabulate(tw.fit(frame, rank=2, smoothing=1), "vote", "age")["vote"]
    assert table.records[3] == 0
    assert np.isnan(table.observed[:, 3]).all()
    assert np.isfinite(table.modelled).all()
    assert table.notes[0] == "no record with 'age = 60+' has a value of 'vote': base of zero"
    assert not any("C" in letters for letters in table.higher_than.ravel())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tw.tabulate(MODEL, "vot"), r"no variable 'vot' in rows; did you mean 'vote'\?"),
        (lambda: tw.tabulate(MODEL, "vote", "agee"), r"no variable 'agee' in columns; did you mean 'age'\?"),
        (lambda: tw.tabulate(MODEL, "vote", ["age", "age"]), "duplicate variable 'age' in columns"),
        (lambda: tw.tabulate(MODEL, "vote", ["age > sex", "age>sex"]), "duplicate variable 'age > sex' in columns"),
        (lambda: tw.tabulate(MODEL, "vote", "age > age"), "duplicate variable 'age' in columns 'age > age'"),
        (lambda: tw.tabulate(MODEL, "vote", "age > sexx"), r"no variable 'sexx' in columns; did you mean 'sex'\?"),
        (lambda: tw.tabulate(MODEL, "vote", "age >"), "'age >' in columns lacks a variable beside '>'"),
        (lambda: tw.tabulate(MODEL, "sex", "age > sex"), "'sex' in both rows and columns"),
        (lambda: tw.tabulate(MODEL, ["vote", "vote"], "age"), "duplicate variable 'vote' in rows"),
        (lambda: tw.tabulate(MODEL, ["vote", "age"], "age"), "'age' in both rows and columns"),
        (lambda: tw.tabulate(MODEL, None, MODEL.schema.names), "every variable is in the columns"),
        (lambda: tw.tabulate(MODEL, "vote", nets={"x": "vot = yes"}), "did you mean 'vote'"),
        (lambda: tw.tabulate(MODEL, "vote", nets={"x": "vote = yess"}), "did you mean 'yes'"),
        (
            lambda: tw.tabulate(MODEL, "vote", nets={"x": "vote = yes, age = 60+"}),
            "a net joins categories of one variable",
        ),
        (lambda: tw.tabulate(MODEL, "vote", nets={"x": "age = 60+"}), "'age', which is not in the rows: 'vote'"),
        (lambda: tw.tabulate(MODEL, "vote", nets={"yes": "vote = no"}), "has the name of a category of 'vote'"),
        (lambda: tw.tabulate(MODEL, "vote")["age"], "no table 'age'; known: 'vote'"),
        (lambda: tw.tabulate(MODEL, "vote").save("tables.pdf"), r"ends in '.pdf'; tables are written to .xlsx, .html"),
        (lambda: tw.tabulate(MODEL, "vote").to_frame("dplyr"), "no library 'dplyr'"),
    ],
)
def test_what_is_wrong_is_named(call, message):
    with pytest.raises(tw.TwowayError, match=message):
        call()


def test_a_question_that_no_record_answers_is_an_error():
    schema = tw.Schema((tw.Variable("age", ("young", "old")), tw.Variable("vote", ("no", "yes"))))
    frame = pd.DataFrame({"age": ["young", "old"], "vote": [None, None]}, dtype=object)
    model = tw.fit(tw.Records(frame, schema=schema), rank=1, smoothing=1)
    with pytest.raises(tw.DataError, match=r"'vote'.*base of zero"):
        tw.tabulate(model, "vote", "age")


def test_independent_data_seldom_get_a_letter():
    random = np.random.default_rng(5)
    schema = tw.Schema(tuple(tw.Variable(name, tuple(range(size))) for name, size in (("a", 4), ("g", 3))))
    pmf = tw.JointPMF([1.0], [np.full((4, 1), 0.25), np.full((3, 1), 1 / 3)], schema)
    marked = 0
    for _ in range(60):
        sums = random.multinomial(400, np.outer([0.4, 0.3, 0.2, 0.1], [0.5, 0.3, 0.2]).ravel()).astype(float)
        counts = tw.Counts(schema, np.array([[0, 1]]), sums, np.zeros(0))
        marked += bool((tw.tabulate(pmf.with_counts(counts), "a", "g")["a"].higher_than != "").any())
    assert marked <= 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 5}, "rows must be names of variables, not 5"),
        ({"columns": 5}, "columns must be names of variables, not 5"),
        ({"nets": ["trust >= 4"]}, "nets must be conditions by the name of the row"),
        ({"nets": {"High": 4}}, "the net 'High' must be a condition as text"),
        ({"records": FRAME, "design": "strata"}, "design must be a Design"),
    ],
)
def test_options_of_another_type_are_errors(options, message):
    with pytest.raises(tw.DataError, match=message):
        tw.tabulate(MODEL, **options)


def test_a_file_name_of_another_type_is_an_error():
    with pytest.raises(tw.DataError, match="a file name must be text or a path, not 5"):
        tw.tabulate(MODEL, "trust").save(5)
