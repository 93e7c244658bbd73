"""What objects show at a prompt and in notebooks."""

from html.parser import HTMLParser

import nbclient
import nbformat
import numpy as np
import pytest

import twoway as tw
from twoway.notebook import notebook_table, notebook_text

HOSTILE = "<script>x</script>"
RECORDS = {
    "age": ["young", "old", "old", HOSTILE] * 10,
    "vote": ["no", "yes", None, "yes"] * 10,
    "city": ["Bonn", "Rome", "Rome", "Oslo"] * 10,
}
NOTEBOOK = """import twoway as tw
pmf = tw.fit({"age": ["young", "old", "old"] * 9, "vote": ["no", "yes", "no"] * 9}, rank=2, monitor=True)
pmf
---
pmf.marginal(["age", "vote"])
---
pmf.report
---
tw.explore(pmf)"""


@pytest.fixture(scope="module")
def shown():
    pmf = tw.fit(RECORDS, rank=2, starts=1)
    tables = tw.count(RECORDS)
    return {
        "model": pmf,
        "variable": pmf.marginal("age"),
        "cross-tab": pmf.marginal(["age", "vote"]),
        "three": pmf.marginal(["age", "vote", "city"]),
        "tables": tables,
        "report": pmf.report,
        "check": pmf.report.check,
        "quality": tw.fit_quality(pmf, tables),
        "diagnosis": tw.diagnose(pmf),
        "comparison": tw.compare(pmf, pmf),
        "intervals": tw.bootstrap(pmf, RECORDS, n=20).marginal("vote"),
        "page": tw.explore(pmf),
        "records": tw.Records(RECORDS),
        "schema": pmf.schema,
        "columns": tw.Columns({HOSTILE: {"missing": [9]}}),
        "column": tw.Columns({"a": {"categories": {code: f"label {code}" for code in range(500)}}})["a"],
        "observed": tw.observed(pmf, "P(age | city)"),
        "mode": pmf.mode(),
    }


class Reader(HTMLParser):
    """Collects the text, and finds tags that are not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.scripts = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.scripts += tag == "script"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_texts_are_short(shown):
    for name, value in shown.items():
        text = repr(value)
        assert len(text.splitlines()) <= 40, name
        assert len(text) <= 4000, name


def test_notebooks_show_tables_with_labels_as_text(shown):
    for name, value in shown.items():
        reader = Reader()
        reader.feed(value._repr_html_())
        assert reader.open == [], name
        assert reader.scripts == 0, name
        if name in ("variable", "cross-tab", "three"):
            assert HOSTILE in " ".join(reader.text), name


def test_bars_are_as_long_as_numbers():
    table = notebook_table([["vote", "probability"], ["no", "0.25"], ["yes", "–"]], [[0.25], [np.nan]])
    assert "25.0%" in table
    assert table.count("gradient") == 1


def test_long_text_is_cut():
    assert notebook_text("short\ntext") == "short\ntext"
    assert len(notebook_text("word " * 10_000)) == 4000


def test_many_rows_are_cut():
    tables = tw.count({f"x{n:02}": ["a", "b"] for n in range(12)})
    assert "46 more tables" in tables._repr_html_()
    pmf = tw.fit({f"x{n:02}": ["a", "b"] for n in range(30)}, rank=1)
    assert "10 more variables" in pmf._repr_html_()


@pytest.mark.slow
def test_a_notebook_runs_without_a_warning():
    cells = [nbformat.v4.new_code_cell(cell) for cell in NOTEBOOK.split("---\n")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert [output.get("name") for output in outputs if output.output_type == "stream"] == []
    pages = [output.data["text/html"] for output in outputs if output.output_type == "execute_result"]
    assert [page.partition(" ")[0].partition(">")[0] for page in pages] == ["<p", "<table", "<pre", "<iframe"]


def test_wide_data_show_little_text():
    frame = {f"question {n}": [f"{n} {label % 12}" for label in range(60)] for n in range(60)}
    records = tw.Records(frame)
    pmf = tw.fit(records, rank=1, smoothing=0.5)
    shown = (
        records.schema,
        records.schema.variables[0],
        pmf.counts,
        pmf.trees,
        pmf.mode(),
        tw.surprises(pmf, frame, n=1),
    )
    for value in shown:
        assert len(repr(value)) <= 4000, type(value)
        assert len(repr(value).splitlines()) <= 40, type(value)
    assert "40 more variables" in records._repr_html_()
    assert "40 more variables" in pmf.mode()._repr_html_()
    assert repr(tw.Variable("a", ("x",))) == "Variable(name='a', categories=('x',), values=None)"
    assert repr(tw.Columns({"a": {"missing": [9]}})) == "[columns.a]\nmissing = [9]"
    assert repr(tw.Columns({"a": {"missing": [9]}})["a"]) == "Column(missing=(9,))"
    assert str(tw.observed(tw.fit({"x": ["a", "a", "b"]}, rank=1), "P(x = a)")) == "observed  records\n0.6667    3"
