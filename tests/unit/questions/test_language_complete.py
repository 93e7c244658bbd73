"""Completion of questions in the command line."""

import pytest

from twoway.questions.language import complete_question, parse
from twoway.questions.question import question_word
from twoway.schema import Schema, Variable

SCHEMA = Schema((Variable("vote", ("no", "yes")), Variable("XXage", ("Xa", "b")), Variable("stars", (1, 2, 3))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P(vote = no, vo", [" vote"]),
        ("P(vote = no, stars = 1 | XXage = ", [" Xa", " b"]),
        ("P(", ["vote", "XXage", "stars"]),
        ("P(X", ["XXage"]),
        ("P('X", ["XXage"]),
        ("P(vote | 'XXage' = X", [" Xa"]),
        ("X", []),
        ("", ["P(", "E(", "H(", "I(", "mode("]),
    ],
)
def test_completion(text, expected):
    assert sorted(complete_question(text, SCHEMA)) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P(vote in {no, yes}, XXage in {", ["Xa", "b"]),
        ("P(XXage not in {Xa, ", [" Xa", " b"]),
        ("P(vote in {no}, ", [" vote", " XXage", " stars"]),
    ],
)
def test_completion_in_lists(text, expected):
    assert complete_question(text, SCHEMA) == expected


@pytest.mark.parametrize("label", ["'x", '"x', "'", "''", "x'", "in", "a in", "a!", "=", "1", "-1e3", "TRUE", " a", ""])
def test_labels_that_need_quotes_are_read_back(label):
    schema = Schema((Variable("v", (label, "other")),))
    question = parse(f"P(v = {question_word(label)})", schema)
    assert question.targets[0].labels == (label,)
    assert parse(str(question), schema) == question
    assert complete_question("P(v = ", schema)[0] == f" {question_word(label)}"
