"""The documentation site, opened from a folder, works without a server and fetches nothing."""

import pytest

pytestmark = pytest.mark.slow  # builds the site, which another test has shown to build


def test_search_works_from_a_folder(site, open_page):
    page = open_page.at((site / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("memberships")
    found = page.locator('.md-search-result__link[href*="api.html"][href*="JointPMF.memberships"]').first
    found.wait_for(state="attached")
    page.goto(found.evaluate("link => link.href"))
    assert "memberships" in page.inner_text("article")


def test_light_and_dark(site, browser):
    backgrounds = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto((site / "index.html").as_uri())
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(backgrounds) == 2
