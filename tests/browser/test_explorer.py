"""The explorer's page in a real browser: what it shows is what the library answers."""

import math
import re

import numpy as np
import pytest

from twoway.pmf import JointPMF
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


def random_pmf(schema, rank, seed=0, zeros=0.0, report=None):
    rng = np.random.default_rng(seed)

    def columns(n):
        array = rng.dirichlet(np.ones(n), rank).T * (rng.random((n, rank)) >= zeros)
        array[0, array.sum(axis=0) == 0] = 1
        return array / array.sum(axis=0)

    return JointPMF(rng.dirichlet(np.ones(rank)), [columns(len(v)) for v in schema], schema, report=report)


def numbered(n_variables, n_categories=5):
    return Schema(tuple(Variable(f"v{n}", tuple(range(n_categories))) for n in range(n_variables)))


def report_of(n_records):
    start = Start("em", (1.0,), StopReason.CONVERGED)
    return Report("em", 2, 0, 0.0, 0.0, "log-likelihood", (start,), 0, n_records=n_records)


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
    np.testing.assert_allclose(page.evaluate("twoway.weights()"), posterior.weights, rtol=1e-9, atol=1e-12)
    probability = pmf.prob(labels(pmf.schema, evidence or {}))
    assert page.evaluate("twoway.logProbability()") == pytest.approx(math.log(probability), rel=1e-9, abs=1e-9)
    shown = page.locator("#cards .row .share").all_text_contents()
    assert len(shown) == len(expected)
    for text, share in zip(shown, expected, strict=True):
        if text.startswith(("<", ">")):
            assert share < 0.0005 if text == "<0.1%" else share > 0.9995
        else:
            assert float(text.removesuffix("%")) / 100 == pytest.approx(share, abs=0.00051)


def assert_pressed(page, evidence):
    pressed = page.evaluate(
        """() => [...document.querySelectorAll("#cards .card")].map((card) =>
            [...card.querySelectorAll(".row")].flatMap((row, code) => row.ariaPressed === "true" ? [code] : []))"""
    )
    assert {index: set(codes) for index, codes in enumerate(pressed) if codes} == evidence


# Numbers


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


@pytest.mark.parametrize("seed", range(4))
def test_zeros_and_impossible_evidence(open_page, seed):
    schema = Schema(tuple(Variable(f"v{n}", tuple("abcd"[: n + 1])) for n in range(4)))
    pmf = random_pmf(schema, 3, seed, zeros=0.5)
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


def test_rare_evidence_is_told(open_page):
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
    assert page.locator("#count").text_content() == "Nothing is called “<b>”."
    find.press("Escape")
    settle(page)
    assert page.locator("#cards h3").count() == 3


def test_more_cards_than_a_page(open_page):
    page = open_page(random_pmf(numbered(400, 1), 2))
    assert page.locator("#cards .card").count() == 300
    page.get_by_role("button", name="Show 100 more of 400").click()
    settle(page)
    assert page.locator("#cards .card").count() == 400
    assert page.locator("#more").is_hidden()


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
    assert warning.endswith("left out here: nowhere; v1 = 77; %E0%A4%A; component 9.")
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
