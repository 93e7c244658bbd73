"""An order that a frame declares reaches the questions; one that nobody declared does not."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import twoway as tw

OFTEN = ["never", "sometimes", "always"]
FRAME = pd.DataFrame({"sport": ["never", "always", "sometimes", "never"], "vote": ["a", "b", "b", "a"]})


def declared(ordered):
    return FRAME.assign(sport=pd.Categorical(FRAME.sport, OFTEN, ordered=ordered))


@pytest.mark.parametrize(
    ("frame", "is_ordered"),
    [
        (declared(ordered=True), True),
        (declared(ordered=False), False),
        (pl.from_pandas(FRAME).with_columns(pl.col("sport").cast(pl.Enum(OFTEN))), True),
        (pa.Table.from_pandas(declared(ordered=True)), True),
        (FRAME, False),
    ],
)
def test_the_order_of_a_frame_is_that_of_the_questions(frame, is_ordered):
    pmf = tw.fit(frame, rank=1, smoothing=0)
    assert pmf.schema["sport"].ordered == is_ordered
    assert tw.Schema.from_dict(pmf.schema.to_dict())["sport"].ordered == is_ordered
    if is_ordered:
        assert tw.ask(pmf, "P(sport <= sometimes)") == pytest.approx(0.75)
    else:
        with pytest.raises(tw.QuestionError, match="no declared order"):
            tw.ask(pmf, "P(sport <= sometimes)")


def test_a_new_category_ends_the_order_and_the_same_ones_keep_it():
    ordered = tw.Variable("sport", OFTEN, ordered=True)
    records = tw.Records({"sport": ["never", "daily"]}, schema=tw.Schema((ordered,)), unseen="extend")
    assert not records.schema["sport"].ordered
    both = tw.Tables.count(tw.Records(declared(ordered=True))) + tw.Tables.count(tw.Records(declared(ordered=False)))
    assert both.schema["sport"].ordered


def test_a_declared_order_of_numbers_counts():
    reversed_scale = tw.Variable("trust", (5, 4, 3), ordered=True)
    pmf = tw.JointPMF([1.0], [[[0.2], [0.3], [0.5]]], tw.Schema((reversed_scale,)))
    assert tw.ask(pmf, "P(trust <= 4)") == pytest.approx(0.5)  # 5 and 4 come first
    assert tw.ask(pmf, "P(trust >= 3.5)") == pytest.approx(0.5)  # not a category: by value


def test_numbers_at_the_start_of_text_are_an_order():
    assert tw.Variable("age", ("5-9", "10-14", "15+")).is_ordered
    assert not tw.Variable("age", ("10-14", "5-9")).is_ordered
    assert not tw.Variable("age", ("5-9", "10-14", "unknown")).is_ordered
