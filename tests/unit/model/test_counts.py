"""The counts that a model keeps of what it was fitted to."""

import pickle

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.model.counts import Counts, counts_left_out
from twoway.storage import container
from twoway.uncertainty.observed_tables import ObservedTables

ANSWERS = pd.DataFrame(
    {
        "age": ["young", "old", "old", None, "young", "young"] * 20,
        "vote": ["no", "yes", "yes", "no", None, "no, never"] * 20,
        "odd 'name'": [1, 2, None, 2, 1, 1] * 20,
    }
)


def replicated(pmf):
    return tw.Bootstrap(pmf, (pmf, pmf), pmf, observed=ObservedTables.of(pmf, ANSWERS))


def crosstab(frame, first, second, weights=None):
    values = None if weights is None else frame[weights]
    return pd.crosstab(frame[first], frame[second], values, aggfunc=None if weights is None else "sum").fillna(0)


@pytest.mark.parametrize("structure", ["single", "tree"])
@pytest.mark.parametrize("replicates", [False, True])
def test_counts_are_saved_and_loaded(structure, replicates, tmp_path):
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1, structure=structure)
    model = replicated(pmf) if replicates else pmf
    model.save(tmp_path / "model.twoway")
    loaded = tw.load(tmp_path / "model.twoway")
    for some in (pmf, tw.JointPMF.load(tmp_path / "model.twoway"), loaded.pmf if replicates else loaded):
        assert some.counts.of(["vote", "age"]).tolist() == crosstab(ANSWERS, "vote", "age").to_numpy().tolist()
        assert some.counts.of("vote").tolist() == ANSWERS["vote"].value_counts().sort_index().tolist()
    loaded.save(tmp_path / "again.twoway")
    assert (tmp_path / "again.twoway").read_bytes() == (tmp_path / "model.twoway").read_bytes()


@pytest.mark.parametrize("replicates", [False, True])
def test_counts_are_left_out_on_demand(replicates, tmp_path):
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1)
    model = replicated(pmf) if replicates else pmf
    model.save(tmp_path / "model.twoway", counts=False)
    assert tw.JointPMF.load(tmp_path / "model.twoway").counts is None
    names = container.read_container(tmp_path / "model.twoway")[1]
    assert not [name for name in names if name.startswith(("count", "observed", "triple"))]
    tw.load(tmp_path / "model.twoway").marginal("age")


def test_a_file_without_counts_loads():
    assert tw.JointPMF.load("tests/files/version-1.twoway").counts is None


def test_changes_that_leave_the_distribution_alone_keep_the_counts():
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1)
    for same in (pmf.with_report(None), pmf.with_library("polars"), pmf.sorted_by_weight()):
        assert same.counts is pmf.counts
    assert pickle.loads(pickle.dumps(pmf)).counts.of("age").tolist() == [40, 60]
    assert pmf.with_counts(None).counts is None


def test_other_distributions_have_no_counts():
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1)
    tree = tw.fit(ANSWERS, rank=2, smoothing=1, structure="tree")
    for other in (pmf.given({"age": "old"}), tree.given({"age": "old"}), tw.JointPMF.average([pmf, tree])):
        assert other.counts is None


def test_weighted_records_count_as_effective_ones():
    weights = np.tile([0.5, 2.0, 1.0], 40)
    frame = ANSWERS.assign(w=weights)
    counts = tw.fit(tw.Records(frame, weights="w"), rank=2, smoothing=1).counts
    both = ANSWERS["age"].notna() & ANSWERS["vote"].notna()
    effective = weights[both].sum() ** 2 / (weights[both] ** 2).sum()
    shares = crosstab(frame, "age", "vote", "w").to_numpy()
    np.testing.assert_allclose(counts.of(["age", "vote"]), shares / shares.sum() * effective, rtol=1e-6)
    for name in ("age", "vote"):
        shown = weights[ANSWERS[name].notna()]
        shares = frame.groupby(name)["w"].sum() / shown.sum()
        np.testing.assert_allclose(counts.of(name), shares * shown.sum() ** 2 / (shown**2).sum(), rtol=1e-6)


def test_an_update_adds_the_new_records():
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1)
    new = pd.DataFrame({"age": ["ancient", "old", None], "vote": ["no", None, "maybe"], "odd 'name'": [1, 1, 2]})
    both = pd.concat([ANSWERS, new])
    updated = tw.update(pmf, new, extend=True).counts
    for second in ("vote", "odd 'name'"):
        expected = crosstab(both, "age", second).reindex(updated.schema["age"].categories)
        expected = expected.reindex(columns=updated.schema[second].categories, fill_value=0)
        assert updated.of(["age", second]).tolist() == expected.to_numpy().tolist()
    assert dict(zip(updated.schema["vote"].categories, updated.of("vote"), strict=True)) == dict(
        both["vote"].value_counts()
    )
    assert tw.update(pmf, ANSWERS).counts.of("age").tolist() == [80, 120]
    assert tw.update(pmf.with_counts(None), new, extend=True).counts is None
    assert tw.update(tw.fit(tw.count(ANSWERS), rank=2, smoothing=1), ANSWERS).counts is None


def test_a_single_variable_is_counted():
    assert tw.fit({"vote": ["no", "yes", None, "yes"]}).counts.of("vote").tolist() == [1, 2]


def test_variables_never_seen_together_have_no_counts():
    counts = tw.fit({"a": [0, 1, None, None], "b": [0, 1, 1, 0], "c": [None, None, 0, 1]}, rank=1, smoothing=1).counts
    assert counts.of(["a", "c"]) is None
    assert counts.of(["c", "b"]).tolist() == [[0, 1], [1, 0]]


def published(**options):
    young, old = [0.5, 0.5], [0.25, 0.75]
    vote = pd.DataFrame([young, old], index=["young", "old"], columns=["no", "yes"])
    trust = pd.DataFrame([[10, 30], [20, 40]], index=["low", "high"], columns=["no", "yes"])
    shares = {"age": {"young": 0.5, "old": 0.5}}
    kind = {("age", "vote"): "row", ("trust", "vote"): "counts"}
    tables = {("age", "vote"): vote, ("trust", "vote"): trust}
    return tw.Tables.from_crosstabs(tables, kind=kind, margins=shares, **options)


def test_published_tables_are_kept_with_their_bases():
    counts = tw.fit(published(totals={("age", "vote"): 400}), rank=1, smoothing=1).counts
    np.testing.assert_allclose(counts.of(["vote", "age"]), [[100, 50], [100, 150]])
    assert counts.of(["trust", "vote"]).tolist() == [[10, 30], [20, 40]]
    np.testing.assert_allclose(counts.of("vote"), [150, 250])  # of the largest table
    assert counts.of(["age", "trust"]) is None


def test_tables_without_a_base_are_kept_as_shares():
    tables = published()
    assert tables.lacks_totals
    counts = tw.fit(tables, rank=1, smoothing=1).counts
    np.testing.assert_allclose(counts.of(["age", "vote"]), [[0.25, 0.25], [0.125, 0.375]])
    np.testing.assert_allclose(counts.of("trust"), [0.4, 0.6])


def test_counts_of_triples_give_pairs():
    counts = tw.fit(tw.count(ANSWERS, 3), rank=1, smoothing=1).counts
    whole = ANSWERS.dropna()
    assert counts.of(["vote", "age"]).tolist() == crosstab(whole, "vote", "age").to_numpy().tolist()
    assert counts.of("vote").sum() == len(whole)


def test_noisy_tables_are_never_kept(tmp_path):
    noisy = tw.count(ANSWERS).with_noise(1.0, 1e-6, public_schema=True, seed=0)
    pmf = tw.fit(noisy, rank=1, smoothing=1)
    assert pmf.counts is None
    assert tw.fit(noisy + tw.count(ANSWERS), rank=1, smoothing=1).counts is None
    assert tw.fit([noisy, ANSWERS], rank=1, smoothing=1).counts is None


def test_records_and_tables_together_have_no_counts():
    assert tw.fit([tw.count(ANSWERS), ANSWERS], rank=1, smoothing=1).counts is None
    assert tw.fit([ANSWERS, ANSWERS], rank=1, smoothing=1).counts.of("age").tolist() == [80, 120]


def test_large_counts_are_left_out_and_said_once(monkeypatch):
    monkeypatch.setattr("twoway.model.counts.MAX_BYTES", 4 * (12 + 6))
    small = {name: [0, 1, 1, 0] for name in "abc"}
    first = tw.fit(small, rank=1, smoothing=1)
    assert first.counts is not None
    updated = tw.update(first, small | {"a": [0, 1, 2, 2]}, extend=True)
    assert updated.counts is None
    assert "does not keep its two-way counts" in "".join(updated.report.warnings)
    pmf = tw.fit(small | {"d": [0, 1, 0, 1]}, rank=1, smoothing=1)
    assert pmf.counts is None
    assert len([warning for warning in pmf.report.warnings if "does not keep its two-way counts" in warning]) == 1


@pytest.mark.parametrize(
    ("people", "squares"),
    [([1.0] * 8, [1.0] * 7), ([1.0] * 7, [1.0] * 7), ([1.0] * 8, [-1.0] * 8), ([np.nan] * 8, [1.0] * 8)],
)
def test_invalid_bases_in_a_file_are_refused(people, squares, tmp_path):
    pmf = tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=1)
    pmf.save(tmp_path / "model.twoway")
    header, arrays = container.read_container(tmp_path / "model.twoway")
    arrays |= {"count_people": np.array(people), "count_squares": np.array(squares)}
    container.write_container(tmp_path / "model.twoway", "model", {"schema": header["schema"], "report": None}, arrays)
    with pytest.raises(tw.FileFormatError, match="count"):
        tw.load(tmp_path / "model.twoway")


def test_counts_without_weights_do_not_grow(tmp_path):
    pmf = tw.fit(ANSWERS, rank=2, smoothing=1)
    assert pmf.counts.people.size == pmf.counts.squares.size == 0
    assert set(pmf.counts.arrays()) == {"count_sets", "count_flat", "count_singles"}
    weighted = tw.fit(tw.Records(ANSWERS, weights=np.arange(120) % 3 + 0.5), rank=2, smoothing=1)
    weighted.save(tmp_path / "model.twoway", counts=False)
    assert not [name for name in container.read_container(tmp_path / "model.twoway")[1] if name.startswith("count")]
    assert counts_left_out(1_700_000, 1) == [] != counts_left_out(1_700_000, 1, is_weighted=True)


def test_weights_of_any_size():
    weights = np.array([1e-100, 1.0, 1e100] * 40)
    for scale in (1.0, 1e-60):
        own = np.clip(weights * scale, 1e-100, 1e100)
        seen = tw.observed(tw.fit(tw.Records(ANSWERS, weights=own), rank=1, smoothing=1), "P(vote | age)")
        assert np.isfinite(seen.effective).all()
        assert (seen.effective <= seen.records * (1 + 1e-6)).all()
        assert seen.records[:, 0].tolist() == [40, 40]


@pytest.mark.parametrize(
    ("sets", "flat", "singles"),
    [
        ([[0, 1]], [1.0, 2.0, 3.0], []),
        ([[0, 1]], [1.0, 2.0, 3.0, -4.0], []),
        ([[0, 1]], [1.0, 2.0, 3.0, np.nan], []),
        ([[0, 1]], [1.0, 2.0, 3.0, np.inf], []),
        ([[1, 0]], [1.0, 2.0, 3.0, 4.0], []),
        ([[0, 2]], [1.0, 2.0, 3.0, 4.0], []),
        ([[-1, 1]], [1.0, 2.0, 3.0, 4.0], []),
        ([[0, 1, 1]], [1.0] * 8, []),
        ([[0.0, 1.0]], [1.0, 2.0, 3.0, 4.0], []),
        ([0, 1], [1.0, 2.0, 3.0, 4.0], []),
        ([[0, 1]], [1.0, 2.0, 3.0, 4.0], [1.0]),
        ([[0, 1]], [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, -1.0]),
    ],
)
def test_invalid_counts_in_a_file_are_refused(sets, flat, singles, tmp_path):
    pmf = tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=1)
    pmf.save(tmp_path / "model.twoway")
    header, arrays = container.read_container(tmp_path / "model.twoway")
    arrays |= {"count_sets": np.array(sets), "count_flat": np.array(flat), "count_singles": np.array(singles)}
    container.write_container(tmp_path / "model.twoway", "model", {"schema": header["schema"], "report": None}, arrays)
    with pytest.raises(tw.FileFormatError, match="count"):
        tw.load(tmp_path / "model.twoway")


@pytest.mark.parametrize("name", ["count_flat", "count_singles"])
def test_a_file_that_lacks_a_part_of_the_counts_is_refused(name, tmp_path):
    tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=1).save(tmp_path / "model.twoway")
    header, arrays = container.read_container(tmp_path / "model.twoway")
    del arrays[name]
    container.write_container(tmp_path / "model.twoway", "model", {"schema": header["schema"], "report": None}, arrays)
    with pytest.raises(tw.FileFormatError, match=f"'{name}'"):
        tw.load(tmp_path / "model.twoway")


@pytest.mark.parametrize(
    ("most", "dtype"),
    [(0, np.uint8), (255, np.uint8), (256, np.uint16), (70_000, np.uint32), (2.0**33, np.float32), (0.5, np.float32)],
)
def test_counts_take_little_space(most, dtype):
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
    counts = Counts.of_tables(tw.Tables(schema, np.array([[0, 1]]), np.array([1.0, 0.0, 0.0, most])))
    assert counts.flat.dtype == dtype
    assert counts.of(["b", "a"]).tolist() == [[1, 0], [0, most]]
    assert counts.tables.totals.tolist() == [1 + most]
