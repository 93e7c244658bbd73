"""Variables and schemas: what counts as one category, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import LABELS, examples, schemas

from twoway.category_labels import label_key, plain_label, sort_labels
from twoway.errors import DataError, UnknownNameError
from twoway.schema import Schema, Variable

AGE, VOTE, RATING = Variable("age", ("young", "old")), Variable("vote", ("no", "yes")), Variable("rating", (1, 2, 3))
SCHEMA = Schema((AGE, VOTE, RATING))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, np.int8(1), True),
        (1, np.float32(1), True),
        (2.5, np.float64(2.5), True),
        ("1", 1, False),
        (True, 1, False),
        (True, np.True_, True),
        (False, 0, False),
        ("a", np.str_("a"), True),
        ("a", "A", False),
        ("a", "a ", False),
    ],
)
def test_numbers_match_by_value_and_text_only_as_text(one, other, same):
    assert (label_key(one) == label_key(other)) is same
    assert (Variable("v", (one,)).find(other) == 0) is same


@pytest.mark.parametrize("label", [None, b"a", (1,), [1], object()])
def test_what_is_no_label(label):
    with pytest.raises(DataError, match="a category must be"):
        label_key(label)


@pytest.mark.parametrize("label", [float("nan"), float("inf"), -np.inf])
def test_numbers_are_finite(label):
    with pytest.raises(DataError, match="finite"):
        plain_label(label)


def test_labels_become_plain_python():
    plain = Variable("v", (np.float64(2.0), np.int16(3), np.str_("x"), np.bool_(True), 0.5)).categories
    assert plain == (2, 3, "x", True, 0.5)
    assert [type(label) for label in plain] == [int, int, str, bool, float]


@given(st.lists(st.sampled_from(LABELS), unique_by=label_key))
@examples(40)
def test_natural_order(labels):
    ordered = sort_labels(labels)
    assert sorted(map(repr, ordered)) == sorted(map(repr, labels))
    kinds = [("truth", "number", "text").index(label_key(label)[0]) for label in ordered]
    assert kinds == sorted(kinds)
    for kind in range(3):
        of_kind = [label for label, one in zip(ordered, kinds, strict=True) if one == kind]
        assert of_kind == sorted(of_kind)


def test_values_are_the_numbers_unless_given():
    assert RATING.values == (1.0, 2.0, 3.0)
    assert VOTE.values is None
    assert Variable("b", (False, True)).values == (0.0, 1.0)
    assert Variable("mixed", (1, "1")).values is None
    assert Variable("vote", ("no", "yes"), (0, 1)).values == (0.0, 1.0)
    assert Variable("rating", (1, 2), (10, 20)).values == (10.0, 20.0)


@pytest.mark.parametrize("values", [(1.0,), (1.0, float("nan")), (1.0, float("inf")), (1.0, 2.0, 3.0)])
def test_values_must_be_one_finite_number_per_category(values):
    with pytest.raises(DataError, match="'vote' needs 2 finite values"):
        Variable("vote", ("no", "yes"), values)


@pytest.mark.parametrize("categories", [("a", "b", "a"), (1, 1.0), (np.int64(2), 2)])
def test_a_category_is_there_once(categories):
    with pytest.raises(DataError, match="'v' has a duplicate category"):
        Variable("v", categories)


def test_a_variable_needs_a_text_name_and_a_category():
    with pytest.raises(DataError, match="must be text, not 3"):
        Variable(3, ("a",))
    with pytest.raises(DataError, match="'v' has no categories"):
        Variable("v", ())


def test_near_misses():
    with pytest.raises(
        UnknownNameError, match=r"no category 'yess' of 'vote'; did you mean 'yes'\? known: 'no', 'yes'"
    ):
        VOTE.code("yess")
    with pytest.raises(UnknownNameError, match="did you mean the int 1"):
        RATING.code("1")
    with pytest.raises(
        UnknownNameError, match=r"no variable 'vot'; did you mean 'vote'\? known: 'age', 'vote', 'rating'"
    ):
        SCHEMA.index("vot")
    with pytest.raises(UnknownNameError, match="no variable 1"):
        SCHEMA.index(1)
    assert VOTE.find("yess") is None


def test_cells_are_numbered_through():
    assert SCHEMA.names == ("age", "vote", "rating")
    assert SCHEMA.sizes == (2, 2, 3)
    assert SCHEMA.offsets.tolist() == [0, 2, 4, 7]
    assert SCHEMA.n_categories == 7
    assert SCHEMA.cells(2) == slice(4, 7)
    assert list(SCHEMA) == [AGE, VOTE, RATING]
    assert SCHEMA["vote"] is VOTE
    assert "vote" in SCHEMA
    assert "vot" not in SCHEMA


def test_subset_keeps_the_order_asked_for():
    assert SCHEMA.subset(["rating", "age"]).names == ("rating", "age")
    assert SCHEMA.indices("vote") == [1]
    with pytest.raises(DataError, match="duplicate variable"):
        SCHEMA.subset(["age", "age"])
    with pytest.raises(UnknownNameError, match="no variable 'ages'"):
        SCHEMA.subset(["ages"])


def test_names_differ_and_there_is_one():
    with pytest.raises(DataError, match="duplicate column name 'age'"):
        Schema((AGE, VOTE, AGE))
    with pytest.raises(DataError, match="at least one variable"):
        Schema(())


@given(schemas())
@examples(40)
def test_to_dict_and_back(schema):
    again = Schema.from_dict(schema.to_dict())
    assert again == schema
    # 1 == True in Python, but they are two categories.
    for one, other in zip(again, schema, strict=True):
        assert [label_key(label) for label in one.categories] == [label_key(label) for label in other.categories]
        assert one.values == other.values


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10-14", "5-9", "0-4"], ["0-4", "5-9", "10-14"]),
        (["$10,000", "$0-$9,999", "$100"], ["$0-$9,999", "$10,000", "$100"]),
        (["x10", "x2", "x02", "x"], ["x", "x02", "x2", "x10"]),
        (["b", True, 2, "a1", 1.5, False], [False, True, 1.5, 2, "a1", "b"]),
        (["1" + "0" * 5000, "9" * 4999, "٣", "1"], ["1", "9" * 4999, "1" + "0" * 5000, "٣"]),
    ],
)
def test_numbers_within_text_are_sorted_by_size(labels, expected):
    assert sort_labels(labels) == expected
    assert sort_labels(reversed(labels)) == expected


@pytest.mark.parametrize("make", [lambda text: Variable(text, (1, 2)), lambda text: Variable("a", ("b", text))])
def test_half_of_a_surrogate_pair_is_refused_as_name_and_category(make):
    for half in ("\ud800", "before \udfff behind"):
        with pytest.raises(DataError, match="surrogate"):
            make(half)
    make("🦆")
