"""Measure the coverage of 90 % intervals; write tables to docs/how-sure.md and docs/missing-cells.md.

    python benchmarks/interval_coverage.py                 everything, about 25 minutes on two cores
    python benchmarks/interval_coverage.py --sets 100      more data sets, for more precision
    python benchmarks/interval_coverage.py --quick         4 data sets, printed, not written
    python benchmarks/interval_coverage.py records tables  some sections

Truths are random models (`dirichlet_rows`), a new one per data set; those of one line are log-linear, with a random
interaction of every pair of variables, which no small mixture describes. One cell in five of the records is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

ROOT = Path(__file__).resolve().parent.parent
SIZES = (200, 2000, 20_000)
N_SETS, FEW_SETS = 40, 4
N_REPLICATES = 100
RARE = 0.004

Held = dict[str, list[bool]]


class Case(NamedTuple):
    """A true model, and the rank that is fitted."""

    name: str
    n_variables: int
    n_categories: int
    true_rank: int | None
    """None is a log-linear truth."""
    rank: int | None
    """None is chosen."""
    from_tables: bool = False


RECORDS = (
    Case("rank known (3)", 6, 3, 3, 3),
    Case("rank chosen (true rank 3)", 6, 3, 3, None),
    Case("rank known (6)", 6, 4, 6, 6),
    Case("rank too small (2, true rank 4)", 6, 4, 4, 2),
    Case("log-linear truth, rank chosen", 6, 3, None, None),
)
TABLES = (Case("tables, rank known (3)", 6, 3, 3, 3, True),)


def answers(boot: tw.Bootstrap, truth: tw.JointPMF) -> Iterator[tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield a kind of question, and the truth, low and high of some answers."""
    for a, b in (("x1", "x2"), ("x3", "x4"), ("x2", "x5")):
        table = boot.marginal([a, b])
        yield "shares of pairs", np.asarray(truth.marginal([a, b])), table.low.array, table.high.array
        for label in (0, 1):
            given = {a: label}
            table = boot.given(given).marginal(b)
            yield "given one variable", np.asarray(truth.given(given).marginal(b)), table.low.array, table.high.array
    for a, b in (("x1", "x2"), ("x3", "x4"), ("x2", "x5"), ("x1", "x6")):
        number = boot.mutual_information(a, b)
        yield "mutual information", *(np.array(x) for x in (truth.mutual_information(a, b), number.low, number.high))
        number = boot.entropy([a, b])
        yield "entropy", *(np.array(x) for x in (truth.entropy([a, b]), number.low, number.high))
    given = rare_condition(truth)
    for name in ("x1", "x2") if boot.observed is None or not boot.observed.is_all else ():
        table = boot.given(given).marginal(name)
        yield "given a rare condition", np.asarray(truth.given(given).marginal(name)), table.low.array, table.high.array


def rare_condition(truth: tw.JointPMF) -> dict[str, int]:
    """Return the values of three variables with a probability closest to 0.4 %."""
    joint = np.asarray(truth.marginal(["x4", "x5", "x6"]))
    place = np.unravel_index(np.abs(np.log(joint / RARE)).argmin(), joint.shape)
    return dict(zip(("x4", "x5", "x6"), map(int, place), strict=True))


def log_linear(n_variables: int, n_categories: int, seed: int) -> tw.JointPMF:
    """Return the joint of ordinal variables, any two of which depend on each other."""
    random = np.random.default_rng(seed)
    scores = np.meshgrid(*[np.linspace(-1, 1, n_categories)] * n_variables, indexing="ij")
    logs = sum(random.normal(0, 0.5) * a * b for a, b in combinations(scores, 2))
    joint = np.exp(logs + sum(random.normal(0, 0.3) * score for score in scores))
    names = [f"x{place + 1}" for place in range(n_variables)]
    schema = tw.Schema(tuple(tw.Variable(name, tuple(range(n_categories))) for name in names))
    return tw.JointPMF.from_joint(joint / joint.sum(), schema)


def one_set(case: Case, size: int, seed: int) -> Held:
    if case.true_rank is None:
        truth = log_linear(case.n_variables, case.n_categories, seed)
    else:
        truth = dirichlet_rows(case.n_variables, case.n_categories, case.true_rank, seed=seed)
    records = draw_records(truth, size, observed=1.0 if case.from_tables else 0.8, seed=1000 + seed)
    source = tw.count(records) if case.from_tables else records
    pmf = tw.fit(source, rank=case.rank, starts=4, threads=1)
    boot = tw.bootstrap(pmf, source, n=N_REPLICATES, seed=seed, threads=1)
    held: Held = {}
    for kind, true, low, high in answers(boot, truth):
        held.setdefault(kind, []).extend(((low <= true) & (true <= high)).ravel().tolist())
    return held


def coverage(cases: tuple[Case, ...], n_sets: int, pool: ProcessPoolExecutor) -> list[str]:
    kinds = ["shares of pairs", "given one variable", "given a rare condition", "mutual information", "entropy"]
    lines = ["| model | records | " + " | ".join(kinds) + " |", "|---|---|" + "---|" * len(kinds)]
    jobs = {
        (case, size): [pool.submit(one_set, case, size, seed) for seed in range(n_sets)]
        for case, size in product(cases, SIZES)
    }
    errors = []
    for (case, size), running in jobs.items():
        sets = [job.result() for job in running]
        cells = []
        for kind in kinds:
            each = [float(np.mean(held[kind])) for held in sets if kind in held]
            cells.append(f"{100 * np.mean(each):.0f} %" if each else "—")
            errors.append(100 * np.std(each) / len(each) ** 0.5 if each else 0.0)
            if each:
                print(
                    f"{case.name}, {size}, {kind}: {np.mean(each):.3f} ± {np.std(each) / len(each) ** 0.5:.3f}",
                    flush=True,
                )
        lines.append(f"| {case.name} | {size:,} | " + " | ".join(cells) + " |")
    usual, most = np.median(errors), max(errors)
    return [*lines, "", f"{n_sets} data sets per line; standard errors of {usual:.0f} to {most:.0f} points."]


def records(n_sets: int, pool: ProcessPoolExecutor) -> list[str]:
    """From records."""
    return coverage(RECORDS, n_sets, pool)


def tables(n_sets: int, pool: ProcessPoolExecutor) -> list[str]:
    """From two-way tables of the same people."""
    return coverage(TABLES, n_sets, pool)


# Multiple imputation


def imputed_set(seed: int) -> list[tuple[bool, bool]]:
    """Return whether pooled intervals contain a share and a difference: from replicates, then from one model."""
    n, schema = 1000, dirichlet_rows(3, 3, 3).schema
    random = np.random.default_rng([seed, 1])
    factors = [random.dirichlet(np.full(3, 1.5), size=3).T for _ in range(3)]
    truth = tw.JointPMF(np.full(3, 1 / 3), factors, schema)
    frame = truth.sample(n, seed=seed).astype(float)
    chance = np.array([0.9, 0.7, 0.8])[frame["x2"].to_numpy(int)]
    frame.loc[random.random(n) < chance, "x1"] = np.nan
    pmf = tw.fit(frame, rank=3, starts=2, threads=1)
    boot = tw.bootstrap(pmf, frame, n=20, seed=seed, threads=1)
    shares = [truth.given({"x2": label}).prob({"x1": 0}) for label in (0, 1)]
    true = {"share": truth.prob({"x1": 0}), "difference": shares[0] - shares[1]}

    def analysis(table: Any) -> dict[str, tuple[float, float]]:
        hit = (table["x1"] == 0).to_numpy(float)
        parts = [hit[table["x2"].to_numpy() == label] for label in (0, 1)]
        return {
            "share": (hit.mean(), hit.var(ddof=1) / n),
            "difference": (parts[0].mean() - parts[1].mean(), sum(part.var(ddof=1) / len(part) for part in parts)),
        }

    held = []
    for copies in (boot.impute(frame, m=20), [pmf.impute(frame, "sample", seed=number) for number in range(20)]):
        pooled = tw.pool(analysis, copies)
        held.append(tuple(pooled[name].low <= value <= pooled[name].high for name, value in true.items()))
    return held


def imputation(n_sets: int, pool: ProcessPoolExecutor) -> list[str]:
    """Multiple imputation."""
    n_sets *= 6
    held = np.array(list(pool.map(imputed_set, range(n_sets))), dtype=float).mean(axis=0)
    lines = ["| 20 completed tables from | a share | a difference of two shares |", "|---|---|---|"]
    for name, (share, difference) in zip(
        ("replicates, `Bootstrap.impute`", "one model, `pmf.impute`"), held, strict=True
    ):
        lines.append(f"| {name} | {100 * share:.0f} % | {100 * difference:.0f} % |")
    return [*lines, "", f"{n_sets} data sets; standard errors of about {100 * (0.09 / n_sets) ** 0.5:.0f} points."]


PAGES = {"records": "how-sure.md", "tables": "how-sure.md", "imputation": "missing-cells.md"}
SECTIONS: dict[str, Callable[[int, ProcessPoolExecutor], list[str]]] = {
    "records": records,
    "tables": tables,
    "imputation": imputation,
}


def write(section: str, lines: list[str]) -> None:
    path = ROOT / "docs" / PAGES[section]
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- measured: coverage of {section} -->\n", "<!-- end -->"
    before, rest = text.split(begin)
    path.write_text(before + begin + "\n".join(["", *lines, "", ""]) + end + rest.split(end, 1)[1], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them by default")
    parser.add_argument("--sets", type=int, default=N_SETS, help="data sets per line")
    parser.add_argument("--quick", action="store_true", help=f"{FEW_SETS} data sets, printed, not written")
    asked = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        for section in asked.sections or SECTIONS:
            lines = SECTIONS[section](FEW_SETS if asked.quick else asked.sets, pool)
            print("\n".join(lines), flush=True)
            if not asked.quick:
                write(section, lines)


if __name__ == "__main__":
    main()
