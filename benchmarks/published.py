"""Compare fits from published tables with the records behind them, and with iterative proportional fitting (IPF).

  python benchmarks/published.py [halves] [consistent] [large] [many] [--seeds 10] [--data …]

Needs TWOWAY_DATA (uci/adult.data.gz, lca/poLCA__election.csv, surveys/bfi.csv.gz, crosstabs/acs2012_ca_counties).
Prints the tables of docs/published-tables.md.

"halves": of eight variables of real records, the tables of a random half of the pairs that connects all variables are
published: rounded to 10, with 5 % of the cells suppressed. The fits from them are compared with the records: three-way
marginals, and the pairs that were not published. A suppressed cell is filled by what the rest of its table suggests if
rows and columns were independent, the same for all methods. IPF begins at independence, on the whole joint; where
rounded tables do not agree it ends in a circle, of which the mean is taken. "consistent": the same without rounding.
"large": ten variables of Adult and seven tables of each of six counties, without rounding. "many": the 25 items of bfi.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from trees import COUNTY_SHEETS, county_tables

import twoway as tw

ROUNDED_TO, SUPPRESSED = 10, 0.05
MOST_CYCLES, SETTLED = 300, 1e-6
ADULT = {0: "age", 1: "workclass", 4: "education", 5: "marital", 6: "occupation", 9: "sex", 12: "hours", 14: "income"}
MORE_OF_ADULT = {7: "relationship", 8: "race"}
BINS = {
    "age": [0, 25, 35, 45, 60, 100],
    "education": [0, 8, 9, 10, 12, 16],
    "hours": [0, 34, 40, 50, 100],
    "AGE": [0, 29, 39, 49, 59, 69, 100],
}
OF_ELECTION = ["MORALG", "CARESG", "KNOWG", "VOTE3", "AGE", "EDUC", "GENDER", "PARTY"]

Pair = tuple[str, str]
Crosstabs = dict[Pair, pd.DataFrame]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", nargs="*", default=list(RECORDS))
    options = parser.parse_args()
    sections = {"halves": halves, "consistent": consistent, "large": large, "many": many}
    for name in options.sections or sections:
        sections[name](options.seeds, options.data)
        print()


# The records, and what is published of them


def data_folder() -> Path:
    return Path(os.environ["TWOWAY_DATA"])


def binned(frame: pd.DataFrame) -> pd.DataFrame:
    """Return complete records, with numbers in groups and labels as text."""
    frame = frame.dropna().reset_index(drop=True)
    for name in BINS.keys() & frame.columns:
        frame[name] = pd.cut(frame[name], BINS[name]).astype(str)
    return "is " + frame.astype(str)  # no label is a number


def adult(columns: Mapping[int, str] = ADULT) -> pd.DataFrame:
    frame = pd.read_csv(data_folder() / "uci" / "adult.data.gz", header=None, skipinitialspace=True, na_values="?")
    return binned(frame[list(columns)].rename(columns=columns))


def election() -> pd.DataFrame:
    return binned(pd.read_csv(data_folder() / "lca" / "poLCA__election.csv")[OF_ELECTION])


def bfi(n_items: int = 8) -> pd.DataFrame:
    return binned(pd.read_csv(data_folder() / "surveys" / "bfi.csv.gz").iloc[:, :n_items].astype("Int64"))


RECORDS = {"adult": adult, "election": election, "bfi": bfi}


def published_pairs(names: Iterable[str], random: np.random.Generator) -> list[Pair]:
    """Return a random half of all pairs that leaves all variables connected."""
    pairs = list(combinations(names, 2))
    while True:
        chosen = [pairs[index] for index in sorted(random.permutation(len(pairs))[: len(pairs) // 2])]
        reached = {chosen[0][0]}
        for _ in chosen:
            reached |= {name for pair in chosen if reached & set(pair) for name in pair}
        if reached == {name for pair in pairs for name in pair}:
            return chosen


def published(frame: pd.DataFrame, pairs: Iterable[Pair], random: np.random.Generator) -> Crosstabs:
    """Return tables rounded to ten, with suppressed cells filled in."""
    tables = {}
    for one, other in pairs:
        counts = pd.crosstab(frame[one], frame[other]).astype(float)
        hidden = random.random(counts.shape) < SUPPRESSED
        totals = [rounded(counts.to_numpy().sum(axis=axis)) for axis in (1, 0)]
        cells = filled(rounded(counts.to_numpy()), hidden, *totals)
        tables[one, other] = pd.DataFrame(cells, counts.index, counts.columns)
    return tables


def rounded(counts: np.ndarray) -> np.ndarray:
    return np.round(counts / ROUNDED_TO) * ROUNDED_TO


def filled(counts: np.ndarray, hidden: np.ndarray, of_rows: np.ndarray, of_columns: np.ndarray) -> np.ndarray:
    """Return a table whose hidden cells are what totals leave for them, in proportion to both where it is several."""
    known = np.where(hidden, 0.0, counts)
    left = [np.maximum(total - known.sum(axis=axis), 0.0) for axis, total in ((1, of_rows), (0, of_columns))]
    cells = np.where(hidden, np.outer(of_rows, of_columns) / of_rows.sum(), 0.0)
    for _ in range(20):
        for axis in (1, 0):
            have = cells.sum(axis=axis)
            ratio = np.divide(left[1 - axis], have, out=np.zeros_like(have), where=have > 0)
            cells = cells * np.expand_dims(ratio, axis)
    return known + cells


# Joints


@dataclass(frozen=True)
class Joint:
    """All cells of a joint distribution, small enough to hold."""

    categories: Mapping[str, list[str]]
    cells: np.ndarray
    seconds: float | None = None  # of the fit, if it was done by another process

    @classmethod
    def of_records(cls, frame: pd.DataFrame) -> Joint:
        categories = {name: sorted(frame[name].unique()) for name in frame}
        codes = [pd.Categorical(frame[name], own).codes for name, own in categories.items()]
        shape = tuple(map(len, categories.values()))
        places = np.ravel_multi_index(codes, shape)
        return cls(categories, np.bincount(places, minlength=int(np.prod(shape))).reshape(shape) / len(frame))

    def marginal(self, names: Iterable[str]) -> np.ndarray:
        wanted = set(names)
        return self.cells.sum(axis=tuple(at for at, name in enumerate(self.categories) if name not in wanted))


@dataclass(frozen=True)
class Model:
    """A fitted model, whose marginals have the categories of the records."""

    categories: Mapping[str, list[str]]
    pmf: tw.JointPMF

    def marginal(self, names: Iterable[str]) -> np.ndarray:
        names = list(names)
        whole = self.pmf.marginal(names)
        for axis, name in enumerate(names):
            labels = list(map(str, self.pmf.schema[name].categories))
            whole = np.take(np.asarray(whole), [labels.index(label) for label in self.categories[name]], axis=axis)
        return np.asarray(whole)


def independent(categories: Mapping[str, list[str]], tables: Crosstabs) -> Joint:
    """Return the joint of independent variables, with the shares that the tables have in the mean."""
    cells = np.ones(())
    for name in categories:
        margins = [
            table.sum(axis=pair.index(name) ^ 1) / table.to_numpy().sum()
            for pair, table in tables.items()
            if name in pair
        ]
        cells = np.multiply.outer(cells, np.mean(margins, axis=0))
    return Joint(categories, cells)


def ipf(categories: Mapping[str, list[str]], tables: Crosstabs) -> Joint:
    """Return the joint of least relative entropy from independence that has the tables; the mean of its last circle."""
    cells, names = independent(categories, tables).cells, list(categories)
    targets = [
        (tuple(at for at, name in enumerate(names) if name not in pair), table.to_numpy() / table.to_numpy().sum())
        for pair, table in tables.items()
    ]
    for cycle in range(MOST_CYCLES):
        before, total, is_last = cells, np.zeros_like(cells), cycle == MOST_CYCLES - 1
        for others, target in targets:
            have = cells.sum(axis=others)
            ratio = np.divide(target, have, out=np.zeros_like(target), where=have > 0)
            cells = cells * np.expand_dims(ratio, others)
            total += cells
        if is_last or 0.5 * np.abs(cells - before).sum() < SETTLED:
            break
    return Joint(categories, total / total.sum())


# Comparisons


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(np.asarray(one) - np.asarray(other)).sum())


def distances(model: Joint | Model, truth: Joint, tables: Crosstabs) -> list[float]:
    """Return total variations: worst and mean of published tables, mean of triples, mean of pairs not published."""
    own = [distance(model.marginal(pair), table / table.to_numpy().sum()) for pair, table in tables.items()]
    triples = [distance(model.marginal(some), truth.marginal(some)) for some in combinations(truth.categories, 3)]
    pairs = [pair for pair in combinations(truth.categories, 2) if pair not in tables]
    others = [distance(model.marginal(pair), truth.marginal(pair)) for pair in pairs]
    return [max(own), float(np.mean(own)), float(np.mean(triples)), float(np.mean(others)) if others else 0.0]


def halves(n_seeds: int, data: Iterable[str], *, is_rounded: bool = True) -> None:
    """Half of the pairs published, rounded and with suppressed cells."""
    print("| records | method | worst table | mean table | triples | pairs not published | CPU seconds |")
    print("|---|---|---:|---:|---:|---:|---:|", flush=True)
    of_methods: dict[str, list[np.ndarray]] = {}
    for name in data:
        frame = RECORDS[name]()
        truth = Joint.of_records(frame)
        found: dict[str, list[list[float]]] = {}
        for seed in range(n_seeds):
            random = np.random.default_rng(seed)
            pairs = published_pairs(frame.columns, random)
            tables = (
                published(frame, pairs, random)
                if is_rounded
                else {pair: pd.crosstab(frame[pair[0]], frame[pair[1]]).astype(float) for pair in pairs}
            )
            for method, fit in METHODS.items():
                began = time.process_time()
                model = fit(truth.categories, tables)
                seconds = getattr(model, "seconds", None) or time.process_time() - began
                found.setdefault(method, []).append([*distances(model, truth, tables), seconds])
        for method, rows in found.items():
            of_methods.setdefault(method, []).append(np.mean(rows, axis=0))
            show(f"{name}, {len(frame):,}", method, of_methods[method][-1])
    for method, means in of_methods.items():
        show("mean", method, np.mean(means, axis=0))


def consistent(n_seeds: int, data: Iterable[str]) -> None:
    """Half of the pairs published as they are."""
    halves(n_seeds, data, is_rounded=False)


def counted(frame: pd.DataFrame, pairs: Iterable[Pair]) -> Crosstabs:
    return {(one, other): pd.crosstab(frame[one], frame[other]).astype(float) for one, other in pairs}


def large(n_seeds: int, _: Iterable[str]) -> None:
    """Tables that are large and agree with each other: the worst of them after a fit."""
    frame = adult({**ADULT, **MORE_OF_ADULT})
    sources = {
        f"ten of Adult, seed {seed}": counted(frame, published_pairs(frame.columns, np.random.default_rng(seed)))
        for seed in range(n_seeds)
    }
    sources["ten of Adult, all pairs"] = counted(frame, list(combinations(frame.columns, 2)))
    folder = data_folder() / "crosstabs" / "acs2012_ca_counties"
    wide = [pd.read_csv(folder / f"{name}.csv", index_col="county") for name in COUNTY_SHEETS]
    for county in wide[0]["pop_age_cnt_all"].sort_values().index[[3, 15, 28, 40, 50, 56]]:
        sources[county.removesuffix(", California")] = county_tables(*(frame.loc[county] for frame in wide))
    print(
        "| tables of | variables | tables | worst total variation | CPU seconds |\n|---|---:|---:|---:|---:|",
        flush=True,
    )
    for name, tables in sources.items():
        began = time.process_time()
        pmf = tw.fit(tw.Tables.from_crosstabs(tables))
        seconds, misfits = time.process_time() - began, pmf.report.misfits if pmf.report else ()
        numbers = f"{len(pmf.schema)} | {len(tables)} | {misfits[0].total_variation:.4f} | {seconds:.1f}"
        print(f"| {name} | {numbers} |", flush=True)


def many(n_seeds: int, _: Iterable[str]) -> None:
    """The 25 items of bfi, whose joint has 6 to the power of 25 cells."""
    frame = bfi(25)
    categories = {name: sorted(frame[name].unique()) for name in frame}
    print("| seed | worst table | mean table | pairs not published | if independent | CPU seconds |")
    print("|---:|---:|---:|---:|---:|---:|", flush=True)
    for seed in range(n_seeds):
        tables = counted(frame, published_pairs(frame.columns, np.random.default_rng(seed)))
        began = time.process_time()
        model = fitted(categories, tables)
        seconds = time.process_time() - began
        own = [distance(model.marginal(pair), table / table.to_numpy().sum()) for pair, table in tables.items()]
        others = counted(frame, [pair for pair in combinations(frame.columns, 2) if pair not in tables])
        shares = {pair: table.to_numpy() / table.to_numpy().sum() for pair, table in others.items()}
        off = [distance(model.marginal(pair), share) for pair, share in shares.items()]
        plain = [distance(np.outer(share.sum(axis=1), share.sum(axis=0)), share) for share in shares.values()]
        numbers = [max(own), np.mean(own), np.mean(off), np.mean(plain)]
        print(f"| {seed} |" + "".join(f" {number:.4f} |" for number in numbers) + f" {seconds:.1f} |", flush=True)


def fitted(categories: Mapping[str, list[str]], tables: Crosstabs) -> Model:
    return Model(categories, tw.fit(tw.Tables.from_crosstabs(tables)))


Method = Callable[[Mapping[str, list[str]], Crosstabs], Joint | Model]
METHODS: dict[str, Method] = {"twoway": fitted, "IPF": ipf, "independence": independent}


def show(records: str, method: str, numbers: np.ndarray) -> None:
    *of_tables, seconds = numbers
    print(
        f"| {records} | {method} |" + "".join(f" {number:.4f} |" for number in of_tables) + f" {seconds:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
