"""The explorer's page in a real browser: views, address, keyboard and other ways to use it."""

import math
import re

import numpy as np
import pytest
from browser.pages import assert_shows, click, settle
from random_models import numbered, random_pmf

from twoway.schema import Schema, Variable

# The other views


def test_the_map(open_page):
    pmf = random_pmf(numbered(12, 3), 4)
    page = open_page(pmf)
    page.get_by_role("tab", name="What depends on what").click()
    assert page.locator(".node").count() == 12
    pairs = {(a, b): pmf.mutual_information(f"v{a}", f"v{b}") for b in range(12) for a in range(b)}
    (a, b), strongest = max(pairs.items(), key=lambda pair: pair[1])
    first = page.locator("#related .row").first
    assert first.locator(".label").text_content() == f"v{a} – v{b}"
    assert float(first.locator(".share").text_content().split()[0]) == pytest.approx(strongest / math.log(2), rel=0.06)
    page.locator(".node", has_text=re.compile(f"^v{a}$")).click()
    assert page.locator('.node[aria-pressed="true"]').text_content() == f"v{a}"
    related = {
        row.locator(".label").text_content(): float(row.locator(".share").text_content().strip("<%"))
        for row in page.locator("#related ol .row").all()
    }
    for n in set(range(12)) - {a}:
        share = pmf.mutual_information(f"v{a}", f"v{n}") / pmf.entropy(f"v{n}")
        assert related[f"v{n}"] == pytest.approx(100 * share, abs=0.1)
    # The variable's own card is there to click in.
    page.locator("#related .card .row").nth(2).click()
    page.get_by_role("tab", name="Distributions").click()
    assert_shows(page, pmf, {a: {2}})


@pytest.mark.slow
def test_the_map_of_many_variables_stays_small(open_page):
    pmf = random_pmf(numbered(300, 2), 3)
    page = open_page(pmf, "#!view=map")
    assert 10 < page.locator(".node").count() <= 28
    page.locator(".node").first.click()
    assert 10 < page.locator(".node").count() <= 28
    boxes = [node.bounding_box() for node in page.locator(".node").all()]
    frame = page.locator(".map-frame").bounding_box()
    for box in boxes:
        assert frame["x"] <= box["x"] <= frame["x"] + frame["width"] - box["width"]
        assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"]


@pytest.mark.slow
def test_components(open_page):
    pmf = random_pmf(numbered(4, 3), 3)
    page = open_page(pmf, "#v0=1&!view=components")
    weights = pmf.given({"v0": 1}).weights
    shown = page.locator(".kind > .row .share").all_text_contents()
    np.testing.assert_allclose([float(text.strip("%")) / 100 for text in shown], weights, atol=0.00051)
    # Records of one component only have its column of every factor.
    page.locator(".kind").nth(1).get_by_role("button", name="everything about it").click()
    settle(page)
    np.testing.assert_allclose(page.evaluate("twoway.shares()"), pmf.stacked[:, 1], rtol=1e-9, atol=1e-12)
    assert page.locator("#chips").inner_text().startswith("Given")
    assert math.exp(page.evaluate("twoway.logProbability()")) == pytest.approx(pmf.weights[1], rel=1e-9)
    again = open_page.at(page.url)
    np.testing.assert_allclose(again.evaluate("twoway.shares()"), pmf.stacked[:, 1], rtol=1e-9, atol=1e-12)


# Finding, sharing, going back


def test_search(open_page):
    schema = Schema((Variable("Ärger", ("nie", "oft")), Variable("vote", ("yes", "no")), Variable("x", ("Yes!", "no"))))
    page = open_page(random_pmf(schema, 2))
    find = page.get_by_role("searchbox")
    find.fill("arger")
    assert page.locator("#cards h3").all_text_contents() == ["Ärger"]
    find.fill("YES")
    settle(page)
    assert page.locator("#cards h3").all_text_contents() == ["vote", "x"]
    assert page.locator("#count").text_content() == "2 of 3 variables"
    find.fill("<b>")
    assert page.locator("#cards h3").count() == 0
    assert page.locator("#count").text_content() == "No variable or category matches “<b>”."
    find.press("Escape")
    settle(page)
    assert page.locator("#cards h3").count() == 3


@pytest.mark.slow
def test_more_cards_than_a_page(open_page):
    page = open_page(random_pmf(numbered(400, 1), 2))
    assert page.locator("#cards .card").count() == 300
    page.get_by_role("button", name="Show 100 more of 400").click()
    settle(page)
    assert page.locator("#cards .card").count() == 400
    assert page.locator("#more").is_hidden()


@pytest.mark.slow
def test_back_and_forward_and_edited_addresses(open_page):
    pmf = random_pmf(numbered(3, 3), 2)
    page = open_page(pmf)
    click(page, 0, 1)
    click(page, 1, 2)
    page.go_back()
    assert_shows(page, pmf, {0: {1}})
    page.go_back()
    assert_shows(page, pmf)
    page.go_forward()
    assert_shows(page, pmf, {0: {1}})
    page.evaluate("location.hash = '#v2=0,1&nowhere=3&v1=77&%E0%A4%A=1&!component=9&!later=1'")
    page.wait_for_function("document.getElementById('warning').textContent.includes('nowhere')")
    assert_shows(page, pmf, {2: {0, 1}})
    warning = page.locator("#warning").text_content()
    assert warning.endswith(": nowhere; v1 = 77; %E0%A4%A; component 9.")
    click(page, 2, 0)
    assert page.locator("#warning").is_hidden()


# Everybody


def test_keyboard_alone(open_page):
    pmf = random_pmf(numbered(3, 3), 2)
    page = open_page(pmf)
    page.get_by_role("searchbox").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.row')"):
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert_shows(page, pmf, {0: {1}})
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert_shows(page, pmf, {0: {1}, 1: {0}})
    page.keyboard.press("/")
    page.keyboard.type("v2")
    assert page.locator("#cards h3").all_text_contents() == ["v2"]
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Distributions").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-map"
    assert page.locator(".node").count() == 3
    page.locator(".node").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.ariaPressed") == "true"


def test_what_a_screen_reader_meets(open_page):
    pmf = random_pmf(Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes")))), 2)
    page = open_page(pmf)
    page.get_by_role("article", name="age").get_by_role("button", name="old", pressed=False).click()
    pressed = page.get_by_role("button", pressed=True)
    assert pressed.count() == 1
    status = page.get_by_role("status").text_content()
    assert status.startswith("Given age: old. Probability of this: ")
    assert "Changed most: vote." in status
    page.get_by_role("button", name="Clear age").first.focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", pressed=True).count() == 0
    assert page.evaluate("document.activeElement !== document.body")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select")]
            .filter((element) => !(element.textContent.trim() || element.ariaLabel || element.labels?.length)).length"""
    )
    assert unnamed == 0


def lightness(page, selector, which):
    colour = page.evaluate(f"(selector) => getComputedStyle(document.querySelector(selector)).{which}", selector)
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3 / 255


@pytest.mark.slow
def test_light_dark_and_print(open_page):
    pmf = random_pmf(numbered(3, 3), 2)
    page = open_page(pmf, "#v0=1")
    page.emulate_media(color_scheme="light")
    assert lightness(page, "body", "backgroundColor") > 0.9 > 0.3 > lightness(page, ".label", "color")
    page.emulate_media(color_scheme="dark")
    assert lightness(page, "body", "backgroundColor") < 0.2 < 0.8 < lightness(page, ".label", "color")
    page.emulate_media(color_scheme="dark", media="print")
    assert lightness(page, "body", "backgroundColor") == 1
    assert page.locator(".tools").is_hidden()
    assert page.locator(".chip").is_visible()
    page.emulate_media(media="screen")
    for width in (340, 800, 1600):
        page.set_viewport_size({"width": width, "height": 600})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_foreign_runs(browser, open_page):
    page = open_page(random_pmf(numbered(2, 2), 2))
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    # A page of its own, since the browser complains of what it blocks.
    other = browser.new_page()
    other.goto(page.url)
    ran = other.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            let evaluated = true, fetched = true;
            // Not here: what the debugger itself runs may evaluate.
            await new Promise((done) => setTimeout(() => {
                try { eval("1"); } catch { evaluated = false; }
                done();
            }));
            try { await fetch(location.href); } catch { fetched = false; }
            return [window.ran ?? false, evaluated, fetched];
        }"""
    )
    other.close()
    assert ran == [False, False, False]
