"""Files of version 1 load and answer the same: their labels tell where bins meet."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.errors import QuestionError

FILES = Path(__file__).parents[2] / "files"


@pytest.fixture
def pmf():
    return tw.load(FILES / "version-1.twoway")


def test_a_model_answers_as_it_did(pmf):
    """The numbers are those that version 1 of the code printed for this file."""
    assert tw.ask(pmf, "P(age >= 45)") == pytest.approx(0.6944519379673159, abs=1e-14)
    assert tw.ask(pmf, "P(vote = yes | age < 30)") == pytest.approx(0.27881260230933497, abs=1e-14)
    assert tw.ask(pmf, "P(income >= 15.7)") == pytest.approx(0.6704023514146261, abs=1e-14)
    assert tw.ask(pmf, "E(age)") == pytest.approx(56.808810113330495, abs=1e-12)
    assert tw.ask(pmf, "P(span > 30)") == pytest.approx(0.8395103657896523, abs=1e-14)
    with pytest.raises(QuestionError, match=r"30, 45, 60: ask for age < 45 or age < 60"):
        tw.ask(pmf, "P(age <= 45)")
    with pytest.raises(QuestionError, match=r"ask for income >= 15\.7 or income >= 24\.1"):
        tw.ask(pmf, "P(income >= 18)")
    with pytest.raises(QuestionError, match=r"ask for span > 30$"):
        tw.ask(pmf, "P(span >= 30)")


def test_its_bins_read_numbers(pmf):
    assert pmf.schema["age"].edges == (30, 45, 60)
    frame = pd.DataFrame({"age": [20, 44.9, 45, None], "vote": ["yes", "no", None, "yes"]})
    expected = [-3.14596219, -2.2158142, -1.63762907, -0.77690165]
    np.testing.assert_allclose(pmf.log_prob(frame), expected, atol=1e-8)


def test_it_is_saved_in_the_new_version(pmf, tmp_path):
    pmf.save(tmp_path / "new.twoway")
    again = tw.load(tmp_path / "new.twoway")
    assert again.schema == pmf.schema
    np.testing.assert_array_equal(again.stacked, pmf.stacked)


def test_tables_keep_their_bins():
    tables = tw.Tables.load(FILES / "version-1.tables")
    assert tables.schema["age"].edges == (30, 45, 60)
    share = tables.marginal("age").array[2:].sum() / tables.marginal("age").array.sum()
    assert tw.ask(tw.fit(tables, rank=2, smoothing=1.0), "P(age >= 45)") == pytest.approx(share, abs=0.05)
