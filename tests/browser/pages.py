"""Helpers for tests of the page: models, clicks, and comparisons of the page with the library."""

import math

import numpy as np
import pytest


def card(page, index):
    """Return the card of the variable at a position, as long as cards stand in the order of the data."""
    return page.locator("#cards .card").nth(index)


def click(page, index, code):
    card(page, index).locator(".row").nth(code).click()


def settle(page):
    """Wait until the cards out of sight are shown too."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => setTimeout(done))))")


def labels(schema, evidence):
    return {
        schema.names[index]: [schema.variables[index].categories[code] for code in codes]
        for index, codes in evidence.items()
    }


def assert_shows(page, pmf, evidence=None):
    """Check the exact numbers behind the page, and those that it shows, against the library's."""
    settle(page)
    posterior = pmf.given(labels(pmf.schema, evidence or {}))
    expected = np.concatenate([np.asarray(posterior.marginal(name)) for name in pmf.schema.names])
    np.testing.assert_allclose(page.evaluate("twoway.shares()"), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(page.evaluate("twoway.weights()"), state_shares(posterior), rtol=1e-9, atol=1e-12)
    probability = pmf.prob(labels(pmf.schema, evidence or {}))
    assert page.evaluate("twoway.logProbability()") == pytest.approx(math.log(probability), rel=1e-9, abs=1e-9)
    shown = page.locator("#cards .row .share").all_text_contents()
    assert len(shown) == len(expected)
    for text, share in zip(shown, expected, strict=True):
        if text.startswith(("<", ">")):
            assert share < 0.0005 if text == "<0.1%" else share > 0.9995
        else:
            assert float(text.removesuffix("%")) / 100 == pytest.approx(share, abs=0.00051)


def state_shares(pmf):
    """Return the probability of each state of each hidden variable; those of a tree in a mixture sum to its share."""
    trees = zip(pmf.trees.shares, pmf.trees.trees, strict=True)
    return np.concatenate([share * states for share, tree in trees for states in tree.shares])


def assert_pressed(page, evidence):
    pressed = page.evaluate(
        """() => [...document.querySelectorAll("#cards .card")].map((card) =>
            [...card.querySelectorAll(".row")].flatMap((row, code) => row.ariaPressed === "true" ? [code] : []))"""
    )
    assert {index: set(codes) for index, codes in enumerate(pressed) if codes} == evidence
