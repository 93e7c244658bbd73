"""What a fit learned, as plain data."""

import json

import pytest

import twoway as tw

RECORDS = tw.Records({"sky": ["grey", "blue", "blue", "grey"], "rain": ["yes", "no", None, "yes"], "id": [1, 2, 3, 4]})


def test_records():
    pmf = tw.fit(RECORDS, rank=2, smoothing=1.0)
    summary = tw.summarize(pmf, RECORDS)
    assert (summary["records"], summary["cells"], summary["holes"]) == (4, 12, 1)
    assert summary["log_likelihood_per_record"] == pytest.approx(pmf.report.log_likelihood / 4)
    strongest = summary["strongest"][0]
    assert strongest["nats"] == pytest.approx(pmf.mutual_information(*strongest["variables"]))
    assert "tables" not in summary
    json.dumps(summary)


def test_tables_and_many_categories():
    tables = tw.count({"number": list(range(41)) * 2, "text": [f"t{n}" for n in range(41)] * 2})
    summary = tw.summarize(tw.fit(tables, rank=1, smoothing=1.0), tables)
    assert summary["tables"] == 1
    assert summary["worst_fit"][0]["variables"] == ["number", "text"]
    assert summary["many_categories"] == {"number": True, "text": False}
    assert "records" not in summary


def test_a_model_without_a_report():
    with pytest.raises(tw.DataError, match="report"):
        tw.summarize(tw.JointPMF([1.0], [[[1.0]]], tw.Schema((tw.Variable("a", ("x",)),))), RECORDS)
