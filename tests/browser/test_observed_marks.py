"""The explorer's page marks what was observed, where the model has its counts, and what no table shows."""

import numpy as np
import pandas as pd
import pytest
from browser.pages import card, click, settle

import twoway as tw


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.choice(["old", "young"], 200), "vote": rng.choice(["no", "yes"], 200)})
    frame["rating"] = np.where(frame["age"] == "old", rng.integers(0, 3, 200), 1).astype(object)
    return frame.mask(rng.random(frame.shape) < 0.2)


@pytest.fixture(scope="module")
def pmf(records):
    return tw.fit(records, rank=2, solver="em", starts=1)


def dots(page, index):
    """Return where the dots of a card are, from 0 to 1; None for a bar without one."""
    at = "(all) => all.map((dot) => (dot.hidden ? null : parseFloat(dot.style.left) / 100))"
    return card(page, index).locator(".dot").evaluate_all(at)


def test_dots_are_what_was_observed(open_page, records, pmf):
    page = open_page(pmf)
    settle(page)
    counts = records["rating"].value_counts().sort_index()
    assert dots(page, 2) == pytest.approx((counts / counts.sum()).tolist(), abs=1e-5)
    row = card(page, 2).locator(".row").first
    expected = f"observed: {counts[0] / counts.sum():.1%}, {counts[0]} of {counts.sum()} records"
    assert row.get_attribute("title") == expected
    assert page.locator(".legend", has_text="observed").is_visible()
    assert "with exact counts of 3 pairs of variables" in page.locator("#about").text_content()
    assert "exact two-way counts" in page.locator("footer").text_content()
    # Given another variable: that before and that behind it, and itself.
    click(page, 1, 1)
    settle(page)
    for index, name in ((0, "age"), (2, "rating")):
        table = pd.crosstab(records["vote"], records[name]).loc["yes"]
        assert dots(page, index) == pytest.approx((table / table.sum()).tolist(), abs=1e-5)
        assert page.evaluate(f"twoway.observed('{name}')") == {"counts": table.tolist(), "total": table.sum()}
    assert dots(page, 1) == [None, 1]
    # One of several categories.
    click(page, 1, 1)
    click(page, 2, 0)
    click(page, 2, 2)
    settle(page)
    table = pd.crosstab(records["rating"], records["age"]).loc[[0, 2]].sum()
    assert dots(page, 0) == pytest.approx((table / table.sum()).tolist(), abs=1e-5)
    assert dots(page, 2)[1] is None
    # Nothing was counted of three variables, or of a component.
    click(page, 1, 0)
    settle(page)
    assert {dot for index in range(3) for dot in dots(page, index)} == {None}
    assert card(page, 0).locator(".row").first.get_attribute("title") == ""
    assert page.locator(".key", has_text="observed").is_hidden()
    settled = open_page.at(page.url.partition("#")[0] + "#!component=1")
    assert set(dots(settled, 0)) == {None}


@pytest.mark.slow
def test_records_with_weights(open_page, records):
    weights = np.random.default_rng(1).lognormal(0, 1, len(records))
    page = open_page(tw.fit(tw.Records(records, weights=weights), rank=2, solver="em", starts=1), "#vote=yes")
    settle(page)
    shown = (records["vote"] == "yes") & records["age"].notna()
    w, is_old = weights[shown], (records["age"] == "old")[shown]
    share, effective = w[is_old].sum() / w.sum(), w.sum() ** 2 / (w**2).sum()
    assert dots(page, 0)[0] == pytest.approx(share, abs=1e-5)
    expected = f"observed: {share:.1%} of {len(w)} records that count as {effective:.0f} because of their weights"
    assert card(page, 0).locator(".row").first.get_attribute("title") == expected


@pytest.mark.slow
def test_tables_alone(open_page, records):
    tables = tw.count(records).select([("age", "vote"), ("age", "rating")])
    page = open_page(tw.fit(tables, rank=1), "#vote=yes")
    settle(page)
    assert dots(page, 0)[0] is not None
    assert set(dots(page, 2)) == {None}  # there is no such table


@pytest.mark.slow
def test_a_page_without_counts_has_no_dots(open_page, pmf):
    page = open_page(pmf.with_counts(None))
    settle(page)
    assert set(dots(page, 0)) == {None}
    assert page.locator(".legend").is_hidden()
    assert "two-way counts" not in page.locator("footer").text_content()


def test_cards_that_no_table_shows_with_what_is_known_are_grey(open_page, records):
    tables = tw.count(records).select([("age", "vote"), ("age", "rating")])
    page = open_page(tw.fit(tables, rank=1))
    note = card(page, 2).locator(".silence")
    settle(page)
    assert page.locator(".is-silent").count() == 0
    click(page, 1, 1)
    settle(page)
    assert page.locator(".is-silent").count() == 1
    assert note.text_content() == "no table shows this with 'vote'"
    assert note.is_visible()
    assert card(page, 2).get_attribute("aria-label") == "rating: no table shows this with 'vote'"
    click(page, 1, 1)
    click(page, 0, 1)
    settle(page)
    assert page.locator(".is-silent").count() == 0
    assert note.is_hidden()
    assert card(page, 2).get_attribute("aria-label") == "rating"
