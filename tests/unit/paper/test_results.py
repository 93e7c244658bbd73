"""Means, marks, the page and the plot, from lines written by hand."""

import json
import math
import sys
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from twoway import __version__
from twoway.cli.app import make_app
from twoway.paper import show
from twoway.paper.results import summarize_results
from twoway.paper.tables import EXPERIMENTS


def write_lines(path, experiment, values, setting):
    """Save one trial for each value of a method; None is a failed one."""
    with path.open("a", encoding="utf-8") as file:
        for method, numbers in values.items():
            for trial, value in enumerate(numbers):
                line = {
                    "version": __version__,
                    "setting": asdict(setting),
                    "trial": trial,
                    "method": method,
                    "date": "2026-01-02",
                    "machine": "a machine",
                    "scores": None if value is None else dict.fromkeys([*experiment.metrics, "seconds"], value),
                    "reason": "nothing seen" if value is None else None,
                }
                file.write(json.dumps(line) + "\n")


def write_page(page, out):
    return CliRunner().invoke(make_app(), ["reproduce", "--page", str(page), "--out", str(out)])


@pytest.fixture
def by_hand(tmp_path):
    experiment = EXPERIMENTS["synthetic-n15-p0.5"]
    values = {
        "CNMF-SPA": [0.1, 0.12],  # the paper: 0.1183
        "CNMF-OPT": [0.5, 0.7, 0.6],  # the paper: 0.0218
        "CTD": [0.03286, 0.03294],  # the paper: 0.0329, the same number once it is rounded
        "RAND-EM": [None, 0.01],
        "CNMF-SPA-EM": [None],
        "auto": [0.05],
    }
    write_lines(tmp_path / f"{experiment.name}-paper.jsonl", experiment, values, experiment.paper[0])
    return experiment, tmp_path


def test_means_marks_and_notes(by_hand):
    experiment, out = by_hand
    summary = summarize_results(experiment, "paper", out)
    cells = {row["method"]: row["cells"][0] for row in summary["metrics"][0]["rows"]}
    assert cells["CNMF-SPA"]["mean"] == pytest.approx(0.11)
    assert cells["CNMF-SPA"]["sd"] == pytest.approx(math.sqrt(0.0002))
    assert [cells[name]["better"] for name in ("CNMF-SPA", "CNMF-OPT", "CTD", "auto")] == [
        "ours",
        "paper",
        "both",
        None,
    ]
    assert show.shown_ours(cells["RAND-EM"]) == "0.0100†"
    assert show.shown_ours(cells["CNMF-SPA-EM"]) == "—"
    assert show.shown_ours(cells["MLE-AD-EM"]) == "not run"
    # RAND-EM has the lowest mean, but of the trials that did not fail only.
    assert summary["metrics"][0]["best"] == ["CTD", None, None, None]
    text = show.show_as_markdown(summary)
    assert "| CNMF-SPA | **0.110 ± 0.014** (paper 0.1183) | not run (paper 0.103)" in text
    assert "| CNMF-OPT | 0.600 ± 0.100 (paper **0.0218**)" in text
    assert "| CTD | **0.0329 ± 0.0001** (paper **0.0329**)" in text
    assert "- not run: CNMF-OPT-mirror, MLE-AD-EM" in text
    assert "- S=10³: at least 1 of 20 trials run" in text
    assert "- RAND-EM, S=10³: failed in 1 of 2 trials: nothing seen" in text
    assert "2026-01-02; a machine." in text


def test_only_the_trials_asked_for_count(by_hand):
    experiment, out = by_hand
    summary = summarize_results(experiment, "paper", out, trials=1)
    cells = {row["method"]: row["cells"][0] for row in summary["metrics"][0]["rows"]}
    assert (cells["CNMF-OPT"]["mean"], cells["CNMF-OPT"]["sd"], cells["CNMF-OPT"]["trials"]) == (0.5, None, 1)


def test_a_line_for_the_same_cell_counts_once(by_hand):
    experiment, out = by_hand
    before = summarize_results(experiment, "paper", out)
    path = out / f"{experiment.name}-paper.jsonl"
    path.write_text(path.read_text(encoding="utf-8") * 2, encoding="utf-8")
    assert summarize_results(experiment, "paper", out) == before


def test_the_page_keeps_the_text_above_the_mark(by_hand):
    experiment, out = by_hand
    page = out / "results.md"
    assert write_page(page, out).exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("# Results\n")
    text = page.read_text(encoding="utf-8").replace("# Results\n", "# Results\n\nWhat I make of it.\n")
    page.write_text(text + "\nthis goes\n", encoding="utf-8")
    for _ in range(2):
        assert write_page(page, out).exit_code == 0
        assert page.read_text(encoding="utf-8") == text
    assert "What I make of it." in text
    assert f"## {experiment.name}\n" in text
    assert "**0.110 ± 0.014** (paper 0.1183)" in text
    assert text.count("Not run.") == len(EXPERIMENTS) - 1
    # A table whose lines are elsewhere stays on the page as it is.
    assert write_page(page, out / "another").exit_code == 0
    assert page.read_text(encoding="utf-8") == text
    page.write_text("# Mine\n", encoding="utf-8")
    result = write_page(page, out)
    assert "has no line" in str(result.exception)
    assert page.read_text(encoding="utf-8") == "# Mine\n"


def test_without_matplotlib_there_is_no_plot_and_a_word(by_hand, monkeypatch):
    experiment, out = by_hand
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    paths = show.show_in_files(summarize_results(experiment, "paper", out), out)
    assert [path.suffix for path in paths] == [".json", ".md"]
