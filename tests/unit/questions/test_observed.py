"""What was observed, beside the answers of a model."""

import math
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.checks.chance import standardized_residuals
from twoway.cli.answers import printed_answer

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


def test_models_without_counts_have_nothing_observed():
    assert tw.observed(MODEL.with_counts(None), "P(vote)") is None
    assert tw.observed(MODEL.given({"age": "65+"}), "P(vote)") is None
    apart = tw.fit({"a": [0, 1, None, None], "b": [0, 1, 1, 0], "c": [None, None, 0, 1]}, rank=1, smoothing=1)
    assert tw.observed(apart, "P(a | c)") is None
    assert tw.observed(apart, "P(a | b)").records.tolist() == [[1, 1], [1, 1]]


def test_weighted_records_count_as_effective_ones():
    pmf = tw.fit(tw.Records(FRAME, weights="w"), rank=2, smoothing=1)
    whole = FRAME.dropna(subset=["age", "vote"])
    effective = whole["w"].sum() ** 2 / (whole["w"] ** 2).sum()
    old = whole[whole["age"] == "65+"]
    seen = tw.observed(pmf, "P(vote = yes | age = 65+)")
    assert seen.shares == pytest.approx(old["w"][old["vote"] == "yes"].sum() / old["w"].sum(), rel=1e-6)
    assert seen.records == pytest.approx(effective * old["w"].sum() / whole["w"].sum(), rel=1e-6)


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
        ("P(vote | trust)", "'vote' and 'trust' together: the answer rests on what each has to do with 'age'"),
        ("I(car; vote)", "'car' and 'vote' together: the answer rests on what each has to do with 'trust', 'age'"),
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
    with pytest.warns(UserWarning, match="no record shows 'a' and 'c' together: .* 'b', and on the rank of 2"):
        tw.ask(tw.fit(frame, rank=2, smoothing=1), "P(a | c)")
    with pytest.warns(UserWarning, match="no record shows 'a' and 'c' together: the answer rests on the rank of 1"):
        tw.ask(tw.fit(frame[["a", "c"]], rank=1, smoothing=1), "P(a | c)")
