"""Properties of fits: the result is a PMF or an error with a reason, and no objective rises."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from strategies import examples, frames, schemas

import twoway as tw
from twoway.errors import DataError
from twoway.solvers import SOLVERS

WEIGHTS = st.sampled_from([0.0, 1e-12, 0.3, 1.0, 7.0, 1e12])


@pytest.mark.parametrize("solver", [*SOLVERS, "spa+em"])
@given(data=st.data())
@settings(examples(12), suppress_health_check=[HealthCheck.too_slow])
def test_any_records_give_a_pmf(solver, data):
    schema = data.draw(schemas(max_variables=4, max_categories=3))
    frame = data.draw(frames(schema, max_records=12))
    assume(frame.notna().to_numpy().any())
    n = len(frame)
    weights = data.draw(st.one_of(st.none(), st.lists(WEIGHTS, min_size=n, max_size=n)))
    assume(weights is None or (np.array(weights)[frame.notna().any(axis=1)] > 0).any())
    records = tw.Records(frame, schema=schema, weights=weights)
    rank = data.draw(st.integers(1, 3))
    smoothing = data.draw(st.sampled_from([None, 0.0, 0.5]))
    try:
        pmf = tw.fit(records, rank=rank, solver=solver, starts=1, smoothing=smoothing, threads=1)
    except DataError:
        assert solver not in ("em", "auto"), "any records can be fitted by these"
        return
    assert pmf.schema == schema
    assert pmf.rank == rank
    for array in (pmf.weights, pmf.stacked):
        assert np.isfinite(array).all()
        assert (array >= 0).all()
    assert pmf.weights.sum() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(np.add.reduceat(pmf.stacked, schema.offsets[:-1]), 1, atol=1e-9)
    for start in pmf.report.starts:
        assert all(after <= before + 1e-10 * max(abs(before), 1) for before, after in pairwise(start.objectives))
    if solver in ("em", "auto"):
        assert np.isfinite(pmf.log_prob(records)[records._has_say]).all(), "what was seen is possible"


@given(data=st.data())
@settings(examples(15), suppress_health_check=[HealthCheck.too_slow])
def test_rank_one_is_the_shares_of_each_variable(data):
    schema = data.draw(schemas(max_variables=3))
    frame = data.draw(frames(schema))
    records = tw.Records(frame, schema=schema)
    assume(records.n_observed)
    pmf = tw.fit(records, rank=1, solver="em", starts=1)
    for name in schema.names:
        if frame[name].notna().any():
            np.testing.assert_allclose(pmf.marginal(name).array, records.marginal(name).array, atol=1e-9)


@given(data=st.data())
@settings(examples(10), suppress_health_check=[HealthCheck.too_slow])
def test_the_likelihood_grows_with_the_rank_and_the_smoothing_bounds_it(data):
    """A model of rank two starts from one of rank one, doubled, and EM never lets the likelihood fall."""
    schema = data.draw(schemas(min_variables=2, max_variables=3))
    frame = data.draw(frames(schema))
    records = tw.Records(frame, schema=schema)
    assume(records.n_observed)
    plain = tw.fit(records, rank=1, solver="em", starts=1).report
    better = tw.fit(records, rank=2, solver="em", starts=3).report
    assert better.log_likelihood >= plain.log_likelihood - 1e-6 * abs(plain.log_likelihood) - 1e-9
    smooth = tw.fit(records, rank=2, solver="em", starts=1, smoothing=5.0).report
    assert smooth.log_likelihood <= max(better.log_likelihood, plain.log_likelihood) + 1e-3 * records.n_records + 1e-6
