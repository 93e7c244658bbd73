"""Measure tables: false marks on independent data, tests beside R's, and the time of a whole tabulation.

    python benchmarks/tables.py               tables with a false mark, of 1000 on independent data each
    python benchmarks/tables.py FOLDER        tests of association beside those of R's survey package
    python benchmarks/tables.py --time        14 questions of election by 3 others, with intervals (needs TWOWAY_DATA)

FOLDER holds apistrat.csv and apiclus1.csv as benchmarks/design.py describes, and needs Rscript with that package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw
from twoway.model.counts import Counts
from twoway.schema import Schema, Variable

N_TABLES = 1000
NAMES = ("stype", "sch.wide", "comp.imp", "awards")
CASES = {
    "4 answers by 3 + 2 groups, 1,000 records": (1000, [0.4, 0.3, 0.2, 0.1], (3, 2), "none"),
    "the same, 200 records": (200, [0.4, 0.3, 0.2, 0.1], (3, 2), "none"),
    "7 answers by 5 + 4 + 2 groups, 2,000 records": (2000, [0.3, 0.25, 0.2, 0.1, 0.08, 0.05, 0.02], (5, 4, 2), "none"),
    "2 answers by 10 groups, 1,000 records": (1000, [0.9, 0.1], (10,), "none"),
    "weights that have nothing to do with the answers": (1000, [0.4, 0.3, 0.2, 0.1], (3, 2), "own"),
    "weights that depend on the answers": (1000, [0.4, 0.3, 0.2, 0.1], (3, 2), "answers"),
}


def independent(random: np.random.Generator, case: tuple[int, list[float], tuple[int, ...], str]) -> tw.JointPMF:
    """Return a model with the counts of independent answers and groups."""
    n, shares, groups, weighting = case
    answers = random.choice(len(shares), n, p=shares)
    columns = {"answer": answers, **{f"group {k}": random.integers(0, size, n) for k, size in enumerate(groups)}}
    weights = {
        "none": np.ones(n),
        "own": random.lognormal(0.0, 0.7, n),
        "answers": np.linspace(3.0, 0.5, len(shares))[answers],
    }[weighting]
    sizes = [len(shares), *groups]
    schema = Schema(tuple(Variable(name, tuple(range(size))) for name, size in zip(columns, sizes, strict=True)))
    records = tw.Records(pd.DataFrame(columns), schema=schema, weights=None if weighting == "none" else weights)
    factors = [np.full((size, 1), 1.0 / size) for size in sizes]
    return tw.JointPMF([1.0], factors, schema).with_counts(Counts.of_tables(tw.Tables.count(records)))


def false_marks() -> None:
    print("| independent data | tables with a letter | with a test below 5 % |\n|---|---|---|")
    for number, (name, case) in enumerate(CASES.items()):
        random = np.random.default_rng(number)
        marked, below = 0, []
        for _ in range(N_TABLES):
            pmf = independent(random, case)
            (table,) = tw.tabulate(pmf, "answer", pmf.schema.names[1:])
            marked += bool((table.higher_than != "").any())
            below += [test.p_value < 0.05 for test in table.tests]
        print(f"| {name} | {100 * marked / N_TABLES:.1f} % | {100 * np.mean(below):.1f} % |", flush=True)


R_TESTS = """
suppressMessages(library(survey))
s <- read.csv("%s/apistrat.csv"); c <- read.csv("%s/apiclus1.csv")
names <- c("stype", "sch.wide", "comp.imp", "awards")
jackknife <- as.svrepdesign(svydesign(ids=~dnum, weights=~pw, data=c), mse=TRUE)
write.csv(weights(jackknife, "analysis"), "%s/jackknife.csv", row.names=FALSE)
designs <- list(svydesign(ids=~1, weights=~pw, data=s),
  svydesign(ids=~1, strata=~stype, fpc=~fpc, weights=~pw, data=s),
  svydesign(ids=~dnum, fpc=~fpc, weights=~pw, data=c), jackknife)
for (d in designs) {
  for (i in 1:3) for (j in (i + 1):4) {
    r <- svychisq(as.formula(paste0("~", names[i], "+", names[j])), d)
    cat(r$statistic, r$p.value, "\n")
  }
  for (type in c("E", "H", "M")) {
    r <- svychisq(~sch.wide + awards, subset(d, stype == type))
    cat(r$statistic, r$p.value, "\n")
  }
}
"""


def beside_r(folder: str) -> None:
    printed = subprocess.run(
        ["Rscript", "-"], input=R_TESTS % (folder, folder, folder), text=True, capture_output=True, check=True
    )
    theirs = iter([tuple(map(float, line.split())) for line in printed.stdout.splitlines()])
    strata, clusters, jackknife = (
        pd.read_csv(Path(folder) / f"{name}.csv") for name in ("apistrat", "apiclus1", "jackknife")
    )
    designs = {
        "weights alone": (strata, None),
        "strata": (strata, tw.Design(strata=strata["stype"], population=strata["fpc"])),
        "clusters": (clusters, tw.Design(units=clusters["dnum"], population=clusters["fpc"])),
        "replicate weights": (clusters, tw.Design(replicates=jackknife)),
    }
    print("| design | pair | F | of `svychisq` | p | of `svychisq` | same at 5 % |\n|---|---|---|---|---|---|---|")
    for name, (frame, design) in designs.items():
        records = tw.Records(frame[[*NAMES, "pw"]], weights="pw")
        pmf = tw.fit(records, rank=2, smoothing=1)
        tests = [pmf.table(b, a, records=records, design=design)[b].tests[0] for a, b in combinations(NAMES, 2)]
        for test in [*tests, *pmf.table("awards", "stype > sch.wide", records=records, design=design)["awards"].tests]:
            statistic, p_value = next(theirs)
            same = (test.p_value < 0.05) == (p_value < 0.05)
            print(
                f"| {name} | {' × '.join(test.variables)} | {test.statistic:.4g} | {statistic:.4g} | "
                f"{test.p_value:.3g} | {p_value:.3g} | {'yes' if same else 'NO'} |"
            )


def whole_tabulation() -> None:
    frame = pd.read_csv(Path(os.environ["TWOWAY_DATA"]) / "lca" / "poLCA__election.csv")
    frame["AGE"] = pd.cut(frame["AGE"], [0, 34, 54, 120], labels=["18-34", "35-54", "55+"])
    boot = tw.bootstrap(tw.fit(frame, rank=5), frame)
    started, computed = time.perf_counter(), time.process_time()
    tables = tw.tabulate(boot, columns=["AGE", "GENDER", "EDUC"])
    seconds, computed = time.perf_counter() - started, time.process_time() - computed
    tables.save("election.xlsx")
    print(
        f"{len(tables)} tables of {len(tables.columns)} columns with {len(boot.replicates)} replicates: "
        f"{seconds:.1f} s, {computed:.1f} s of CPU"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            false_marks()
        case ["--time"]:
            whole_tabulation()
        case [folder]:
            beside_r(folder)
