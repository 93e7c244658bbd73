"""Plots of the choice of the rank and of the scatter of categories."""

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.schema import Schema, Variable
from twoway.solvers.rank import RankChoice

mpl = pytest.importorskip("matplotlib", reason="plots need the extra 'plot'")

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_rank_from_records_and_from_tables():
    records = draw_records(dirichlet_rows(6, 4, 2, seed=1), 2000)
    ax = tw.plot_rank(tw.choose_rank(records))
    assert ax.get_title() == "rank 2, by held-out likelihood"
    heights = ax.lines[0].get_ydata()
    assert heights[1] == min(heights)
    ax = tw.plot_rank(tw.choose_rank(tw.count(records)))
    assert ax.get_title() == "rank 2, by spectrum"
    tables, chance = (line.get_ydata() for line in ax.lines[:2])
    assert tables[0] > chance[0]
    star = tw.count(records).select([("x1", f"x{i}") for i in range(2, 7)])
    assert tw.plot_rank(tw.choose_rank(star, [3, 4])).get_ylabel() == "AIC"


def test_rank_without_anything_to_draw():
    with pytest.raises(tw.DataError, match="too little"):
        tw.plot_rank(RankChoice(1, ({"rank": 1, "held_out": None},)))
    with pytest.raises(tw.DataError, match="not int"):
        tw.plot_rank(3)


def test_scatter_puts_sure_categories_into_corners():
    schema = Schema((Variable("a", (0, 1, 2)), Variable("b", (0, 1))))
    pmf = tw.JointPMF([0.5, 0.3, 0.2], [np.eye(3), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]], schema)
    ax = tw.plot_scatter(pmf)
    points = np.column_stack(ax.lines[-1].get_data())
    np.testing.assert_allclose(points[:3], [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]], atol=1e-12)
    np.testing.assert_allclose(points[3], np.array([0.5, 0.3, 0.2]) @ points[:3])
    circle = np.column_stack(ax.lines[0].get_data())
    assert np.isclose(circle[:, 1].min(), 0, atol=1e-3)  # it touches the side below
    assert len(tw.plot_scatter(pmf, "b").lines[-1].get_xdata()) == 2


def test_scatter_needs_rank_three():
    with pytest.raises(tw.DataError, match="this model has rank 2"):
        tw.plot_scatter(dirichlet_rows(3, 3, 2))
