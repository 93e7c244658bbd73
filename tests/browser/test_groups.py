"""Two groups side by side, and what is shown as text, CSV and pictures, in a real browser."""

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from browser.pages import card, click, settle

from twoway.datasets import dirichlet_rows

PMF = dirichlet_rows(3, 3, 2, seed=4)


def saved(page, name):
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return Path(download.value.path()).read_bytes()


def rows_of(page):
    text = saved(page, "CSV").decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_two_groups_have_bars_and_differences(open_page):
    page = open_page(PMF)
    click(page, 0, 0)
    page.get_by_role("button", name="Compare with another group").click()
    click(page, 0, 1)
    settle(page)
    one, other = (PMF.given({"x1": label}).marginal("x2").array for label in (1, 0))
    widths = (
        card(page, 1).locator(".second").evaluate_all("(all) => all.map((bar) => parseFloat(bar.style.width) / 100)")
    )
    np.testing.assert_allclose(widths, other, atol=1e-5)
    changes = card(page, 1).locator(".change").all_text_contents()
    expected = [100 * difference for difference in one - other]
    shown = [float((text or "0").replace("−", "-")) for text in changes]
    np.testing.assert_allclose(shown, expected, atol=0.051)
    assert page.locator(".chip-other").text_content().startswith("x1 0")
    assert page.locator(".only-compared").first.is_visible()
    again = open_page.at(page.url)
    assert again.locator(".chip-other").text_content().startswith("x1 0")
    rows = rows_of(again)
    own = [row for row in rows if row["variable"] == "x2"]
    np.testing.assert_allclose([float(row["share"]) for row in own], one, atol=1e-6)
    np.testing.assert_allclose([float(row["compared_share"]) for row in own], other, atol=1e-6)
    np.testing.assert_allclose([float(row["difference"]) for row in own], one - other, atol=1e-6)
    again.get_by_role("button", name="Swap").click()
    assert float(rows_of(again)[3]["share"]) == pytest.approx(other[0], abs=1e-6)
    again.get_by_role("button", name="Stop comparing").click()
    assert "compared_share" not in rows_of(again)[0]
    page.go_back()
    assert page.locator(".chip-other").count() == 1
    page.get_by_role("button", name="Clear all").click()
    assert page.locator(".chip").count() == 0


def test_what_is_shown_is_saved(open_page):
    page = open_page(PMF, "#x1=0&!find=x2")
    settle(page)
    rows = rows_of(page)
    assert [(row["variable"], row["category"]) for row in rows] == [("x2", "0"), ("x2", "1"), ("x2", "2")]
    picture = ElementTree.fromstring(saved(page, "SVG").decode())
    texts = ["".join(part.itertext()) for part in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "x1: 0" in texts
    assert any(re.match(r"\d+\.\d%", text) for text in texts)
    assert saved(page, "PNG").startswith(b"\x89PNG")
