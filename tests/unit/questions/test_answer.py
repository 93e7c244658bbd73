"""Answers to questions: conditions as text, and differences of large entropies."""

import numpy as np
import pytest

from twoway.datasets import dirichlet_rows
from twoway.errors import QuestionError
from twoway.model.pmf import JointPMF
from twoway.questions import ask
from twoway.questions.conditions import model_given_conditions
from twoway.schema import Schema, Variable

SCHEMA = Schema((Variable("vote", ("no", "yes")), Variable("XXage", ("Xa", "b")), Variable("stars", (1, 2, 3))))


def test_conditions_as_text():
    pmf = JointPMF([0.5, 0.5], [[[0.9, 0.2], [0.1, 0.8]], np.eye(2), np.ones((3, 2)) / 3], SCHEMA)
    assert model_given_conditions(pmf, " \t") is pmf
    assert model_given_conditions(pmf, "XXage = Xa").prob({"vote": "no"}) == pytest.approx(0.9)
    with pytest.raises(QuestionError, match="no variable 'nix'"):
        model_given_conditions(pmf, "nix = 1")
    with pytest.raises(QuestionError, match="no category 'maybe' of 'vote'"):
        model_given_conditions(pmf, "vote = maybe")


def test_what_is_left_of_a_large_entropy_is_an_estimate_with_its_error():
    pmf = dirichlet_rows(60, 4, 3, seed=1)
    names = ", ".join(pmf.schema.names[:-1])
    known = pmf.schema.names[-1]
    answer = ask(pmf, f"H({names} | {known})")
    whole, part = pmf.entropy([*pmf.schema.names[:-1], known]), pmf.entropy([known])
    assert float(answer) == pytest.approx(whole - part)
    assert answer.standard_error == np.hypot(whole.standard_error, part.standard_error) > 0
