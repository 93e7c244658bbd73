"""Hostile names and labels reach terminals, pages, file names and programs only as text."""

import csv
import os

import numpy as np
import pandas as pd
import pytest
from hostile import ASKED, HOSTILE, hostile_frame, is_safe

import twoway as tw
from twoway.data.files import writing
from twoway.errors import TwowayError
from twoway.explorer.page import describe_page, render_page
from twoway.questions.language import parse
from twoway.questions.question import Question, Term
from twoway.schema import Schema, Variable
from twoway.text import escaped

# "" and " " are text that means "not observed" unless other text does.


@pytest.fixture(scope="module")
def records():
    return tw.Records(hostile_frame())


@pytest.fixture(scope="module")
def pmf(records):
    return tw.fit(records, rank=2, solver="em", starts=1)


def test_the_helper_can_fail():
    assert is_safe("a\nb ✓")
    for text in ("\x1b", "\x07", "\u202e", "\x9b", "\r", "\u2028"):
        assert not is_safe(text)
        assert is_safe(escaped(text))


def test_printed_text_is_escaped(pmf, records):
    tables = tw.count(records)
    fitted = tw.fit(tables, rank=2, solver="coupled-nmf", starts=1)
    first, second = pmf.schema.names[:2]
    boot = tw.bootstrap(pmf, records, n=20, threads=1)
    shown = [
        repr(pmf),
        str(pmf.report),
        str(fitted.report),
        repr(records),
        repr(tables),
        *(repr(pmf.marginal([name, first])) for name in pmf.schema.names[1:]),
        *(repr(pmf.marginal(name)) for name in pmf.schema.names),
        repr(pmf.marginal(pmf.schema.names[:3])),
        repr(pmf.mode([first, second])),
        repr(boot),
        repr(boot.marginal([first, second])),
        repr(boot.mode([first, second])),
        str(tw.fit_quality(pmf, records)),
        str(tw.diagnose(tables, 2)),
        *(str(Question("P", (Term(name, "=", (HOSTILE[0],)),))) for name in pmf.schema.names),
    ]
    for text in shown:
        assert is_safe(text), ascii(text[:200])


MISTAKES = {
    "an unknown variable": lambda pmf, text: pmf.prob({text + "?": 1}),
    "an unknown category": lambda pmf, text: pmf.prob({ASKED: text + "?"}),
    "a question": lambda pmf, text: parse(f"P({text!r} = 1)", pmf.schema),
    "a question as it is": lambda pmf, text: parse(f"P({text}?", pmf.schema),
    "a solver": lambda pmf, text: tw.fit({"a": [1, 2]}, solver=text),
    "a file": lambda pmf, text: tw.load(f"{text[:50]}?".replace("\0", "")),
    "records of a file": lambda pmf, text: tw.Records(f"{text[:50]}?.csv"),
    "a way to impute": lambda pmf, text: pmf.impute(hostile_frame(2), how=text),
    "a category twice": lambda pmf, text: Variable(text, (text, text)),
    "a name twice": lambda pmf, text: Schema((Variable(text, (1,)), Variable(text, (1,)))),
    "no category": lambda pmf, text: Variable(text, ()),
    "no table": lambda pmf, text: tw.count({text: [1], "b": [2]})[text, "c"],
    "a table of another shape": lambda pmf, text: tw.Distribution((Variable(text, (1, 2)),), [1.0]),
    "a pair never seen": lambda pmf, text: tw.Records({text: [1, None], "b": [None, 2]}).marginal([text, "b"]),
    "impossible evidence": lambda pmf, text: tw.JointPMF(
        [1.0], [[[1.0], [0.0]]], Schema((Variable(text, (1, 2)),))
    ).given({text: 2}),
    "no number": lambda pmf, text: tw.JointPMF([1.0], [[[1.0]]], Schema((Variable(text, ("x",)),))).expect(text),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[1:20])
def test_what_errors_say(mistake, text, pmf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TwowayError) as caught:
        MISTAKES[mistake](pmf, text)
    assert is_safe(str(caught.value))
    assert len(str(caught.value)) < 200_000
    assert os.listdir(tmp_path) == []


def test_the_page_holds_labels_as_data_only(pmf):
    page = render_page(describe_page(pmf, HOSTILE[0]))
    plain = render_page(describe_page(tw.datasets.dirichlet_rows(3, 2, 2), "title"))
    for tag in ("<script", "</script", "<img", "<svg", "<style", "</style"):
        assert page.count(tag) == plain.count(tag), tag
    assert "{{ 7 * 7 }}" in page
    assert "49 $" not in page


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_data_files_hold_labels_as_they_are(ending, pmf, records, tmp_path):
    """Also formulas: a file that changed them could not be read back. The documentation says so."""
    drawn = pmf.sample(30, seed=1, library="pyarrow")
    path = tmp_path / f"drawn.{ending}"
    writing.write_data_file(drawn, path)
    again = tw.Records(path, schema=pmf.schema)
    expected = tw.Records(drawn, schema=pmf.schema).codes()
    if ending in ("csv", "tsv"):  # where an empty cell is a hole, whatever was meant
        for index, variable in enumerate(pmf.schema):
            expected[expected[:, index] == variable.find(""), index] = -1
    np.testing.assert_array_equal(again.codes(), expected)
    assert os.listdir(tmp_path) == [path.name]


def test_a_spreadsheet_program_reads_the_same_cells(pmf, tmp_path):
    path = tmp_path / "drawn.csv"
    writing.write_data_file(pmf.sample(20, seed=2, library="pyarrow"), path)
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    frame = pmf.sample(20, seed=2)
    assert rows[0] == list(frame.columns)
    assert rows[1:] == frame.to_numpy().tolist()


def test_holes_are_filled_with_hostile_labels(pmf):
    frame = hostile_frame(20, seed=3)
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.3)
    # Text that means "not observed" is a hole, too.
    holes = holes.where(~holes.isin(["", " ", "\t", "nan"]))
    filled = pmf.impute(holes)
    assert filled.notna().all().all()
    pd.testing.assert_frame_equal(filled.where(holes.notna()), holes, check_dtype=False)


NAMES = ("a[1]", "a*", "a?", "-rf", "$(touch pwned)", "a b", "a'b", 'a"b', "a;b", "{x}", "\x1b[31m", "ä")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_names_of_files_are_names_and_not_patterns(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writing.write_data_file(pd_table("other"), f"a1.{ending}")
    for name in NAMES:
        writing.write_data_file(pd_table("own"), f"{name}.{ending}")
        assert tw.Records(f"{name}.{ending}").schema["a"].categories == ("own",), name
        assert tw.count(f"{name}.{ending}").schema["a"].categories == ("own",), name
    assert len(os.listdir(tmp_path)) == len(NAMES) + 1


def pd_table(label):
    import pyarrow as pa

    return pa.table({"a": [label, label], "b": ["x", "y"]})
