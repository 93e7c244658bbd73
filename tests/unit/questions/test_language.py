"""The question language: questions round-trip, answers equal the library's, errors point to the position."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import random_pmf
from strategies import pmfs, schemas

import twoway as tw
from twoway.category_labels import label_key
from twoway.errors import DataError, ImpossibleEvidenceError, QuestionError
from twoway.questions.answer import ask
from twoway.questions.language import complete_question, parse, parse_terms
from twoway.questions.question import OPERATORS, Question, Term, question_word
from twoway.schema import Schema, Variable

EXAMPLES = (
    "P(vote | age = 30-39, region in {north, east})",
    "P(vote = yes)",
    "P(rating >= 4 | genre = drama)",
    "E(rating | genre = drama)",
    "mode(vote, age | region = north)",
    "H(vote)",
    "I(vote; age | region)",
)

SCHEMA = Schema(
    (
        Variable("vote", ("no", "yes")),
        Variable("age", ("18-29", "30-39", "40+")),
        Variable("region", ("north", "east", "south")),
        Variable("rating", (1, 2, 3, 4, 5)),
        Variable("genre", ("drama", "comedy")),
        Variable("born in", ("a, b", "it's", "4", 4, True, "True", "x = y")),
    )
)


@pytest.fixture(scope="module")
def pmf():
    return random_pmf(SCHEMA, 3)


# Any text at all as names and labels, some of it made to mislead.
NASTY = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", " ", "in", "x in", "not in", "P(", "a|b", "'", '"', "\\", "\\n", "a\n", "1", "-2.5e3", "TRUE", "!", "a!=b"]
    ),
)
LABELS = st.one_of(
    NASTY, st.integers(-(10**18), 10**18), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@st.composite
def nasty_schemas(draw):
    names = draw(st.lists(NASTY, min_size=4, max_size=5, unique=True))
    labels = st.lists(LABELS, min_size=1, max_size=4, unique_by=label_key)
    return Schema(tuple(Variable(name, tuple(draw(labels))) for name in names))


@st.composite
def terms(draw, variable):
    operator = draw(st.sampled_from(OPERATORS))
    several = operator.endswith("in")
    labels = draw(st.lists(st.sampled_from(variable.categories), min_size=1, max_size=3 if several else 1))
    return Term(variable.name, operator, tuple(labels))


@st.composite
def questions(draw, schema):
    kind = draw(st.sampled_from(["P", "P=", "E", "mode", "H", "I"]))
    variables = draw(st.permutations(schema.variables))
    target, other, known, named = variables[:4]
    given = [draw(terms(known))] if draw(st.booleans()) else []
    if kind in ("P", "P=", "H", "I") and draw(st.booleans()):
        given.append(Term(named.name))
    if kind == "P=":
        return Question("P", (draw(terms(target)), draw(terms(other))), (), tuple(given))
    if kind == "I":
        return Question("I", (Term(target.name),), (Term(other.name),), tuple(given))
    targets = [Term(target.name)] + ([Term(other.name)] if kind != "E" and draw(st.booleans()) else [])
    return Question(kind, tuple(targets), (), tuple(given))


def exactly(question):
    """Return a question with its labels' types, which Python's == does not tell apart."""
    sides = (question.targets, question.others, question.given)
    return question.kind, [[(t.name, t.operator, [label_key(one) for one in t.labels]) for t in side] for side in sides]


@given(data=st.data())
def test_printing_and_parsing_again_gives_the_same_question(data):
    schema = data.draw(nasty_schemas())
    question = data.draw(questions(schema))
    again = parse(str(question), schema)
    assert exactly(again) == exactly(question)
    assert str(again) == str(question)


@given(text=st.text(max_size=30), data=st.data())
def test_any_text_is_a_question_or_an_error_that_points_into_it(text, data):
    mixed = data.draw(st.sampled_from(EXAMPLES))
    place = data.draw(st.integers(0, len(mixed)))
    try:
        parse(mixed[:place] + text + mixed[place:], SCHEMA)
    except QuestionError as error:
        lines = str(error).split("\n")
        assert len(lines) == 3
        assert set(lines[2]) <= {" ", "^"}
        assert "^" in lines[2]
        assert lines[2].index("^") <= len(lines[1])


LONG = {
    "white space": "P(a" + " " * 50_000 + "b {",
    "white space before a list": "P(vote" + " " * 50_000 + "in {yes})",
    "the same variable": "P(" + "vote, " * 20_000 + "vote)",
    "a word": "P(" + "x" * 100_000,
    "an open list": "P(vote in {" + "no, " * 20_000,
    "zeros": "P(rating = " + "0" * 5000 + "4)",
    "digits": "P(rating = " + "9" * 5000 + ")",
    "brackets": "(" * 50_000,
    "quotes": "P('" + "\\'" * 20_000,
    "backslashes": "P('" + "\\\\" * 20_000 + "')",
}


@pytest.mark.parametrize("case", LONG)
def test_long_texts_take_no_longer_than_they_are(case):
    """Nothing is looked at again and again: what grows with the square of the length would not come to an end here."""
    complete_question(LONG[case], SCHEMA)
    if case in ("white space before a list", "zeros"):
        assert parse(LONG[case], SCHEMA).kind == "P"
        return
    with pytest.raises(QuestionError, match=r"\^"):
        parse(LONG[case], SCHEMA)


def test_leading_zeros_do_not_change_a_number():
    assert parse("P(rating = " + "0" * 5000 + "4)", SCHEMA) == parse("P(rating = 4)", SCHEMA)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_are_questions(text):
    assert str(parse(text, SCHEMA)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (" p( vote|age=30-39 ,region  in{north,east}) ", "P(vote | age = 30-39, region in {north, east})"),
        ("MODE(vote,age)", "mode(vote, age)"),
        ("P(vote == yes | age==40+)", "P(vote = yes | age = 40+)"),
        ("P(\"vote\"='yes')", "P(vote = yes)"),
        ("P(born in = it's)", "P('born in' = it's)"),
        ("P(born in = 'a, b')", "P('born in' = 'a, b')"),
        ("P(born in = 4, born in='4')", "P('born in' = 4, 'born in' = '4')"),
        ("P(born in not in {True, 'True'})", "P('born in' not in {True, 'True'})"),
        ("P('born in' not  in {4.0})", "P('born in' not in {4})"),
        ("P(rating>=3.5|vote!=no)", "P(rating >= 3.5 | vote != no)"),
        ("H(vote,age|region)", "H(vote, age | region)"),
        ("P('vote' = 'y\\x65s')", "P(vote = yes)"),
    ],
)
def test_spellings(text, printed):
    assert str(parse(text, SCHEMA)) == printed


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("P(vot | age = 40+)", "no variable 'vot'; did you mean 'vote'?", "vot"),
        ("P(vote | age = 40)", "no category 40 of 'age'; did you mean '40+'?", "40"),
        ("P(vote | region in {nort, east})", "no category 'nort' of 'region'; did you mean 'north'?", "nort"),
        ("P(rating = '4')", "did you mean the int 4?", "'4'"),
        ("P(vote = yes", "expected ')'", ""),
        ("P(vote = yes)) x", "unexpected text", ") x"),
        ("Q(vote)", "unknown question 'Q'; known: P, E, mode, H, I", "Q"),
        ("", "a question starts with one of P, E, mode, H, I", ""),
        ("P vote", "expected '(' here", "v"),
        ("P(vote | )", "expected the name of a variable here", ")"),
        ("P(vote = )", "expected a label here", ")"),
        ("P(vote in {})", "expected a label here", "}"),
        ("P(vote in {yes)", "expected '}' here", ")"),
        ("P('vote = yes)", "this quote is not closed", "'"),
        ("P('vo\\xte')", "invalid escape", "'vo\\xte'"),
        ("P('vo\\qte')", "invalid escape \\q", "'vo\\qte'"),
        ("P('\\\n')", "invalid escape \\\\n", "'\\\\n'"),
        ("P('\\U00110000')", "invalid escape", "'\\U00110000'"),
        ("I(vote)", "two sides, I(a; b)", ")"),
        ("P(vote; age)", "P has only one", ";"),
        ("E(vote, age)", "E takes one variable", "vote, age"),
        ("P(vote = yes, age)", "give a value for each variable", "vote = yes, age"),
        ("H(vote = yes)", "H takes variables", "vote = yes"),
        ("mode(vote | age)", "'age' needs a value", " "),
        ("P(vote, vote)", "duplicate variable 'vote'", "vote, vote)"),
        ("P(age > 35)", "no category 35 of 'age'", "35"),
        ("P(vote = yes & age = 40+)", "separate conditions by ','", "yes & age"),
        ("P(region = north or east)", "list labels as in a in {x, y}", "north or east"),
        ("P(not vote = yes)", "exclude one by a != x", "not vote"),
        ("P(rating in [4, 5])", "list labels as in a in {x, y}", "rating in [4"),
        ("P(vote = yes given age = 40+)", "put what is known after '|'", "yes given age"),
        ("P(born in = a, b)", "'a, b' needs these quotes", "a"),
        ("P(vote = \x1b[31m)", "no category '\\x1b[31m' of 'vote'", "\\x1b[31m"),
    ],
)
def test_errors_point_at_the_place(text, message, marked):
    with pytest.raises(QuestionError) as caught:
        parse(text, SCHEMA)
    told, shown, carets = str(caught.value).split("\n")
    assert message in told
    start = carets.index("^")
    assert shown[start : start + carets.count("^")] == marked
    assert "\x1b" not in str(caught.value)


def test_answers_are_those_of_the_library(pmf):
    known = pmf.given({"age": "30-39", "region": ["north", "east"]})
    answer = ask(pmf, "P(vote | age = 30-39, region in {north, east})")
    assert answer.names == ("vote",)
    np.testing.assert_allclose(answer.array, known.marginal("vote").array)
    assert ask(pmf, "P(vote = yes)") == pmf.prob({"vote": "yes"})
    assert ask(pmf, "P(vote = yes, age != 40+)") == pytest.approx(pmf.prob({"vote": "yes", "age": ["18-29", "30-39"]}))
    assert ask(pmf, "P(rating >= 4 | genre = drama)") == pytest.approx(
        pmf.given({"genre": "drama"}).prob({"rating": [4, 5]})
    )
    assert ask(pmf, "P(rating > 1.5, rating < 4)") == pytest.approx(pmf.prob({"rating": [2, 3]}))
    assert ask(pmf, "P(age >= 30-39)") == pytest.approx(pmf.prob({"age": ["30-39", "40+"]}))
    with pytest.raises(QuestionError, match=r"'region' have no declared order.* as in region in {north, east}"):
        ask(pmf, "P(region <= east)")
    assert ask(pmf, "E(rating | genre = drama)") == pmf.given({"genre": "drama"}).expect("rating")
    assert ask(pmf, "mode(vote, age | region = north)") == pmf.given({"region": "north"}).mode(["vote", "age"])
    assert ask(pmf, "H(vote)") == pmf.entropy("vote")
    assert ask(pmf, "H(vote)", base=2) == pytest.approx(pmf.entropy("vote") / math.log(2))
    assert ask(pmf, "I(vote; age)") == pmf.mutual_information("vote", "age")
    assert ask(pmf, "I(vote; age | region)") == pmf.mutual_information("vote", "age", "region")
    assert ask(pmf, "I(vote; age | region = north)") == pmf.given({"region": "north"}).mutual_information("vote", "age")
    assert ask(pmf, "H(vote | age)") == pytest.approx(pmf.entropy(["vote", "age"]) - pmf.entropy("age"))


def test_a_variable_behind_the_bar_gives_an_answer_for_each_of_its_categories(pmf):
    table = ask(pmf, "P(vote | age, region)")
    assert table.names == ("age", "region", "vote")
    one = pmf.given({"age": "40+", "region": "east"}).marginal("vote")
    np.testing.assert_allclose(table[{"age": "40+", "region": "east"}].array, one.array)
    hit = ask(pmf, "P(vote = yes | age, genre = drama)")
    assert hit["40+"] == pytest.approx(pmf.given({"age": "40+", "genre": "drama"}).prob({"vote": "yes"}))


def test_groups_that_cannot_occur_have_no_answer():
    schema = Schema((Variable("a", ("x", "y")), Variable("b", ("u", "v"))))
    certain = tw.JointPMF([1.0], [[[1.0], [0.0]], [[0.5], [0.5]]], schema)
    assert np.isnan(ask(certain, "P(b | a)")["y", "u"])
    assert np.isnan(ask(certain, "P(b = u | a)")["y"])
    assert ask(certain, "P(a = y | b)").array.tolist() == [0, 0]
    with pytest.raises(ImpossibleEvidenceError, match="a = y has probability 0"):
        ask(certain, "P(b | a = y)")


def test_what_no_category_meets_is_an_error(pmf):
    with pytest.raises(QuestionError, match=r"no category of 'rating' satisfies rating > 5: it has 1, 2, …, 5"):
        ask(pmf, "P(rating > 5)")
    with pytest.raises(QuestionError, match="'rating' exclude every category"):
        ask(pmf, "P(vote | rating > 4, rating < 2)")
    with pytest.raises(DataError, match="has no expected value"):
        ask(pmf, "E(vote)")


@given(data=st.data())
def test_probabilities_add_up_whatever_is_asked(data):
    pmf = data.draw(pmfs(schema=data.draw(schemas(min_variables=2))))
    first, second = pmf.schema.names[:2]
    label = data.draw(st.sampled_from(pmf.schema[first].categories))
    is_it = ask(pmf, f"P({question_word(first)} = {question_word(label)})")
    assert 0 <= is_it <= 1
    if len(pmf.schema[first]) > 1:
        assert is_it + ask(pmf, f"P({question_word(first)} != {question_word(label)})") == pytest.approx(1)
    table = ask(pmf, f"P({question_word(second)} | {question_word(first)})").array
    rows = table.sum(axis=1)
    assert np.all(np.isnan(rows) | np.isclose(rows, 1))


def test_conditions_alone():
    assert [str(term) for term in parse_terms("age != 40+, rating > 2", SCHEMA)] == ["age != 40+", "rating > 2"]
    with pytest.raises(QuestionError, match="'age' needs a value"):
        parse_terms("vote = yes, age", SCHEMA)
    with pytest.raises(QuestionError, match="expected ',' or the end"):
        parse_terms("vote = yes | age = 40+", SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["P(", "E(", "mode(", "H(", "I("]),
        ("M", ["mode("]),
        ("P(", ["vote", "age", "region", "rating", "genre", "'born in'"]),
        ("P(v", ["vote"]),
        ("P(vote | r", [" region", " rating"]),
        ("P(vote = ", [" no", " yes"]),
        ("P(vote != y", [" yes"]),
        ("P(rating >= ", [" 1", " 2", " 3", " 4", " 5"]),
        ("P(vote | region in {north, s", [" south"]),
        ("P(vote | region not in {", ["north", "east", "south"]),
        ("P('born in' = 'a", [" 'a, b'"]),
        ("P(born in = x", [" 'x = y'"]),
        ("P(nix = ", [" vote", " age", " region", " rating", " genre", " 'born in'"]),
    ],
)
def test_completion(text, expected):
    assert complete_question(text, SCHEMA) == expected


@pytest.mark.parametrize(
    "text",
    [
        "P(" + "x" * 10**6 + ")",
        "P(vote = " + "x" * 10**6 + ")",
        "P(vote" + " " * 10**6 + "?",
        "x" * 10**6,
        "P(vote, " + "vote, " * 10**5 + "vote)",
        "P('" + "\x1b" * 10**6,
        "P(vote) " + "x" * 10**6,
    ],
)
def test_a_long_question_is_shortened_in_errors(text):
    with pytest.raises(QuestionError) as raised:
        parse(text, SCHEMA)
    assert len(str(raised.value)) < 5000
    line, mark = str(raised.value).splitlines()[-2:]
    assert mark.strip(" ").strip("^") == ""
    assert len(mark) <= len(line) + 1


def test_the_mark_stays_below_the_place_in_a_long_question():
    known = ", ".join(["vote = yes"] * 100)
    with pytest.raises(QuestionError) as raised:
        parse(f"P(vote | {known}, nix = 3, {known})", SCHEMA)
    line, mark = str(raised.value).splitlines()[-2:]
    assert line[mark.index("^") : mark.rindex("^") + 1] == "nix"


def test_expectations_for_each_group(pmf):
    """Each cell is the expectation given its labels; bins and numbers have one, text has none."""
    found = ask(pmf, "E(rating | vote, genre)")
    assert found.names == ("vote", "genre")
    for vote in ("no", "yes"):
        for genre in ("drama", "comedy"):
            assert found[vote, genre] == pytest.approx(pmf.given({"vote": vote, "genre": genre}).expect("rating"))
    within = ask(pmf, "E(rating | vote, age = 40+)")
    assert within["yes"] == pytest.approx(pmf.given({"vote": "yes", "age": "40+"}).expect("rating"))
    assert repr(within).splitlines()[0].split() == ["vote", "expectation"]
    assert within.to_frame().columns.tolist() == ["vote", "expectation"]
    with pytest.raises(DataError, match="'age' has no expected value"):
        ask(pmf, "E(age | vote)")
    with pytest.raises(QuestionError, match="duplicate variable"):
        ask(pmf, "E(rating | rating)")


def test_the_expectation_of_a_group_that_cannot_occur_is_none():
    schema = Schema((Variable("a", ("x", "y")), Variable("b", (1, 2))))
    found = ask(tw.JointPMF([1.0], [[[1.0], [0.0]], [[0.5], [0.5]]], schema), "E(b | a)")
    assert found["x"] == 1.5
    assert math.isnan(found["y"])


@pytest.mark.parametrize("days", [("30.03.2024", "31.12.2023"), ("03/30/2024", "12/31/2023"), ("3-1-24", "12-1-23")])
def test_dates_that_begin_with_the_day_are_not_compared_as_text(days):
    schema = tw.Schema((tw.Variable("day", days),))
    model = random_pmf(schema, 1)
    with pytest.raises(QuestionError, match="no declared order"):
        ask(model, f"P(day >= {days[0]})")


def test_a_declared_order_comes_before_the_order_of_values():
    schema = tw.Schema((tw.Variable("x", ("low", "top", "mid"), (1.0, 9.0, 5.0), ordered=True),))
    model = random_pmf(schema, 1)
    assert ask(model, "P(x >= top)") == pytest.approx(model.prob({"x": ["top", "mid"]}))
    assert ask(model, "P(x >= 6)") == pytest.approx(model.prob({"x": "top"}))
