"""The explorer's page as text; tests/browser covers its behavior."""

import base64
import hashlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from reference.replicates import decoded, unpack
from typer.testing import CliRunner

import twoway as tw
from twoway.cli.app import make_app
from twoway.datasets import dirichlet_rows
from twoway.errors import DataError
from twoway.explorer.page import describe_page, describe_page_replicates, page_labels, page_links, render_page
from twoway.model.pmf import JointPMF
from twoway.schema import Schema, Variable
from twoway.uncertainty.bootstrap import Bootstrap

PMF = dirichlet_rows(4, 3, 2)


def hostile_pmf():
    schema = Schema((Variable("</script><script>", ("\u2028", "<!--", "half")), Variable("it's", ('"', "'", "&"))))
    return JointPMF([0.5, 0.5], [np.full((3, 2), 1 / 3)] * 2, schema)


def read_model(page):
    return json.loads(re.search(r'<script type="application/json" id="model">(.*?)</script>', page, re.DOTALL).group(1))


def test_the_model_is_there_bit_by_bit():
    described = read_model(render_page(describe_page(PMF, "title")))
    numbers = np.concatenate([[1.0], PMF.weights, PMF.stacked.ravel()])
    assert described["numbers"]["kind"] == "f8"
    assert base64.b64decode(described["numbers"]["base64"]) == numbers.astype("<f8").tobytes()
    assert described["trees"] == [{"parents": [-1], "states": [2], "homes": [0] * 4}]
    assert [variable["name"] for variable in described["variables"]] == list(PMF.schema.names)
    assert described["variables"][0] == {"name": "x1", "categories": ["0", "1", "2"], "values": [0.0, 1.0, 2.0]}
    for a, b, information in described["links"]:
        expected = PMF.mutual_information(PMF.schema.names[a], PMF.schema.names[b])
        assert information == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert len(described["links"]) == 6


def test_labels_cannot_leave_the_data():
    pmf = hostile_pmf()
    page = render_page(describe_page(pmf, "</title><script>alert(1)</script>\ud800"))
    assert page.count("<script") == page.count("</script>") == 2
    assert page.count("<title>") == page.count("</title>") == 1
    assert "\u2028" not in page
    described = read_model(page)
    assert described["title"] == "</title><script>alert(1)</script>\ufffd"
    assert described["variables"][0]["name"] == "</script><script>"
    assert described["variables"][0]["categories"] == ["\u2028", "<!--", "half"]


def test_only_the_script_and_style_with_these_hashes_run():
    page = render_page(describe_page(PMF, "title"))
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL).group(1)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1).replace("&#39;", "'")
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    # Nothing is named that would be fetched.
    assert not re.search(r"""(src|href)=["'](?!data:)|@import|url\(""", page)


def test_texts_of_labels_differ():
    assert page_labels(Variable("v", ("a", 1, True))) == ["a", "1", "True"]
    assert page_labels(Variable("v", (1, "1", "'1'"))) == ["1", "'1'", "\"'1'\""]


def test_strongest_links_are_those_of_each_variable():
    information = np.array([[9, 5, 4, 0], [5, 9, 3, 0], [4, 3, 9, 1], [0, 0, 1, 9]], dtype=float)
    assert page_links(information, 1) == [(0, 1, 5.0), (0, 2, 4.0), (2, 3, 1.0)]
    assert len(page_links(information, 20)) == 6
    assert page_links(np.ones((1, 1)), 20) == []


def test_a_large_model_stays_below_a_megabyte(tmp_path):
    pmf = dirichlet_rows(300, 5, 20)
    for name, model in (("plain", pmf), ("sure", Bootstrap(pmf, (pmf,) * 200, pmf))):
        tw.explore(model, tmp_path / name)
        assert (tmp_path / name).stat().st_size < 1e6
    assert read_model((tmp_path / "sure").read_text(encoding="utf-8"))["replicates"]["count"] == 20


def small_boot(n):
    records = tw.datasets.draw_records(PMF, 500)
    # The page does not compare with what was observed.
    return replace(tw.bootstrap(tw.fit(records, rank=2, solver="em", starts=1), records, n=n), observed=None)


@pytest.mark.parametrize(("bits", "share"), [(8, 0.02), (4, 0.25)])
def test_the_replicates_of_a_page_give_nearly_the_same_intervals(bits, share, monkeypatch):
    boot = small_boot(40)
    n_numbers = (1 + len(boot.replicates)) * (1 + boot.pmf.weights.size + boot.pmf.stacked.size)
    monkeypatch.setattr("twoway.explorer.page.BUDGET", math.ceil(n_numbers * bits / 8))
    described = describe_page_replicates(boot)
    assert (described["bits"], described["count"]) == (bits, 40)
    assert len(decoded(described["codes"])) == math.ceil(n_numbers * bits / 8)
    several = unpack(described, boot)
    for pair in (PMF.schema.names[:2], PMF.schema.names[2:]):
        exact, near = boot.marginal(pair), several.marginal(pair)
        wide = exact.high.array - exact.low.array
        for end in ("low", "high"):
            differ = getattr(near, end).array - getattr(exact, end).array
            assert (np.abs(differ) <= share * wide).all()
            assert differ.any()


def test_replicates_with_zeros_stay_models():
    factor = np.array([[1.0, 0.0], [0.0, 1.0]])
    pmf = JointPMF([0.5, 0.5], [factor, factor], Schema((Variable("a", (0, 1)), Variable("b", (0, 1)))))
    boot = Bootstrap(pmf, (pmf,) * 20, pmf)
    for one in unpack(describe_page_replicates(boot), boot).replicates:
        np.testing.assert_array_equal(one.stacked, pmf.stacked)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        tw.explore(PMF, tmp_path / name, title="title")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert b"<title>page</title>" not in (tmp_path / "one").read_bytes()
    tw.explore(PMF, tmp_path / "page.html")
    assert b"<title>page</title>" in (tmp_path / "page.html").read_bytes()


def test_where_no_page_can_be_written(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        tw.explore(PMF, tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        tw.explore(PMF, tmp_path / "none" / "page.html")


def test_the_command(tmp_path):
    model, page = tmp_path / "survey.twoway", tmp_path / "survey.html"
    PMF.save(model)
    told = CliRunner().invoke(make_app(), ["explore", str(model)], catch_exceptions=False)
    assert told.exit_code == 0
    assert str(page) in told.stdout.replace("\n", "")
    assert read_model(page.read_text(encoding="utf-8"))["title"] == "survey"
    assert CliRunner().invoke(make_app(), ["explore", str(model)]).exit_code != 0
    options = ["explore", str(model), "-o", str(page), "--title", "Ours", "--force"]
    assert CliRunner().invoke(make_app(), options, catch_exceptions=False).exit_code == 0
    assert read_model(page.read_text(encoding="utf-8"))["title"] == "Ours"


def test_the_command_shows_intervals_where_there_are_some(tmp_path):
    model = tmp_path / "survey.twoway"
    small_boot(20).save(model)
    told = CliRunner().invoke(make_app(), ["explore", str(model), "--json"], catch_exceptions=False)
    page = tmp_path / "survey.html"
    told_of = {"page": str(page), "bytes": page.stat().st_size, "intervals": True, "counts": True}
    assert json.loads(told.stdout) == told_of
    assert read_model(page.read_text(encoding="utf-8"))["replicates"]["count"] == 20
    PMF.save(model)
    told = CliRunner().invoke(make_app(), ["explore", str(model), "--json", "--force"], catch_exceptions=False)
    assert json.loads(told.stdout)["intervals"] is json.loads(told.stdout)["counts"] is False
    assert read_model(page.read_text(encoding="utf-8"))["replicates"] is None


def numbers_of(described):
    return np.frombuffer(base64.b64decode(described["base64"]), described["kind"])


def test_the_command_says_when_a_page_carries_counts(tmp_path):
    model, page = tmp_path / "survey.twoway", tmp_path / "survey.html"
    records = tw.datasets.draw_records(PMF, 100, observed=1.0)
    tw.fit(records, rank=2, solver="em", starts=1).save(model)
    told = CliRunner().invoke(make_app(), ["explore", str(model)], catch_exceptions=False)
    said = " ".join(told.stderr.split())
    assert said.endswith("exact two-way counts of the data, including small ones; --no-counts leaves them out")
    text = page.read_text(encoding="utf-8")
    assert "This file contains exact two-way counts" in text
    counts = read_model(text)["counts"]
    tables = tw.count(records)
    assert numbers_of(counts["singles"][0])[:3].sum() == 100
    pairs, cells = numbers_of(counts["pairs"]).reshape(-1, 2), numbers_of(counts["cells"][0])
    expected = [tables[tuple(PMF.schema.names[n] for n in pair)].array * 100 for pair in pairs]
    np.testing.assert_allclose(cells, np.concatenate([table.ravel() for table in expected]))
    options = ["explore", str(model), "--force", "--no-counts"]
    told = CliRunner().invoke(make_app(), options, catch_exceptions=False)
    assert "counts" not in told.stderr
    assert read_model(page.read_text(encoding="utf-8"))["counts"] is None


def test_a_page_carries_the_counts_of_pairs_that_depend_most(monkeypatch):
    pmf = tw.fit(tw.datasets.draw_records(PMF, 300), rank=2, solver="em", starts=1)
    monkeypatch.setattr("twoway.explorer.page.BUDGET", 2 * 2 * (4 + 9 * pmf.counts.flat.itemsize))
    described = describe_page(pmf, "title")
    pairs = numbers_of(described["counts"]["pairs"]).reshape(-1, 2)
    assert pairs.tolist() == [[a, b] for a, b, _ in described["links"][:2]]
    assert [len(numbers_of(row)) for row in described["counts"]["cells"]] == [2 * 9]


def test_counts_of_triples_give_those_of_pairs():
    records = tw.datasets.draw_records(PMF, 100, observed=1.0)
    pmf = PMF.with_counts(tw.Counts.of_tables(tw.count(records, order=3)))
    counts = describe_page(pmf, "title")["counts"]
    assert len(numbers_of(counts["pairs"])) == 2 * 6
    (first, second), cells = numbers_of(counts["pairs"])[:2], numbers_of(counts["cells"][0])[:9]
    expected = tw.count(records)[PMF.schema.names[first], PMF.schema.names[second]].array * 100
    np.testing.assert_allclose(cells.reshape(3, 3), expected)


def test_a_page_knows_which_pairs_no_table_shows():
    records = tw.datasets.draw_records(PMF, 100, observed=1.0)
    tables = tw.count(records)
    names = PMF.schema.names
    for pairs in ([(0, 1), (0, 2), (1, 3)], [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]):
        own = tw.Counts.of_tables(tables.select([(names[one], names[other]) for one, other in pairs]))
        described = describe_page(PMF.with_counts(own), "title", counts=False)["silent"]
        if len(pairs) == 6:
            assert described is None
            continue
        bits = np.unpackbits(numbers_of(described), bitorder="little")[:16].reshape(4, 4)
        assert np.argwhere(np.triu(bits)).tolist() == [[0, 3], [1, 2], [2, 3]]
        assert (bits == bits.T).all()
    # Records show every pair.
    assert describe_page(tw.fit(records, rank=2, solver="em", starts=1), "title")["silent"] is None
    assert describe_page(PMF, "title")["silent"] is None


def test_a_title_that_is_not_text_is_an_error():
    with pytest.raises(DataError, match="title must be text, not 5"):
        tw.explore(PMF, title=5)
