"""Parsing of questions: errors name what is missing, and where."""

import pytest

from twoway.errors import QuestionError
from twoway.questions.language import parse, parse_terms
from twoway.schema import Schema, Variable

SCHEMA = Schema((Variable("vote", ("no", "yes")), Variable("XXage", ("Xa", "b")), Variable("stars", (1, 2, 3))))


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("P(vote = no", "           ^"),  # behind the end
        ("P(vote) now", "        ^^^"),
        ("P(nix)", "  ^^^"),
        ("P(nix in {no})", "  ^^^"),
        ("P(vote = yes, nix not in {no})", "              ^^^"),
        ("H(vote = no)", "  ^^^^^^^^^"),
        ("P(" + "x" * 70 + ")", "  " + "^" * 70),  # longer than a cell of a table may be
    ],
)
def test_errors_mark_the_culprit(text, mark):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    shown, below = str(caught.value).splitlines()[-2:]
    assert shown == f"    {text}"
    assert below == f"    {mark}"


def test_a_condition_without_a_value_is_underlined_completely():
    with pytest.raises(QuestionError, match="'stars'") as caught:
        parse_terms("vote = no, stars", SCHEMA)
    assert str(caught.value).endswith("    vote = no, stars\n    ^^^^^^^^^^^^^^^^")


def test_numbers_between_the_categories_are_compared_and_not_equalled():
    parse("P(stars < 2.5)", SCHEMA)
    for operator in ("=", "!="):
        with pytest.raises(QuestionError, match=r"no category 2\.5 of 'stars'"):
            parse(f"P(stars {operator} 2.5)", SCHEMA)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P(vote = no, stars)", "give a value for each variable, P(a = x, b = y), or for none, P(a, b)"),
        ("P('vote' in {no", "expected '}', which closes the list of labels"),
        ("P('vote' in {no)", "expected '}' here, which closes the list of labels"),
        ("P(vote in {no, })", "expected a label here"),
        (
            "",
            "a question starts with one of P, E, mode, H, I, as in P(vote | age = 30-39, region in {north, east})",
        ),
    ],
)
def test_what_is_missing_in_a_question(text, message):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    assert str(caught.value).splitlines()[0].split("; names and labels")[0] == message


def test_integers_are_read_exactly():
    schema = Schema((Variable("n", (-(2**53) - 1, -(2**53), 2**53, 2**53 + 1)),))
    for number in schema["n"].categories:
        (term,) = parse(f"P(n = {number})", schema).targets
        assert term.labels == (number,)
    (term,) = parse(f"P(n = +{2**53 + 1})", schema).targets
    assert term.labels == (2**53 + 1,)


def test_a_question_without_its_bracket_is_shown_an_example():
    for text in ("P vote = yes", "H"):
        with pytest.raises(QuestionError, match=r"expected '\('.*, as in P\(vote = yes\)"):
            parse(text, SCHEMA)
