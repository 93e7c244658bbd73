"""Samples of a survey's design: strata, units, finite populations, replicate weights."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.errors import DataError, UnknownNameError

RNG = np.random.default_rng(0)
STRATUM = np.repeat([0, 0, 0, 0, 1, 1, 1, 1, 1], 12)
UNIT = np.repeat([1, 2, 3, 4, 1, 2, 3, 4, 5], 12)
LEVEL = RNG.normal(size=(2, 6))[STRATUM, UNIT] + RNG.normal(size=108)
FRAME = pd.DataFrame({"vote": np.where(LEVEL > 0.3, "yes", "no"), "weight": RNG.uniform(0.5, 2.0, 108)})
WEIGHTS = FRAME["weight"].to_numpy()
IS_YES = (FRAME["vote"] == "yes").to_numpy()
POPULATION = np.where(STRATUM == 0, 10, 40)


@pytest.fixture(scope="module")
def records():
    return tw.Records(FRAME, columns=["vote"], weights="weight")


@pytest.fixture(scope="module")
def pmf(records):
    return tw.fit(records, rank=1, smoothing=0)


def yes(model):
    return model.prob({"vote": "yes"})


def linearized_error(population=None):
    """Return the standard error of a weighted share by Taylor's formula: variances of units' totals in each stratum."""
    share = (WEIGHTS * IS_YES).sum() / WEIGHTS.sum()
    scores = WEIGHTS * (IS_YES - share) / WEIGHTS.sum()
    variance = 0.0
    for stratum in (0, 1):
        of_units = [scores[(stratum == STRATUM) & (unit == UNIT)].sum() for unit in np.unique(UNIT[stratum == STRATUM])]
        left = 1.0 if population is None else 1.0 - len(of_units) / population[stratum == STRATUM][0]
        variance += left * len(of_units) * np.var(of_units, ddof=1)
    return np.sqrt(variance)


@pytest.mark.parametrize("population", [None, POPULATION])
def test_few_units_give_the_error_of_taylors_formula(pmf, records, population):
    design = tw.Design(strata=STRATUM, units=UNIT, population=population)
    boot = tw.bootstrap(pmf, records, n=20, design=design)
    assert len(boot.replicates) == 9
    assert boot.degrees == 7
    assert float(boot.standard_error(yes)) == pytest.approx(linearized_error(population), rel=0.03)


def test_many_units_are_drawn(pmf, records):
    # Each record is a unit: more than there are replicates.
    boot = tw.bootstrap(pmf, records, n=100, design=tw.Design())
    share = float(yes(pmf))
    error = np.sqrt(108 / 107 * (WEIGHTS**2 * (IS_YES - share) ** 2).sum()) / WEIGHTS.sum()
    assert len(boot.replicates) == 100
    assert float(boot.standard_error(yes)) == pytest.approx(error, rel=0.2)


def test_replicate_weights_of_a_jackknife(pmf, records):
    units = np.unique(np.column_stack([STRATUM, UNIT]), axis=0)
    columns, scales = [], []
    for stratum, unit in units.tolist():
        n = (units[:, 0] == stratum).sum()
        here, own = stratum == STRATUM, (stratum == STRATUM) & (unit == UNIT)
        columns.append(np.where(own, 0.0, np.where(here, WEIGHTS * n / (n - 1), WEIGHTS)))
        scales.append((n - 1) / n)
    design = tw.Design(replicates=np.column_stack(columns), kind="jackknife", scale=scales)
    boot = tw.bootstrap(pmf, records, design=design)
    assert float(boot.standard_error(yes)) == pytest.approx(linearized_error(), rel=0.05)
    answer = boot.prob({"vote": "yes"})
    assert answer.low < answer < answer.high


def test_fays_weights_go_part_of_the_way(pmf, records):
    half = np.where(UNIT % 2 == 0, 2.0, 0.0)
    whole = np.column_stack([WEIGHTS * half, WEIGHTS * (2.0 - half)])
    part = 0.5 * WEIGHTS[:, None] + 0.5 * whole
    errors = [
        float(tw.bootstrap(pmf, records, design=tw.Design(replicates=weights, kind=kind)).standard_error(yes))
        for weights, kind in ((whole, "brr"), (part, "fay"))
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


def test_a_file_keeps_the_design(pmf, records, tmp_path):
    boot = tw.bootstrap(pmf, records, n=20, design=tw.Design(strata=STRATUM, units=UNIT))
    boot.save(tmp_path / "survey.twoway")
    loaded = tw.load(tmp_path / "survey.twoway")
    assert (loaded.prob({"vote": "yes"}).low, loaded.degrees) == (boot.prob({"vote": "yes"}).low, 7)


def test_clusters_make_intervals_wider(pmf, records):
    by_unit = tw.bootstrap(pmf, records, n=40, design=tw.Design(units=10 * STRATUM + UNIT)).prob({"vote": "yes"})
    simple = tw.bootstrap(pmf, records, n=40).prob({"vote": "yes"})
    assert by_unit.high - by_unit.low > 1.5 * (simple.high - simple.low)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"strata": np.where(np.arange(108) == 7, "lone", "rest")}, DataError, "'lone'"),
        ({"units": np.zeros(108)}, DataError, "one unit only"),
        ({"units": UNIT[:50]}, DataError, "108 records; got 50"),
        ({"units": [None, *UNIT[1:]]}, DataError, "row 0"),
        ({"units": 10 * STRATUM + UNIT, "population": np.full(108, 3)}, DataError, "9 units"),
        ({"units": UNIT, "population": ["many"] * 108}, DataError, "numbers"),
        ({"replicates": np.ones((108, 1))}, DataError, "at least 2 columns"),
        ({"replicates": np.ones((100, 4))}, DataError, "108 rows"),
        ({"replicates": -np.ones((108, 4))}, DataError, "row 0, replicate 0"),
        ({"replicates": np.ones((108, 4)), "strata": STRATUM}, DataError, "already describe the design"),
        ({"replicates": np.ones((108, 4)), "kind": "jacknife"}, UnknownNameError, "jackknife"),
        ({"replicates": np.ones((108, 4)), "kind": "fay", "fay": 1}, DataError, "below 1"),
        ({"replicates": np.ones((108, 4)), "kind": "brr", "scale": [1, 2]}, DataError, "4 replicates"),
        ({"replicates": np.ones((108, 4))}, DataError, "give the kind"),
    ],
)
def test_mistakes(pmf, records, options, error, said):
    with pytest.raises(error, match=said):
        tw.bootstrap(pmf, records, n=20, design=tw.Design(**options))


def test_a_stratum_that_was_drawn_as_a_whole_varies_by_nothing(pmf, records, tmp_path):
    population = np.where(STRATUM == 0, 4, 40)
    boot = tw.bootstrap(pmf, records, n=20, design=tw.Design(strata=STRATUM, units=UNIT, population=population))
    boot.save(tmp_path / "survey.twoway")
    assert tw.load(tmp_path / "survey.twoway").prob({"vote": "yes"}).low == boot.prob({"vote": "yes"}).low
    # Samples of a design are no draws of the model.
    with pytest.raises(DataError, match="without a design"):
        boot.impute(FRAME[["vote"]])
    assert np.isnan(boot.mode().agreement)


def test_rows_that_stand_for_several_records_need_units():
    frame = pd.DataFrame({"vote": ["yes", "no"], "n": [40, 60]})
    counted = tw.Records(frame, columns=["vote"], counts="n")
    pmf = tw.fit(counted, rank=1)
    with pytest.raises(DataError, match="must name their units"):
        tw.bootstrap(pmf, counted, n=20, design=tw.Design())
    plain = tw.Records(FRAME, columns=["vote"])
    with pytest.raises(DataError, match="own weights"):
        tw.bootstrap(pmf, plain, design=tw.Design(replicates=np.ones((108, 4))))


def test_tables_have_no_design(pmf, records):
    two = pd.DataFrame({"a": [0, 1] * 9, "b": [0, 1, 1] * 6})
    with pytest.raises(DataError, match="tables were given"):
        tw.bootstrap(tw.fit(two, rank=1), tw.count(two), n=20, design=tw.Design())
