"""The explorer's page of hidden variables on trees: the same numbers as the library, and the tree as the map."""

import math
import re
from itertools import combinations

import numpy as np
import pytest
from browser.pages import assert_shows, click, labels, settle
from browser.test_intervals import assert_intervals
from hidden_trees import HOMES, SIZES, random_tree
from random_models import numbered, sized
from reference.replicates import like

from twoway.explorer.page import page_numbers
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.schema import Schema, Variable
from twoway.uncertainty.bootstrap import Bootstrap

SCHEMA = sized(SIZES)
CHAIN, STAR = (-1, 0, 1, 2), (-1, 0, 0, 0)


def pmf_of(*trees, shares=None, schema=SCHEMA):
    shares = np.full(len(trees), 1 / len(trees)) if shares is None else np.array(shares)
    return JointPMF.from_trees(schema, Trees(shares, trees))


def with_zeros(tree, seed=0):
    """Return the tree with a third of its probabilities at 0."""
    rng = np.random.default_rng(seed)

    def zeroed(matrix):
        kept = matrix * (rng.random(matrix.shape) > 1 / 3)
        kept[0] += kept.sum(axis=0) == 0
        return kept / kept.sum(axis=0)

    transitions, factors = (tuple(map(zeroed, some)) for some in (tree.transitions, tree.factors))
    return HiddenTree(tree.parents, tree.homes, tree.weights, transitions, factors)


def revealed(pmf):
    """Return the model with each hidden variable of its only tree as a visible one, too: h0, h1, …."""
    (tree,) = pmf.trees.trees
    hidden = [Variable(f"h{k}", tuple(range(n))) for k, n in enumerate(tree.n_states)]
    factors = (*tree.factors, *map(np.eye, tree.n_states))
    homes = (*tree.homes, *range(tree.n_hidden))
    whole = HiddenTree(tree.parents, homes, tree.weights, tree.transitions, factors)
    return pmf_of(whole, schema=Schema((*pmf.schema.variables, *hidden)))


single = random_tree((-1,), 5, (2,), SIZES, (0,) * 6)
MODELS = {
    "chain": pmf_of(random_tree(CHAIN)),
    "zeros": pmf_of(with_zeros(random_tree((-1, 0, 0, 1)))),
    "mixture": pmf_of(random_tree(CHAIN, 1), single, with_zeros(random_tree(STAR, 2)), shares=[0.5, 0.2, 0.3]),
}


@pytest.mark.parametrize("name", ["zeros", "mixture"])
def test_numbers(open_page, name):
    pmf = MODELS[name]
    page = open_page(pmf)
    assert_shows(page, pmf)
    evidence = {}
    for index, code in [(4, 1), (2, 0), (2, 3), (5, 1), (1, 0)]:
        click(page, index, code)
        evidence.setdefault(index, set()).add(code)
        if pmf.prob(labels(SCHEMA, evidence)) > 0:
            assert_shows(page, pmf, evidence)
        else:
            settle(page)
            assert page.evaluate("twoway.logProbability()") == -math.inf
            assert "impossible" in page.locator("#warning").text_content()


@pytest.mark.slow
def test_evidence_beyond_the_range_of_numbers(open_page):
    n = 100
    rng = np.random.default_rng(0)
    rare = rng.uniform(1e-5, 1e-3, (n, 1, 2))
    # States hardly ever change, so that one of them loses every likelihood that a number can hold.
    turn = np.array([[1.0, 1e-9], [0.0, 1 - 1e-9]])
    factors = tuple(np.concatenate([rare, 1 - rare], axis=1))
    tree = HiddenTree((-1, *range(n - 1)), tuple(range(n)), np.array([0.3, 0.7]), (turn,) * (n - 1), factors)
    pmf = pmf_of(tree, schema=numbered(n, 2))
    page = open_page(pmf, "#" + "&".join(f"v{k}=0" for k in range(n - 1)))
    expected = pmf.trees.log_probability({k: np.array([0]) for k in range(n - 1)})
    assert expected < math.log(5e-324)
    assert page.evaluate("twoway.logProbability()") == pytest.approx(expected, rel=1e-9)
    posterior = pmf.given(dict.fromkeys(pmf.schema.names[:-1], 0))
    shares = page.evaluate("twoway.shares()")
    np.testing.assert_allclose(shares[-2:], np.asarray(posterior.marginal(f"v{n - 1}")), rtol=1e-9)


@pytest.mark.slow
def test_intervals(open_page):
    rng = np.random.default_rng(0)
    pmf = MODELS["mixture"]
    numbers = page_numbers(pmf)
    moved = numbers * rng.gamma(30, 1 / 30, (31, len(numbers)))
    center, *replicates = (JointPMF.from_trees(SCHEMA, like(pmf.trees, one)) for one in moved)
    boot = Bootstrap(pmf, tuple(replicates), center)
    page = open_page(boot)
    assert_intervals(page, boot, {})
    click(page, 4, 1)
    click(page, 0, 0)
    assert_intervals(page, boot, {4: {1}, 0: {0}})


def test_the_states_of_a_hidden_variable(open_page):
    pmf = MODELS["chain"]
    whole = revealed(pmf)
    page = open_page(pmf, "#v0=1&!view=components")
    page.get_by_label("States of").select_option("hidden variable 4 (v3, v4)")
    shown = page.locator(".kind > .row .share").all_text_contents()
    expected = np.asarray(whole.given({"v0": 1}).marginal("h3"))
    np.testing.assert_allclose([float(text.strip("%")) / 100 for text in shown], expected, atol=0.00051)
    # A state is evidence like any other.
    page.get_by_role("button", name="State 4.2", pressed=False).click()
    page.get_by_label("States of").select_option("hidden variable 2 (v1, v5)")
    page.get_by_role("button", name="State 2.1", pressed=False).click()
    known = {"v0": 1, "h3": 1, "h1": 0}
    assert page.evaluate("twoway.logProbability()") == pytest.approx(math.log(whole.prob(known)), rel=1e-9)
    posterior = whole.given(known)
    shares = np.concatenate([np.asarray(posterior.marginal(name)) for name in pmf.schema.names])
    np.testing.assert_allclose(page.evaluate("twoway.shares()"), shares, rtol=1e-9, atol=1e-12)
    chips = page.locator(".chip").all_text_contents()
    assert [chip.strip("×") for chip in chips] == ["v0 1", "state 4.2", "state 2.1"]
    again = open_page.at(page.url)
    np.testing.assert_allclose(again.evaluate("twoway.shares()"), shares, rtol=1e-9, atol=1e-12)
    page.get_by_role("button", name="Clear state").first.click()
    assert page.evaluate("twoway.logProbability()") == pytest.approx(math.log(whole.prob({"v0": 1, "h1": 0})), rel=1e-9)


@pytest.mark.slow
def test_a_state_belongs_to_one_tree_of_a_mixture(open_page):
    pmf = MODELS["mixture"]
    page = open_page(pmf, "#!component=5.2")  # the second tree has one hidden variable, the fifth of all
    tree = pmf.trees.trees[1]
    assert page.evaluate("twoway.logProbability()") == pytest.approx(math.log(0.2 * tree.weights[1]), rel=1e-9)
    expected = np.concatenate([factor[:, 1] for factor in tree.factors])
    np.testing.assert_allclose(page.evaluate("twoway.shares()"), expected, rtol=1e-9, atol=1e-12)
    both = open_page.at(page.url + ",1.1")
    assert "impossible" in both.locator("#warning").text_content()


# The map


def boxes(page, selector):
    corners = "((box) => [box.left, box.top, box.right, box.bottom])(one.getBoundingClientRect())"
    return np.array(page.locator(selector).evaluate_all(f"(all) => all.map((one) => {corners})"))


def overlap(one, other):
    return (np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]) > 0.01).all()


def large_tree(n, n_hidden, seed=0):
    """Return a random tree of hidden variables, each with a visible one at least, and labels of different lengths."""
    rng = np.random.default_rng(seed)
    parents = (-1, *(int(rng.integers(max(0, k - 4), k)) for k in range(1, n_hidden)))
    homes = (*range(n_hidden), *rng.integers(0, n_hidden, n - n_hidden).tolist())
    tree = random_tree(parents, seed, (3,) * n_hidden, (2,) * n, homes)
    names = [f"{'a rather long question ' * (k % 7 == 0)}number {k}" for k in range(n)]
    return pmf_of(tree, schema=Schema(tuple(Variable(name, (0, 1)) for name in names)))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_hidden"), [(17, 11), (100, 67)])
def test_no_label_of_the_map_covers_another(open_page, n, n_hidden):
    page = open_page(large_tree(n, n_hidden), "#!view=map")
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.locator(".node").count() == n
        assert page.locator(".joint").count() == n_hidden
        assert page.locator("#lines path").count() == n + n_hidden - 1
        nodes, joints = boxes(page, ".node"), boxes(page, ".joint")
        (frame,) = boxes(page, ".map-frame")
        assert (nodes[:, :2] >= frame[:2]).all()
        assert (nodes[:, 2:] <= frame[2:]).all()
        assert not any(overlap(one, other) for one, other in combinations(nodes, 2))
        if width > 1000:
            assert not any(overlap(node, joint) for node in nodes for joint in joints)


def line_widths(page):
    return page.locator("#lines path").evaluate_all("(all) => all.map((one) => parseFloat(one.style.strokeWidth))")


def assert_widths(page, pmf):
    """Check that lines are as thick as the mutual information of the ends of links, of which there are the same."""
    (tree,) = pmf.trees.trees
    whole = revealed(pmf)
    links = [(f"v{n}", f"h{home}") for n, home in enumerate(tree.homes)]
    links += [(f"h{child}", f"h{parent}") for child, parent in enumerate(tree.parents) if child]
    information = np.sort([whole.mutual_information(*pair) for pair in links])
    np.testing.assert_allclose(line_widths(page), 1 + 5 * np.sqrt(information / information[-1]), atol=1e-3)


def test_the_map_is_the_tree(open_page):
    pmf = MODELS["chain"]
    page = open_page(pmf, "#!view=map")
    assert_widths(page, pmf)
    page.locator(".node", has_text=re.compile(r"^v3$")).click()
    assert page.locator('.node[aria-pressed="true"]').text_content() == "v3"
    row = page.locator("#related ol .row", has_text="v4")
    share = pmf.mutual_information("v3", "v4") / pmf.entropy("v4")
    assert float(row.locator(".share").text_content().strip("%")) == pytest.approx(100 * share, abs=0.051)
    page.get_by_role("button", name="The states of hidden variable 2 (v1, v5)").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("tab", name="Hidden variables", selected=True).count() == 1
    assert page.locator(".kind h3").all_text_contents() == ["State 2.1", "State 2.2"]


@pytest.mark.slow
def test_the_trees_of_a_mixture_are_shown_one_at_a_time(open_page):
    pmf = MODELS["mixture"]
    page = open_page(pmf, "#!view=map")
    assert "3 trees with 9 hidden variables of up to 4 states" in page.locator("#about").text_content()
    assert page.locator(".joint").count() == 4
    assert_widths(page, pmf_of(pmf.trees.trees[0]))
    page.get_by_label("Show tree").select_option("2 (20.0%)")
    assert page.locator(".joint").count() == 1
    assert page.locator(".node").count() == 6
    assert "hidden=5" in page.url
    page.get_by_label("Show tree").select_option("3 (30.0%)")
    assert_widths(page, pmf_of(pmf.trees.trees[2]))


@pytest.mark.slow
def test_the_map_of_independent_variables(open_page):
    tree = random_tree(CHAIN)
    flat = [np.full(m.shape, 1 / len(m)) for m in (*tree.transitions, *tree.factors)]
    page = open_page(pmf_of(HiddenTree(CHAIN, HOMES, tree.weights, tuple(flat[:3]), tuple(flat[3:]))), "#!view=map")
    np.testing.assert_allclose(line_widths(page), np.ones(9), atol=1e-3)
