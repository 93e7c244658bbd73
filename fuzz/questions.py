"""Questions: an answer, or an error that shows the place; what was read prints as text that reads back as the same."""

from __future__ import annotations

import numpy as np

from twoway.data.distribution import Distribution
from twoway.errors import TwowayError
from twoway.model.mode import Mode
from twoway.model.pmf import JointPMF
from twoway.questions.answer import ask
from twoway.questions.language import complete_question, parse, parse_terms
from twoway.questions.question import Contrast
from twoway.schema import Schema, Variable

SCHEMA = Schema(
    (
        Variable("vote", ("no", "yes")),
        Variable("age", ("18-29", "30-39", "40+")),
        Variable("rating", (1, 2, 3, 4.5)),
        Variable("born in", ("a, b", "it's", "4", 4, True, "True", "x = y", "\x1b[31m", "")),
        Variable("\\ '\"", ("not in", "\n", "\\n", " ")),
    )
)


def _pmf() -> JointPMF:
    random = np.random.default_rng(0)
    factors = [random.dirichlet(np.ones(len(variable)), 2).T for variable in SCHEMA]
    factors[1][2] = 0.0  # something impossible to ask for
    factors[1] /= factors[1].sum(axis=0)
    return JointPMF([0.25, 0.75], factors, SCHEMA)


PMF = _pmf()


def check(data: bytes) -> None:
    """Raise where a text is neither refused with its place nor answered."""
    text = data.decode("utf-8", "surrogateescape")
    complete_question(text, SCHEMA)
    for read in (parse, parse_terms):
        try:
            read(text, SCHEMA)
        except TwowayError as error:
            told, shown, marks = str(error).split("\n")
            assert told.isprintable()
            assert shown.isprintable()
            assert set(marks) == {" ", "^"}
    try:
        question = parse(text, SCHEMA)
    except TwowayError:
        return
    printed = str(question)
    assert printed.isprintable()
    assert str(parse(printed, SCHEMA)) == printed
    try:
        answer = ask(PMF, question)
    except TwowayError as error:
        assert str(error).isprintable()
        return
    if not isinstance(question, Contrast):
        _check_answer(question.kind, answer)
    repr(answer)


def _check_answer(kind: str, answer: object) -> None:
    if isinstance(answer, Distribution):
        shares = answer.array[~np.isnan(answer.array) & (kind == "P")]  # a group that cannot occur has no shares
        assert (shares >= 0).all()
        assert (shares <= 1 + 1e-9).all()
    elif isinstance(answer, Mode):
        assert 0 <= answer.probability <= 1
    else:
        assert isinstance(answer, float)
        assert np.isfinite(answer)
        assert kind == "E" or answer >= 0
        assert kind != "P" or answer <= 1
