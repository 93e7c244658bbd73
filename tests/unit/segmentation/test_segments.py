"""Segments: maximum likelihood, the choice of their number, names, profiles, assignment, quality, files."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.segmentation.quality import adjusted_rand, matched_segments
from twoway.segmentation.search import Search
from twoway.segmentation.segment_count import segment_count_sample, segment_count_test
from twoway.solvers.theta import theta_of

TRUTH = dirichlet_rows(6, 3, 3, seed=1)


@pytest.fixture(scope="module")
def people():
    frame = TRUTH.sample(400, seed=2)
    return frame.mask(np.random.default_rng(3).random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def found(people):
    return tw.segments(people, range(1, 5), starts=8, replicates=4, threads=1)


def test_the_likelihood_is_that_of_the_records_and_a_maximum(people, found):
    (chosen,) = [candidate for candidate in found.candidates if candidate.count == found.count]
    log_likelihood = found.pmf.log_prob(people).sum()
    assert chosen.log_likelihood == pytest.approx(log_likelihood, abs=1e-6)
    assert found.pmf.report.log_likelihood == pytest.approx(log_likelihood, abs=1e-6)
    other = tw.fit(people, rank=found.count, structure="single", solver="em", smoothing=0, starts=8)
    assert chosen.log_likelihood >= other.report.log_likelihood - 1e-4
    assert chosen.bic == pytest.approx(other.n_parameters * np.log(400) - 2 * log_likelihood)
    assert chosen.aic == pytest.approx(other.n_parameters * 2 - 2 * log_likelihood)


def test_more_passes_never_lower_the_likelihood():
    search = Search(draw_records(TRUTH, 200, observed=0.8, seed=4).for_fit(), 1)
    (start,) = search.random_starts(3, 1, [0])
    ends = [search.climb(start, 3, passes, 0.0).log_likelihood for passes in range(1, 60, 3)]
    assert np.diff(ends).min() >= -1e-9
    assert ends[-1] > ends[0] + 1.0


def test_one_segment_has_the_shares_of_all(people):
    one = tw.segments(people, 1, replicates=0)
    records = tw.Records(people)
    for name in people:
        assert np.asarray(one.pmf.marginal(name)) == pytest.approx(np.asarray(records.marginal(name)), abs=1e-9)
    assert one.quality.relative_entropy == 1.0
    assert one.quality.certainty == (1.0,)


def test_the_number_of_the_truth_is_chosen_and_segments_are_ordered_by_size(found):
    assert found.count == 3
    sizes = list(found.sizes.values())
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pytest.approx(1.0)
    assert min(found.candidates, key=lambda candidate: candidate.bic).count == 3
    tested = {candidate.count for candidate in found.candidates if candidate.p_value is not None}
    assert tested == {3, 4}
    assert max(found.candidates, key=lambda candidate: candidate.held_out).count == 3


def test_the_order_of_rows_and_columns_and_the_number_of_threads_do_not_matter(people):
    same = tw.segments(people, 2, starts=4, replicates=3, threads=1)
    other = tw.segments(people.iloc[::-1, ::-1], 2, starts=4, replicates=3, threads=2)
    assert list(other.sizes.values()) == pytest.approx(list(same.sizes.values()), abs=1e-6)
    assert other.quality.agreement == pytest.approx(same.quality.agreement, abs=0.02)


def test_counts_are_equal_records_and_the_scale_of_weights_does_not_matter(people):
    counted = people.assign(n=2)
    of_counts = tw.segments(tw.Records(counted, counts="n"), 2, starts=4, replicates=0)
    twice = tw.segments(pd.concat([people, people]), 2, starts=4, replicates=0)
    assert of_counts.candidates[0].log_likelihood == pytest.approx(twice.candidates[0].log_likelihood)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(people))
    light = tw.segments(tw.Records(people, weights=weights), 2, starts=4, replicates=0)
    heavy = tw.segments(tw.Records(people, weights=1000 * weights), 2, starts=4, replicates=2)
    assert heavy.candidates[0].bic == pytest.approx(light.candidates[0].bic)
    effective = weights.sum() ** 2 / np.square(weights).sum()
    assert light.n_records == pytest.approx(effective, rel=0.01)
    assert light.candidates[0].bic == pytest.approx(
        light.pmf.n_parameters * np.log(light.n_records) - 2 * light.candidates[0].log_likelihood
    )


def test_simulated_people_lack_the_same_cells_and_have_the_same_weights():
    records = draw_records(TRUTH, 300, observed=0.6, seed=5).for_fit()
    drawn = segment_count_sample(records, TRUTH, np.random.default_rng(0))
    lengths = [np.bincount(np.diff(some.pointers), some.weights, minlength=7) for some in (records, drawn)]
    assert lengths[0] == pytest.approx(lengths[1])
    many = records.reweighted(np.full(records.n_records, 1e12))
    assert segment_count_sample(many, TRUTH, np.random.default_rng(0)).total_weight == 200_000


@pytest.mark.slow
def test_the_likelihood_ratio_test_tells_chance_from_a_segment():
    search = Search(draw_records(TRUTH, 600, seed=7).for_fit(), 2)
    climbs = {rank: search.best(rank, n_starts=12, seed=[0]) for rank in (2, 3, 4)}

    def test(rank):
        return segment_count_test(search, climbs[rank - 1], climbs[rank], 19, seed=0, show=lambda done: None)

    assert test(3) == (0.05, 19)
    p_value, n_simulated = test(4)
    assert p_value > 0.1
    assert n_simulated <= 19


def test_profiles_add_up_and_marks_follow_the_differences(found):
    profile, schema = found.profile, found.pmf.schema
    for index in range(len(schema)):
        assert profile.shares[schema.cells(index)].sum(axis=0) == pytest.approx(1.0)
    assert profile.index == pytest.approx(100 * profile.shares / profile.average[:, None])
    assert set(np.unique(profile.marks)) <= {-1, 0, 1}
    assert (profile.marks > 0).any()
    assert not ((profile.marks > 0) & (profile.shares <= profile.average[:, None])).any()
    for trait in profile.telling(0, -1):
        assert trait.index < 100
        assert trait.p_value < 0.05


def test_nothing_is_marked_where_chance_explains_it():
    random = np.random.default_rng(0)
    noise = pd.DataFrame({f"q{n}": random.integers(0, 2, 60) for n in range(4)})
    assert not tw.segments(noise, 2, replicates=6).profile.marks[:, :].all()


def test_names_can_be_changed_and_are_kept(found, tmp_path):
    named = found.rename({"segment 2": "regulars"})
    assert named.names == ("segment 1", "regulars", "segment 3")
    assert found.rename(["A", "B", "C"]).names == ("A", "B", "C")
    named.save(tmp_path / "found.twoway")
    back = tw.Segments.load(tmp_path / "found.twoway")
    assert str(back) == str(named)
    assert back.candidates == named.candidates
    assert back.quality == named.quality
    back.save(tmp_path / "again.twoway")
    assert (tmp_path / "again.twoway").read_bytes() == (tmp_path / "found.twoway").read_bytes()
    assert tw.load(tmp_path / "found.twoway").rank == 3


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"segment 9": "x"}, "no segment 'segment 9'"),
        ({"segment 2": "segment 1"}, "the name 'segment 1' is taken"),
        (["a", "b"], "3 segments and 2 names"),
        (["a", "b", " "], "1 to 200 characters"),
        (["a", "b", 3], "1 to 200 characters"),
        ("abc", "3 segments and 1 name;"),
        (3, "3 segments and 1 name;"),
    ],
)
def test_a_wrong_name_is_named(found, names, message):
    with pytest.raises(tw.TwowayError, match=message):
        found.rename(names)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_people_are_assigned_in_the_frame_that_came_in(people, found, make):
    import narwhals as nw

    frame = make(people.assign(id=range(len(people))).replace({np.nan: None}).astype({"id": int}))
    out = found.assign(frame)
    assert type(out) is type(frame)
    columns = nw.from_native(out, eager_only=True)
    assert columns.columns == [*people.columns, "id", "segment", "probability"]
    memberships = found.pmf.memberships(people)
    assert columns["probability"].to_numpy() == pytest.approx(memberships.max(axis=1))
    assert columns["segment"].to_list() == [found.names[place] for place in memberships.argmax(axis=1)]
    with pytest.raises(tw.DataError, match="has a column 'segment'"):
        found.assign(out)


def test_columns_of_one_name_are_an_error_of_the_package(found):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for use in (found.assign, found.relate, found.pmf.impute):
        with pytest.raises(tw.DataError, match="names of columns must differ"):
            use(twice)


def test_a_person_whom_the_model_rules_out_is_assigned():
    frame = pd.DataFrame({"a": ["x", "y"] * 30, "b": ["u", "v"] * 30, "c": ["s", "t"] * 30})
    found = tw.segments(frame, 2, replicates=0)
    memberships = found.memberships(pd.DataFrame({"a": ["x", None], "b": ["u", None], "c": ["t", None]}))
    x = int(found.assign(frame)["segment"][0][-1]) - 1
    assert memberships[0, x] > 0.9
    assert memberships[1] == pytest.approx(found.pmf.weights)


def test_agreement_is_the_adjusted_rand_index():
    from sklearn.metrics import adjusted_rand_score

    random = np.random.default_rng(0)
    first, second = random.integers(0, 3, 50), random.integers(0, 3, 50)
    table = np.zeros((3, 3))
    np.add.at(table, (first, second), 1.0)
    assert adjusted_rand(table) == pytest.approx(adjusted_rand_score(first, second))


def test_segments_of_another_order_are_matched():
    memberships = np.random.default_rng(0).dirichlet([0.2] * 4, 30)
    order = np.array([2, 0, 3, 1])
    assert matched_segments(memberships, memberships[:, np.argsort(order)], np.ones(30)).tolist() == order.tolist()


def test_clear_segments_are_stable_and_sure():
    random = np.random.default_rng(0)
    group = random.integers(0, 2, 300)
    frame = pd.DataFrame({f"q{n}": np.where(random.random(300) < 0.95, group, 1 - group) for n in range(6)})
    quality = tw.segments(frame, 2, starts=4, replicates=4).quality
    assert min(quality.stability) > 0.95
    assert min(quality.certainty) > 0.95
    assert quality.agreement > 0.9
    assert quality.relative_entropy > 0.9


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (range(5, 2), "count is empty, range"),
        (0, "count must be a whole number of at least 1, not 0"),
        ([2, 41], "41 segments are more than the 40 people"),
        ("2", "count must be a whole number"),
        (101, "at most 100"),
    ],
)
def test_a_wrong_number_is_named(people, count, message):
    with pytest.raises(tw.DataError, match=message):
        tw.segments(people.dropna(how="all").head(40), count, replicates=0)


def test_the_text_of_one_segment_is_singular(people):
    one = tw.segments(people, 1, replicates=0)
    assert str(one).startswith("1 segment of 400 records")
    assert "1 segment: " in one._repr_html_()


def test_wrong_sources_and_options_are_named(people):
    with pytest.raises(tw.DataError, match="only tables"):
        tw.segments(tw.count(people))
    with pytest.raises(tw.DataError, match="0 or at least 2"):
        tw.segments(people, 2, replicates=1)
    with pytest.raises(tw.DataError, match="starts"):
        tw.segments(people, 2, starts=0)
    frame = pd.DataFrame({"a": ["x"], "b": ["y"]})
    assert tw.segments(frame, 1, replicates=0).count == 1


def test_more_parameters_than_answers_are_reported():
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "u", "v", "v"] * 10})
    found = tw.segments(frame, 3, replicates=2)
    assert any("more than the 4 combinations" in warning for warning in found.warnings)


def test_a_model_file_without_segments_is_refused(tmp_path):
    TRUTH.save(tmp_path / "model.twoway")
    with pytest.raises(tw.FileFormatError, match="without segments"):
        tw.Segments.load(tmp_path / "model.twoway")


def test_damaged_segments_are_refused(found, tmp_path):
    from twoway.storage import container

    path = tmp_path / "found.twoway"
    found.save(path)
    header, arrays = container.read_container(path, "model")
    plain = {key: header[key] for key in ("schema", "report")}
    for change in (
        {"names": ["a", "a", "b"]},
        {"names": 3},
        {"quality": {"relative_entropy": "x"}},
        {"candidates": [{"count": 3}]},
    ):
        container.write_container(path, "model", {**plain, "segments": {**header["segments"], **change}}, arrays)
        with pytest.raises(tw.FileFormatError, match="the segments in"):
            tw.Segments.load(path)


def test_the_text_and_the_page_escape_names(found):
    named = found.rename({"segment 1": "<b>\x1b[31m"})
    assert "\x1b" not in str(named)
    assert "<b>" not in named._repr_html_()
    assert "* has the lowest BIC" in str(found)


def test_segments_that_were_found_are_where_a_climb_from_them_ends(people, found):
    end = Search(tw.Records(people).for_fit(), 1).climb(theta_of(found.pmf), 3)
    assert end.theta[0, :3] == pytest.approx(found.pmf.weights, abs=1e-4)


def test_means_of_numbers_and_a_number_at_the_end_of_the_range(people):
    found = tw.segments(people, [2, 3], starts=4, replicates=0)
    assert any("3 segments, the most that were tried" in warning for warning in found.warnings)
    (row,) = [row for row in found.tables()["means"] if row["variable"] == "x1"]
    assert row["all"] == pytest.approx(found.pmf.expect("x1"))
    assert row["mean: segment 2"] == pytest.approx(found.pmf.factors[0][:, 1] @ [0, 1, 2])
