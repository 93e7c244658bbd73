"""The explorer's page in a real browser shows the same numbers as the library."""

import math
import re

import numpy as np
import pytest
from browser.pages import assert_pressed, assert_shows, card, click, labels, settle
from random_models import numbered, random_pmf

from twoway.model.pmf import JointPMF
from twoway.report import Report, Start, StopReason
from twoway.schema import Schema, Variable

HOSTILE = Schema(
    (
        Variable("<script>alert(1)</script>", ("</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>")),
        Variable("quotes \" ' ` & = , # % + ! ~", ('"', "'", "`", "&amp;", "a,b", "a&b=c", "100%", "!view", "a+b c")),
        Variable("🦆 emoji", ("👩‍👩‍👧‍👦", "🏳️‍🌈", "e\u0301", "é", "two\nlines\t\u2028end")),
        Variable("עברית العربية", ("שלום (א)", "مرحبا ١٢٣", "abc", "\u202eturned")),
        Variable("long " * 40, ("x" * 200, "y " * 100, "", "1", 1, True)),
    )
)


def report_of(n_records):
    start = Start("em", (1.0,), StopReason.CONVERGED)
    return Report("em", 2, 0, 0.0, 0.0, "log-likelihood", (start,), 0, n_records=n_records)


@pytest.mark.slow
def test_five_variables_with_hostile_labels(open_page):
    pmf = random_pmf(HOSTILE, 3)
    page = open_page(pmf, title="</title><script>alert(0)</script>")
    assert_shows(page, pmf)
    for index, variable in enumerate(HOSTILE):
        assert card(page, index).locator("h3").text_content() == variable.name
    texts = [str(label) for variable in HOSTILE.variables[:4] for label in variable.categories]
    # Where 1 and "1" are both there, texts have quotes.
    texts += [repr(label) for label in HOSTILE.variables[4].categories]
    assert page.locator("#cards .row .label").all_text_contents() == texts
    assert page.locator("h1").text_content() == "</title><script>alert(0)</script>"
    evidence = {}
    for index, code in [(0, 0), (1, 5), (1, 8), (2, 4), (3, 3), (4, 4), (4, 3)]:
        click(page, index, code)
        evidence.setdefault(index, set()).add(code)
        assert_shows(page, pmf, evidence)
        assert_pressed(page, evidence)
    assert page.locator("script").count() == 2
    # The address holds all of it.
    again = open_page.at(page.url)
    assert_shows(again, pmf, evidence)
    assert_pressed(again, evidence)
    # And what is clicked again is taken back.
    click(page, 1, 5)
    assert_shows(page, pmf, evidence | {1: {8}})


@pytest.mark.slow
def test_three_hundred_variables(open_page):
    pmf = random_pmf(numbered(300), 20)
    page = open_page(pmf)
    assert page.locator("#cards .card").count() == 300
    assert_shows(page, pmf)
    evidence = {}
    for index, code in [(0, 1), (7, 0), (7, 4), (299, 2)]:
        click(page, index, code)
        evidence.setdefault(index, set()).add(code)
        assert_shows(page, pmf, evidence)
    moved = page.locator("#moved button").all_text_contents()
    posterior = pmf.given(labels(pmf.schema, evidence))
    change = {
        name: np.abs(np.asarray(posterior.marginal(name)) - np.asarray(pmf.marginal(name))).sum()
        for name in pmf.schema.names
        if name not in ("v0", "v7", "v299")
    }
    assert moved == sorted(change, key=lambda name: -change[name])[:6]
    page.get_by_label("Order").select_option("changed")
    settle(page)
    names = page.locator("#cards .card h3").all_text_contents()
    assert names[:9] == ["v0", "v7", "v299", *moved]
    assert sorted(names) == sorted(pmf.schema.names)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_zeros_and_impossible_evidence(open_page, seed):
    schema = Schema(tuple(Variable(f"v{n}", tuple("abcd"[: n + 1])) for n in range(4)))
    pmf = random_pmf(schema, 3, seed=seed, zeros=0.5)
    rng = np.random.default_rng(seed)
    page = open_page(pmf)
    evidence = {}
    for index in rng.permutation(4)[:3].tolist():
        code = int(rng.integers(len(schema.variables[index])))
        click(page, index, code)
        evidence[index] = {code}
        if pmf.prob(labels(schema, evidence)) > 0:
            assert_shows(page, pmf, evidence)
        else:
            settle(page)
            assert page.evaluate("twoway.logProbability()") == -math.inf
            assert "impossible" in page.locator("#warning").text_content()
            assert set(page.locator("#cards .share").all_text_contents()) == {"–"}
    page.get_by_role("button", name="Clear all").click()
    assert_shows(page, pmf)
    assert page.locator("#warning").is_hidden()


def test_evidence_beyond_the_range_of_numbers(open_page):
    rare = np.random.default_rng(0).uniform(0.01, 0.1, (300, 1, 3))
    pmf = JointPMF([0.2, 0.3, 0.5], list(np.concatenate([rare, 1 - rare], axis=1)), numbered(300, 2))
    page = open_page(pmf, "#" + "&".join(f"{name}=0" for name in pmf.schema.names))
    log_probability = np.logaddexp.reduce(np.log(pmf.weights) + np.log(rare).sum(axis=(0, 1)))
    assert log_probability < math.log(5e-324)
    assert page.evaluate("twoway.logProbability()") == pytest.approx(log_probability, rel=1e-9)
    posterior = pmf.given(dict.fromkeys(pmf.schema.names, 0))
    np.testing.assert_allclose(page.evaluate("twoway.weights()"), posterior.weights, rtol=1e-9, atol=1e-12)
    assert re.search("about 1 in 10[⁰¹²³⁴⁵⁶⁷⁸⁹]{3}", page.locator("#chance").text_content())
    assert "hardly ever occurs" in page.locator("#warning").text_content()


@pytest.mark.slow
def test_rare_evidence_gives_a_note(open_page):
    factors = [[[0.99, 0.5], [0.01, 0.5]], [[0.9, 0.1], [0.1, 0.9]]]
    pmf = JointPMF([1, 0], factors, numbered(2, 2), report=report_of(400))
    page = open_page(pmf)
    assert "learned from 400 records" in page.locator("#about").text_content()
    click(page, 0, 0)
    chance = page.locator("#chance").text_content()
    assert chance == "Probability of this: 99.0%, nearly always, or some 400 of the 400 records learned from"
    assert page.locator("#warning").is_hidden()
    click(page, 0, 0)
    click(page, 0, 1)  # 4 of 400 records: too few
    chance = page.locator("#chance").text_content()
    assert chance == "Probability of this: 1.0%, about 1 in 100, or some 4 of the 400 records learned from"
    assert "hardly ever occurs" in page.locator("#warning").text_content()


def test_means_and_changes(open_page):
    pmf = random_pmf(Schema((Variable("rating", (1, 2, 5)), Variable("vote", ("no", "yes")))), 3)
    page = open_page(pmf)
    click(page, 1, 1)
    posterior = pmf.given({"vote": "yes"})
    assert card(page, 0).locator(".mean").text_content() == (
        f"mean {posterior.expect('rating'):.3g}, was {pmf.expect('rating'):.3g}"
    )
    differences = 100 * (np.asarray(posterior.marginal("rating")) - np.asarray(pmf.marginal("rating")))
    shown = [text.replace("−", "-") for text in card(page, 0).locator(".change").all_text_contents()]
    np.testing.assert_allclose([float(text or 0) for text in shown], differences, atol=0.051)
    assert card(page, 1).locator(".mean").text_content() == ""


def test_what_was_clicked_is_certain(open_page):
    pmf = random_pmf(numbered(12), 7, seed=3)
    page = open_page(pmf)
    for index in range(12):
        click(page, index, index % 5)
        settle(page)
        assert card(page, index).locator(".row .share").nth(index % 5).text_content() == "100%"
    assert card(page, 0).locator(".row .share").all_text_contents() == ["100%", "0%", "0%", "0%", "0%"]
