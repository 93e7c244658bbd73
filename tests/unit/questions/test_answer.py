"""Answers to questions: conditions as text, and differences of large entropies."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows
from twoway.errors import QuestionError
from twoway.model.pmf import JointPMF
from twoway.questions.answer import ask
from twoway.questions.conditions import model_given_conditions
from twoway.schema import Schema, Variable
from twoway.uncertainty.observed_tables import ObservedTables

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


def test_the_interval_of_an_entropy_is_in_the_unit_of_the_answer():
    frame = pd.DataFrame({"a": ["x", "y", "y"] * 40, "b": ["u", "v", "w", "w"] * 30})
    boot = tw.bootstrap(tw.fit(frame, rank=1, smoothing=1.0), frame, n=20)
    for question in ("H(a)", "H(a, b)"):
        nats, bits = ask(boot, question), ask(boot, question, base=2)
        in_bits = np.array([nats, nats.low, nats.high]) / np.log(2)
        np.testing.assert_allclose([bits, bits.low, bits.high], in_bits, rtol=1e-9)
        assert nats.low < nats < nats.high


def test_the_interval_of_a_probability_contains_all_that_tables_allow():
    """By votes, of which no table shows age and trust together, anything from nobody to 30 people may have both."""
    frames = {
        ("vote", "age"): pd.DataFrame([[30, 20], [10, 40]]),
        ("vote", "trust"): pd.DataFrame([[20, 30], [40, 10]]),
    }
    tables = tw.Tables.from_crosstabs(frames)
    pmf = JointPMF([1.0], [[[0.5], [0.5]], [[0.4], [0.6]], [[0.6], [0.4]]], tables.schema)
    observed = ObservedTables(tables, np.zeros(2), is_all=True)
    answer = ask(tw.Bootstrap(pmf, (pmf,) * 3, pmf, 0.9, observed=observed), "P(age = 1, trust = 1)")
    assert float(answer) == pytest.approx(0.24)
    assert answer.low == pytest.approx(0.0, abs=1e-9)
    assert answer.high >= 0.3
    assert "the interval contains all that the tables allow" in answer.note
