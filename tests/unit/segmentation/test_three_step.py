"""Segments and other variables: corrections recover what is true of everybody, and odd data is named."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.segmentation.relations import WaldTest
from twoway.segmentation.three_step import Assignment, three_step_logit, three_step_means, three_step_shares

SIZES = np.array([0.5, 0.3, 0.2])
CHANCES = np.array([[0.8] * 4, [0.8, 0.8, 0.2, 0.2], [0.2] * 4])
PATTERNS = np.array(list(product((0, 1), repeat=4)))
# The probability of each pattern in each segment, (16, 3).
LIKELY = np.prod(np.where(PATTERNS[:, :, None], CHANCES.T, 1 - CHANCES.T), axis=1)


def population(sizes_by_group=(SIZES,)):
    """Return everybody: the weight, the group, the pattern and the segment of each kind of person."""
    groups, patterns, segments = (part.ravel() for part in np.indices((len(sizes_by_group), len(PATTERNS), len(SIZES))))
    sizes = np.array(sizes_by_group) / len(sizes_by_group)
    return sizes[groups, segments] * LIKELY[patterns, segments], groups, patterns, segments


def posterior(weights, patterns):
    joint = np.zeros((len(PATTERNS), len(SIZES)))
    sizes = np.zeros(len(SIZES))
    segments = np.arange(len(weights)) % len(SIZES)
    np.add.at(joint, (patterns, segments), weights)
    np.add.at(sizes, segments, weights)
    return (joint / joint.sum(axis=1, keepdims=True))[patterns]


def test_the_errors_of_assignment_are_those_counted():
    weights, _, patterns, segments = population()
    memberships = posterior(weights, patterns)
    assigned = Assignment.of(memberships, weights)
    for segment, other in product(range(3), repeat=2):
        here = segments == segment
        share = weights[here & (memberships.argmax(axis=1) == other)].sum() / weights[here].sum()
        assert assigned.errors[segment, other] == pytest.approx(share)
    assert assigned.sizes == pytest.approx(SIZES)


def test_corrected_means_and_shares_are_the_true_ones_and_others_are_biased():
    weights, _, patterns, segments = population()
    assigned = Assignment.of(posterior(weights, patterns), weights)
    means = np.array([10.0, 20.0, 40.0])
    assert three_step_means(assigned, means[segments], "bch") == pytest.approx(means)
    naive = three_step_means(assigned, means[segments], "none")
    assert np.abs(naive / means - 1).max() > 0.2
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.0, 0.7]])
    by_answer = Assignment(
        np.repeat(assigned.modal, 3), assigned.errors, assigned.sizes, (weights[:, None] * shares[segments]).ravel()
    )
    codes = np.tile(np.arange(3), len(weights))
    for correction in ("bch", "ml"):
        found = three_step_shares(by_answer, codes, 3, correction)
        assert found == pytest.approx(shares, abs=1e-3)
    assert np.abs(three_step_shares(by_answer, codes, 3, "none") - shares).max() > 0.05


def test_a_corrected_logit_has_the_true_coefficients():
    z = np.array([-1.0, 0.0, 2.0])
    truth = np.array([[0.2, -0.8], [-0.5, 0.6]])
    odds = np.exp(np.column_stack([np.zeros(3), truth[:, 0] + z[:, None] * truth[:, 1]]))
    weights, groups, patterns, _ = population(odds / odds.sum(axis=1, keepdims=True))
    assigned = Assignment.of(posterior(weights, patterns), weights)
    for correction in ("bch", "ml"):
        assert three_step_logit(assigned, z[groups][:, None], correction) == pytest.approx(truth, abs=1e-4)
    assert np.abs(three_step_logit(assigned, z[groups][:, None], "none") - truth).max() > 0.1


def test_normal_outcomes_are_found_by_maximum_likelihood():
    random = np.random.default_rng(0)
    segments = random.choice(3, 3000, p=SIZES)
    patterns = np.array([random.choice(16, p=LIKELY[:, segment]) for segment in segments])
    memberships = SIZES * LIKELY[patterns]
    assigned = Assignment.of(memberships / memberships.sum(axis=1, keepdims=True), np.ones(3000))
    values = random.normal(np.array([-1.0, 1.0, 3.0])[segments], 0.5)
    assert three_step_means(assigned, values, "ml") == pytest.approx([-1, 1, 3], abs=0.1)
    assert three_step_means(assigned, np.full(3000, 1e12), "ml") == pytest.approx(1e12)
    assert three_step_means(assigned, 1e12 + values, "ml") - 1e12 == pytest.approx([-1, 1, 3], abs=0.1)


def test_wald_tests_have_the_right_size():
    random = np.random.default_rng(0)
    root = np.linalg.cholesky([[1.0, 0.7, 0.0], [0.7, 1.0, 0.2], [0.0, 0.2, 4.0]])
    p_values = []
    for _ in range(400):
        drawn = random.normal(size=(61, 3)) @ root.T
        p_values.append(WaldTest.of("x", drawn[0], drawn[1:]).p_value)
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=0.04)
    same = WaldTest.of("x", np.zeros(2), np.zeros((50, 2)))
    assert (same.df, same.p_value) == (0, 1.0)
    assert str(same) == "Wald test of x: df 0, p = 1"
    assert WaldTest.of("x", np.array([1.0, 0.0]), np.zeros((50, 2))).p_value == 0.0


def test_a_wald_test_shows_the_distribution_of_its_p_value():
    from scipy.stats import f

    drawn = np.random.default_rng(0).normal(size=(61, 3))
    test = WaldTest.of("x", drawn[0], drawn[1:])
    assert (test.df, test.df_denominator) == (3, 57)
    assert test.statistic == pytest.approx(drawn[0] @ np.linalg.solve(np.cov(drawn[1:].T), drawn[0]))
    assert test.f_statistic == pytest.approx(test.statistic * 57 / (59 * 3))
    assert test.p_value == pytest.approx(f.sf(test.f_statistic, 3, 57))
    shown = f"W = {test.statistic:.2f}, F(3, 57) = {test.f_statistic:.2f}, p = {test.p_value:.3g}"
    assert str(test) == f"Wald test of x: {shown}"


@pytest.fixture(scope="module")
def study():
    random = np.random.default_rng(1)
    segments = random.choice(3, 400, p=SIZES)
    items = (random.random((400, 4)) < CHANCES[segments]).astype(int)
    frame = pd.DataFrame(items, columns=list("abcd"))
    places = np.where(random.random(400) < 0.5, segments, random.integers(0, 3, 400))
    region = np.where(random.random(400) < 0.2, None, np.array(["north", "south", "west"], dtype=object)[places])
    frame = frame.assign(z=random.normal(segments * 1.0), region=region, w=random.uniform(0.5, 1.5, 400))
    return frame, tw.segments(frame[list("abcd")], 3, starts=8, replicates=0)


def test_relations_of_a_frame(study):
    frame, found = study
    effects = found.relate(frame, replicates=50, threads=2).covariates(["z", "region"])
    assert effects.terms == ("intercept", "z", "region = south", "region = west")
    assert effects.n_people == frame["region"].notna().sum()
    assert "left out" in str(effects)
    assert {test.name for test in effects.tests} == {"z", "region"}
    again = found.relate(frame, replicates=50, threads=1).covariates(["z", "region"])
    assert again.coefficients == pytest.approx(effects.coefficients)
    assert again.errors == pytest.approx(effects.errors)
    outcomes = found.relate(frame, replicates=50).outcomes(["z", "region"])
    assert outcomes["z"].test.p_value < 0.01
    assert outcomes["region"].estimates.sum(axis=1) == pytest.approx(1.0)
    assert len(outcomes["region"].rows()) == 9
    assert outcomes["z"].errors.shape == (3, 1)
    assert "Wald test of z" in str(outcomes["z"])


def test_categories_are_compared_with_the_first_one_that_occurs(study):
    frame, found = study
    holes = frame.assign(z=frame["z"].mask(frame["region"] == "north"))
    effects = found.relate(holes, replicates=50).covariates(["region", "z"])
    assert effects.terms == ("intercept", "region = west", "z")


@pytest.mark.slow
def test_weights_count_people_more_often(study):
    frame, found = study
    twice = pd.concat([frame, frame.head(100)], ignore_index=True)
    weights = np.where(np.arange(400) < 100, 2.0, 1.0)
    weighted = found.relate(frame, weights=weights, replicates=50).outcomes("z")["z"]
    assert weighted.estimates == pytest.approx(found.relate(twice, replicates=50).outcomes("z")["z"].estimates)
    by_name = found.relate(frame, weights="w", replicates=50).covariates("z")
    assert by_name.coefficients == pytest.approx(
        found.relate(frame, weights=frame["w"] * 7, replicates=50).covariates("z").coefficients, abs=1e-5
    )


@pytest.mark.slow
def test_a_covariate_that_separates_segments_is_named_and_stays_finite(study):
    frame, found = study
    assigned = found.assign(frame)["segment"]
    separate = frame.assign(s=assigned)
    effects = found.relate(separate, replicates=50).covariates("s", correction="none")
    assert np.isfinite(effects.coefficients).all()
    assert any("separates segments perfectly" in warning for warning in effects.warnings)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("a", {}, "'a' is one of the variables that the segments were found by"),
        ("zz", {}, "no column 'zz'"),
        (["z", "z"], {}, "duplicate column name 'z'"),
        ([], {}, "no columns to relate"),
        ("one", {}, "'one' has only one value"),
        (["z", "twice"], {}, "'twice' follows from those before it"),
        ("z", {"weights": "ww"}, "no column 'ww' for the weights"),
        ("z", {"weights": np.zeros(400)}, "all zero"),
        ("z", {"replicates": 10}, "at least 50"),
        (3, {}, "no column 3"),
    ],
)
def test_wrong_relations_are_named(study, names, options, message):
    frame, found = study
    odd = frame.assign(one=1, twice=2 * frame["z"])
    with pytest.raises(tw.TwowayError, match=message):
        found.relate(odd, **options).covariates(names)


def test_a_wrong_correction_is_named(study):
    frame, found = study
    relations = found.relate(frame)
    for relate in (relations.covariates, relations.outcomes):
        with pytest.raises(tw.UnknownNameError, match="did you mean 'bch'"):
            relate("z", correction="bhc")


def test_covariates_and_outcomes_share_samples(study):
    frame, found = study
    progress = []
    relations = found.relate(frame, replicates=50, monitor=progress.append)
    assert not progress
    shared = relations.covariates("z"), relations.outcomes(["z", "region"])["region"]
    assert [part.done for part in sorted(progress, key=lambda part: part.done)] == list(range(1, 51))
    alone = found.relate(frame, replicates=50).outcomes("region")["region"]
    np.testing.assert_array_equal(shared[1].errors, alone.errors)
    np.testing.assert_array_equal(shared[0].errors, found.relate(frame, replicates=50).covariates("z").errors)


@pytest.mark.parametrize("people", [None, [{"a": 1}], {"a": [1]}])
def test_people_that_are_not_a_frame_are_refused(study, people):
    _, found = study
    message = f"frame must be of pandas, polars or pyarrow, not {type(people).__name__}"
    with pytest.raises(tw.DataError, match=message):
        found.relate(people, replicates=50).covariates("z")
    with pytest.raises(tw.DataError, match=message):
        found.assign(people)


def test_a_segment_to_which_nobody_is_assigned_is_named(study):
    frame, found = study
    with pytest.raises(tw.DataError, match="too few people are assigned to 'segment"):
        found.relate(frame[found.assign(frame)["segment"] != "segment 3"], replicates=50).outcomes("z")
    one = tw.segments(frame[list("abcd")], 1, replicates=0)
    with pytest.raises(tw.DataError, match="at least two"):
        one.relate(frame, replicates=50).covariates("z")


@pytest.mark.parametrize("correction", ["none", "bch", "ml"])
def test_people_alike_can_be_merged(correction):
    random = np.random.default_rng(2)
    memberships = random.dirichlet([0.4, 0.4, 0.4], 300)
    codes, weights = random.integers(0, 4, 300), random.integers(0, 3, 300).astype(float)
    assigned = Assignment.of(memberships, weights)
    merged, group = assigned.merged(codes)
    assert len(group) <= 12
    assert merged.weights.sum() == weights.sum()
    numbers = codes.astype(float)
    for whole, less in (
        (three_step_means(assigned, numbers, correction), three_step_means(merged, group.astype(float), correction)),
        (three_step_shares(assigned, codes, 4, correction), three_step_shares(merged, group, 4, correction)),
        (
            three_step_logit(assigned, numbers[:, None], correction),
            three_step_logit(merged, group.astype(float)[:, None], correction),
        ),
    ):
        np.testing.assert_allclose(whole, less, atol=1e-5)


def test_people_without_a_weight_are_not_said_to_lack_a_value():
    codes = np.repeat([0, 1], 80)
    frame = pd.DataFrame({"a": codes, "b": codes, "c": codes, "y": np.arange(160) % 7 * 1.0})
    found = tw.segments(frame[list("abc")], 2, replicates=0)
    answer = found.relate(frame, weights=np.arange(160) % 2, replicates=50).outcomes("y")["y"]
    assert answer.warnings[0] == "80 people without a value or a weight were left out"
