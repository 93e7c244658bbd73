"""A page with hostile names and labels in a real browser: they are shown as text, and nothing of them runs."""

import pytest
from browser.pages import assert_shows, card, click, settle
from hostile import HOSTILE
from random_models import random_pmf

from twoway.schema import Schema, Variable

LABELS = tuple(label for label in HOSTILE if len(label) < 1000)


@pytest.fixture
def pmf():
    names = [name for name in HOSTILE if name != "two\nlines"]
    return random_pmf(Schema(tuple(Variable(name, LABELS) for name in names)), 2)


def test_hostile_names_and_labels_are_text(pmf, open_page):
    page = open_page(pmf, title=HOSTILE[1])
    page.evaluate("window.ran = false")
    assert_shows(page, pmf)
    assert page.locator("#cards h3").all_text_contents() == list(pmf.schema.names)
    assert page.locator("#cards .card").first.locator(".row .label").all_text_contents() == list(LABELS)
    click(page, 0, 1)
    click(page, 1, 20)
    assert_shows(page, pmf, {0: {1}, 1: {20}})
    for tab in ("What depends on what", "Components", "Distributions"):
        page.get_by_role("tab", name=tab).click()
        settle(page)
    page.get_by_role("searchbox").fill(HOSTILE[0])
    settle(page)
    assert card(page, 0).locator("h3").text_content() == HOSTILE[0]
    assert page.evaluate("window.ran") is False
    assert page.locator("script").count() == 2
    assert page.locator("img, iframe, object, embed, form, base").count() == 0
    assert page.evaluate("document.querySelectorAll('[onerror], [onload], [onclick]').length") == 0
    again = open_page.at(page.url)
    assert_shows(again, pmf, {0: {1}, 1: {20}})


@pytest.mark.slow
def test_hostile_addresses(pmf, open_page):
    """Whatever stands behind the # is looked up, and never becomes a part of the page."""
    for address in (
        *HOSTILE[:6],
        "%3Cscript%3Ewindow.ran=true%3C/script%3E=1",
        "__proto__=1",
        "constructor=2&toString=1",
    ):
        page = open_page(pmf, "#" + address.replace("\x1b", "%1b"))
        settle(page)
        assert page.evaluate("window.ran ?? false") is False
        assert page.locator("script").count() == 2
        assert page.locator("img").count() == 0
        assert page.locator("#cards .card").count() == len(pmf.schema)


def test_the_policy_allows_this_page_and_nothing_else(pmf, open_page):
    page = open_page(pmf)
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"].startswith("'sha256-")
    assert rules["style-src"].startswith("'sha256-")
    assert rules["img-src"] == "data:"
    assert not any(loose in policy for loose in ("unsafe", "*", "http:", "https:", "blob:", "'self'"))
    # It stands before anything that it has to rule.
    assert page.evaluate("document.head.querySelector('meta[http-equiv], script, style, link').httpEquiv")
