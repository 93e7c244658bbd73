"""The report keeps what happened, and the progress bar draws it."""

import json
import math

import pytest

from twoway.errors import DataError
from twoway.report import Progress, ProgressBar, Report, Start, StopReason, TableMisfit

REPORT = Report(
    solver="spa+em",
    rank=3,
    seed=7,
    smoothing=0.5,
    weight_smoothing=2.0,
    smoothing_times={"age": 16.0, "vote": 0.25, "sex": 16.0},
    objective_name="negative log-likelihood per record",
    starts=(
        Start("spa+em", (3.0, 2.0, 1.5), StopReason.CONVERGED),
        Start("em", (4.0, 2.5), StopReason.MAX_ITER),
    ),
    best=0,
    n_records=10.0,
    n_observed=25,
    log_likelihood=-15.0,
    n_parameters=4,
    aic=38.0,
    bic=40.0,
    relative_entropy=0.75,
    misfits=(TableMisfit(("a", "b"), 10.0, 0.25, 0.125),),
    candidates=({"rank": 1, "held_out": -2.0},),
    warnings=("mind the gap",),
    seconds=1.25,
)


def test_the_best_start_speaks_for_the_fit():
    assert REPORT.objective == 1.5
    assert REPORT.stop_reason is StopReason.CONVERGED
    assert REPORT.converged
    assert REPORT.starts[0].n_iter == 3


@pytest.mark.parametrize("reason", list(StopReason))
def test_only_converged_starts_are_reported_as_converged(reason):
    report = Report("em", 1, 0, 0.0, 0.0, "loss", (Start("em", (1.0,), reason),), 0)
    assert report.converged is (reason in (StopReason.CONVERGED, StopReason.DIRECT))


def test_to_json_and_back_without_the_seconds():
    text = json.dumps(REPORT.to_dict(), allow_nan=False)
    assert "seconds" not in json.loads(text)
    again = Report.from_dict(json.loads(text))
    assert again == REPORT
    assert again.seconds is None
    assert isinstance(again.starts[0].stop_reason, StopReason)


def test_equality_ignores_the_time():
    described = REPORT.to_dict()
    assert Report.from_dict(described | {"rank": 4}) != REPORT


def test_printed():
    text = str(REPORT)
    for part in ("spa+em", "rank 3", "seed 7", "converged", "3 passes", "1.5", "10 with 25", "AIC 38.00", "BIC 40.00"):
        assert part in text
    for part in ("a × b", "0.25", "1.25 s", "warning     mind the gap"):
        assert part in text
    smoothing = (
        "0.5 pseudo-records per component, 2 for weights; 16 times as many for 'age', 'sex'; 1/4 as many for 'vote'"
    )
    assert smoothing in text


@pytest.mark.parametrize(
    "times", [{"age": 0.0}, {"age": -1.0}, {"age": "4"}, {"age": math.inf}, {"age": math.nan}, [4]]
)
def test_smoothing_of_variables_in_a_file_is_checked(times):
    with pytest.raises(DataError, match="smoothing_times"):
        Report.from_dict(REPORT.to_dict() | {"smoothing_times": times})


@pytest.mark.parametrize("warnings", [5, None, "mind the gap", [5]])
def test_lists_in_a_file_are_checked(warnings):
    with pytest.raises(DataError, match="warnings has the invalid value"):
        Report.from_dict(REPORT.to_dict() | {"warnings": warnings})


def test_progress_bar_takes_changing_tasks(capsys):
    with ProgressBar() as bar:
        bar(Progress("choosing the rank", 0, 3))
        bar(Progress("em", 1, 100, 2.5))
        bar(Progress("em", 2, 100, 2.25, 3.0))
    capsys.readouterr()
    bar = ProgressBar()
    bar(Progress("em", 1, 2))  # outside its context it draws nothing
    assert capsys.readouterr().out == ""
