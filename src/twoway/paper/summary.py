"""From the lines of many trials to one table: mean and standard deviation, with the paper's number beside each."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.paper.base import Setting
from twoway.paper.run import Line, read_lines, results_file, settings_key
from twoway.paper.scores import METRICS
from twoway.paper.tables import EXPERIMENTS, Experiment, Size

Summary = dict[str, Any]


def summarize(experiment: Experiment, size: Size, out: Path, trials: int | None = None) -> Summary:
    """Return a table of what is saved in a folder, as plain dictionaries.

    Only the first ``trials`` trials count (by default as many as the size has), so that the same question
    has the same answer however many were run.
    """
    settings = experiment.settings(size)
    wanted = {setting: trials or experiment.n_trials(setting, size) for setting in settings}
    by_key = {settings_key(asdict(setting)): setting for setting in settings}
    lines: dict[tuple[Setting, int, str], Line] = {}
    for line in read_lines(results_file(out, experiment, size)):
        setting = by_key.get(settings_key(line["setting"]))
        if setting is not None and line["trial"] < wanted[setting] and line["method"] in experiment.methods:
            lines[setting, line["trial"], line["method"]] = line
    found: dict[tuple[Setting, str], list[Line]] = {}
    for setting, trial, method in sorted(lines, key=lambda key: key[1]):
        found.setdefault((setting, method), []).append(lines[setting, trial, method])
    option = "" if trials is None else f" --trials {trials}"
    table = next(name for name in EXPERIMENTS if experiment.name.startswith(name))
    option += "" if table == experiment.name else f" --movielens {experiment.name.removeprefix(f'{table}-')}"
    return {
        "table": experiment.name,
        "title": experiment.title,
        "label": experiment.label,
        "varies": experiment.varies,
        "size": size,
        "version": __version__,
        "command": f"twoway reproduce {table} --size {size}{option}",
        "dates": sorted({line["date"] for line in lines.values()}),
        "machines": sorted({line["machine"] for line in lines.values()}),
        "columns": [
            {
                "title": experiment.column(setting),
                "drawn": setting.drawn,
                "setting": asdict(setting),
                "trials": wanted[setting],
            }
            for setting in settings
        ],
        "metrics": [_summarize_metric(experiment, metric, wanted, found) for metric in experiment.metrics],
        "reasons": _reasons(experiment, wanted, found),
        "note": experiment.note,
        "not_run": [name for name in experiment.methods if not any(method == name for _, method in found)],
    }


def _summarize_metric(
    experiment: Experiment, metric: str, wanted: dict[Setting, int], found: dict[tuple[Setting, str], list[Line]]
) -> Summary:
    rows = [
        {
            "method": method,
            "cells": [
                _cell(metric, found.get((setting, method), []), experiment.published(metric, method, setting))
                for setting in wanted
            ],
        }
        for method in experiment.methods
    ]
    return {
        "name": metric,
        "title": METRICS[metric].title,
        "paper": experiment.metrics[metric],
        "rows": rows,
        "best": [_best(metric, rows, column) for column in range(len(wanted))],
    }


def _cell(metric: str, lines: list[Line], published: tuple[float, float | None] | None) -> Summary:
    """Return mean, sample standard deviation, how many trials were run and failed, the paper's number, the better."""
    scored = [line["scores"] for line in lines if line["scores"] is not None]
    values = [scores[metric] for scores in scored if metric in scores]
    mean = statistics.fmean(values) if values else None
    paper, paper_sd = published or (None, None)
    better = None
    if mean is not None and paper is not None:
        ahead = round(mean, METRICS[metric].decimals) - paper
        ahead = ahead if METRICS[metric].is_higher_better else -ahead
        better = "both" if ahead == 0 else "ours" if ahead > 0 else "paper"
    return {
        "mean": mean,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "decimals": METRICS[metric].decimals if METRICS[metric].shows_decimals else None,
        "trials": len(lines),
        "failed": len(lines) - len(scored),
        "paper": paper,
        "paper_sd": paper_sd,
        "better": better,
    }


def _best(metric: str, rows: list[Summary], column: int) -> str | None:
    """Return the method with the best mean of a column, among those that never failed there."""
    means = {row["method"]: row["cells"][column] for row in rows}
    entered = {name: cell["mean"] for name, cell in means.items() if cell["mean"] is not None and not cell["failed"]}
    sign = -1.0 if METRICS[metric].is_higher_better else 1.0
    return min(entered, key=lambda name: sign * float(entered[name])) if entered else None


def _reasons(
    experiment: Experiment, wanted: dict[Setting, int], found: dict[tuple[Setting, str], list[Line]]
) -> list[Summary]:
    """Return why methods had nothing to say, the commonest reason of each column and method."""
    reasons = []
    for method in experiment.methods:
        for setting in wanted:
            lines = found.get((setting, method), [])
            told = Counter(line["reason"] for line in lines if line["reason"] is not None)
            if told:
                reasons.append(
                    {
                        "method": method,
                        "column": experiment.column(setting),
                        "failed": told.total(),
                        "trials": len(lines),
                        "reason": told.most_common(1)[0][0],
                    }
                )
    return reasons
