"""Properties of files of records: what is written reads back the same, for any names and labels."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import examples, frames, pmfs, schemas

import twoway as tw
from twoway.category_labels import label_key
from twoway.data.files import file_table as files
from twoway.data.files import writing
from twoway.data.frames import make_labelled_frame
from twoway.schema import Schema, Variable

pytestmark = pytest.mark.slow

# What a text file can hold: no half of a surrogate pair, no NUL.
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6),
    st.sampled_from(
        ["=1+1", "@SUM(A1)", '"', "'", ",", ";", "\t", "a\nb", "\r\n", "\r", " x ", "NA", "?", "\ufeff", "#"]
    ),
)
LABELS = {
    "text": TEXT,
    "numbers": st.one_of(st.integers(-(2**50), 2**50), st.floats(-1e9, 1e9).filter(lambda x: x != 0)),
    "truth": st.booleans(),
}


@st.composite
def any_schemas(draw):
    # Names are read without surrounding white space, a mark of UTF-8 before the first one is none of it, and a
    # carriage return within one is refused.
    name = TEXT.map(lambda text: text.strip("\ufeff").strip()).filter(lambda text: text and "\r" not in text)
    names = draw(st.lists(name, min_size=1, max_size=3, unique=True))
    kind = st.sampled_from(list(LABELS))
    return Schema(
        tuple(
            Variable(name, tuple(draw(st.lists(LABELS[draw(kind)], min_size=1, max_size=4, unique_by=label_key))))
            for name in names
        )
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@given(data=st.data())
@examples(30)
def test_records_that_were_written_read_back(ending, data):
    schema = data.draw(any_schemas())
    n = data.draw(st.integers(1, 5))
    codes = [np.array(data.draw(st.lists(st.integers(0, len(v) - 1), min_size=n, max_size=n))) for v in schema]
    table = make_labelled_frame(schema.variables, codes, "pyarrow")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"records.{ending}"
        writing.write_data_file(table, path)
        assert files.find_files(path).columns == list(schema.names)
        read = tw.Records(path, schema=schema, missing=tw.MissingLabels(only=True))
    np.testing.assert_array_equal(read.codes(), np.column_stack(codes))


@given(data=st.data())
@examples(30)
def test_every_frame_library_gives_the_same_result(data):
    schema = data.draw(schemas(kinds=(("no", "yes", "1", "ä"), (0, 1, -3), (0.5, 2.5), (True, False))))
    pmf = data.draw(pmfs(schema))
    seed, n = data.draw(st.integers(0, 99)), data.draw(st.integers(0, 6))
    drawn = [
        tw.Records(pmf.sample(n, seed=seed, library=library), schema=schema)
        for library in ("pandas", "polars", "pyarrow")
    ]
    for one in drawn[1:]:
        np.testing.assert_array_equal(one.codes(), drawn[0].codes())


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@given(data=st.data())
@examples(15)
def test_counting_a_file_is_counting_its_frame(ending, data):
    schema = data.draw(schemas(kinds=(("no", "yes", "maybe"), (0, 1, 2.5), (True, False)), min_variables=2))
    frame = data.draw(frames(schema))
    assume(len(frame) > 0)
    records = tw.Records(frame, schema=schema)
    table = make_labelled_frame(
        schema.variables, [np.where(column < 0, 0, column) for column in records.codes().T], "pyarrow"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"records.{ending}"
        writing.write_data_file(table, path)
        whole = tw.Records(table, schema=schema)
        assert tw.count(tw.Records(path, schema=schema)) == tw.count(whole)
