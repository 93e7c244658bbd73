"""Headless Chromium for tests and benchmarks.

Playwright, since it waits by itself until an element can be clicked, emulates dark and printed pages, and drives the
Chromium that is installed: nothing is downloaded.
"""

import os
import shutil
from contextlib import contextmanager

ARGUMENTS = [
    "--no-sandbox",  # the pages are our own, and a container's root has no other way
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-extensions",
    "--renderer-process-limit=1",  # starting a process takes longer than showing a page
]


def find_chromium():
    """Return where Chromium is: what TWOWAY_CHROMIUM names, else what the path has; None where there is none."""
    named = os.environ.get("TWOWAY_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def open_browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
