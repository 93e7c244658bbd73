"""A fit that runs out of time returns the best model so far, whatever it is doing then."""

import itertools

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.report import StopReason

WARNING = "the fit was ended by its time limit; this is the best model up to then"
NOT_COMPARED = "the fit ended before one hidden variable was compared with several on a tree"
LATE = 1e18


class Clock:
    """A clock that stands still, and a monitor that moves it beyond every limit at the n-th progress of a task."""

    def __init__(self, task=None, at=1):
        self.now, self.task, self.left = 0.0 if task else LATE, task, at

    def monotonic(self):
        return self.now

    def __call__(self, progress):
        self.left -= self.task is not None and progress.task.startswith(self.task)
        if self.left == 0:
            self.now = LATE


@pytest.fixture
def timed(monkeypatch):
    """Return a fit whose time is over at the n-th progress of a task; at once, without a task."""

    def fit(source, task=None, at=1, **options):
        clock = Clock(task, at)
        monkeypatch.setattr("twoway.solvers.watch.time", clock)
        pmf = tw.fit(source, seconds=60, monitor=clock, **options)
        assert clock.now == LATE  # the task was there
        return pmf

    return fit


@pytest.fixture(scope="module")
def chain():
    """Return records of a chain of variables, which one hidden variable does not describe."""
    random = np.random.default_rng(0)
    columns = [random.integers(3, size=1500)]
    for _ in range(5):
        columns.append(np.where(random.random(1500) < 0.8, columns[-1], random.integers(3, size=1500)))
    return tw.Records({f"x{number}": column for number, column in enumerate(columns)})


@pytest.fixture(scope="module")
def records():
    return draw_records(dirichlet_rows(5, 3, 3, seed=1), 600, observed=0.8)


def check_limited(pmf):
    assert pmf.report.stop_reason is StopReason.TIME_LIMIT
    assert not pmf.report.converged
    assert WARNING in pmf.report.warnings
    cells = zip(*itertools.product(*(variable.categories for variable in pmf.schema)), strict=True)
    joint = np.exp(pmf.log_prob(dict(zip(pmf.schema.names, cells, strict=True))))
    assert (joint >= 0).all()
    np.testing.assert_allclose(joint.sum(), 1, rtol=1e-9)


def share_learned(pmf, whole, records):
    """Return how much of what a whole fit knows of records beyond their single variables another one knows."""
    plain, learned, known = (fit.log_prob(records).mean() for fit in (tw.fit(records, rank=1), pmf, whole))
    return (learned - plain) / (known - plain)


@pytest.mark.parametrize("as_tables", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "options",
    [{}, {"structure": "tree"}, {"rank": 3}, {"solver": "coupled-nmf"}, {"rank": 2, "solver": "spa+coupled-nmf"}],
    ids=str,
)
def test_any_limit_gives_a_model(records, timed, options, as_tables):
    pmf = timed(tw.count(records) if as_tables else records, starts=2, **options)
    check_limited(pmf)
    assert pmf.report.structure == ("" if options else NOT_COMPARED)
    assert options.get("structure") == "tree" or pmf.rank == options.get("rank", 1)
    # However short the time was, what each variable looks like is known.
    plain = tw.fit(records, rank=1)
    for name in pmf.schema.names:
        np.testing.assert_allclose(np.asarray(pmf.marginal(name)), np.asarray(plain.marginal(name)), atol=0.1)


def test_time_is_over_while_the_rank_is_chosen(records, timed):
    """The short fits of the ranks that were compared are not lost."""
    pmf = timed(records, "choosing the rank", 4)
    check_limited(pmf)
    tried = {one["rank"]: one["converged"] for one in pmf.report.candidates if "rank" in one}
    assert tried[pmf.rank]
    assert pmf.rank > 1
    assert pmf.report.structure == NOT_COMPARED
    whole = tw.fit(records, structure="single", rank=pmf.rank)
    assert share_learned(pmf, whole, records) > 0.97


@pytest.mark.parametrize("as_tables", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_time_is_over_while_the_smoothing_is_chosen(records, timed, as_tables):
    source = tw.count(records) if as_tables else records
    pmf = timed(source, "choosing the smoothing", 3, rank=3, starts=4)
    check_limited(pmf)
    assert len(pmf.report.candidates) == 2
    assert len(pmf.report.starts) == 1
    assert share_learned(pmf, tw.fit(source, rank=3, starts=4), records) > 0.97


def test_time_is_over_in_the_race(records, timed):
    pmf = timed(records, "em, 4 starts", 20, rank=2, starts=4)
    check_limited(pmf)
    assert len(pmf.report.starts) <= 4
    assert pmf.report.objective == min(start.objective for start in pmf.report.starts)
    assert pmf.report.objective == pytest.approx(tw.fit(records, rank=2, starts=4).report.objective, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["choosing the smoothing", "tree"])
def test_time_is_over_while_a_tree_is_fitted(chain, timed, task):
    """In the middle of its choices there is no tree yet; afterwards it is compared as far as it is fitted."""
    pmf = timed(chain, task, 2)
    check_limited(pmf)
    if task == "tree":
        assert pmf.n_hidden > 1
        assert "hidden variables on a tree predict better than one" in pmf.report.structure
    else:
        assert pmf.n_hidden == 1
        assert pmf.report.structure == NOT_COMPARED
    tree = timed(chain, task, 2, structure="tree")
    check_limited(tree)
    assert tree.n_hidden > 1
    if task != "tree":  # the short fits of the choice are better than a start
        assert share_learned(tree, tw.fit(chain, structure="tree"), chain) > 0.99


def test_what_is_done_in_time_is_not_marked(records, monkeypatch):
    monkeypatch.setattr("twoway.solvers.watch.time", Clock("never"))
    within = tw.fit(records, rank=2, starts=2, seconds=60)
    assert within.report == tw.fit(records, rank=2, starts=2).report
    assert within.report.converged
    # Nothing is repeated in a direct solver: it ends by itself.
    monkeypatch.setattr("twoway.solvers.watch.time", Clock())
    assert tw.fit(records, rank=2, solver="spa", seconds=60).report.stop_reason is StopReason.DIRECT


def test_the_same_call_goes_on(records, timed, monkeypatch, tmp_path):
    path, options = tmp_path / "fit.checkpoint", {"rank": 2, "solver": "em", "starts": 1}
    check_limited(timed(records, "em", 5, checkpoint=path, **options))
    assert path.exists()
    monkeypatch.undo()
    went_on = tw.fit(records, checkpoint=path, **options)
    assert went_on.report == tw.fit(records, **options).report
    assert not path.exists()


def test_files(timed, tmp_path):
    path = tmp_path / "records.csv"
    dirichlet_rows(4, 3, 2, seed=1).sample(300, seed=0).to_csv(path, index=False)
    check_limited(timed(tw.FileRecords(path), rank=2))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "60", [1]])
def test_what_is_no_limit_is_refused(seconds):
    with pytest.raises(tw.DataError, match=r"seconds must be None, for no time limit, or a number above 0, not "):
        tw.fit({"a": [0, 1]}, seconds=seconds)


def test_a_saved_report_keeps_the_reason(records, timed, tmp_path):
    pmf = timed(records, rank=2)
    pmf.save(tmp_path / "m.twoway")
    assert tw.load(tmp_path / "m.twoway").report.stop_reason is StopReason.TIME_LIMIT
    assert "time limit after" in str(pmf.report)


@pytest.mark.parametrize("task", [None, "choosing the smoothing"])
def test_no_start_of_a_tree_is_made_after_the_limit(timed, chain, monkeypatch, task):
    made = []
    for name in ("visible_tree_start", "local_spa_start", "random_tree_start"):
        monkeypatch.setattr(f"twoway.solvers.tree.{name}", lambda *_, name=name: made.append(name))
    assert timed(chain, task, structure="tree").report.stop_reason is StopReason.TIME_LIMIT
    assert not made
