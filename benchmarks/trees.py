"""Measure hidden trees: predictions on a survey beside those of one hidden variable, and the speed of a pass.

    python benchmarks/trees.py [survey|whole|chain|counties|synthetic|mixture|intervals|speed|threads|seconds]

Prints the Markdown tables of docs/how-it-works.md. "survey" needs the election study in TWOWAY_DATA
(lca/poLCA__election.csv): half of it is fitted, the other half predicted. "whole" fits all of it, and compares answers
with the cross-tab. "chain" predicts 180 variables of a hidden Markov chain. "counties" fits seven tables of each of
six counties (crosstabs/acs2012_ca_counties), and prints how far off the worst table is. "synthetic" fits records
of each column of the paper's synthetic tables with default options, and prints which structure was chosen and the error
beside those of the paper's solvers, which are given the rank (20 minutes). "mixture" prints which structure is taken
for some data sets (surveys/, lca/, UCI's in uci/, density/pumsb_star; 5 minutes). "intervals" prints how often 90 %
intervals contain the truth (docs/how-sure.md; 3 minutes). "speed" compares a pass of EM with its matrix products alone,
done by numpy's BLAS; set OPENBLAS_NUM_THREADS=1, because the pass uses one thread. "threads"
compares it by two threads and by one. "seconds" measures fits with default options, and needs bfi
(surveys/bfi.csv.gz) as well; both need idle cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.kernels.lanes import lane_layout
from twoway.kernels.trees import expect_tree
from twoway.model.comparison import mean_relative_error
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.paper.synthetic import Synthetic
from twoway.paper.tables import EXPERIMENTS
from twoway.report import reported_model_form
from twoway.solvers.cell_sets import expected_counts
from twoway.solvers.theta import theta_of, theta_tree_rows

N_STRONGEST = 15
AGES = [-1, 29, 39, 49, 59, 69, 200]
N_VARIABLES, N_CATEGORIES, N_STATES, N_RECORDS, OBSERVED = 15, 10, 10, 100_000, 0.5
N_TIMES = 15
COUNTY_SHEETS = ("age_by_sex", "edu", "marital_status", "nativity", "pop_by_race")


def main() -> None:
    sections = {
        "survey": survey,
        "whole": whole,
        "chain": chain,
        "counties": counties,
        "synthetic": synthetic,
        "mixture": mixture,
        "intervals": intervals,
        "speed": speed,
        "threads": threads,
        "seconds": seconds,
    }
    for name in sys.argv[1:] or sections:
        sections[name]()
        print()


def survey() -> None:
    """Half of the election study predicted from the other half."""
    if "TWOWAY_DATA" not in os.environ:
        print("survey: set TWOWAY_DATA to the folder with lca/poLCA__election.csv")
        return
    study = election()
    ages = [f"over {low}" for low in AGES[:-1]]
    binned = study.assign(AGE=pd.cut(study["AGE"], AGES, labels=ages).astype(object))
    print("| fitted | model | records | strongest pairs | tables off |\n|---|---|---:|---:|---:|")
    for name, frame in (("ages in six groups", binned), ("ages as they are", study)):
        train, test = halves(frame)
        pairs = strongest(train)
        observed = np.mean([cross_tab_score(train, test, *pair) for pair in pairs])
        print(f"| {name} | cross-tabs | | {observed:.3f} | |")
        for structure in ("single", "tree"):
            show(name, structure, tw.fit(train, structure=structure), test, pairs)
    train, test = halves(binned)
    hidden = train.mask(np.random.default_rng(0).random(train.shape) < 0.3)
    for structure in ("single", "tree"):
        pmf = tw.fit(tw.count(hidden), structure=structure)
        show("two-way tables, 30 % of the cells hidden", structure, pmf, test, strongest(train))


def election() -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["TWOWAY_DATA"]) / "lca" / "poLCA__election.csv")


def whole() -> None:
    """The vote given the party, fitted to the whole study, beside the cross-tab."""
    if "TWOWAY_DATA" not in os.environ:
        print("whole: set TWOWAY_DATA to the folder with lca/poLCA__election.csv")
        return
    study = election()
    voters = study.dropna(subset=["PARTY", "VOTE3"])
    observed = pd.crosstab(voters["PARTY"], voters["VOTE3"], normalize="index")
    of_party = voters["PARTY"].value_counts()
    print("| structure | seed | tables off | VOTE3 given PARTY, most that a share differs |\n|---|---:|---:|---:|")
    for structure, seed in (("single", 0), ("auto", 0), ("auto", 1), ("auto", 2)):
        pmf = tw.fit(study, structure=structure, seed=seed)
        joint = np.asarray(pmf.marginal(["PARTY", "VOTE3"]))
        off = np.abs(joint / joint.sum(axis=1, keepdims=True) - observed.to_numpy()).max(axis=1)
        most = off[[of_party[party] > 100 for party in observed.index]].max()
        print(f"| {structure} | {seed} | {pmf.report.check.n_off} of {pmf.report.check.n_tables} | {most:.3f} |")


def chain() -> None:
    """180 binary variables of a hidden Markov chain of 4 states."""
    n_variables, n_states = 180, 4
    rng = np.random.default_rng(0)
    emissions = rng.beta(0.3, 0.3, size=(n_variables, n_states))
    stay = np.full((n_states, n_states), 0.1 / 3) + (0.9 - 0.1 / 3) * np.eye(n_states)
    factors = tuple(np.vstack([1 - p, p]) for p in emissions)
    weights = np.full(n_states, 1 / n_states)
    homes, parents = tuple(range(n_variables)), (-1, *range(n_variables - 1))
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", (0, 1)) for n in homes))
    tree = HiddenTree(parents, homes, weights, (stay,) * (n_variables - 1), factors)
    truth = tw.JointPMF.from_trees(schema, tw.Trees(np.ones(1), (tree,)))
    fresh = truth.sample(2400, seed=1)
    pmf = tw.fit(truth.sample(1600, seed=0))
    print("| model | log-probability of a fresh record |\n|---|---:|")
    print(f"| truth | {truth.log_prob(fresh).mean():.2f} |")
    print(f"| auto: {pmf.n_hidden} hidden variables | {pmf.log_prob(fresh).mean():.2f} |")


def counties() -> None:
    """Seven published tables of a county, made to agree about sex."""
    if "TWOWAY_DATA" not in os.environ:
        print("counties: set TWOWAY_DATA to the folder with crosstabs/acs2012_ca_counties")
        return
    folder = Path(os.environ["TWOWAY_DATA"]) / "crosstabs" / "acs2012_ca_counties"
    wide = [pd.read_csv(folder / f"{name}.csv", index_col="county") for name in COUNTY_SHEETS]
    by_size = wide[0]["pop_age_cnt_all"].sort_values().index
    print("| county | adults | structure | hidden | states | worst total variation |\n|---|---:|---|---:|---:|---:|")
    for county in by_size[[3, 15, 28, 40, 50, 56]]:
        tables = county_tables(*(frame.loc[county] for frame in wide))
        for structure in ("auto", "single"):
            pmf = tw.fit(tw.Tables.from_crosstabs(tables), structure=structure)
            worst = pmf.report.misfits[0].total_variation
            name, adults = county.removesuffix(", California"), int(tables["age", "sex"].to_numpy().sum())
            print(f"| {name} | {adults:,} | {structure} | {pmf.n_hidden} | {pmf.rank} | {worst:.4f} |", flush=True)


def county_tables(*rows: pd.Series) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the tables of adults, from cells named such as m_25_34_hs_grad or m_widowed_85up."""
    age = r"(?P<age>18_24|[2-8]\d_\d\d|\d\dup)"
    sex, cells = "(?P<sex>[mf])", []
    patterns = (
        f"{sex}_{age}",
        f"{sex}_{age}_(?P<edu>.+)",
        f"{sex}_(?P<marital>.+?)_{age}",
        f"(?P<nativity>(?!cnt).+?)_{age}",
        f"{sex}_(?P<race>(?!hisp).+)",
    )
    for row, pattern in zip(rows, patterns, strict=True):
        named = row.index.str.extract(f"^{pattern}$").assign(count=row.to_numpy()).dropna()
        if "age" in named:
            named["age"] = pd.cut(named["age"].str[:2].astype(int), [17, 24, 34, 44, 64, 99], labels=False)
        cells.append(named)
    pairs = {("age", "sex"): 0, ("age", "edu"): 1, ("sex", "edu"): 1, ("age", "marital"): 2}
    pairs |= {("sex", "marital"): 2, ("age", "nativity"): 3, ("sex", "race"): 4}
    tables = {pair: cells[n].pivot_table("count", *pair, aggfunc="sum").astype(float) for pair, n in pairs.items()}
    # Race was published with children.
    of_race = tables["sex", "race"]
    tables["sex", "race"] = of_race.mul(tables["age", "sex"].sum() / of_race.sum(axis=1), axis=0)
    return tables


def synthetic() -> None:
    """The columns of the paper's synthetic tables, fitted with default options; means over a few trials."""
    methods = ("auto", "CNMF-SPA", "CNMF-OPT", "CNMF-SPA-EM", "RAND-EM")
    columns = "".join(f" {'given the rank' if method == 'auto' else method} |" for method in methods)
    print(f"| N | ε | p | records | structure | rank | MRE of `tw.fit` |{columns}\n|{'---:|' * (7 + len(methods))}")
    tables = [table for name, table in EXPERIMENTS.items() if name.startswith("synthetic")]
    for setting in dict.fromkeys(setting for table in tables for setting in table.paper):
        assert isinstance(setting, Synthetic)
        structures, ranks, errors = set(), set(), []
        for trial in range(1 if setting.n_records >= 10**6 else 3):
            data = setting.data(trial)
            pmf = tw.fit(data, seed=trial)
            structures.add("single" if pmf.n_hidden == 1 else str(pmf.report and pmf.report.solver))
            ranks.add(pmf.rank)
            named = [setting.run(method, data, trial, None)[0]["mre"] for method in methods]
            errors.append([mean_relative_error(setting.model(trial), pmf), *named])
        drawn = f"{setting.n_variables} | {setting.epsilon or ''} | {setting.observed:g} | {setting.n_records:,}"
        means = "".join(f" {error:.3f} |" for error in np.mean(errors, axis=0))
        found = f"{', '.join(sorted(structures))} | {', '.join(map(str, sorted(ranks)))}"
        print(f"| {drawn} | {found} |{means}", flush=True)


def mixture() -> None:
    """Which structure default options take, and why; and what a tree and a mixture of trees say of fresh records."""
    if "TWOWAY_DATA" not in os.environ:
        print("mixture: set TWOWAY_DATA to the folder with lca, surveys, uci and density")
        return
    folder = Path(os.environ["TWOWAY_DATA"])
    uci = {"votes": "house-votes-84", "car": "car", "nursery": "nursery", "mushroom": "agaricus-lepiota"}
    sources = {"election study": election(), "bfi, 28 columns": pd.read_csv(folder / "surveys" / "bfi.csv.gz")}
    for name, stem in uci.items():
        frame = pd.read_csv(folder / "uci" / f"{stem}.data", header=None, dtype=str, na_values="?")
        sources[name] = frame.dropna(how="all").add_prefix("v")
    print("| data | taken | why |\n|---|---|---|")
    for name, source in sources.items():
        pmf = tw.fit(source)
        taken = reported_model_form(len(pmf.trees.trees), pmf.n_hidden, pmf.rank)
        print(f"| {name} | {taken} | {pmf.report.structure if pmf.report else ''} |", flush=True)
    parts = [next((folder / "density" / "pumsb_star").glob(f"*{part}*")) for part in ("train", "test")]
    train, test = (pd.DataFrame(np.loadtxt(part, dtype=int, delimiter=",")).add_prefix("v") for part in parts)
    print("\n| pumsb_star | log-probability of a test record |\n|---|---:|")
    for structure in ("tree", "mixture", "auto"):
        print(f"| {structure} | {tw.fit(train, structure=structure).log_prob(test).mean():.2f} |", flush=True)


def intervals() -> None:
    """How often 90 % intervals of a tree contain the truth."""
    print("| records | share | pair | conditional | mutual information |\n|---:|---:|---:|---:|---:|")
    for n_records, n_sets in ((500, 40), (2000, 40)):
        hits = np.array([covered(number, n_records) for number in range(n_sets)]).mean(axis=(0, 1))
        print(f"| {n_records:,} |" + "".join(f" {100 * hit:.0f} % |" for hit in hits), flush=True)


def covered(number: int, n_records: int) -> list[list[bool]]:
    """Return for six pairs of one data set which of four intervals contain the truth."""
    n_hidden, n_variables = 5, 10
    rng = np.random.default_rng(number)
    factors = tuple(rng.dirichlet(np.full(3, 0.5), size=3).T for _ in range(n_variables))
    stay = 0.75 * np.eye(3) + 0.25 / 3
    homes, parents = tuple(n // 2 for n in range(n_variables)), (-1, *range(n_hidden - 1))
    tree = HiddenTree(parents, homes, np.full(3, 1 / 3), (stay,) * (n_hidden - 1), factors)
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", ("a", "b", "c")) for n in range(n_variables)))
    truth = tw.JointPMF.from_trees(schema, tw.Trees(np.ones(1), (tree,)))
    records = truth.sample(n_records, seed=number).astype(object)
    boot = tw.bootstrap(tw.fit(records, structure="tree", rank=3, starts=1), records, n=40, seed=number)
    pairs = [[str(name) for name in rng.choice(schema.names, 2, replace=False)] for _ in range(6)]
    of_pairs = [zip(answers(boot, *pair), answers(truth, *pair), strict=True) for pair in pairs]
    return [[bool(got.low <= true <= got.high) for got, true in answered] for answered in of_pairs]


def answers(model: Any, one: str, other: str) -> list[Any]:
    return [
        model.prob({one: "a"}),
        model.prob({one: "a", other: "b"}),
        model.given({one: "a"}).prob({other: "b"}),
        model.mutual_information(one, other),
    ]


def seconds() -> None:
    """Fits with default options, one hidden variable and a tree compared."""
    sources: dict[str, Any] = {
        "3,000 records of 2,000 binary variables, rank 5": draw_records(dirichlet_rows(2000, 2, 5), 3000),
        "100,000 records of 15 variables, half missing": draw_records(
            dirichlet_rows(15, 10, 10), N_RECORDS, observed=0.5
        ),
    }
    if "TWOWAY_DATA" in os.environ:
        bfi = pd.read_csv(Path(os.environ["TWOWAY_DATA"]) / "surveys" / "bfi.csv.gz")
        sources = {"election study": election(), "bfi, 28 columns": bfi, **sources}
    tw.fit(next(iter(sources.values())))  # compiles
    print("| fit with default options | seconds | structure |\n|---|---:|---|")
    for name, source in sources.items():
        began = time.perf_counter()
        pmf = tw.fit(source)
        print(f"| {name} | {time.perf_counter() - began:.1f} | {pmf.n_hidden} hidden |", flush=True)


def show(name: str, structure: str, pmf: tw.JointPMF, test: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    of_pairs = np.mean([pair_score(pmf, test, *pair) for pair in pairs])
    check = pmf.report.check if pmf.report else None
    off = "" if check is None else f"{check.n_off} of {check.n_tables}"
    print(f"| {name} | {structure} | {pmf.log_prob(test).mean():.3f} | {of_pairs:.3f} | {off} |", flush=True)


def halves(frame: pd.DataFrame, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two random halves, the second without records that show a category which the first lacks."""
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = frame.iloc[order[: len(frame) // 2]], frame.iloc[order[len(frame) // 2 :]]
    known = [test[name].isna() | test[name].isin(train[name].dropna().unique()) for name in frame]
    return train, test[np.logical_and.reduce(known)]


def strongest(train: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of variables of largest mutual information, in the order of their columns."""
    return sorted(combinations(train.columns, 2), key=lambda pair: -information(train, *pair))[:N_STRONGEST]


def information(frame: pd.DataFrame, one: str, other: str) -> float:
    shares = pd.crosstab(frame[one], frame[other], normalize=True).to_numpy()
    plain = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float((shares[shares > 0] * np.log(shares[shares > 0] / plain[shares > 0])).sum())


def pair_score(pmf: tw.JointPMF, test: pd.DataFrame, one: str, other: str) -> float:
    """Return the mean log-probability of one variable given the other."""
    seen = test[[one, other]].dropna()
    return float((pmf.log_prob(seen) - pmf.log_prob(seen[[other]])).mean())


def cross_tab_score(train: pd.DataFrame, test: pd.DataFrame, one: str, other: str) -> float:
    """Return the same of a cross-tab, with a pseudo-record for each category, spread by the overall shares."""
    shares = train[one].value_counts(normalize=True)
    counts = pd.crosstab(train[one], train[other]).reindex(shares.index)
    smoothed = counts.add(len(shares) * shares, axis=0)
    conditional = smoothed / smoothed.sum()
    seen = test[[one, other]].dropna()
    return float(np.mean([np.log(conditional.at[row[0], row[1]]) for row in seen.itertuples(index=False)]))


def speed() -> None:
    """A pass of EM on a chain of hidden variables, against its matrix products alone."""
    print("| hidden variables | pass | its products by BLAS | ratio |\n|---:|---:|---:|---:|")
    rng = np.random.default_rng(0)
    for n_hidden in (13, 7):
        tree = random_chain(n_hidden, rng)
        (rows, theta), (_, prototype) = packed_tree(tree), lane_layout(max(tree.n_states))
        observed = rng.random((N_RECORDS, N_VARIABLES)) < OBSERVED
        codes = rng.integers(N_CATEGORIES, size=observed.shape) + N_CATEGORIES * np.arange(N_VARIABLES)
        cells, pointers = codes[observed].astype(np.uint16), np.cumsum([0, *observed.sum(axis=1)])
        none, counts = np.empty(0), np.zeros_like(theta)
        block, transition = rng.random((N_RECORDS, N_STATES)), rng.random((N_STATES, N_STATES))
        product, crossed = np.empty_like(block), np.empty_like(transition)

        def one_pass() -> None:
            expect_tree((pointers, cells, none), rows, theta, (counts, none[:, None, None], none), prototype)  # noqa: B023

        def products() -> None:
            for _ in range(n_hidden - 1):  # noqa: B023
                np.matmul(block, transition, out=product)  # noqa: B023
                np.matmul(block, transition.T, out=product)  # noqa: B023
                np.matmul(block.T, block, out=crossed)  # noqa: B023

        with threadpool_limits(1):
            seconds = best_seconds(one_pass, products)
        print(
            f"| {n_hidden} | {1000 * seconds[0]:.0f} ms | {1000 * seconds[1]:.0f} ms | {seconds[0] / seconds[1]:.2f} |"
        )


def threads() -> None:
    """The same pass, over records, by two threads against one: alternately, the best of several."""
    print("| hidden variables | one thread | two threads | ratio |\n|---:|---:|---:|---:|")
    rng = np.random.default_rng(0)
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", tuple(range(N_CATEGORIES))) for n in range(N_VARIABLES)))
    for n_hidden in (13, 7):
        pmf = tw.JointPMF.from_trees(schema, tw.Trees(np.ones(1), (random_chain(n_hidden, rng),)))
        records = draw_records(pmf, N_RECORDS, observed=OBSERVED)
        theta, rows, best = theta_of(pmf), theta_tree_rows(pmf), {1: float("inf"), 2: float("inf")}
        for _ in range(2 * N_TIMES):
            for n_threads in best:
                began = time.perf_counter()
                expected_counts(records, theta, N_STATES, n_threads, rows)
                best[n_threads] = min(best[n_threads], time.perf_counter() - began)
        one, two = best.values()
        print(f"| {n_hidden} | {1000 * one:.0f} ms | {1000 * two:.0f} ms | {one / two:.2f} |")


def random_chain(n_hidden: int, rng: np.random.Generator) -> HiddenTree:
    def columns(n_rows: int) -> np.ndarray:
        return rng.dirichlet(np.ones(n_rows), size=N_STATES).T

    return HiddenTree(
        (-1, *range(n_hidden - 1)),
        tuple(n % n_hidden for n in range(N_VARIABLES)),
        np.full(N_STATES, 1 / N_STATES),
        tuple(columns(N_STATES) for _ in range(n_hidden - 1)),
        tuple(columns(N_CATEGORIES) for _ in range(N_VARIABLES)),
    )


def best_seconds(*calls: Callable[[], None]) -> list[float]:
    """Return the least processor time of each of some calls, made alternately."""
    best = [float("inf")] * len(calls)
    for _ in range(1 + 2 * N_TIMES):  # the first compiles
        for number, call in enumerate(calls):
            began = time.thread_time()
            call()
            best[number] = min(best[number], time.thread_time() - began)
    return best


if __name__ == "__main__":
    main()
