"""Dask DataFrames: the same schema, counts and fits as in memory, for any partitions, even if workers die."""

import logging
import os
import signal
import sys
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.data import dask_records as module
from twoway.datasets import dirichlet_rows
from twoway.solvers import EM
from twoway.solvers.cell_sets import expected_counts
from twoway.tables.opening import open_source

dask = pytest.importorskip("dask", reason='no Dask here: pip install "twoway[dask]"')
distributed = pytest.importorskip("distributed", reason='no Dask here: pip install "twoway[dask]"')
import dask.dataframe as dd  # noqa: E402

NAMES = [f"x{number}" for number in range(1, 7)]
CUTS = {
    "one": [0, 900],
    "two": [0, 450, 900],
    "uneven": [0, 3, 700, 701, 900],
    "empty": [0, 0, 500, 500, 900, 900],
}
MANY = list(range(0, 901, 150))


def make_survey(n=900, seed=3):
    """Records with holes and repeats, two of them silent, with the weight of each."""
    random = np.random.default_rng(seed)
    frame = dirichlet_rows(6, 5, 3, seed=seed).sample(n, seed=seed)
    frame = frame.mask(random.uniform(size=frame.shape) < 0.3)
    frame.iloc[[5, 800]] = None
    frame["times"] = random.integers(0, 5, size=n) / 2
    return frame


SURVEY = make_survey()
RECORDS = SURVEY[NAMES]


def cut(frame, edges):
    """Return a Dask DataFrame with these partitions, of whatever type each of them is."""
    return dd.from_map(lambda rows: frame.iloc[slice(*rows)], list(pairwise(edges)), meta=frame[:0])


def parts(*frames):
    return dd.from_map(lambda number: frames[number], range(len(frames)), meta=frames[0][:0], enforce_metadata=False)


@pytest.fixture(scope="module")
def client():
    """Two workers, each a process."""
    options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "cluster"])
def engine(request):
    """Dask's own threads, or the cluster."""
    if request.param == "cluster":
        with request.getfixturevalue("client").as_current():
            yield request.param
    else:
        with dask.config.set(scheduler="threads"):
            yield request.param


@pytest.fixture
def threads():
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture
def workers(client):
    with client.as_current(), dask.config.set(scheduler="distributed"):
        yield client


def bytes_of(records):
    weights = b"" if records.weights is None else records.weights.tobytes()
    return records.pointers.tobytes(), records.cells.tobytes(), weights


def assert_same_counts(one, two):
    assert one.schema == two.schema
    assert one.flat.tobytes() == two.flat.tobytes()
    assert np.array_equal(one.bases, two.bases)


def assert_same_model(one, two, tolerance=1e-9):
    assert one.schema == two.schema
    np.testing.assert_allclose(one.weights, two.weights, rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.stacked, two.stacked, rtol=0, atol=tolerance)


# The same as in memory


@pytest.mark.parametrize("edges", CUTS.values(), ids=CUTS)
def test_counts_are_those_in_memory_to_the_byte(edges, engine):
    frame = cut(SURVEY, edges)
    assert_same_counts(tw.count(frame[NAMES]), tw.count(RECORDS))
    weighted = tw.count(tw.DaskRecords(frame, weights="times"))
    assert_same_counts(weighted, tw.count(tw.Records(SURVEY, weights="times")))


@pytest.mark.parametrize("edges", CUTS.values(), ids=CUTS)
def test_a_fit_is_that_in_memory(edges, engine):
    frame = cut(SURVEY, edges)
    em = {"rank": 3, "solver": EM(max_iter=6), "starts": 1, "smoothing": 1.0}
    fitted, expected = tw.fit(frame[NAMES], **em), tw.fit(RECORDS, **em)
    assert_same_model(fitted, expected)
    assert fitted.report.n_records == expected.report.n_records
    assert fitted.report.warnings == expected.report.warnings
    assert any("of 900 records have no observed cell" in told for told in fitted.report.warnings)
    assert fitted.report.log_likelihood == pytest.approx(expected.report.log_likelihood, rel=1e-12)
    assert fitted.report.relative_entropy == pytest.approx(expected.report.relative_entropy, rel=1e-9)
    assert fitted.report.n_observed == expected.report.n_observed


def test_a_fit_with_weights(workers):
    em = {"rank": 3, "solver": EM(max_iter=6), "starts": 1, "smoothing": 1.0}
    records = tw.DaskRecords(cut(SURVEY, CUTS["uneven"]), weights="times")
    assert_same_model(tw.fit(records, **em), tw.fit(tw.Records(SURVEY, weights="times"), **em))


@pytest.mark.slow
def test_default_results_equal_those_in_memory(workers):
    """Rank, smoothing and starts are chosen on a sample, which is all of these records, in the same order."""
    fitted, expected = tw.fit(cut(RECORDS, CUTS["uneven"])), tw.fit(RECORDS)
    assert_same_model(fitted, expected, 1e-12)
    assert fitted.report.smoothing == expected.report.smoothing
    assert len(fitted.report.starts) == len(expected.report.starts)


@pytest.mark.parametrize(("repeats", "weights"), [(1, None), (3, None), (1, "times")])
def test_sizes_and_the_full_sample(repeats, weights, engine):
    """Whether equal records are merged is decided as if they were in one place."""
    survey = pd.concat([SURVEY] * repeats, ignore_index=True)
    survey["times"] = np.ceil(survey["times"])
    edges = [0, 10, 1000, 1000, 1010, 900 * repeats] if repeats > 1 else CUTS["uneven"]
    frame = survey if weights else survey[NAMES]
    there, here = tw.DaskRecords(cut(frame, edges), weights=weights), tw.Records(frame, weights=weights)
    for name in ("n_records", "total_weight", "n_observed", "n_silent"):
        assert getattr(there, name) == getattr(here, name), name
    assert open_source(there) is there
    fitted, expected = there.for_fit(), here.for_fit()
    assert fitted.n_silent == 0
    assert fitted.total_weight == pytest.approx(expected.total_weight, rel=1e-9)  # in memory, weights are rounded
    assert bytes_of(fitted.sample(10**9, seed=0)) == bytes_of(expected)
    assert (expected.weights is None) == (repeats == 1 and weights is None)


def test_a_sample_depends_on_the_seed_alone(workers):
    records = tw.DaskRecords(cut(RECORDS, MANY))
    drawn = [bytes_of(records.sample(1000, seed=seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    sample = records.sample(1000, seed=0)
    assert 850 < sample.n_observed < 1150
    one, whole = sample.cell_totals(), tw.Records(RECORDS).cell_totals()
    np.testing.assert_allclose(one / one.sum(), whole / whole.sum(), atol=0.03)


def test_a_large_fit_begins_on_a_sample(workers, monkeypatch):
    monkeypatch.setattr("twoway.solvers.auto._SAMPLE_CELLS", 1500)
    pmf = tw.fit(cut(RECORDS, CUTS["two"]), rank=1, smoothing=1.0, starts=2)
    assert all("on a sample" in start.solver for start in pmf.report.starts[1:])
    assert_same_model(pmf, tw.fit(RECORDS, rank=1, smoothing=1.0), 1e-6)


# Schemas


def text(*cells):
    return pd.DataFrame({"v": pd.Series(cells, dtype=object)})


def categorical(cells, categories):
    return pd.DataFrame({"v": pd.Categorical(cells, categories=categories)})


@pytest.mark.parametrize(
    "frames",
    [
        (text("b", None), text("a", "10-14"), text("5-9")),
        (text(None, None), text("NA", "x"), text("?")),
        (text(1, "1"), text(True, 2.5), text(1.0)),
        (pd.DataFrame({"v": [1, 2]}), pd.DataFrame({"v": [np.nan, 3.0, 2.5]})),
        (categorical(["c"], ["c", "b", "a"]), categorical([None], ["c", "b", "a"])),
        (categorical(["b"], ["z", "b"]), categorical([], ["q"]), categorical(["a"], ["a", "b"])),
        (categorical([], ["z", "b"]), categorical([], ["y"])),
        (categorical([1], [2, 1]), categorical([3], [3, 1])),
    ],
)
def test_the_schema_is_that_of_the_computed_frame(frames, threads):
    source = parts(*frames)
    assert tw.DaskRecords(source).schema == tw.Records(source.compute()).schema


def test_categories_that_some_partitions_declare(threads):
    frames = [text("x", "a"), categorical(["b"], ["z", "b"])]
    assert tw.DaskRecords(parts(*frames)).schema == tw.Records(pd.concat(frames)).schema


def test_a_schema_given_and_columns_beyond_it(threads):
    schema = tw.Schema(
        tuple(tw.Variable(name, (*tw.Records(RECORDS).schema[name].categories, "never")) for name in ("x2", "x1"))
    )
    records = tw.DaskRecords(cut(SURVEY, CUTS["two"]), schema=schema, weights="times")
    expected = tw.count(tw.Records(SURVEY, schema=schema, weights="times"))
    assert records.schema == schema
    assert tw.count(records).flat.tobytes() == expected.flat.tobytes()


def test_columns_rows_and_the_limit_of_categories(threads):
    source, kept = cut(SURVEY, CUTS["uneven"]), SURVEY["x1"] > 1
    some = tw.DaskRecords(source, columns=["x3", "x1"], where=source.x1 > 1, weights="times")
    assert_same_counts(tw.count(some), tw.count(tw.Records(SURVEY[kept], columns=["x3", "x1"], weights="times")))
    with pytest.raises(tw.UnknownNameError, match="no column 'y1'"):
        tw.DaskRecords(source, columns=["y1"])
    with pytest.raises(tw.DataError, match="more than 2 distinct values"):
        tw.DaskRecords(source, columns=["x1"], max_categories=2)
    for where in ("x1 > 1", [True], SURVEY["x1"] > 1):
        with pytest.raises(
            tw.DataError, match=r"where must be a Dask Series of truth values, such as frame\.age > 17, not"
        ):
            tw.DaskRecords(source, where=where)


def test_columns_without_text_for_names(threads):
    frame = pd.DataFrame({0: ["a", "b"], 1: ["c", None]})
    assert tw.count(cut(frame, [0, 1, 2])) == tw.count(frame)


def test_labels_that_mean_missing(threads):
    records = tw.DaskRecords(parts(text("a", "."), text("b")), missing=".")
    assert records.schema["v"].categories == ("a", "b")
    assert (records.n_observed, records.n_silent) == (2, 1)
    assert repr(records) == "DaskRecords(3 records in 2 partitions, 1 variables)"


# Workers that die


def test_a_worker_out_of_memory(engine):
    def take_all(block):
        raise MemoryError

    where = "this machine" if engine == "threads" else "the worker tcp://"
    with pytest.raises(tw.ClusterError, match=rf"partition \d: {where}.* ran out of memory; make partitions smaller"):
        tw.DaskRecords(cut(RECORDS, CUTS["two"])).map_reduce(take_all, max)


class Killer:
    """Kills the worker that holds the most blocks, in the middle of a fit."""

    def __init__(self, client, after):
        self.client, self.after, self.killed = client, after, None

    def __call__(self, progress):
        if progress.done >= self.after and self.killed is None:
            held = self.client.has_what()
            address = max(held, key=lambda worker: len(held[worker]))
            self.killed = self.client.run(os.getpid, workers=[address])[address]
            os.kill(self.killed, signal.SIGKILL)


def test_a_worker_that_dies_changes_nothing(workers):
    """Its blocks are read again, and the model is the same to the byte."""
    workers.wait_for_workers(2)
    source, em = cut(RECORDS, MANY), {"rank": 3, "solver": EM(max_iter=9, tol=0), "starts": 1}
    expected = tw.fit(source, **em)
    killer = Killer(workers, after=4)
    survived = tw.fit(source, monitor=killer, **em)
    assert killer.killed is not None
    assert_same_model(survived, expected, 0)
    assert_same_model(survived, tw.fit(RECORDS, **em))


def test_results_are_not_added_to_in_place(workers):
    """A result that is asked for once more, because a worker died, is still what it was."""
    left, right = np.ones(3), np.ones(3)
    for _ in range(2):
        total = module.combine_dask_partitions([left, right], np.ndarray.__iadd__)
        assert total.tolist() == [2, 2, 2]


@pytest.mark.slow
def test_workers_that_keep_dying(workers, monkeypatch):
    def die(block):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(workers.cluster.scheduler, "allowed_failures", 0)
    records = tw.DaskRecords(cut(RECORDS, CUTS["one"])).for_fit()
    with pytest.raises(tw.ClusterError, match=r"^1 workers died .* partition 0, the last of them tcp://.*repartition"):
        records.map_reduce(die, max)


@pytest.mark.parametrize("other", [False, True], ids=["no other cluster", "another cluster"])
def test_a_cluster_that_is_gone(other):
    options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL, "processes": False, "n_workers": 1}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        fitted = tw.DaskRecords(cut(RECORDS, CUTS["two"])).for_fit()
    with ExitStack() as stack:
        if other:
            stack.enter_context(distributed.Client(stack.enter_context(distributed.LocalCluster(**options))))
        else:
            stack.enter_context(dask.config.set(scheduler="threads"))
        with pytest.raises(tw.ClusterError, match="the cluster lost its records or cannot be reached"):
            expected_counts(fitted, np.ones((1 + fitted.schema.n_categories, 4)), 1, None)
        with pytest.raises(tw.ClusterError, match="the cluster lost its records or cannot be reached"):
            fitted.sample(100, seed=0)


def test_a_cluster_without_the_package():
    error = RuntimeError("Error during deserialization of the task graph.")
    error.__cause__ = ModuleNotFoundError("No module named 'twoway.engines'", name="twoway.engines")
    with (
        pytest.raises(tw.ClusterError, match="its scheduler and workers need the one used here"),
        module._clear_dask_errors(),
    ):
        raise error
    with pytest.raises(ZeroDivisionError), module._clear_dask_errors():
        raise ZeroDivisionError


# What goes wrong


def test_partitions_whose_columns_differ(threads):
    frames = [text("a"), text("b"), text("c").rename(columns={"v": "w"})]
    with pytest.raises(tw.DataError, match=r"partition 2: .*'w'.*'v'"):
        tw.count(parts(*frames))


def test_a_label_that_the_schema_lacks(threads):
    schema = tw.Schema((tw.Variable("v", ("a", "b")),))
    source = parts(text("a", "b"), text("b", "bb"))
    with pytest.raises(tw.UnknownNameError, match=r"partition 1: no category 'bb' of 'v' \(record 1\); did you mean"):
        tw.DaskRecords(source, schema=schema).for_fit()
    assert tw.DaskRecords(source, schema=schema, unseen="missing").n_observed == 3


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.3, 1e6])
def test_a_constant_weight_has_no_effect(threads, weight):
    frame = SURVEY.drop(columns="times")
    plain = tw.DaskRecords(cut(frame, CUTS["uneven"]))
    weighted = tw.DaskRecords(cut(frame.assign(w=weight), CUTS["uneven"]), weights="w")
    options = {"rank": 2, "starts": 1}
    one, other = tw.fit(plain, **options), tw.fit(weighted, **options)
    assert_same_model(one, other)
    assert one.report.bic == pytest.approx(other.report.bic)
    np.testing.assert_allclose(tw.count(weighted).weights, tw.count(plain).weights, rtol=1e-9)


def test_counts_and_weights_together(threads):
    weights = np.random.default_rng(0).lognormal(0, 0.7, len(SURVEY))
    frame = SURVEY.assign(w=weights, times=np.random.default_rng(1).integers(0, 4, len(SURVEY)))
    there = tw.DaskRecords(cut(frame, CUTS["uneven"]), counts="times", weights="w")
    here = tw.Records(frame, counts="times", weights="w")
    assert tw.count(there) == tw.count(here)
    assert there.weight_totals.effective == pytest.approx(here.weight_totals.effective)
    em = {"rank": 2, "solver": "em", "smoothing": 1.0}
    assert_same_model(tw.fit(there, **em), tw.fit(here, **em))
    part = there.sample(there.n_observed // 4, seed=0)
    assert part.total_weight == pytest.approx(there.for_fit().total_weight / 4, rel=0.4)


def test_weights(threads):
    frame = pd.DataFrame({"v": ["a", "b", "c"], "n": [0.0, 0.0, 2.0]})
    assert tw.DaskRecords(cut(frame, [0, 2, 3]), weights="n").total_weight == 2  # a partition may weigh nothing
    with pytest.raises(tw.DataError, match="weights of the records are all zero"):
        tw.DaskRecords(cut(frame[:2], [0, 1, 2]), weights="n")
    frame.loc[2, "n"] = -1
    with pytest.raises(tw.DataError, match=r"partition 1: record weights .* record 0 has -1.0"):
        tw.DaskRecords(cut(frame, [0, 2, 3]), weights="n")
    with pytest.raises(tw.UnknownNameError, match="no column 'm' for the weights"):
        tw.DaskRecords(cut(frame, [0, 3]), weights="m")
    with pytest.raises(tw.DataError, match="weights must be the name of a column; got Series"):
        tw.DaskRecords(cut(frame, [0, 3]), weights=frame["n"])


def test_nothing_to_read(threads):
    with pytest.raises(tw.DataError, match="column 'v' has no observed cell in 3 records"):
        tw.count(parts(text(None), text("NA", None)))
    with pytest.raises(tw.DataError, match="column 'v' has no observed cell in 0 records"):
        tw.count(parts(text(), text()))
    with pytest.raises(tw.DataError, match="the data has no columns"):
        tw.count(cut(RECORDS[[]], CUTS["two"]))


def test_what_is_no_dask_dataframe(threads, monkeypatch):
    for source in (dask.delayed(1), cut(RECORDS, CUTS["two"])["x1"], RECORDS):
        with pytest.raises(tw.DataError, match=f"reads a Dask DataFrame; got {type(source).__name__}"):
            tw.DaskRecords(source)
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(tw.DataError, match=r'pip install "twoway\[dask\]"'):
        tw.DaskRecords(RECORDS)
