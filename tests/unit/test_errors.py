"""Errors name what is wrong, where, the value found and what is allowed."""

import math

import numpy as np
import pytest

from twoway import errors
from twoway.errors import check_number, near_miss, unknown_name
from twoway.text import shortlist, text_beside


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.DataError, ValueError),
        (errors.UnknownNameError, KeyError),
        (errors.ImpossibleEvidenceError, ValueError),
        (errors.FileFormatError, ValueError),
        (errors.MissingFileError, FileNotFoundError),
    ],
)
def test_every_error_is_the_packages_and_pythons(kind, also):
    assert issubclass(kind, errors.TwowayError)
    assert issubclass(kind, also)
    assert str(kind("what, where")) == "what, where"


def test_unknown_name_prints_its_message_unquoted():
    assert str(errors.UnknownNameError("no 'x'\n")) == "no 'x'\n"
    assert str(errors.UnknownNameError()) == ""


def test_near_misses():
    assert near_miss("vot", ["age", "vote"]) == "; did you mean 'vote'?"
    assert near_miss(" Vote ", ["age", "vote"]) == "; did you mean 'vote'?"
    assert near_miss("zzz", ["age", "vote"]) == ";"
    assert near_miss(1, ["1", "2"]) == "; did you mean the text '1'?"
    assert near_miss("1", [1, 2]) == "; did you mean the int 1?"
    assert near_miss("x", []) == ";"


def test_type_is_named_only_where_it_is_all_that_differs():
    assert text_beside("1", beside=1) == "the text '1'"
    assert text_beside("1", beside="2") == "'1'"
    assert text_beside(1, beside="a") == "1"


@pytest.mark.parametrize(
    "value", [0.5, 1, np.float32(0.25), np.array(0.5), "1/2", None, True, math.nan, 10**400, [0.5]]
)
def test_a_number_option_is_a_number_within_its_limits(value):
    if isinstance(value, float | np.float32 | np.ndarray) and value == value:
        assert check_number("share", value, "a share", lambda share: 0 < share < 1) == float(value)
        return
    with pytest.raises(errors.DataError, match="share must be a share, not "):
        check_number("share", value, "a share", lambda share: 0 < share < 1)


def test_long_lists_are_cut():
    assert shortlist("abc") == "'a', 'b', 'c'"
    assert shortlist(range(20), limit=3) == "0, 1, 2, … (17 more)"
    assert shortlist([]) == ""


def test_unknown_gives_the_near_miss_and_the_known_names():
    assert str(unknown_name("category", "yess", ["no", "yes"], where=" of 'vote'")) == (
        "no category 'yess' of 'vote'; did you mean 'yes'? known: 'no', 'yes'"
    )


@pytest.mark.parametrize("value", [np.array([1]), np.array([[2]]), 1.0, "1", True, None])
def test_what_is_not_a_whole_number_is_an_error(value):
    with pytest.raises(errors.DataError, match="n must be a whole number of at least 1, not"):
        errors.check_whole_number("n", value, 1)


def test_whole_numbers_of_numpy_are_integers():
    numbers = [errors.check_whole_number("n", number, 1) for number in (np.int8(3), np.array(3))]
    assert numbers == [3, 3]
    assert {type(number) for number in numbers} == {int}
