"""Every table of the paper at smoke size, through the command line; interrupted and failed runs."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import twoway as tw
from twoway import __version__
from twoway.cli import main
from twoway.cli.app import make_app
from twoway.datasets import nearly_separable
from twoway.model.comparison import match_components
from twoway.paper import run, show
from twoway.paper.results import read_results, result_key
from twoway.paper.synthetic import SOLVERS, Synthetic, published_synthetic_mse
from twoway.paper.tables import EXPERIMENTS, METHODS
from twoway.paper.trials import trial_seed

TABLE = "synthetic-eps0.1"
SYNTHETIC = [name for name, experiment in EXPERIMENTS.items() if experiment.varies != "data"]
SPARSE = "synthetic-sparse"


def reproduce(*arguments):
    return CliRunner().invoke(make_app(), ["reproduce", *map(str, arguments)])


def lines_of(path):
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def numbers_of(lines):
    """Return what must be the same each time: the scores without the seconds, or the reason."""
    return {
        result_key(line["setting"], line["trial"], line["method"]): {
            name: value for name, value in (line["scores"] or {}).items() if name != "seconds"
        }
        or line["reason"]
        for line in lines
    }


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The folder and the output of a table at smoke size, two processes."""
    return run_smoke([TABLE], tmp_path_factory.mktemp("smoke"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """The same of the other synthetic tables."""
    return run_smoke([name for name in SYNTHETIC if name != TABLE], tmp_path_factory.mktemp("others"))


@pytest.fixture(params=[name if name == TABLE else pytest.param(name, marks=pytest.mark.slow) for name in SYNTHETIC])
def one_of_all(request):
    """The name of a synthetic table, and the folder and the output of a run that it was part of."""
    return request.param, *request.getfixturevalue("smoke" if request.param == TABLE else "others")


def run_smoke(names, out):
    result = reproduce(*names, "--size", "smoke", "--jobs", 2, "--out", out)
    assert result.exit_code == 0, result.output
    return out, result.stdout


# What comes out


def test_every_cell_was_run(one_of_all):
    name, out, _ = one_of_all
    experiment = EXPERIMENTS[name]
    expected = {
        (setting.n_records, setting.observed, setting.n_variables, trial, method)
        for setting in experiment.smoke
        for trial in range(2)
        for method in SOLVERS
    }
    lines = lines_of(out / f"{name}-smoke.jsonl")
    keys = ("n_records", "observed", "n_variables")
    found = [(*(line["setting"][key] for key in keys), line["trial"], line["method"]) for line in lines]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert all((line["scores"] is None) != (line["reason"] is None) for line in lines)


def test_the_written_files_agree_with_the_output(one_of_all):
    name, out, told = one_of_all
    experiment = EXPERIMENTS[name]
    lines = lines_of(out / f"{name}-smoke.jsonl")
    summary = json.loads((out / f"{name}-smoke.json").read_text(encoding="utf-8"))
    page = (out / f"{name}-smoke.md").read_text(encoding="utf-8")
    assert [metric["name"] for metric in summary["metrics"]] == list(experiment.metrics)
    for metric in summary["metrics"]:
        for row in metric["rows"]:
            for column, cell in zip(summary["columns"], row["cells"], strict=True):
                same = [line for line in lines if line["method"] == row["method"]]
                same = [line for line in same if line["setting"] == column["setting"]]
                values = [line["scores"][metric["name"]] for line in same if line["scores"]]
                assert cell["trials"] == len(same) == 2
                assert cell["failed"] == 2 - len(values)
                if not values:
                    assert cell["mean"] is None
                    continue
                assert cell["mean"] == pytest.approx(np.mean(values))
                assert (cell["sd"] is None) == (len(values) == 1)
                if len(values) == 2:
                    assert cell["sd"] == pytest.approx(np.std(values, ddof=1))
                assert f"{show.shown_ours(cell)}" in page
                if cell["paper"] is not None:
                    assert f"paper {cell['paper']:g}" in page.replace("*", "")
    assert page in told
    assert (out / f"{name}-smoke.png").read_bytes().startswith(b"\x89PNG")


def test_published_numbers_are_shown_only_for_the_same_setting(smoke):
    out, told = smoke
    summary = json.loads((out / f"{TABLE}-smoke.json").read_text(encoding="utf-8"))
    like = {metric["name"]: metric["rows"][1]["cells"] for metric in summary["metrics"]}
    assert [cell["paper"] for cell in like["mse_published"]] == [None, 0.0519]
    assert [cell["paper"] for cell in like["mre_estimate"]] == [None, 0.6746]
    assert [cell["paper"] for cell in like["mse"]] == [None, None]
    assert "paper 0.6746" in told.replace("*", "")


@pytest.mark.slow
def test_too_little_evidence_is_a_dash_and_a_reason(others):
    out, told = others
    summary = json.loads((out / f"{SPARSE}-smoke.json").read_text(encoding="utf-8"))
    assert all(c["paper"] is None for metric in summary["metrics"] for row in metric["rows"] for c in row["cells"])
    rows = {row["method"]: row["cells"] for row in summary["metrics"][0]["rows"]}
    assert show.shown_ours(rows["CTD"][1]) == "—"
    assert all(cell["failed"] == 0 for cell in rows["auto"])
    reasons = [one["reason"] for one in summary["reasons"] if (one["method"], one["column"]) == ("CTD", "p=0.005")]
    assert len(reasons) == 1
    assert "no 3 variables were observed" in reasons[0]
    assert "CTD, p=0.005: failed in 2 of 2 trials" in told
    assert summary["metrics"][0]["best"][1] not in (None, "CTD")


# A trial


def test_a_trial_draws_the_same_data_each_time_and_other_data_than_any_other():
    setting = Synthetic(200)
    codes = setting.data(0).codes()
    assert np.array_equal(codes, setting.data(0).codes())
    assert not np.array_equal(codes, setting.data(1).codes())
    assert np.array_equal(setting.model(0).stacked, Synthetic(1000).model(0).stacked)
    assert not np.array_equal(codes, Synthetic(1000).data(0).codes()[:200])
    assert len({trial_seed("method", trial) for trial in range(20)}) == 20


def test_the_published_mse_scales_the_first_factor_of_the_truth():
    truth, estimate = nearly_separable(seed=1), nearly_separable(seed=2)
    for other in (truth, estimate):
        matched = match_components(truth, other)
        expected = np.square(other.weights[matched] - truth.weights).sum()
        for number, (right, found) in enumerate(zip(truth.factors, other.factors, strict=True)):
            target = right * truth.weights if number == 0 else right
            expected += np.square(found[:, matched] - target).sum() / (5 * 5)
        assert published_synthetic_mse(truth, other) == pytest.approx(expected)
    assert published_synthetic_mse(truth, truth) > 0.01 > tw.factor_mse(truth, truth)


# A run that was ended goes on


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped_with_the_same_numbers(smoke, tmp_path):
    whole = smoke[0] / f"{TABLE}-smoke.jsonl"
    rest = tmp_path / whole.name
    texts = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = "".join(texts[: len(texts) // 2])
    rest.write_text(kept + texts[-1][:40], encoding="utf-8")  # the last line is torn
    result = reproduce(TABLE, "--size", "smoke", "--jobs", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert rest.read_text(encoding="utf-8").startswith(kept)
    assert len(lines_of(rest)) == len(texts)
    # Other processes, and other numbers of threads, give the same numbers.
    assert numbers_of(lines_of(rest)) == numbers_of(lines_of(whole))


def test_a_finished_run_is_only_shown_again(smoke, tmp_path):
    shutil.copy(smoke[0] / f"{TABLE}-smoke.jsonl", tmp_path)
    before = (tmp_path / f"{TABLE}-smoke.jsonl").read_bytes()
    assert not run.plan_run([EXPERIMENTS[TABLE]], "smoke", tmp_path).fits
    result = reproduce(TABLE, "--size", "smoke", "--out", tmp_path)
    assert result.exit_code == 0
    assert (tmp_path / f"{TABLE}-smoke.jsonl").read_bytes() == before
    again = json.loads((tmp_path / f"{TABLE}-smoke.json").read_text(encoding="utf-8"))
    assert again == json.loads((smoke[0] / f"{TABLE}-smoke.json").read_text(encoding="utf-8"))


def test_a_terminal_shows_the_table_without_its_markup(smoke, tmp_path):
    shutil.copy(smoke[0] / f"{TABLE}-smoke.jsonl", tmp_path)
    arguments = ["reproduce", TABLE, "--size", "smoke", "--out", str(tmp_path)]
    shown = CliRunner(env={"FORCE_COLOR": "1", "COLUMNS": "200"}).invoke(make_app(), arguments).stdout
    text = (tmp_path / f"{TABLE}-smoke.md").read_text(encoding="utf-8")
    assert "**" in text
    assert "**" not in shown
    assert "| --- |" not in shown
    assert "\x1b[1m" in shown


def test_what_another_version_saved_is_run_again(smoke, tmp_path):
    text = (smoke[0] / f"{TABLE}-smoke.jsonl").read_text(encoding="utf-8")
    other = text.replace(f'"version": "{__version__}"', '"version": "0.0.1"')
    assert other != text
    (tmp_path / f"{TABLE}-smoke.jsonl").write_text(other, encoding="utf-8")
    todo = run.plan_run([EXPERIMENTS[TABLE]], "smoke", tmp_path)
    assert len(todo.fits) == len(text.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "jobs"), [(signal.SIGKILL, 2), (signal.SIGINT, 2), (signal.SIGINT, 1)])
def test_an_ended_run_leaves_no_process_and_complete_lines(tmp_path, ending, jobs):
    """Neither kill -9 nor Ctrl-C leaves a process or saves a fit that was not finished."""
    arguments = ["reproduce", TABLE, "--size", "smoke", "--methods", "RAND-EM", "--jobs", str(jobs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "twoway", *arguments, "--trials", "5000", "--out", str(tmp_path)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = tmp_path / f"{TABLE}-smoke.jsonl"
    try:
        _wait(lambda: path.exists() and path.read_bytes().count(b"\n") >= 4)
        if ending == signal.SIGINT:
            os.killpg(process.pid, ending)  # as a terminal sends it
            assert process.wait(60) == 130
            stderr = process.stderr.read()
            assert "finished fits are saved" in stderr
            assert "Traceback" not in stderr
        else:
            os.kill(process.pid, ending)
            process.wait()
        _wait(lambda: not _is_alive(process.pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stderr.close()
    saved = read_results(path)
    assert 4 <= len(saved) < 10_000
    assert {line["stop"] for line in saved.values()} <= {"converged", "max_iter"}
    todo = run.plan_run([EXPERIMENTS[TABLE]], "smoke", tmp_path, trials=5000, methods=["RAND-EM"])
    assert len(todo.fits) == 10_000 - len(saved)


def _wait(is_so, seconds=600):  # machines are shared
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def _is_alive(group):
    """Return whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_process_that_dies_is_named(tmp_path, monkeypatch):
    """A fit that kills its process, as the system does when memory runs out."""
    fits = run.plan_run([EXPERIMENTS[TABLE]], "smoke", tmp_path).fits
    monkeypatch.setattr(run, "_run_in_job", _die)
    with pytest.raises(tw.TwowayError, match="finished fits are saved"):
        list(run._run_fits(fits, 2))


def _die(fit, parent):
    os.kill(os.getpid(), signal.SIGKILL)


def test_each_fit_is_reported_once(tmp_path):
    reported = []
    todo = run.plan_run([EXPERIMENTS[TABLE]], "smoke", tmp_path, trials=1, jobs=1, methods=["CNMF-SPA", "RAND-EM"])
    assert list(todo.run(reported.append)) == [EXPERIMENTS[TABLE]]
    assert tuple(reported) == todo.fits
    assert len(todo.fits) == 4
    assert all(fit.setting.work > 0 for fit in todo.fits)


# The declarations


def test_the_published_tables_have_the_columns_of_the_experiments():
    for experiment in EXPERIMENTS.values():
        table = experiment.printed
        assert table["columns"] == [setting.column(experiment.varies) for setting in experiment.paper]
        words = {word for word in experiment.metrics.values() if word}
        assert words == set(table) - {"columns"}
        for word in words:
            assert set(table[word]) <= set(METHODS) - {"auto"}
            assert all(len(row) == len(table["columns"]) for row in table[word].values())


def test_paper_size_is_the_papers():
    for experiment in EXPERIMENTS.values():
        for setting in experiment.paper:
            assert experiment.columns("paper")[setting] == (5 if getattr(setting, "n_records", 0) == 10**6 else 20)
    setting = EXPERIMENTS["synthetic-eps0.3"].paper[3]
    assert setting == Synthetic(10**6, 0.5, 5, 5, 10, 0.3)
    assert EXPERIMENTS["synthetic-n15-p0.2"].paper[0] == Synthetic(1000, 0.2, 15, 10, 10, None)


# Errors, before any work


def test_the_list_names_every_table_and_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (["--list"], []):
        result = reproduce(*arguments)
        assert result.exit_code == 0
        assert all(name in result.stdout for name in [*EXPERIMENTS, *METHODS])
    listed = json.loads(reproduce("--list", "--json").stdout)
    assert [one["table"] for one in listed["tables"]] == list(EXPERIMENTS)
    assert [one["method"] for one in listed["methods"]] == list(METHODS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_tables_for_machines(smoke):
    out, _ = smoke
    told = reproduce(TABLE, "--size", "smoke", "--out", out, "--json").stdout
    summary = json.loads(told)  # one line, and nothing else
    assert summary["table"] == TABLE
    assert [str(out / f"{TABLE}-smoke.md") in summary["written"], len(summary["metrics"]) > 0] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["synthetic-spars"],
            "no table 'synthetic-spars'; did you mean 'synthetic-sparse'? known: 'synthetic-eps0.1', ",
        ),
        ([TABLE, "--methods", "auto,cnmf-spa"], "no method 'cnmf-spa'; did you mean 'CNMF-SPA'?"),
        ([TABLE, "--size", "papr"], "no size 'papr'; did you mean 'paper'?"),
        ([TABLE, "--jobs", "0"], "jobs must be a whole number of at least 1, not 0"),
        ([TABLE, "--trials", "0"], "trials must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_names_and_numbers(arguments, told, tmp_path):
    out = tmp_path / "out"
    result = reproduce(*arguments, "--out", out)
    assert isinstance(result.exception, tw.TwowayError)
    assert told in str(result.exception)
    assert not out.exists()


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setattr(sys, "argv", ["twoway", "reproduce", TABLE, "--size", "smoke", "--out", str(out)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 4
        assert f"twoway: cannot write to the folder {str(out)!r}: " in capsys.readouterr().err


def test_more_than_fits_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_bytes_to_run", lambda: 2**30)
    result = reproduce("synthetic-n15-p0.5", "--jobs", 4, "--out", tmp_path)
    assert isinstance(result.exception, tw.DataError)
    assert "about 1.7 GB with 4 jobs, and 1.0 GB are available; use fewer --jobs" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
    assert run.plan_run([EXPERIMENTS["synthetic-n15-p0.5"]], "paper", tmp_path, jobs=2).fits


def test_memory_is_known_here():
    assert 2**20 < run._bytes_to_run() < 2**50


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / f"{TABLE}-smoke.jsonl").write_text('{"trial": 1}\nx\n', encoding="utf-8")
    result = reproduce(TABLE, "--size", "smoke", "--out", tmp_path)
    assert isinstance(result.exception, tw.FileFormatError)
    assert f"line 1 of {str(tmp_path / f'{TABLE}-smoke.jsonl')!r} is not a result" in str(result.exception)
