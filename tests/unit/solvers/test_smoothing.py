"""The search for a smoothing, on mock held-out likelihoods."""

import math

import numpy as np
import pytest

from twoway.datasets import dirichlet_rows, draw_records
from twoway.report import Progress
from twoway.solvers import smoothing as smoothing_module
from twoway.solvers.heldout import HeldOut, held_out_scores
from twoway.solvers.smoothing import Smoothing, SmoothingTrial, choose_smoothing
from twoway.solvers.watch import Watch


def held_out(smoothing, mean, *, is_plain=False, spread=0.0):
    of_record = mean + spread * np.array([-1.0, 1.0, -1.0, 1.0])
    return SmoothingTrial(smoothing, HeldOut(of_record, np.ones(4)), is_plain)


class Landscape:
    """Held-out likelihoods by a formula of both smoothings, and what was asked for, in order."""

    def __init__(self, mean, plain_from=math.inf):
        self.mean, self.plain_from, self.tried = mean, plain_from, []

    def __call__(self, smoothing):
        if smoothing not in self.tried:
            self.tried.append(smoothing)
        is_plain = smoothing.factors >= self.plain_from
        return held_out(smoothing, self.mean(smoothing.factors, smoothing.weights), is_plain=is_plain)

    @property
    def factors(self):
        return [smoothing.factors for smoothing in self.tried]


def parabola(top, width=1.0):
    return lambda factors, _: -width * math.log2(factors / top) ** 2


# The same for factors and weights


def test_the_top_of_a_parabola_is_found_exactly():
    """Doubling and halving find a peak's neighbourhood, three points its top."""
    for top in (8.0 * 2**0.3, 8.0 * 2**-0.4, 8.0 * 2**3.2, 8.0 * 2**-2.6, 8.0):
        landscape = Landscape(parabola(top))
        best = smoothing_module._smooth_factors(landscape, 8.0)
        assert best.smoothing.factors == pytest.approx(top, rel=1e-12)
        assert all(one.factors == one.weights for one in landscape.tried)


def test_each_is_tried_once_and_none_beyond_what_is_needed():
    landscape = Landscape(parabola(32.0 * 2**0.3))
    smoothing_module._smooth_factors(landscape, 8.0)
    assert landscape.factors == pytest.approx([8.0, 16.0, 32.0, 64.0, 32.0 * 2**0.3])
    landscape = Landscape(parabola(2.0 * 2**-0.3))
    smoothing_module._smooth_factors(landscape, 8.0)
    assert landscape.factors == pytest.approx([8.0, 16.0, 4.0, 2.0, 1.0, 2.0 * 2**-0.3])


def test_a_gain_too_small_to_count_ends_the_search():
    little = smoothing_module._LEAST_GAIN / 2
    landscape = Landscape(lambda factors, _: little * abs(math.log2(factors / 8.0)))
    best = smoothing_module._smooth_factors(landscape, 8.0)
    assert best.smoothing.factors == 8.0  # a valley has no top
    assert landscape.factors == [8.0, 16.0, 4.0]


def test_the_parabola_does_not_lead_beyond_the_neighbours():
    """Nearly a line: its top would be far away."""
    gain = smoothing_module._LEAST_GAIN / 2
    means = {4.0: -gain * 1.01, 8.0: 0.0, 16.0: gain * 0.99}
    landscape = Landscape(lambda factors, _: means[factors])
    best = smoothing_module._smooth_factors(landscape, 8.0)
    assert best.smoothing.factors == 16.0
    means = {4.0: gain * 0.99, 8.0: 0.0, 16.0: -gain * 1.01}
    assert smoothing_module._smooth_factors(Landscape(lambda factors, _: means[factors]), 8.0).smoothing.factors == 4.0


def test_what_was_refined_is_kept_only_if_it_is_better():
    means = {4.0: -1.0, 8.0: 0.0, 16.0: -0.9}
    landscape = Landscape(lambda factors, _: means.get(factors, -0.5))
    assert smoothing_module._smooth_factors(landscape, 8.0).smoothing.factors == 8.0
    assert len(landscape.tried) == 4


@pytest.mark.parametrize("end", [smoothing_module._LEAST, smoothing_module._MOST])
def test_the_search_ends_at_the_ends(end):
    landscape = Landscape(parabola(end**2 / 8.0))  # far beyond
    best = smoothing_module._smooth_factors(landscape, 8.0)
    assert best.smoothing.factors == end
    assert min(landscape.factors) >= smoothing_module._LEAST
    assert max(landscape.factors) <= smoothing_module._MOST


# Where smoothing makes all components one


def test_the_edge_is_found_between_too_little_and_all_components_as_one():
    """Flat and plain from 100 on; below, a ridge of a little gain that falls off at 70."""

    def mean(factors, _):
        if factors >= 100.0:
            return 0.0
        return 0.001 if factors > 70.0 else -10.0 / factors

    landscape = Landscape(mean, plain_from=100.0)
    best = smoothing_module._smooth_factors(landscape, 8.0)
    assert best.mean == 0.001
    assert 70.0 < best.smoothing.factors < 100.0
    # Doubled up to the first plain one, halved back to the last one, then four means between.
    doubled = [8.0, 16.0, 32.0, 64.0, 128.0]
    assert landscape.factors[:5] == doubled
    assert len(landscape.factors) == 5 + smoothing_module._EDGE_TRIALS
    between = landscape.factors[5:]
    assert between[0] == pytest.approx(math.sqrt(64.0 * 128.0))


def test_the_edge_is_sought_below_where_it_was_met():
    """A start that is plain already at a fourth of where the climb ended."""
    landscape = Landscape(lambda factors, _: 0.01 * min(math.log2(factors), 5.0), plain_from=5.0)
    best = smoothing_module._smooth_factors(landscape, 16.0)
    assert best.is_plain
    assert 2.5 < min(landscape.factors) < 5.0


def test_differences_below_counting_leave_the_edge_inside():
    same = smoothing_module._SAME / 2
    landscape = Landscape(
        lambda factors, _: 0.0 if factors >= 16.0 else -same if factors > 8.0 else -1.0, plain_from=16.0
    )
    best = smoothing_module._smooth_near_edge(
        lambda factors: landscape(Smoothing(factors, factors)), landscape(Smoothing(16.0, 16.0))
    )
    assert best.smoothing.factors == 16.0
    assert sorted(landscape.factors)[1] < 8.4, "each mean between was no worse, so the edge moved on"


# More for the weights


def test_ever_more_equal_weights_are_tried_until_records_object():
    landscape = Landscape(lambda _, weights: -abs(math.log(weights / 100.0)))
    first = landscape(Smoothing(4.0, 4.0))
    smoothing_module._smooth_weights(landscape, first, 100.0)
    tried = [one.weights for one in landscape.tried[1:]]
    assert tried == pytest.approx([100.0 * share / (1.0 - share) for share in (0.1, 0.3, 0.6, 0.9)])
    assert {one.factors for one in landscape.tried} == {4.0}


def test_objections_are_to_what_was_best_so_far():
    """From 0.1 to 0.3 it gets much better; 0.6 is better than the first, and worse than that."""
    means = iter([0.0, 0.5, 0.4])
    seen = {}

    def evaluate(smoothing):
        return seen.setdefault(smoothing, held_out(smoothing, next(means), spread=0.0))

    smoothing_module._smooth_weights(evaluate, held_out(Smoothing(1.0, 1.0), -1.0), 100.0)
    assert len(seen) == 3


def test_records_that_are_not_sure_do_not_object():
    """A mean loss of 0.1 whose standard error is 0.45, then one of 0.04: the first goes on, the second ends it."""

    def tried(spread):
        seen = {}

        def evaluate(smoothing):
            return seen.setdefault(smoothing, held_out(smoothing, -0.1))

        smoothing_module._smooth_weights(evaluate, held_out(Smoothing(1.0, 1.0), 0.0, spread=spread), 100.0)
        return len(seen)

    assert tried(0.9) == len(smoothing_module._WEIGHT_SHARES)
    assert tried(0.08) == 1


def test_less_smoothing_than_the_factors_have_is_not_tried():
    landscape = Landscape(lambda _, weights: 0.0)
    smoothing_module._smooth_weights(landscape, landscape(Smoothing(200.0, 200.0)), 100.0)
    assert [one.weights for one in landscape.tried] == pytest.approx([200.0, 900.0, 9900.0])


# Held-out likelihoods


def test_a_mean_and_a_loss_are_weighted():
    weights = np.array([1.0, 3.0])
    one = HeldOut(np.array([-2.0, -1.0]), weights)
    other = HeldOut(np.array([-1.0, -1.5]), weights)
    assert one.mean == -1.25
    loss, error = one.behind(other)
    assert loss == (1.0 - 1.5) / 4.0
    assert error == pytest.approx(math.sqrt(((1.125**2) + 3 * (0.375**2)) / 4.0 / 4.0))
    assert other.behind(one)[0] == -loss


# All together


def fake_refit(pmf, seen):
    def refit(train, smoothing):
        seen.append((train.total_weight, smoothing))
        return pmf

    return refit


def choose(records, refit, **options):
    usual = {"first": 8.0, "n_components": 3, "seed": 0, "watch": Watch()}
    choice = choose_smoothing(records, refit, **{**usual, **options})
    return choice.smoothing, choice.candidates


def test_all_candidates_are_reported_and_the_best_is_scaled_to_all_records():
    truth = dirichlet_rows(4, 3, 2, seed=1)
    records, seen, told = draw_records(truth, 100), [], []
    chosen, candidates = choose(records, fake_refit(truth, seen), watch=Watch(told.append))
    assert {weight for weight, _ in seen} == {80.0}
    # Nothing is told apart, so of equals the largest is taken.
    tried = sorted({smoothing for _, smoothing in seen})
    assert [(one["smoothing"], one["weight_smoothing"]) for one in candidates] == [one[:2] for one in tried]
    assert not any(one["smoothing_times"] for one in candidates)
    mean = float(np.mean(truth.log_prob(records)))
    assert [one["held_out"] for one in candidates] == pytest.approx([mean] * len(tried))
    grown = math.sqrt(5.0 / 4.0)
    assert chosen[:2] == pytest.approx((grown * tried[-1].factors, grown * tried[-1].weights))
    assert told[:2] == [Progress("choosing the smoothing", 0, 12), Progress("choosing the smoothing", 1, 12)]
    # Weights: shares of all records' weight, one component's part of it.
    assert max(smoothing.weights for _, smoothing in seen) == pytest.approx(0.99 / 0.01 * 100 / 3)


def test_one_component_leaves_the_weights_alone():
    truth = dirichlet_rows(4, 3, 2, seed=1)
    seen = []
    choose(draw_records(truth, 100), fake_refit(truth, seen), n_components=1)
    assert all(smoothing.factors == smoothing.weights for _, smoothing in seen)
    seen.clear()
    choose(draw_records(truth, 100), fake_refit(dirichlet_rows(4, 3, 1, seed=1), seen))
    assert all(smoothing.factors == smoothing.weights for _, smoothing in seen), "all components are one already"


def test_too_little_to_hold_out_begins_and_ends_with_the_first():
    one = draw_records(dirichlet_rows(4, 3, 2, seed=1), 1)
    assert choose(one, fake_refit(None, [])) == (Smoothing(8.0, 8.0), ())


def test_records_without_weight_are_not_scored():
    truth = dirichlet_rows(3, 3, 2, seed=1)
    records = draw_records(truth, 6)
    held_out = held_out_scores(truth, records.reweighted(np.array([0.0, 1.0, 2.0, 0.0, 0.5, 3.0])), None)
    assert held_out.weights.tolist() == [1.0, 2.0, 0.5, 3.0]
    np.testing.assert_allclose(held_out.scores, truth.log_prob(records)[[1, 2, 4, 5]])
    assert held_out_scores(truth, records, None).weights.tolist() == [1.0] * 6
