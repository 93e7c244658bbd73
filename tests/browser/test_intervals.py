"""Intervals on the explorer's page equal those that the library computes from the page's replicates."""

import re

import numpy as np
import pytest
from browser.pages import assert_shows, card, click, labels, settle
from random_models import numbered, random_pmf
from reference.replicates import unpack

from twoway.explorer.page import describe_page_replicates
from twoway.model.pmf import JointPMF
from twoway.questions.answer import ask
from twoway.schema import Schema, Variable
from twoway.uncertainty.bootstrap import Bootstrap

pytestmark = pytest.mark.slow


def random_boot(schema, rank, n, *, zeros=0.0, seed=0):
    """Return a model and replicates as far from it as those of some hundred records."""
    pmf = random_pmf(schema, rank, seed=seed, zeros=zeros)
    rng = np.random.default_rng(seed)

    def near(shares):
        moved = shares * rng.gamma(30, 1 / 30, shares.shape)
        return moved / moved.sum(axis=0)

    several = [JointPMF(near(pmf.weights), [near(factor) for factor in pmf.factors], schema) for _ in range(1 + n)]
    return Bootstrap(pmf, tuple(several[1:]), several[0])


def assert_intervals(page, boot, evidence):
    assert_shows(page, boot.pmf, evidence)
    carried = unpack(describe_page_replicates(boot), boot).given(labels(boot.pmf.schema, evidence))
    tables = [carried.marginal(name) for name in boot.pmf.schema.names]
    shown = page.evaluate("twoway.intervals()")
    for end in ("low", "high"):
        expected = np.concatenate([getattr(table, end).array for table in tables])
        np.testing.assert_allclose([one[end] for one in shown], expected, rtol=1e-9, atol=1e-9)
    texts = page.locator("#cards .row .range").all_text_contents()
    for text, low, high in zip(texts, *[[one[end] for one in shown] for end in ("low", "high")], strict=True):
        if text:
            np.testing.assert_allclose([float(n) for n in text.split(" to ")], [100 * low, 100 * high], atol=0.501)
        else:
            assert low == pytest.approx(high, abs=1e-12)
    return carried


def test_intervals_follow_the_evidence(open_page):
    schema = Schema((Variable("rating", (1, 2, 5)), Variable("vote", ("no", "yes")), Variable("region", tuple("abcd"))))
    boot = random_boot(schema, 3, 60)
    page = open_page(boot)
    assert "90% intervals from 60 replicates" in page.locator("#about").text_content()
    assert_intervals(page, boot, {})
    click(page, 1, 1)
    assert_intervals(page, boot, {1: {1}})
    click(page, 2, 0)
    click(page, 2, 3)
    given = assert_intervals(page, boot, {1: {1}, 2: {0, 3}})
    mean = given.expect("rating")
    assert f"mean {mean:.3g} ({mean.low:.3g} to {mean.high:.3g})" in card(page, 0).locator(".mean").text_content()
    chance = unpack(describe_page_replicates(boot), boot).prob({"vote": "yes", "region": ["a", "d"]})
    low, high = re.search(r"\(([\d.]+) to ([\d.]+)%\)", page.locator("#chance").text_content()).groups()
    assert [float(low), float(high)] == pytest.approx([100 * chance.low, 100 * chance.high], abs=0.501)
    # The dark line in the bar is where the interval is.
    drawn = (
        card(page, 0)
        .locator(".track")
        .first.evaluate(
            """(track) => { const { backgroundSize, backgroundPosition } = getComputedStyle(track);
            return [parseFloat(backgroundSize) / 100, parseFloat(backgroundPosition) / 100]; }"""
        )
    )
    interval = given.marginal("rating")[1]
    wide = interval.high - interval.low
    assert drawn == pytest.approx([wide, interval.low / (1 - wide)], abs=1e-4)
    # A screen reader hears the interval with the share.
    spoken = re.compile(r"^5 [\d.]+% [\d.]+ to [\d.]+")
    assert page.get_by_role("article", name="rating").get_by_role("button", name=spoken).count() == 1


def test_the_difference_of_two_groups_has_an_interval(open_page):
    schema = Schema((Variable("rating", (1, 2, 5)), Variable("vote", ("no", "yes")), Variable("region", tuple("abcd"))))
    boot = random_boot(schema, 3, 60, seed=2)
    page = open_page(boot)
    assert page.evaluate("twoway.differences()") is None
    click(page, 1, 0)
    page.get_by_role("button", name="Compare with another group").click()
    click(page, 1, 1)
    settle(page)
    carried = unpack(describe_page_replicates(boot), boot)
    shown = page.evaluate("twoway.differences()")
    for place, label in enumerate((1, 2, 5)):
        expected = ask(carried, f"P(rating = {label} | vote = yes) - P(rating = {label} | vote = no)")
        assert [shown[place][end] for end in ("low", "high")] == pytest.approx([expected.low, expected.high], abs=1e-9)
        text = card(page, 0).locator(".change").nth(place).text_content().replace("−", "-")
        assert [float(number) for number in re.findall(r"[+-][\d.]+", text)] == pytest.approx(
            [100 * float(expected), 100 * expected.low, 100 * expected.high], abs=0.501
        )
    # What the evidence itself says is certain.
    assert shown[3] is None
    assert card(page, 1).locator(".change").all_text_contents() == ["−100.0", "+100.0"]


def test_components_and_impossible_evidence(open_page):
    boot = random_boot(Schema(tuple(Variable(f"v{n}", tuple("abc")) for n in range(3))), 2, 25, zeros=0.5, seed=3)
    page = open_page(boot, "#!view=components")
    carried = unpack(describe_page_replicates(boot), boot)
    low, high = carried.of(lambda pmf: pmf.weights, "probability")[1:]
    texts = page.locator("#kinds .range").all_text_contents()
    for text, *ends in zip(texts, low, high, strict=True):
        np.testing.assert_allclose([float(end) / 100 for end in text.split(" to ")], ends, atol=0.00501)
    page.get_by_role("tab", name="Distributions").click()
    joint = np.asarray(boot.pmf.marginal(["v0", "v1", "v2"]))
    codes = [int(code) for code in np.argwhere(joint == 0)[0]]
    for index, code in enumerate(codes):
        click(page, index, code)
    settle(page)
    assert "impossible" in page.locator("#warning").text_content()
    assert page.evaluate("twoway.intervals()") is None
    assert set(page.locator("#cards .range").all_text_contents()) == {""}


def test_a_large_model_carries_fewer_replicates(open_page):
    boot = random_boot(numbered(300), 20, 30)
    page = open_page(boot)
    assert "90% intervals from 20 replicates" in page.locator("#about").text_content()
    click(page, 7, 2)
    assert_intervals(page, boot, {7: {2}})


def test_a_model_without_replicates_shows_none(open_page):
    page = open_page(random_pmf(numbered(3, 3), 2))
    assert page.evaluate("twoway.intervals()") is None
    assert "intervals" not in page.locator("#about").text_content()
    assert page.locator(".range").first.is_hidden()
    assert "interval" not in page.locator("footer").text_content()
