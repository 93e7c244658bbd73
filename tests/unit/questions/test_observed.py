"""What was observed, beside the answers of a model."""

import math
import re
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.checks import fit_quality as quality_module
from twoway.checks.significance import standardized_residuals
from twoway.cli.answers import printed_answer
from twoway.questions.observed import is_observed_table_off

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RANDOM.choice(["18-39", "40, or so", "65+"], 300, p=[0.5, 0.3, 0.2]),
        "vote": RANDOM.choice(["no", "yes"], 300),
        "trust": RANDOM.choice([1, 2, 3, 4], 300),
        "w": RANDOM.choice([0.5, 1.0, 3.0], 300),
    }
)
FRAME.loc[RANDOM.random(300) < 0.2, "vote"] = None
FRAME.loc[RANDOM.random(300) < 0.1, "age"] = None
FRAME.loc[FRAME["age"] == "65+", "trust"] = None  # never seen together
MODEL = tw.fit(FRAME.drop(columns="w"), rank=2, smoothing=1)
EVENTS = {
    "vote": (lambda vote: vote == "yes", "vote = yes"),
    "age": (lambda age: age != "65+", "age != 65+"),
    "trust": (lambda trust: trust >= 3, "trust >= 3"),
}


def brute(frame, event, given):
    """Return the share and the number of records, by the definition."""
    names = {name for name, _ in (*event, *given)}
    whole = frame.dropna(subset=list(names))
    for name, holds in given:
        whole = whole[whole[name].map(holds).astype(bool)]
    hit = whole
    for name, holds in event:
        hit = hit[hit[name].map(holds).astype(bool)]
    return (len(hit) / len(whole) if len(whole) else math.nan), len(whole)


def equals(label):
    return lambda value: value == label


@pytest.mark.parametrize(("target", "given"), [(a, b) for a, b in product(EVENTS, EVENTS) if a != b])
def test_shares_and_records_are_those_of_the_records(target, given):
    event, known = (target, EVENTS[target][0]), (given, EVENTS[given][0])
    texts = EVENTS[target][1], EVENTS[given][1]

    def check(question, *expected):
        seen = tw.observed(MODEL, question)
        shares, records = np.array(expected).reshape(-1, 2).T
        np.testing.assert_allclose(seen.shares.ravel(), shares)
        np.testing.assert_array_equal(seen.records.ravel(), records)
        assert seen.shares.shape == np.shape(tw.ask(MODEL, question))

    of = {name: MODEL.schema[name].categories for name in (target, given)}
    check(f"P({texts[0]})", brute(FRAME, [event], []))
    check(f"P({texts[0]} | {texts[1]})", brute(FRAME, [event], [known]))
    check(f"P({texts[0]}, {texts[1]})", brute(FRAME, [event, known], []))
    check(f"P({texts[0]} | {given})", *[brute(FRAME, [event], [(given, equals(label))]) for label in of[given]])
    check(f"P({target} | {texts[1]})", *[brute(FRAME, [(target, equals(label))], [known]) for label in of[target]])
    check(f"P({target} | {texts[0]})", *[brute(FRAME, [(target, equals(label))], [event]) for label in of[target]])
    cells = list(product(of[given], of[target]))
    check(f"P({target} | {given})", *[brute(FRAME, [(target, equals(b))], [(given, equals(a))]) for a, b in cells])
    check(f"P({given}, {target})", *[brute(FRAME, [(given, equals(a)), (target, equals(b))], []) for a, b in cells])


def test_what_no_record_shows():
    seen = tw.observed(MODEL, "P(trust = 1 | age = 65+)")
    assert np.isnan(seen.shares)
    assert seen.records == 0
    assert seen.most_unlike(0.5) is None
    text = tw.ask(MODEL, "P(trust | age)").to_text(beside=tw.observed(MODEL, "P(trust | age)").columns)
    assert text.splitlines()[3].count("(–)") == 4


@pytest.mark.parametrize(
    "question",
    ["E(trust | vote, age)", "H(vote)", "I(vote; age)", "mode(vote)", "P(vote | age, trust)", "P(vote, age, trust)"],
)
def test_other_questions_have_nothing_observed(question):
    assert tw.observed(MODEL, question) is None


@pytest.mark.parametrize(
    ("question", "among"),
    [("E(trust)", {}), ("E(trust | vote = yes)", {"vote": "yes"}), ("E(trust | trust >= 3)", {"trust": [3, 4]})],
)
def test_means_are_those_of_the_records(question, among):
    frame = FRAME.dropna(subset=["trust", *among])
    for name, labels in among.items():
        frame = frame[frame[name].isin(np.atleast_1d(labels))]
    seen = tw.observed(MODEL, question)
    assert (float(seen.shares), float(seen.records)) == pytest.approx((frame["trust"].mean(), len(frame)))
    content, text = printed_answer(MODEL, question)
    assert content["observed"] == pytest.approx(frame["trust"].mean())
    assert f"observed {frame['trust'].mean():.4f} ({len(frame)} records)" in text
    assert not [note for note in content["notes"] if "differ" in note]


def test_means_of_groups_are_those_of_the_records():
    whole = FRAME.dropna(subset=["trust", "vote"]).groupby("vote")["trust"]
    seen = tw.observed(MODEL, "E(trust | vote)")
    np.testing.assert_allclose(seen.shares, whole.mean())
    assert seen.records.tolist() == whole.count().tolist()


def test_answers_and_the_check_of_a_fit_agree_on_which_tables_are_off():
    random = np.random.default_rng(2)
    hidden = random.integers(0, 2, 700)
    frame = pd.DataFrame(
        {f"x{n}": np.where(random.random(700) < 0.2 + 0.04 * n, hidden, random.integers(0, 2, 700)) for n in range(9)}
    )
    model = tw.fit(frame, rank=1, smoothing=0)
    quality = tw.fit_quality(model, frame)
    assert 3 < len(quality.misfits) == model.report.check.n_off < 33
    for pair in quality.pairs:
        notes = printed_answer(model, f"P({pair.variables[0]} | {pair.variables[1]})")[0]["notes"]
        assert any("differ by more than chance" in note for note in notes) == pair.is_off


def test_means_that_differ_by_more_than_chance_are_noted():
    random = np.random.default_rng(5)
    group = random.integers(0, 2, 4000)
    frame = pd.DataFrame(
        {"x": np.where(group == 0, random.integers(1, 4, 4000), random.integers(1, 6, 4000)), "g": group}
    )
    # One component makes the two independent, which they are not.
    poor, good = (tw.fit(frame, rank=rank, smoothing=0) for rank in (1, 2))
    means = frame.groupby("g")["x"].mean()
    for model, is_off in ((poor, True), (good, False)):
        for question, where in (
            ("E(x | g)", "most at g = "),
            ("E(x | g = 1)", f"observed {means[1]:.4f} of "),
            ("E(x)", None),
        ):
            notes = [note for note in printed_answer(model, question)[0]["notes"] if "means differ" in note]
            assert len(notes) == (is_off and where is not None)
            assert all(where in note for note in notes)
    assert printed_answer(poor, "E(x | g = 0) - E(x | g = 1)")[0]["notes"]


@pytest.mark.parametrize("shift", [0.0, 1e12])
def test_variances_of_means_are_those_of_the_records(shift):
    x, g = np.repeat([0.0, 1.0, 5.0, 5.0], 50) + shift, np.tile(["u", "v"], 100)
    seen = tw.observed(tw.fit({"x": x, "g": g}, rank=1, smoothing=0), "E(x | g)")
    frame = pd.DataFrame({"x": x - shift, "g": g}).groupby("g")["x"]
    np.testing.assert_allclose(seen.variances, frame.var(ddof=0))
    np.testing.assert_allclose(seen.shares, frame.mean() + shift)
    errors = np.sqrt(seen.variances / 100)
    np.testing.assert_allclose(seen.residuals(seen.shares - 2 * errors), 2, rtol=1e-3)


def test_a_variable_with_one_value_is_never_off():
    pmf = tw.fit({"x": [7] * 20, "g": ["u", "v"] * 10}, rank=1)
    assert tw.observed(pmf, "E(x | g)").residuals(tw.ask(pmf, "E(x | g)").array) == pytest.approx([0, 0], abs=1e-9)


def test_answers_about_three_variables_name_the_tables_that_are_off():
    random = np.random.default_rng(0)
    x = random.integers(0, 2, 500)
    frame = pd.DataFrame({"x": x, "y": np.where(random.random(500) < 0.8, x, 1 - x), "z": random.integers(0, 2, 500)})
    for rank, is_off in ((1, True), (2, False)):
        model = tw.fit(frame, rank=rank, smoothing=0)
        for question in ("P(x = 1 | y = 1, z = 0)", "P(x, y | z)", "E(x | y, z)"):
            notes = printed_answer(model, question)[0]["notes"]
            assert ["rests on 'x × y', where" in note for note in notes if "differ" in note] == [True] * is_off


def test_a_table_near_the_model_needs_no_check_of_the_fit(monkeypatch):
    """Importing the check takes longer than an answer."""
    pmf, checked = tw.fit({"a": ["x", "y"] * 50, "b": ["u", "u", "v", "v"] * 25}, rank=1, smoothing=0), []
    monkeypatch.setattr(quality_module, "fit_quality", lambda *_: checked.append(True))
    assert not is_observed_table_off(pmf, ("a", "b"))
    assert not checked


def test_models_without_counts_have_nothing_observed():
    assert tw.observed(MODEL.with_counts(None), "P(vote)") is None
    assert tw.observed(MODEL.given({"age": "65+"}), "P(vote)") is None
    apart = tw.fit({"a": [0, 1, None, None], "b": [0, 1, 1, 0], "c": [None, None, 0, 1]}, rank=1, smoothing=1)
    assert tw.observed(apart, "P(a | c)") is None
    assert tw.observed(apart, "P(a | b)").records.tolist() == [[1, 1], [1, 1]]


WEIGHTED = FRAME.assign(w=RANDOM.lognormal(0, 1, 300), n=RANDOM.integers(1, 4, 300))
WEIGHTED.loc[WEIGHTED.index % 17 == 0, "w"] = 0.0  # these count nowhere


def weighted_base(frame, names, condition=None):
    """Return the share of "yes", the number of people, and their effective number, by the definition."""
    whole = frame.loc[frame.index.repeat(frame["n"])].dropna(subset=names)
    whole = whole[whole["w"] > 0].query(condition) if condition else whole[whole["w"] > 0]
    w = whole["w"]
    return w[whole["vote"] == "yes"].sum() / w.sum(), len(whole), w.sum() ** 2 / (w**2).sum()


def engines(tmp_path, monkeypatch):
    """Yield the records in memory, in files that stay in memory and in a scratch file, and as tables."""
    from twoway.data.files import file_records

    names, numbers = ["age", "vote", "trust"], {"weights": "w", "counts": "n"}
    yield tw.Records(WEIGHTED, columns=names, **numbers)
    yield [tw.Records(WEIGHTED[:100], columns=names, **numbers), tw.Records(WEIGHTED[100:], columns=names, **numbers)]
    WEIGHTED.to_parquet(tmp_path / "survey.parquet")
    for kept in (2**26, 100):
        monkeypatch.setattr(file_records, "KEPT_BYTES", kept)
        yield tw.FileRecords(tmp_path / "survey.parquet", columns=names, **numbers)
    tables = tw.count(tw.Records(WEIGHTED, columns=names, **numbers))
    tables.save(tmp_path / "survey.tables")
    yield tw.Tables.load(tmp_path / "survey.tables")
    parts = [tw.count(tw.Records(part, columns=names, **numbers)) for part in (WEIGHTED[:150], WEIGHTED[150:])]
    yield parts[0] + parts[1]


def test_bases_with_weights_are_those_of_the_records(tmp_path, monkeypatch):
    for number, source in enumerate(engines(tmp_path, monkeypatch)):
        pmf = tw.fit(source, rank=1, smoothing=1)
        pmf.save(tmp_path / "model.twoway")
        for model in (pmf, tw.load(tmp_path / "model.twoway")):
            for question, names, condition in (
                ("P(vote = yes | age = 65+)", ["age", "vote"], "age == '65+'"),
                ("P(vote = yes | trust >= 3)", ["trust", "vote"], "trust >= 3"),
                ("P(vote = yes | trust = 2)", ["trust", "vote"], "trust == 2"),
                ("P(vote = yes)", ["vote"], None),
            ):
                if number >= 4 and condition is None:
                    continue  # tables know those only that show another variable, too
                seen = tw.observed(model, question)
                share, n_people, effective = weighted_base(WEIGHTED, names, condition)
                assert seen.records == n_people
                # Each of several sources is weighed in effective records of its own.
                tolerance = 0.05 if number == 1 else 1e-5
                assert seen.effective == pytest.approx(effective, rel=tolerance)
                assert seen.shares == pytest.approx(share, rel=tolerance)
                assert 1 <= seen.effective <= seen.records * (1 + 1e-6)
    seen = tw.observed(pmf, "P(vote | age)")
    ages = [weighted_base(WEIGHTED, ["age", "vote"], f"age == {age!r}") for age in pmf.schema["age"].categories]
    np.testing.assert_array_equal(seen.records, [[n, n] for _, n, _ in ages])
    np.testing.assert_allclose(seen.effective, [[effective] * 2 for _, _, effective in ages], rtol=1e-5)


def test_counts_are_people_and_constant_weights_no_weights():
    numbers = FRAME.assign(n=np.arange(300) % 5, w=2.5).drop(columns="w")
    people = numbers.loc[numbers.index.repeat(numbers["n"])].drop(columns="n")
    counted = tw.fit(tw.Records(numbers, counts="n"), rank=1, smoothing=1)
    same = tw.fit(tw.Records(numbers.assign(w=2.5), counts="n", weights="w"), rank=1, smoothing=1)
    for pmf in (counted, same, tw.fit(people, rank=1, smoothing=1)):
        seen = tw.observed(pmf, "P(vote = yes | age)")
        assert (
            seen.records.tolist() == people.dropna(subset=["age", "vote"])["age"].value_counts().sort_index().tolist()
        )
        assert list(seen.columns) == ["observed", "records"]
        assert pmf.counts.people.size == 0


def test_an_update_adds_to_the_bases():
    names, options = ["age", "vote", "trust"], {"weights": "w", "counts": "n"}
    first, second = (tw.Records(part, columns=names, **options) for part in (WEIGHTED[:200], WEIGHTED[200:]))
    plain = tw.Records(WEIGHTED[200:], columns=names, counts="n", schema=first.schema)
    for pmf, new, is_weighted in (
        (tw.fit(first, rank=1, smoothing=1), second, (True, True)),
        (tw.fit(first, rank=1, smoothing=1), plain, (True, False)),
        (tw.fit(plain, rank=1, smoothing=1), first, (True, False)),
    ):
        # Each part counts in effective records of its own.
        n_people, total, squares = 0, 0.0, 0.0
        for part, has_weights in zip((WEIGHTED[:200], WEIGHTED[200:]), is_weighted, strict=True):
            whole = part.loc[part.index.repeat(part["n"])].dropna(subset=["age", "vote"])
            w = whole["w"] if has_weights else pd.Series(1.0, whole.index)
            group = w[(whole["age"] == "65+") & (w > 0)] * w.sum() / (w**2).sum()
            n_people, total, squares = n_people + len(group), total + group.sum(), squares + (group**2).sum()
        seen = tw.observed(tw.update(pmf, new), "P(vote = yes | age = 65+)")
        assert seen.records == n_people
        assert seen.effective == pytest.approx(total**2 / squares, rel=1e-5)


def test_answers_say_what_records_count_as(tmp_path):
    pmf = tw.fit(tw.Records(WEIGHTED, columns=["age", "vote", "trust"], weights="w", counts="n"), rank=1, smoothing=1)
    content, text = printed_answer(pmf, "P(vote = yes | age = 65+)")
    _, n_people, effective = weighted_base(WEIGHTED, ["age", "vote"], "age == '65+'")
    assert text.endswith(f"({n_people} records that count as {effective:.0f})")
    assert content["records"] == n_people
    assert content["effective_records"] == pytest.approx(effective, rel=1e-5)
    for question in ("P(vote | age)", "P(vote = yes | age)"):
        lines = printed_answer(pmf, question)[1].splitlines()
        assert lines[0].endswith("records  effective records")
        assert lines[3].split()[-2:] == [str(n_people), f"{effective:.0f}"]
    other = weighted_base(WEIGHTED, ["age", "vote"], "age == '18-39'")
    text = printed_answer(pmf, "P(vote = yes | age = 65+) - P(vote = yes | age = 18-39)")[1]
    assert text.endswith(f"({n_people} and {other[1]} records that count as {effective:.0f} and {other[2]:.0f})")
    frame = FRAME.loc[FRAME.index.repeat(20)].assign(vote=lambda own: np.where(own["age"] == "65+", "yes", "no"))
    off = tw.fit(tw.Records(frame, weights="w"), rank=1, smoothing=1)
    (said,) = printed_answer(off, "P(vote | age)")[0]["notes"]
    assert re.search(r"observed \d\.0000 of [\d,]+ records that count as [\d,]+, modelled", said)


def test_tables_without_a_base_show_shares_only():
    table = pd.DataFrame([[0.1, 0.3], [0.2, 0.4]], index=["low", "high"], columns=["no", "yes"])
    pmf = tw.fit(tw.Tables.from_crosstabs({("trust", "vote"): table}, kind="joint"), rank=1, smoothing=1)
    seen = tw.observed(pmf, "P(vote = yes | trust)")
    np.testing.assert_allclose(seen.shares, [0.75, 2 / 3], rtol=1e-6)
    assert list(seen.columns) == ["observed"]
    assert seen.most_unlike([0.01, 0.01]) is None


def test_a_difference_is_told_where_chance_does_not_explain_it():
    seen = tw.observed(MODEL, "P(vote = yes | age)")
    assert seen.most_unlike(seen.shares) is None
    for z, worst in ((1.9, None), (4.0, 1)):
        modelled = seen.shares.copy()
        while standardized_residuals(seen.shares, modelled, seen.records)[1] < z:
            modelled[1] -= 0.001
        assert seen.most_unlike(modelled) == worst
    assert seen.most_unlike([np.nan, 0.0, np.nan]) == 1


def test_chance_alone_is_seldom_called_a_difference():
    truth, random = np.array([0.5, 0.3, 0.15, 0.05]), np.random.default_rng(1)
    called = 0
    for _ in range(400):
        counts = random.multinomial(200, truth)
        called += tw.Observed(counts / 200, np.full(4, 200.0)).most_unlike(truth) is not None
    assert called < 0.07 * 400


CHAIN = {
    ("age", "vote"): [[30, 20], [10, 40]],
    ("age", "trust"): [[20, 30], [40, 10]],
    ("trust", "car"): [[9, 1], [4, 6]],
}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("P(vote | trust)", "'vote' and 'trust' together: the answer rests on how each depends on 'age'"),
        ("I(car; vote)", "'car' and 'vote' together: the answer rests on how each depends on 'trust', 'age'"),
        ("P(vote = 1 | age, trust = 0)", "'vote' and 'trust' together"),
        ("P(vote | age)", ""),
        ("P(vote)", ""),
    ],
)
def test_an_answer_that_no_table_shows_says_by_which_it_follows(question, said):
    frames = {names: pd.DataFrame(counts) for names, counts in CHAIN.items()}
    tables = tw.Tables.from_crosstabs(frames)
    model = tw.fit(tables, structure="tree", rank=2, smoothing=0.1)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        tw.ask(model, question)
    assert [said in str(warning.message) for warning in given] == ([True] if said else [])
    assert printed_answer(model, question)[0]["notes"][:1] == [str(warning.message) for warning in given]


def test_an_answer_of_a_rank_says_so_where_no_record_shows_it():
    nothing = [None] * 3
    frame = pd.DataFrame({"a": [0, 1, 1, *nothing], "b": [0, 1, 1, 1, 0, 1], "c": [*nothing, 0, 1, 0]})
    with pytest.warns(UserWarning, match="'a' and 'c' together.*'b'.*rank of 2"):
        tw.ask(tw.fit(frame, rank=2, smoothing=1), "P(a | c)")
    with pytest.warns(UserWarning, match="'a' and 'c' together.*rank of 1"):
        tw.ask(tw.fit(frame[["a", "c"]], rank=1, smoothing=1), "P(a | c)")


PEOPLE = pd.DataFrame(
    {"f": [10, 32, 8], "m": [10, 33, 7]}, index=pd.Index(["0-14", "15-64", "65+"], name="age")
).rename_axis(columns="sex")
AGES = {"0-14": 20, "15-24": 15, "25-64": 50, "65+": 15}


def fit_groups(**options):
    """Fit a table of single ages, and one by sex in which 15-64 stands for two of them."""
    tables = [tw.PublishedTable.of("age", AGES), tw.PublishedTable.of(["age", "sex"], PEOPLE, **options)]
    return tw.fit(tw.PublishedTables.of(tables, groups={"age": {"15-64": ["15-24", "25-64"]}}), rank=2)


def test_a_label_for_several_categories_has_the_share_that_was_published():
    pmf = fit_groups()
    for question, share, people in (
        ("P(age = 15-64)", 0.65, 100),
        ("P(age = 15-64 | sex = f)", 32 / 50, 50),
        ("P(sex = f | age = 15-64)", 32 / 65, 65),
        ("P(sex = f | age != 15-64)", 18 / 35, 35),
        ("P(sex = m, age in {15-64, 65+})", 0.4, 100),
        ("P(age = 15-24)", 0.15, 100),
    ):
        seen = tw.observed(pmf, question)
        assert (float(seen.shares), float(seen.records)) == pytest.approx((share, people)), question
    assert tw.observed(pmf, "P(sex | age = 15-64)").shares == pytest.approx([32 / 65, 33 / 65])
    assert tw.observed(pmf, "P(age)").shares == pytest.approx([0.2, 0.15, 0.5, 0.15])
    assert "observed 0.6500 (100 records)" in printed_answer(pmf, "P(age = 15-64)")[1]


@pytest.mark.parametrize("question", ["P(sex = f | age = 15-24)", "P(sex | age)", "P(age, sex)", "P(age | sex = f)"])
def test_a_part_of_a_label_for_several_categories_was_not_published(question):
    assert tw.observed(fit_groups(), question) is None


def test_published_percentages_of_a_label_have_no_number_of_people():
    seen = tw.observed(fit_groups(kind="shares"), "P(sex = f | age = 15-64)")
    assert float(seen.shares) == pytest.approx(32 / 65)
    assert np.isnan(seen.records)


def test_observed_shares_print_as_a_table_with_the_names_of_its_columns():
    frame = pd.DataFrame({"x": ["a", "a", "b"] * 1000})
    observed = tw.observed(tw.fit(frame, rank=1), "P(x = a)")
    assert str(observed) == "observed  records\n0.6667    3,000"
