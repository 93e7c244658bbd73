"""Models of many areas: alone, and drawn toward the whole."""

import numpy as np
import pytest

import twoway as tw

LABELS = [("a", "b", "c"), ("x", "y", "z")]


def tables_of(counts):
    cells = {(LABELS[0][i], LABELS[1][j]): counts[i, j] for i, j in np.ndindex(3, 3)}
    return tw.PublishedTables.of([tw.PublishedTable.of(["first", "second"], cells)])


@pytest.fixture(scope="module")
def truth():
    """Shares of six areas that are much alike."""
    random = np.random.default_rng(0)
    usual = random.dirichlet(np.ones(9))
    return [random.dirichlet(300 * usual).reshape(3, 3) for _ in range(6)]


@pytest.mark.slow
def test_small_areas_are_nearer_to_the_truth_if_they_share(truth):
    random = np.random.default_rng(1)
    areas = {str(n): tables_of(random.multinomial(40, p.ravel()).reshape(3, 3) + 1e-9) for n, p in enumerate(truth)}
    alone, shared = tw.fit_areas(areas), tw.fit_areas(areas, share=True)

    def error(models):
        found = [np.asarray(models[str(n)].marginal(["first", "second"])) for n in range(len(truth))]
        return np.mean([np.abs(one - true).sum() for one, true in zip(found, truth, strict=True)])

    assert error(shared) < 0.8 * error(alone)
    assert "pseudo-people" in shared["0"].report.warnings[0]


def test_large_areas_keep_their_own_tables(truth):
    areas = {str(n): tables_of(np.round(p * 1e6)) for n, p in enumerate(truth[:3])}
    models = tw.fit_areas(areas, share=True)
    for number, true in enumerate(truth[:3]):
        np.testing.assert_allclose(models[str(number)].marginal(["first", "second"]), true, atol=2e-3)


def test_areas_with_other_tables_cannot_share(truth):
    other = tw.PublishedTables.of([tw.PublishedTable.of("first", {"a": 1, "b": 2, "c": 3})])
    with pytest.raises(tw.DataError, match="Birch"):
        tw.fit_areas({"Alder": tables_of(truth[0] * 100), "Birch": other}, share=True)
    with pytest.raises(tw.DataError, match="no area"):
        tw.fit_areas({})
