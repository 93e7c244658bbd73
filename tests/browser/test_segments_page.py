"""The segments' tab of the page in a real browser: the heat map, names, the address, and the download."""

import csv
import io

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import titanic


@pytest.fixture(scope="module")
def found():
    return tw.segments(titanic(), 3, starts=8, replicates=0).rename(["crew", "<b>third</b>", "rescued, all"])


def test_the_heat_map_shows_the_profiles(open_page, found):
    page = open_page(found)
    page.get_by_role("tab", name="Segments").click()
    assert page.locator("#heat input").evaluate_all("inputs => inputs.map((input) => input.value)") == list(found.names)
    cells = page.locator("#heat tbody td:nth-child(n+3)").all_text_contents()
    shares = [0.0 if text.startswith("<") else float(text.split("%")[0].lstrip(">")) / 100 for text in cells]
    np.testing.assert_allclose(shares, found.profile.shares.ravel(), atol=0.00051)
    marks = ["+" in text or "−" in text for text in cells]
    assert marks == (found.profile.marks.ravel() != 0).tolist()
    indices = [float(text) for text in page.locator("#heat td small").all_text_contents()]
    np.testing.assert_allclose(indices, found.profile.index.ravel(), atol=0.51)


def test_names_are_kept_in_the_address_and_in_the_download(open_page, found):
    page = open_page(found, "#!view=segments")
    page.get_by_label("Name of segment 1").fill("staff & men=1, ü")
    page.get_by_label("Name of segment 1").press("Tab")
    names = ["staff & men=1, ü", *found.names[1:]]
    assert page.evaluate("twoway.names()") == names
    again = open_page.at(page.url)
    assert again.evaluate("twoway.names()") == names
    with again.expect_download() as saved:
        again.get_by_role("button", name="Download as CSV").click()
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.reader(io.StringIO(file.read())))
    assert rows[0][3:6] == [f"share: {name}" for name in names]
    shares = np.array([row[3:6] for row in rows[2:]], dtype=float)
    np.testing.assert_allclose(shares, found.profile.shares, rtol=1e-9, atol=1e-12)
    page.go_back()
    assert page.evaluate("twoway.names()") == list(found.names)


@pytest.mark.slow
def test_a_name_that_is_taken_is_refused(open_page, found):
    page = open_page(found, "#!view=segments&!names=a,a,b")
    assert page.evaluate("twoway.names()") == list(found.names)
    page.get_by_label("Name of segment 2").fill("crew")
    page.get_by_label("Name of segment 2").press("Tab")
    assert page.locator("#warning").text_content() == "The name crew is taken: two segments cannot have the same name."
    assert page.get_by_label("Name of segment 2").input_value() == "<b>third</b>"


@pytest.mark.slow
def test_a_model_without_segments_has_no_such_tab(open_page, found):
    page = open_page(found.pmf, "#!view=segments")
    assert page.get_by_role("tab").count() == 3
    assert page.locator("#answers").is_visible()
