"""How often intervals from published tables contain the truth, and how wide they are.

  python benchmarks/published_intervals.py [pairs] [mixed] [--seeds 9] [--data …]

Needs TWOWAY_DATA, as published.py does, whose records and random halves of the pairs these are. Prints tables of
docs/published-tables.md.

"pairs": 90 % intervals from the two-way tables of 2,000 people. "mixed": the same for Adult from tables of other kinds:
of three variables, in coarser categories, and of some people only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from published import RECORDS, Joint, adult, counted, published_pairs

import twoway as tw

N_PEOPLE, N_REPLICATES, N_QUESTIONS, MOST_RANGE_CELLS = 2000, 40, 5, 2000
N_MIXED = 15
MIXED_QUESTIONS = {
    "one of the three-way table": ["hours", "income", "sex"],
    "one in coarser categories": ["age", "marital"],
    "one of the older only": ["education", "income"],
    "a pair in finer categories than published": ["age", "marital"],
    "a pair that no table shows": ["marital", "income"],
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--data", nargs="*", default=list(RECORDS))
    options = parser.parse_args()
    sections = {"pairs": of_pairs, "mixed": mixed}
    for name in options.sections or sections:
        sections[name](options.seeds, options.data)
        print()


def of_pairs(n_seeds: int, data: Iterable[str]) -> None:
    """How often 90 % intervals contain the truth, and how wide they are, with tables of 2,000 people."""
    print("| records | question | questions | contained | mean width | width of the sharp bounds |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    for name in data:
        frame = RECORDS[name]()
        truth, found = Joint.of_records(frame), dict[str, list[tuple[bool, float, float]]]()
        for seed in range(n_seeds):
            for question, answer in asked(frame, truth, seed):
                found.setdefault(question, []).append(answer)
        for question, answers in found.items():
            contained, width, sharp = np.mean(answers, axis=0)
            numbers = f"{len(answers)} | {100 * contained:.0f} % | {width:.3f} | {sharp:.3f}"
            print(f"| {name} | {question} | {numbers} |", flush=True)


def asked(frame: pd.DataFrame, truth: Joint, seed: int) -> Iterable[tuple[str, tuple[bool, float, float]]]:
    """Yield questions about random cells: whether the interval has the truth, its width, that of the sharp bounds."""
    random = np.random.default_rng(seed)
    pairs = published_pairs(frame.columns, random)
    # A sample of a population of which the records are a picture.
    tables = tw.Tables.from_crosstabs(counted(frame.sample(N_PEOPLE, replace=True, random_state=seed), pairs))
    boot = tw.bootstrap(tw.fit(tables), tables, n=N_REPLICATES, seed=seed)
    open_pairs = [pair for pair in combinations(frame.columns, 2) if pair not in pairs]
    for kind, some in (("published pair", pairs), ("pair not published", open_pairs)):
        for at in random.choice(len(some), N_QUESTIONS, replace=False):
            one, other = some[at]
            # A cell as probable as those that people ask about.
            shares = truth.marginal((one, other))
            row, column = np.unravel_index(random.choice(shares.size, p=shares.ravel()), shares.shape)
            event, given = {other: truth.categories[other][column]}, {one: truth.categories[one][row]}
            bounds = tw.probability_range(tables, {**event, **given}, level=None, max_cells=MOST_RANGE_CELLS)
            yield kind, judged(boot.prob({**event, **given}), shares[row, column], bounds.width)
            bounds = tw.probability_range(tables, event, given, level=None, max_cells=MOST_RANGE_CELLS)
            share = shares[row, column] / shares[row].sum()
            yield f"{kind}, one given the other", judged(boot.given(given).prob(event), share, bounds.width)


def mixed(n_seeds: int, _: Iterable[str]) -> None:
    """How often 90 % intervals contain the truth, from tables that say more or less than pairs."""
    frame = adult()[["age", "education", "marital", "sex", "hours", "income"]]
    ages = sorted(frame["age"].unique())
    groups = {"age": {"younger": ages[:2], "older": ages[2:]}}
    print("| question | questions | contained | mean width | width of the sharp bounds |\n|---|---:|---:|---:|---:|")
    found = dict[str, list[tuple[bool, float, float]]]()
    for seed in range(n_seeds):
        sample = frame.sample(N_PEOPLE, replace=True, random_state=seed)
        of_ages = (
            sample["age"].where(sample["age"].isin(ages[:2]), "older").where(sample["age"].isin(ages[2:]), "younger")
        )
        older = sample[sample["age"].isin(ages[2:])]
        tables = tw.PublishedTables.of(
            [
                tw.PublishedTable.of(["age", "sex"], pd.crosstab(sample["age"], sample["sex"])),
                of_columns(sample, ["hours", "income", "sex"]),
                of_columns(sample.assign(age=of_ages), ["age", "marital"]),
                of_columns(older, ["education", "income"], within={"age": ["older"]}),
            ],
            groups=groups,
        )
        boot = tw.bootstrap(tw.fit(tables), tables, n=N_REPLICATES, seed=seed)
        random = np.random.default_rng(seed)
        for kind, names in MIXED_QUESTIONS.items():
            for _ in range(N_MIXED):
                person = frame.iloc[int(random.integers(len(frame)))]
                event = {name: person[name] for name in names}
                if "coarser" in kind:
                    event["age"] = next(own for own in groups["age"].values() if person["age"] in own)
                given = {"age": ages[2:]} if "older" in kind else {}
                known = frame[frame["age"].isin(given.get("age", ages))]
                share = float(
                    np.logical_and.reduce([known[name].isin(np.atleast_1d(own)) for name, own in event.items()]).mean()
                )
                bounds = tw.probability_range(tables, event, given, level=None, max_cells=MOST_RANGE_CELLS)
                answer = (boot.given(given) if given else boot).prob(event)
                found.setdefault(kind, []).append(judged(answer, share, bounds.width))
    for question, answers in found.items():
        contained, width, sharp = np.mean(answers, axis=0)
        print(f"| {question} | {len(answers)} | {100 * contained:.0f} % | {width:.3f} | {sharp:.3f} |", flush=True)


def of_columns(frame: pd.DataFrame, names: list[str], **options: Mapping[str, list[str]]) -> tw.PublishedTable:
    """Return the table of some columns, with zeros where nobody is."""
    labels = [sorted(frame[name].unique()) for name in names]
    index = pd.MultiIndex.from_product(labels, names=names)
    return tw.PublishedTable.of(names, frame.value_counts(names).reindex(index, fill_value=0), **options)


def judged(answer: tw.Interval, share: float, sharp: float) -> tuple[bool, float, float]:
    return bool(answer.low <= share <= answer.high), answer.high - answer.low, sharp


if __name__ == "__main__":
    main()
