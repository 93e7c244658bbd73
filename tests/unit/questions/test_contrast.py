"""Differences and ratios of answers: those of the numbers themselves, with their own intervals."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import random_pmf
from strategies import examples

import twoway as tw
from twoway.cli.answers import printed_answer
from twoway.errors import QuestionError
from twoway.questions.answer import ask, event_to_answer
from twoway.questions.language import complete_question, parse
from twoway.questions.question import Contrast, question_word
from twoway.schema import Schema, Variable

SCHEMA = Schema(
    (
        Variable("vote", ("no", "yes")),
        Variable("age", ("18-39", "40/50", "a) - P(b")),
        Variable("a - b / c", ("x", "y", "z")),
        Variable("trust", (-1, 2, 3)),
    )
)
PMF = random_pmf(SCHEMA, 3)
RANDOM = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "age": RANDOM.choice(["18-39", "40/50", "65+"], 400, p=[0.5, 0.3, 0.2]),
        "vote": RANDOM.choice(["no", "yes"], 400),
        "trust": RANDOM.choice([1, 2, 3], 400),
    }
)
FRAME.loc[RANDOM.random(400) < 0.2, "vote"] = None
BOOT = tw.bootstrap(tw.fit(FRAME, rank=2, smoothing=1), FRAME, n=20)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("P(vote=yes|age=18-39)-P(vote=yes|age=40/50)", "P(vote = yes | age = 18-39) - P(vote = yes | age = 40/50)"),
        (" p(age = 'a) - P(b') / P( age='a) - P(b' )", "P(age = 'a) - P(b') / P(age = 'a) - P(b')"),
        ("P(a - b / c) − P(a - b / c | vote=no)", "P(a - b / c) - P(a - b / c | vote = no)"),
        ("E(trust|vote) / E(trust)", "E(trust | vote) / E(trust)"),
    ],
)
def test_minus_and_slash_are_operators_between_brackets_only(text, printed):
    question = parse(text, SCHEMA)
    assert isinstance(question, Contrast)
    assert str(question) == printed
    assert parse(printed, SCHEMA) == question


@pytest.mark.parametrize(
    ("text", "message", "mark"),
    [
        ("P(vote = yes) - P(vot = yes)", "did you mean 'vote'?", "                  ^^^"),
        ("P(vote = yes) - P(age = 18-40)", "did you mean '18-39'?", "                        ^^^^^"),
        ("P(vote = yes) - ", "a question starts with one of P, E", "                ^"),
        ("P(vote = yes) - 0.5", "unknown question '0.5'", "                ^^^"),
        ("P(vote = yes) + P(vote = no)", "the difference or ratio of two P or two E", "              ^" + 13 * "^"),
        ("P(vote = no) - P(vote = no) - P(vote)", "the difference or ratio of two", " " * 28 + "^" * 9),
        ("P(vote = yes) - E(trust)", "of two P or of two E, not of P and E", "^" * 24),
        ("H(vote) - H(age)", "of two P or of two E, not of H and H", "^" * 16),
        ("mode(vote) / mode(vote)", "of two P or of two E, not of mode and mode", "^" * 23),
        ("P(vote) - P(age)", "about the same categories, or one of them a number: one has those of 'vote'", "^" * 16),
        ("P(vote | age) / P(a - b / c)", "the other those of 'a - b / c'", "^" * 28),
        ("P(vote, vote) - P(age)", "duplicate variable 'vote'", "  ^^^^^^^^^^^"),
    ],
)
def test_errors_point_at_the_place(text, message, mark):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    told, _, marked = str(caught.value).split("\n")
    assert message in told
    assert marked == f"    {mark}"


def conditions():
    """Return conditions on a variable other than the vote, as text."""
    pairs = [(v.name, label) for v in SCHEMA.variables[1:3] for label in v.categories]
    return st.sampled_from([f"{question_word(name)} = {question_word(label)}" for name, label in pairs])


@examples(30)
@given(first=conditions(), second=conditions(), operator=st.sampled_from("-/"))
def test_answers_are_those_of_the_two_questions(first, second, operator):
    for what in ("P(vote = yes", "P(vote", "E(trust", "P(vote = no | trust", "P(vote | trust"):
        bar = "," if "|" in what else " |"
        sides = [f"{what}{bar} {known})" for known in (first, second)]
        one, other = (np.asarray(ask(PMF, side)) for side in sides)
        expected = one - other if operator == "-" else one / other
        answer = ask(PMF, f"{sides[0]} {operator} {sides[1]}")
        np.testing.assert_allclose(np.asarray(answer), expected, rtol=1e-12)
        if isinstance(answer, tw.Distribution):
            assert answer.quantity == {"-": "difference", "/": "ratio"}[operator]


def test_a_side_with_fewer_variables_is_compared_with_each_of_the_other():
    lift = ask(PMF, "P(vote | age) / P(vote)")
    assert lift.names == ("age", "vote")
    for age in SCHEMA["age"].categories:
        one = PMF.given({"age": age}).marginal("vote").array / PMF.marginal("vote").array
        np.testing.assert_allclose(lift[{"age": age}].array, one)
    turned = ask(PMF, "P(vote) / P(vote | age)")
    np.testing.assert_allclose(turned.array, 1 / lift.array)
    joint = ask(PMF, "P(vote, age) - P(vote | age)")
    assert joint.names == ("vote", "age")
    expected = PMF.marginal(["vote", "age"]).array - ask(PMF, "P(vote | age)").array.T
    np.testing.assert_allclose(joint.array, expected)
    number = ask(PMF, "P(vote = yes | age) - P(vote = yes)")
    np.testing.assert_allclose(
        number.array, lift[{"vote": "yes"}].array * PMF.prob({"vote": "yes"}) - PMF.prob({"vote": "yes"})
    )


def test_a_ratio_to_zero_is_an_error_that_names_it_or_no_value_in_a_table():
    schema = Schema((Variable("a", ("x", "y")), Variable("b", ("u", "v", "w")), Variable("n", (-1, 1))))
    pmf = tw.JointPMF([1.0], [[[0.5], [0.5]], [[0.4], [0.6], [0.0]], [[0.5], [0.5]]], schema)
    with pytest.raises(QuestionError, match=r"has no value: P\(b = w \| a = x\) is 0 under the model"):
        ask(pmf, "P(b = u) / P(b = w | a = x)")
    with pytest.raises(QuestionError, match=r"E\(n\) is 0"):
        ask(pmf, "E(n | a = x) / E(n)")
    ratios = ask(pmf, "P(b | a = x) / P(b)")
    np.testing.assert_allclose(ratios.array, [1, 1, math.nan])
    content, text = printed_answer(pmf, "P(b | a = x) / P(b)")
    assert text.splitlines()[-1].split() == ["w", "–"]
    assert content["notes"] == ["1 of 3 ratios have no value: P(b) is 0 there under the model"]
    assert ask(pmf, "P(b = w) / P(b = u)") == 0
    assert ask(pmf, "P(b = u) - P(b = w)") == pytest.approx(0.4)


@pytest.mark.parametrize("operator", ["-", "/"])
@pytest.mark.parametrize("what", ["P(vote = yes", "P(vote", "E(trust"])
def test_intervals_are_those_of_the_replicates_of_the_contrast(what, operator):
    sides = [f"{what} | age = {age})" for age in ("18-39", "40/50")]
    boot = replace(BOOT, observed=None, level=0.8)

    def contrast(pmf):
        one, other = (np.asarray(ask(pmf, side)) for side in sides)
        return one - other if operator == "-" else one / other

    answer = ask(boot, f"{sides[0]} {operator} {sides[1]}")
    expected = boot.of(contrast, "nonnegative" if operator == "/" and what.startswith("P") else "real")
    for name in ("low", "high"):
        np.testing.assert_allclose(np.asarray(getattr(answer, name)), getattr(expected, name), rtol=1e-12)
    one, other = (ask(boot, side) for side in sides)
    if what == "P(vote = yes" and operator == "-":
        widths = one.high - one.low + other.high - other.low
        assert answer.high - answer.low < 0.9 * widths  # two intervals would be taken for too much


def test_nothing_differs_from_itself():
    answer = ask(BOOT, "P(vote = yes | age = 18-39) - P(vote = yes | age = 18-39)")
    assert (float(answer), answer.low, answer.high) == (0, 0, 0)
    answer = ask(BOOT, "P(vote = yes) / P(vote = yes)")
    assert (float(answer), answer.low, answer.high) == (1, pytest.approx(1), pytest.approx(1))


def test_tables_that_determine_both_sides_determine_the_difference():
    frames = {
        ("vote", "age"): pd.DataFrame([[30, 20], [10, 40]]),
        ("vote", "trust"): pd.DataFrame([[20, 30], [40, 10]]),
    }
    tables = tw.Tables.from_crosstabs(frames)
    boot = tw.bootstrap(tw.fit(tables, rank=1, smoothing=0.1), tables, n=20)
    assert "no table" not in ask(boot, "P(vote = 1 | age = 1) - P(vote = 1 | trust = 1)").note
    assert "no table" in ask(boot, "P(vote = 1 | age = 1) - P(age = 1 | trust = 1)").note


def test_what_was_observed_is_the_difference_of_the_observed_shares():
    votes = FRAME.dropna()
    yes = [votes[votes["age"] == age]["vote"].eq("yes") for age in ("18-39", "40/50")]
    seen = tw.observed(BOOT, "P(vote = yes | age = 18-39) - P(vote = yes | age = 40/50)")
    assert float(seen.shares) == pytest.approx(yes[0].mean() - yes[1].mean())
    assert (float(seen.records), float(seen.other_records)) == (len(yes[0]), len(yes[1]))
    seen = tw.observed(BOOT, "P(vote | age) / P(vote)")
    assert seen.shares.shape == seen.records.shape == seen.other_records.shape == (3, 2)
    assert seen.shares[0, 1] == pytest.approx(yes[0].mean() / votes["vote"].eq("yes").mean())
    means = FRAME.groupby("age")["trust"].mean()
    seen = tw.observed(BOOT, "E(trust | age = 65+) - E(trust | age = 18-39)")
    assert float(seen.shares) == pytest.approx(means["65+"] - means["18-39"])
    assert tw.observed(BOOT, "P(vote = yes | age = 65+) - P(vote = yes | age = 65+, trust = 1)") is None


def test_printed_answers_have_both_numbers_of_records():
    question = "P(vote = yes | age = 18-39) - P(vote = yes | age = 40/50)"
    content, text = printed_answer(BOOT.pmf, question, boot=BOOT)
    assert text.endswith(f"({content['records']:.0f} and {content['other_records']:.0f} records)")
    assert content["low"] < content["value"] < content["high"]
    assert "evidence_probability" not in content
    assert content["question"] == question
    with pytest.raises(QuestionError, match="a range needs one probability"):
        event_to_answer(PMF, "P(vote = yes) - P(vote = no)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P(vote) - ", [" - P(", " - E(", " - mode(", " - H(", " - I("]),
        ("P(vote) / e", [" / E("]),
        ("P(vote) - P(ag", ["age"]),
        ("P(vote = yes) - P(vote = ", [" no", " yes"]),
    ],
)
def test_completion_behind_an_operator(text, expected):
    assert complete_question(text, SCHEMA) == expected


def test_tables_of_differences_and_ratios_keep_the_library_of_the_frame():
    pmf = PMF.with_library("pyarrow")
    for operator in "-/":
        answer = ask(pmf, f"P(vote | age = 18-39) {operator} P(vote)")
        assert answer.library == ask(pmf, "P(vote)").library == "pyarrow"
        assert answer.to_frame().column_names == ["vote", answer.quantity]
