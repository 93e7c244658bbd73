"""Plots: what is drawn, and errors for what cannot be drawn."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.errors import DataError, UnknownNameError
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.plots.fit import plotted_residuals
from twoway.plots.model import plotted_dependence_order
from twoway.schema import Schema, Variable

mpl = pytest.importorskip("matplotlib", reason="plots need the extra 'plot'")

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 400)
    frame = pd.DataFrame(
        {"a": first, "b": np.where(rng.random(400) < 0.8, first, 1 - first), "$c$": rng.integers(0, 3, 400)}
    )
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    return frame, tw.fit(frame, rank=2, solver="em", starts=3)


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def drawn(ax):
    """Return what is drawn, without drawing: the figure must be sound."""
    ax.figure.canvas.draw()
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def test_components(fitted):
    _, pmf = fitted
    ax = tw.plot_components(pmf)
    assert labels(ax.yaxis) == ["a", "0", "1", "b", "0", "1", r"\$c\$", "0", "1", "2"]
    assert labels(ax.xaxis) == [f"{n + 1}\n{weight:.0%}" for n, weight in enumerate(pmf.weights)]
    image = drawn(ax)
    assert np.isnan(image[[0, 3, 6]]).all()
    np.testing.assert_allclose(image[[4, 5]], pmf.factors[1] - np.asarray(pmf.marginal("b"))[:, np.newaxis])
    assert [text.get_text() for text in ax.texts][2] == f"{100 * pmf.factors[0][1, 0]:.0f}"
    assert labels(tw.plot_components(pmf, "b").yaxis) == ["b", "0", "1"]
    with pytest.raises(UnknownNameError, match="did you mean"):
        tw.plot_components(pmf, ["bb"])


def test_components_of_a_hidden_variable_on_a_tree():
    schema = Schema(tuple(Variable(f"v{n}", tuple(range(size))) for n, size in enumerate((3, 2, 4, 3, 2, 3))))
    tree = random_tree((-1, 0, 1, 1))
    pmf = JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    ax = tw.plot_components(pmf, "v2", of="v3")  # v3 is at the last hidden variable, v2 at another
    shares = tree.shares[3]
    assert labels(ax.xaxis) == [f"{n + 1}\n{share:.0%}" for n, share in enumerate(shares)]
    image = drawn(ax)[1:]
    np.testing.assert_allclose(image @ shares, 0, atol=1e-12)
    # By hand: from the last hidden variable up to its parent, and down to the home of v2.
    up = tree.transitions[2] * tree.shares[1] / shares[:, None]
    given = tree.factors[2] @ tree.transitions[1] @ up.T
    np.testing.assert_allclose(image, given - np.asarray(pmf.marginal("v2"))[:, None], atol=1e-12)
    assert tw.plot_scatter(pmf, of="v3").get_title() == "17 categories of 6 variables"
    with pytest.raises(DataError, match="of='v0'"):
        tw.plot_components(pmf)
    with pytest.raises(UnknownNameError, match="did you mean"):
        tw.plot_components(pmf, of="v33")
    with pytest.raises(DataError, match="mixture of 2"):
        tw.plot_components(JointPMF.average([pmf, JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))]), of="v0")


def test_components_of_a_large_model_are_those_that_differ():
    rng = np.random.default_rng(0)
    schema = Schema(tuple(Variable(f"v{n}", tuple(range(4))) for n in range(30)))
    same = np.repeat(rng.dirichlet(np.ones(4))[:, np.newaxis], 3, axis=1)
    pmf = JointPMF([0.5, 0.3, 0.2], [rng.dirichlet(np.ones(4), 3).T if n == 17 else same for n in range(30)], schema)
    ax = tw.plot_components(pmf)
    assert "v17" in labels(ax.yaxis)
    assert len(labels(ax.yaxis)) <= 75
    assert "of 30 variables" in ax.get_xlabel()
    drawn(ax)


def test_dependence(fitted):
    _, pmf = fitted
    ax = tw.plot_dependence(pmf)
    names = [label.replace("\\", "") for label in labels(ax.yaxis)]
    assert sorted(names) == ["$c$", "a", "b"]
    assert abs(names.index("a") - names.index("b")) == 1
    image = drawn(ax)
    for row, one in enumerate(names):
        for column, other in enumerate(names):
            if one == other:
                assert math.isnan(image[row, column])
            else:
                assert image[row, column] == pytest.approx(pmf.mutual_information(one, other, base=2), abs=1e-12)
    drawn(tw.plot_dependence(pmf, ["a", "b"]))
    many = tw.plot_dependence(tw.datasets.dirichlet_rows(50, 2, 2))
    assert len(labels(many.yaxis)) == 40


def test_pairs_that_no_table_shows_are_hatched():
    tables = tw.count(tw.datasets.draw_records(tw.datasets.dirichlet_rows(4, 2, 2), 200))
    known = [("x1", "x2"), ("x2", "x3"), ("x2", "x4")]
    pmf = tw.fit(tables.select(known), rank=1)
    ax = tw.plot_dependence(pmf)
    names = labels(ax.yaxis)
    places = [(round(box.get_y() + 0.5), round(box.get_x() + 0.5)) for box in ax.patches]
    hatched = {frozenset((names[row], names[column])) for row, column in places}
    assert hatched == {frozenset(pair) for pair in (("x1", "x3"), ("x1", "x4"), ("x3", "x4"))}
    assert len(places) == 6
    image = drawn(ax)
    assert all(math.isnan(image[place]) for place in places)
    assert not math.isnan(image[names.index("x1"), names.index("x2")])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no table shows the pair"]
    assert tw.plot_dependence(pmf, ["x1", "x2"]).get_legend() is None


def test_related_variables_are_drawn_next_to_each_other():
    closeness = np.zeros((6, 6))
    for one, other in [(0, 5), (5, 2), (1, 3), (3, 4)]:
        closeness[one, other] = closeness[other, one] = 1
    order = plotted_dependence_order(closeness)
    assert sorted(order) == list(range(6))
    assert {*order[:3]} in ({0, 2, 5}, {1, 3, 4})


def test_convergence(fitted):
    _, pmf = fitted
    for source in (pmf, pmf.report):
        ax = tw.plot_convergence(source)
        ax.figure.canvas.draw()
        assert len(ax.lines) == len(pmf.report.starts) == 3
        kept = ax.lines[-1]
        assert kept.get_label().endswith("(kept)")
        assert len(kept.get_xdata()) == pmf.report.starts[pmf.report.best].n_iter
        assert ax.get_yscale() == "log"
        lowest = min(start.objective for start in pmf.report.starts)
        first = pmf.report.starts[pmf.report.best].objectives[0]
        assert kept.get_ydata()[0] == pytest.approx(first - lowest)
    with pytest.raises(DataError, match="no report"):
        tw.plot_convergence(pmf.with_report(None))


def test_residuals(fitted):
    frame, pmf = fitted
    tables = tw.count(frame)
    image = drawn(tw.plot_residuals(pmf, frame))
    names = list(pmf.schema.names)
    assert np.isnan(np.diag(image)).all()
    residuals = plotted_residuals(pmf, tables, ["a", "b"])
    assert image[names.index("a"), names.index("b")] == pytest.approx(np.sqrt(np.mean(residuals**2)))
    cells = tw.plot_residuals(pmf, tables, ["b", "a"])
    np.testing.assert_allclose(drawn(cells), residuals.T)
    # By hand: observed and expected counts of one cell.
    complete = frame.dropna(subset=["a", "b"])
    n, observed = len(complete), int(((complete["a"] == 1) & (complete["b"] == 0)).sum())
    p = pmf.prob({"a": 1, "b": 0})
    assert residuals[1, 0] == pytest.approx((observed - n * p) / math.sqrt(n * p * (1 - p)))


def test_residuals_find_what_the_model_misses(fitted):
    frame, pmf = fitted
    independent = tw.fit(frame, rank=1, solver="em")
    assert (
        np.nanmax(drawn(tw.plot_residuals(independent, frame)))
        > 5
        > 2
        > np.nanmax(drawn(tw.plot_residuals(pmf, frame)))
    )


def test_residuals_of_other_variables_are_refused(fitted):
    frame, pmf = fitted
    other = tw.count(pd.DataFrame({"a": ["x", "y"], "b": [0, 1]}))
    with pytest.raises(DataError, match="category 1 of 'a'"):
        tw.plot_residuals(pmf, other)
    with pytest.raises(DataError, match="two variables"):
        tw.plot_residuals(pmf, frame, ["a"])
    with pytest.raises(DataError, match="two-way tables"):
        tw.plot_residuals(pmf, tw.count(frame, order=3))


def test_axes_that_are_given_are_used(fitted):
    from matplotlib.figure import Figure

    frame, pmf = fitted
    panels = Figure(figsize=(12, 8)).subplots(2, 2).ravel()
    assert tw.plot_components(pmf, ax=panels[0]) is panels[0]
    assert tw.plot_dependence(pmf, ax=panels[1]) is panels[1]
    assert tw.plot_convergence(pmf, ax=panels[2]) is panels[2]
    assert tw.plot_residuals(pmf, frame, ax=panels[3]) is panels[3]


def test_without_matplotlib_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import twoway as tw\n"
        "try: tw.plot_dependence(tw.datasets.dirichlet_rows(3, 2, 2))\n"
        "except tw.DataError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "twoway[plot]"' in told


def test_profiles_of_segments_show_names_and_marks(fitted):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 200)
    frame = pd.DataFrame({name: np.where(rng.random(200) < 0.9, group, 1 - group) for name in ("a", "b", "$c$")})
    found = tw.segments(frame, 2, starts=2, replicates=0).rename(["very long names are wrapped", "$x$"])
    ax = tw.plot_profiles(found)
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels[0].startswith("very long\n")
    assert labels[1].startswith("\\$x\\$")
    texts = [text.get_text() for text in ax.texts]
    assert len(texts) == 12
    assert sum(text.endswith("+") for text in texts) == (found.profile.marks > 0).sum() > 0
    assert len(tw.plot_profiles(found, "a").texts) == 4
    with pytest.raises(DataError, match="draws what"):
        tw.plot_profiles(fitted)


@pytest.mark.parametrize("plot", [tw.plot_components, tw.plot_dependence, tw.plot_scatter])
def test_no_names_are_an_error(plot):
    with pytest.raises(DataError, match="names is empty; name at least one variable"):
        plot(tw.datasets.dirichlet_rows(4, 5, 3), [])


def test_names_of_residuals_of_another_type_are_an_error():
    pmf = tw.datasets.dirichlet_rows(4, 5, 3)
    with pytest.raises(DataError, match="names must be two variables, whose table is drawn; got 5"):
        tw.plot_residuals(pmf, pmf.sample(100), 5)
