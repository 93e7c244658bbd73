"""Pages in headless Chromium; any error or warning of a page fails its test."""

import pytest
from browser.chromium import find_chromium, open_browser

from twoway.explorer.page import explore


@pytest.fixture(scope="session")
def browser():
    pytest.importorskip("playwright", reason="browser tests need playwright: pip install playwright")
    if find_chromium() is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set TWOWAY_CHROMIUM to where one is")
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def context(browser):
    return browser.new_context(viewport={"width": 1280, "height": 900})


@pytest.fixture
def open_page(context, tmp_path):
    """Open a model's page at an address; no error, dialog or request may come of it."""
    pages, told = [], []

    def open_model(pmf, address="", *, title="The model"):
        path = tmp_path / f"page {len(pages)}.html"
        explore(pmf, path, title=title)
        return open_address(path.as_uri() + address)

    def open_address(address):
        page = context.new_page()
        pages.append(page)
        page.on("console", lambda message: told.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: told.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (told.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: told.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(address)
        return page

    open_model.at = open_address
    yield open_model
    for page in pages:
        page.close()
    assert told == []
