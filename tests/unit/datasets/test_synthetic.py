"""The generators have the structure of the paper's data."""

import numpy as np
import pandas as pd
import pytest

from twoway.datasets import digits, dirichlet_rows, draw_records, hide, nearly_separable, uniform_entries
from twoway.errors import DataError
from twoway.model.comparison import total_variation

GENERATORS = [dirichlet_rows, nearly_separable, uniform_entries]
LEAKS = {0.1: 0.0005, 0.2: 0.015, 0.3: 0.030}


@pytest.mark.parametrize("make", GENERATORS)
def test_seeded(make):
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert one.stacked.tobytes() == same.stacked.tobytes()
    assert one.weights.tobytes() == same.weights.tobytes()
    assert one.stacked.tobytes() != other.stacked.tobytes()


@pytest.mark.parametrize("make", GENERATORS)
def test_a_pmf_of_numbered_categories(make):
    pmf = make(n_variables=4, n_categories=6, rank=3)
    assert pmf.schema.names == ("x1", "x2", "x3", "x4")
    assert pmf.schema.variables[0].categories == tuple(range(6))
    assert pmf.rank == 3
    assert (pmf.stacked > 0).all()
    for factor in pmf.factors:
        np.testing.assert_allclose(factor.sum(axis=0), 1)


def test_sizes_of_the_paper():
    assert (len(dirichlet_rows().schema), dirichlet_rows().schema.sizes[0], dirichlet_rows().rank) == (15, 10, 10)
    assert (len(nearly_separable().schema), nearly_separable().schema.sizes[0], nearly_separable().rank) == (5, 10, 5)


def test_dirichlet_rows():
    """Before columns are scaled, rows are uniform on the simplex: they differ by one factor a column only."""
    pmf = dirichlet_rows(200, 10, 5, seed=0)
    np.testing.assert_array_equal(pmf.weights, np.full(5, 0.2))
    for factor in pmf.factors[:20]:
        # Some scales c make all rows of factor · diag(c) sum to one.
        scales, residual, _, _ = np.linalg.lstsq(factor, np.ones(10), rcond=None)
        assert (scales > 0).all()
        assert residual[0] < 1e-20
    rows = []
    for factor in pmf.factors:
        scales = np.linalg.lstsq(factor, np.ones(10), rcond=None)[0]
        rows.append(factor * scales)
    entries = np.concatenate(rows).ravel()
    # An entry of a uniform point of the simplex in 5 dimensions: mean 1/5, variance 4/150.
    assert entries.mean() == pytest.approx(0.2, abs=1e-9)
    assert entries.var() == pytest.approx(4 / 150, rel=0.05)


@pytest.mark.parametrize(("epsilon", "leak"), LEAKS.items())
@pytest.mark.parametrize("seed", range(6))
def test_nearly_separable(epsilon, leak, seed):
    pmf = nearly_separable(epsilon, seed=seed)
    np.testing.assert_array_equal(pmf.weights, np.full(5, 0.2))
    pattern = np.where(np.eye(5, dtype=bool), 0.4, leak)
    is_separable = [np.allclose(factor[:5], pattern, rtol=1e-9) for factor in pmf.factors]
    assert sum(is_separable) == 1
    chosen = is_separable.index(True)
    assert chosen in (3, 4)
    np.testing.assert_allclose(pmf.factors[chosen][5:].sum(axis=0), 1 - (0.4 + 4 * leak))


def test_either_of_the_last_two_variables_is_separable():
    chosen = {
        max(range(5), key=lambda n: nearly_separable(seed=seed).factors[n][np.arange(5), np.arange(5)].min())
        for seed in range(20)
    }
    assert chosen == {3, 4}


def test_bad_options():
    with pytest.raises(DataError, match=r"epsilon must be one of 0\.1, 0\.2, 0\.3, not 0\.4"):
        nearly_separable(0.4)
    with pytest.raises(DataError, match="more categories than components; got 5 and 5"):
        nearly_separable(n_categories=5, rank=5)
    with pytest.raises(DataError, match=r"observed must be a probability, not 1\.5"):
        draw_records(dirichlet_rows(), 10, observed=1.5)
    with pytest.raises(DataError, match="n_records must be a whole number of at least 0, not -1"):
        draw_records(dirichlet_rows(), -1)


def test_uniform_entries():
    pmf = uniform_entries(200, 10, 4, seed=0)
    assert len(set(pmf.weights.tolist())) == 4
    # Scaled to a largest entry of one, a column of uniform entries keeps a mean near one half.
    scaled = np.concatenate([(factor / factor.max(axis=0)).ravel() for factor in pmf.factors])
    assert scaled.mean() == pytest.approx(0.55, abs=0.02)


def test_drawn_records_follow_the_model():
    pmf = dirichlet_rows(3, 4, 2, seed=5)
    records = draw_records(pmf, 50_000, observed=0.5, seed=1)
    assert records.schema == pmf.schema
    assert records.n_observed == pytest.approx(75_000, rel=0.01)
    assert total_variation(records, pmf, ["x1", "x2"]) < 0.03
    assert total_variation(records, pmf, ["x1", "x2", "x3"]) < 0.06
    # Cells are hidden independently of one another and of their values.
    seen = records.codes() >= 0
    assert np.abs(np.corrcoef(seen.T) - np.eye(3)).max() < 0.02


@pytest.mark.parametrize(("observed", "n"), [(0.0, 0), (1.0, 300)])
def test_nothing_or_everything_observed(observed, n):
    assert draw_records(dirichlet_rows(3, 4, 2), 100, observed=observed).n_observed == n


def test_drawn_records_are_seeded():
    pmf = dirichlet_rows(3, 4, 2)
    drawn = [draw_records(pmf, 100, seed=seed).codes().tobytes() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_hide():
    frame = pd.DataFrame({"x": ["a"] * 2000, "y": range(2000)})
    hidden = hide(frame, 0.3, seed=1)
    assert hidden.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.03)
    pd.testing.assert_frame_equal(hidden, hide(frame, 0.3, seed=1))
    assert not hide(frame, 0.0).isna().to_numpy().any()
    assert hide(frame, 1.0).isna().to_numpy().all()
    kept = hidden["y"].notna()
    assert (hidden["y"][kept] == frame["y"][kept]).all()
    with pytest.raises(DataError, match="share must be a probability, not 2"):
        hide(frame, 2)
    with pytest.raises(DataError, match="share must be a probability, not 'half'"):
        hide(frame, "half")


def test_digits():
    frame = digits(levels=4)
    assert frame.shape == (1797, 65)
    assert sorted(frame["digit"].unique()) == list(range(10))
    assert sorted(np.unique(frame.drop(columns="digit"))) == [0, 1, 2, 3]
    assert digits(levels=2)["r0c3"].isin([0, 1]).all()
    with pytest.raises(DataError, match="levels must be a whole number of at least 2, not 1"):
        digits(levels=1)
