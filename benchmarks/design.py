"""Measure intervals of a survey's design.

    python benchmarks/design.py               coverage of 90 % intervals on simulated two-stage samples
    python benchmarks/design.py FOLDER        standard errors and tests beside those of R's survey package

FOLDER holds apistrat.csv and apiclus1.csv, the samples of schools of R's ``survey`` package, with a column for each of
stype, sch.wide, comp.imp, awards, pw, fpc and dnum, and needs Rscript with that package:

    Rscript -e 'library(survey); data(api); for (n in c("apistrat", "apiclus1"))
      write.csv(get(n), paste0(n, ".csv"), row.names = FALSE)'
"""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw

N_SAMPLES, N_UNITS, N_PER_UNIT = 100, 40, 20
# The part of the variance behind an answer that lies between units; of the answers themselves it is about 0.1.
SPREAD = 0.24
NAMES = ("stype", "sch.wide", "comp.imp", "awards")


def population(random: np.random.Generator, n_units: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return people of some units: three questions, whose answers within a unit correlate by about 0.1."""
    unit = np.repeat(np.arange(n_units), N_PER_UNIT)
    # A threshold on a normal variable whose variance lies between units in this part.
    shared = np.sqrt(SPREAD) * random.normal(size=(n_units, 1))[unit]
    person = np.sqrt(0.3) * random.normal(size=(len(unit), 1))
    rest = np.sqrt(1.0 - 0.3 - SPREAD) * random.normal(size=(len(unit), 3))
    level = shared + person + rest
    answers = {name: np.digitize(level[:, k], cuts) for k, (name, cuts) in enumerate(QUESTIONS.items())}
    return pd.DataFrame(answers), unit


QUESTIONS = {"trust": (-0.4, 0.6), "vote": (0.2,), "income": (-0.7, 0.0, 0.8)}


def coverage() -> None:
    """How often intervals of two-way shares contain the truth, with the design and without it."""
    everyone, unit = population(np.random.default_rng(1), 20_000)
    indicators = pd.get_dummies(everyone.astype(str)).to_numpy(float)
    means = pd.DataFrame(indicators).groupby(unit).mean().to_numpy()
    between = (means.var(axis=0) - indicators.var(axis=0) / N_PER_UNIT) / (1.0 - 1.0 / N_PER_UNIT)
    print(f"intraclass correlation of the answers: {np.mean(between / indicators.var(axis=0)):.3f}\n")
    inside: dict[str, list[np.ndarray]] = {"design": [], "simple": []}
    for sample in range(N_SAMPLES):
        frame, units = population(np.random.default_rng([2, sample]), N_UNITS)
        pmf = tw.fit(frame)
        for name, design in (("design", tw.Design(units=units)), ("simple", None)):
            boot = tw.bootstrap(pmf, frame, n=100, design=design)
            for pair in combinations(QUESTIONS, 2):
                truth = pd.crosstab(*(everyone[key] for key in pair), normalize=True).to_numpy()
                shares = boot.marginal(list(pair))
                inside[name].append(((shares.low.array <= truth) & (truth <= shares.high.array)).ravel())
    print(f"| 90 % intervals of two-way shares, {N_SAMPLES} samples | contain the truth |\n|---|---:|")
    for name, hits in inside.items():
        print(f"| {name} | {np.mean(np.concatenate(hits)):.1%} |")


R_SCRIPT = """suppressMessages(library(survey)); f <- commandArgs(TRUE)
d <- read.csv(f[1]); for (v in strsplit(f[3], ",")[[1]]) d[[v]] <- factor(d[[v]])
s <- if (f[2] == "strata") svydesign(id = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = d) else
  svydesign(id = ~dnum, weights = ~pw, fpc = ~fpc, data = d)
n <- strsplit(f[3], ",")[[1]]
for (i in 1:(length(n) - 1)) for (j in (i + 1):length(n)) {
  m <- svymean(as.formula(paste0("~interaction(`", n[i], "`,`", n[j], "`)")), s)
  x <- svychisq(as.formula(paste0("~`", n[i], "`+`", n[j], "`")), s)
  cat(i - 1, j - 1, sprintf("%.12g", c(x$statistic, x$p.value)), sprintf("%.12g", SE(m)), "\\n") }"""


def beside_r(folder: Path) -> None:
    """Standard errors of two-way shares, and tests of independence, beside those of R's survey package."""
    columns = "standard errors | ratio to R's, smallest | median | largest | off by, without a model | tests off by"
    print(f"| sample | {columns} |\n|---|---:|---:|---:|---:|---:|---:|")
    for name, kind in (("apistrat", "strata"), ("apiclus1", "units")):
        frame = pd.read_csv(folder / f"{name}.csv")
        strata = {"strata": frame["stype"]} if kind == "strata" else {"units": frame["dnum"]}
        records = tw.Records(frame, columns=NAMES, weights="pw")
        pmf = tw.fit(records, rank=6, smoothing=0)
        design = tw.Design(population=frame["fpc"], **strata)
        boot = tw.bootstrap(pmf, records, design=design)
        command = ["Rscript", "-e", R_SCRIPT, str(folder / f"{name}.csv"), kind, ",".join(NAMES)]
        ratios, apart, apart_p = [], 0.0, 0.0
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            first, second, statistic, p_value, *errors = map(float, line.split())
            pair = [NAMES[int(first)], NAMES[int(second)]]
            table = tw.sampled_table(records, pair, design=design)
            own_errors = table.standard_errors.T.ravel()
            apart = max(apart, *(abs(a / b - 1) for a, b in zip(own_errors, errors, strict=True) if b > 1e-12))
            test = table.independence
            apart_p = max(apart_p, abs(test.p_value / p_value - 1), abs(test.statistic / statistic - 1))
            ours = boot.standard_error(lambda model, pair=pair: model.marginal(pair).array).T.ravel()
            ratios += [own / other for own, other in zip(ours, errors, strict=True) if other > 0]
        shown = f"{min(ratios):.3f} | {np.median(ratios):.3f} | {max(ratios):.3f} | {apart:.0e} | {apart_p:.0e}"
        print(f"| {name} | {len(ratios)} | {shown} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        beside_r(Path(sys.argv[1]))
    else:
        coverage()
