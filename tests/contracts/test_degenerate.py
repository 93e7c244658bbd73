"""Degenerate data through every step: choose the rank, fit, ask, impute, sample, save, diagnose, explore."""

import json
import math
import re

import numpy as np
import pytest
from degenerate import DEGENERATE

import twoway as tw
from twoway.errors import DataError, TwowayError
from twoway.explorer.page import describe_page
from twoway.schema import Schema, Variable
from twoway.solvers import EM, CoupledNMF
from twoway.tables.tables import Tables


def assert_answers(pmf, records):
    """Check that every question to a model has a finite answer."""
    names = pmf.schema.names
    for name in names:
        shares = pmf.marginal(name).array
        assert shares.sum() == pytest.approx(1)
        assert (shares >= 0).all()
        assert 0 <= pmf.entropy(name) <= math.log(len(shares)) + 1e-12
        if pmf.schema[name].values is not None:
            assert math.isfinite(pmf.expect(name))
        label = pmf.schema[name].categories[int(np.argmax(shares))]
        assert pmf.given({name: label}).prob({name: label}) == pytest.approx(1)
    for other in names[1:]:
        assert 0 <= pmf.mutual_information(names[0], other) < math.inf
    assert 0 < pmf.mode().probability <= 1
    log_prob = pmf.log_prob(records)
    assert not np.isnan(log_prob).any()
    np.testing.assert_allclose(pmf.memberships(records, of=names[-1]).sum(axis=1), 1)
    assert len(pmf.sample(3)) == 3
    frame = pmf.sample(2).astype(object)
    frame.iloc[0, 0] = None
    assert pmf.impute(frame).notna().all().all()


structures = pytest.mark.parametrize("structure", ["single", "tree"])


@structures
@pytest.mark.parametrize("data", DEGENERATE)
def test_all_the_way(data, structure, tmp_path):
    source, _ = DEGENERATE[data]
    records = tw.Records(source)
    pmf = tw.fit(source, structure=structure, seed=1)
    assert_answers(pmf, records)
    pmf.save(tmp_path / "model")
    again = tw.load(tmp_path / "model")
    again.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()
    json.dumps(describe_page(pmf, data), allow_nan=False)
    assert not re.search(r"\bnan\b", str(pmf.report))


@structures
@pytest.mark.parametrize("data", DEGENERATE)
def test_checks_and_intervals(data, structure):
    """What is said about a fit is finite, or refused with a reason."""
    source, rank = DEGENERATE[data]
    records = tw.Records(source)
    options = {"solver": "em"} if structure == "single" else {}
    pmf = tw.fit(records, rank=min(rank, 3), structure=structure, starts=1, **options)
    told = []
    for doubt in (
        lambda: tw.fit_quality(pmf, records),
        lambda: tw.diagnose(tw.count(records) if structure == "single" else pmf, pmf.rank),
        lambda: tw.update(pmf, records).report,
        lambda: tw.bootstrap(pmf, records, n=20, threads=1).marginal(pmf.schema.names[0]),
    ):
        try:
            told.append(str(doubt()))
        except DataError as error:
            told.append(str(error))
    assert not any(re.search(r"\bnan\b", text) for text in told), told


@structures
@pytest.mark.parametrize("data", DEGENERATE)
def test_counting_and_fitting_the_counts(data, structure):
    """Counting, and fitting the counts: a PMF, or tables that do not connect the variables."""
    source, rank = DEGENERATE[data]
    tables = tw.count(source)
    assert (tables.totals > 0).all()
    try:
        pmf = tw.fit(tables, rank=min(rank, 4), structure=structure)
    except TwowayError as error:
        assert len(tables) == 0 or not tables.is_connected, str(error)  # noqa: PT017
        return
    for name in pmf.schema.names:
        assert np.asarray(pmf.marginal(name)).sum() == pytest.approx(1)
    assert all(math.isfinite(misfit.kl) for misfit in pmf.report.misfits)


def test_what_cannot_be_is_not_made_up():
    """No pregnant man was counted, and none is modelled; the other zero of the table is a chance one."""
    source, rank = DEGENERATE["structural zeros"]
    pmf = tw.fit(source, rank=rank, solver="em")
    assert pmf.prob({"sex": "m", "pregnant": "yes"}) < 1e-6
    assert pmf.given({"sex": "f"}).prob({"pregnant": "yes"}) == pytest.approx(40 / 340, rel=1e-3)


def test_nothing_observed_is_refused():
    schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1))))
    for source in (
        tw.Records({"a": [None, None], "b": [None, None]}, schema=schema),
        tw.Records({"a": [], "b": []}, schema=schema),
    ):
        with pytest.raises(DataError, match="nothing to fit"):
            tw.fit(source, rank=2)
        assert len(tw.count(source)) == 0
    with pytest.raises(DataError, match="'a'"):
        tw.fit({"a": [None, None], "b": [0, 1]}, rank=2)
    with pytest.raises(DataError, match="zero"):
        tw.Records({"a": [0, 1]}, weights=[0, 0])


@pytest.fixture(scope="module")
def wide():
    """60 records of 5,000 variables that all follow one hidden one."""
    random = np.random.default_rng(0)
    hidden = random.integers(2, size=60)
    codes = np.where(random.random((60, 5000)) < 0.8, hidden[:, None], 1 - hidden[:, None])
    shown = random.random(codes.shape) < 0.5
    schema = Schema(tuple(Variable(f"x{index}", (0, 1)) for index in range(5000)))
    pointers = np.concatenate([[0], np.cumsum(shown.sum(axis=1))])
    return tw.Records.from_cells(schema, pointers, (codes + schema.offsets[:-1])[shown].astype(np.uint16)), hidden


@pytest.mark.slow
def test_five_thousand_variables(wide, tmp_path):
    records, hidden = wide
    pmf = tw.fit(records, rank=2, solver=EM(max_iter=15), starts=1)
    shares = pmf.memberships(records)[:, 0]
    assert abs(np.corrcoef(shares, hidden)[0, 1]) > 0.99
    assert np.isfinite(pmf.log_prob(records)).all()
    everything = dict.fromkeys(pmf.schema.names, 1)
    assert pmf.prob(everything) >= 0
    assert pmf.given(everything).weights.sum() == pytest.approx(1)
    assert pmf.mode().probability >= 0
    assert pmf.mutual_information("x0", "x4999") > 0
    assert pmf.entropy(pmf.schema.names[:40]).standard_error > 0
    pmf.save(tmp_path / "model")
    assert tw.load(tmp_path / "model").rank == 2
    with pytest.raises(DataError, match="name fewer variables"):
        pmf.marginal(pmf.schema.names)


@pytest.mark.slow
def test_five_thousand_variables_and_a_chain_of_tables():
    """Each variable with the next one: all that tables of so many can be is a tree, or somebody's selection."""
    schema = Schema(tuple(Variable(f"x{index}", range(5)) for index in range(5000)))
    counts = np.random.default_rng(0).integers(1, 50, size=(4999, 5, 5)) + 50 * np.eye(5)
    tables = Tables(schema, [[one, one + 1] for one in range(4999)], counts.ravel())
    pmf = tw.fit(tables, rank=2, solver=CoupledNMF(max_iter=5), starts=1)
    assert np.isfinite(pmf.stacked).all()
    assert pmf.mutual_information("x0", "x1") > 0
