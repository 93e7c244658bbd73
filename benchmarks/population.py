"""Measure populations: how far their tables are from the published ones, seconds and memory.

    python benchmarks/population.py [adult|counties|many|peers]

Prints the Markdown tables of docs/published-tables.md. "adult" writes populations of the pair tables of eight columns
of UCI's Adult (uci/adult.data.gz in TWOWAY_DATA; numbers in bins, complete records), "counties" those of published
tables of counties (crosstabs/acs2012_ca_counties), each from a model in a file to a Parquet file, in a process of its
own. "many" does so for 25 variables of six categories, all 300 tables. "peers" compares with humanleague and ipfn on
few variables, in an environment that it makes (.venv-peers; needs a package index). Seconds are those of the clock and
of the processor; a busy machine shows in the first only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from trees import county_tables

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers"
N_PERSONS = 1_515_136
MOST_SECONDS = 600
ADULT = {
    "age": 0,
    "workclass": 1,
    "education": 3,
    "marital": 5,
    "occupation": 6,
    "relationship": 7,
    "sex": 9,
    "hours": 12,
}
RULES = ["relationship = Husband, marital = Never-married", "relationship = Wife, marital = Widowed"]

# In a process of its own: from a file to a file, then its peak memory and processor time.
WRITE = """
import json, resource, sys, time
import twoway as tw
model, n, exact, impossible, out = json.loads(sys.argv[1])
start = time.perf_counter()
people = tw.population(tw.load(model), n, exact=exact, impossible=impossible)
people.save(out)
seconds = time.perf_counter() - start
use = resource.getrusage(resource.RUSAGE_SELF)
worst = people.report.worst
print(json.dumps({"seconds": seconds, "cpu": use.ru_utime + use.ru_stime, "gigabytes": use.ru_maxrss / 2**20,
    "off": worst.off, "different": people.report.n_different, "warnings": people.report.warnings}))
"""

# In the environment of the peers: a joint from tables, then whole persons; both at their best.
PEER = """
import json, sys, time
import numpy as np
method, path = sys.argv[1:]
stored = np.load(path)
sets = json.loads(str(stored["sets"]))
tables = [stored[f"t{number}"] for number in range(len(sets))]
sizes = stored["sizes"].tolist()

def rounded(joint, n):
    # Truncate, replicate, sample, as for twoway.
    rng, flat = np.random.default_rng(0), joint.ravel()
    whole = np.floor(flat)
    rest, more = flat - whole, n - int(whole.sum())
    chosen = rng.choice(flat.size, more, replace=False, p=rest / rest.sum())
    whole[chosen] += 1
    return whole.reshape(joint.shape)

start = time.perf_counter()
n = int(round(tables[0].sum()))
if method == "humanleague":
    import humanleague
    joint, statistics = humanleague.qis([np.array(own) for own in sets], [table.astype(np.int64) for table in tables])
    if not statistics["conv"]:
        joint, statistics = humanleague.ipf(np.ones(sizes), [np.array(own) for own in sets], tables)
        joint = rounded(joint, n)
else:
    from ipfn import ipfn
    joint = ipfn.ipfn(np.ones(sizes), tables, sets, convergence_rate=1e-8, max_iteration=100).iteration()
    joint = rounded(joint * (n / joint.sum()), n)
seconds = time.perf_counter() - start
off = max(
    np.abs(joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in own)) - table).max()
    for own, table in zip(sets, tables)
)
print(json.dumps({"seconds": seconds, "off": float(off)}))
"""


def main() -> None:
    sections = {"adult": adult, "counties": counties, "many": many, "peers": peers}
    for name in sys.argv[1:] or sections:
        sections[name]()
        print()


def adult_records() -> pd.DataFrame | None:
    if "TWOWAY_DATA" not in os.environ:
        print("set TWOWAY_DATA to the folder with uci/adult.data.gz and crosstabs/acs2012_ca_counties")
        return None
    path = Path(os.environ["TWOWAY_DATA"]) / "uci" / "adult.data.gz"
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?")[list(ADULT.values())]
    frame.columns = pd.Index(list(ADULT))
    frame["age"] = pd.cut(frame["age"], [0, 24, 34, 44, 54, 64, 99], labels=False)
    frame["hours"] = pd.cut(frame["hours"], [0, 19, 34, 40, 50, 99], labels=False)
    return frame.dropna()


def head() -> None:
    print("| tables | persons | exact | worst cell | share | seconds | of the processor | GB |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")


def show(name: str, pmf: tw.JointPMF, n: int, exact: Sequence[Any], impossible: Sequence[str] = ()) -> None:
    """Write a population in a process of its own, check the file, and print a row."""
    from twoway.questions.conditions import condition_labels
    from twoway.questions.language import parse_terms

    rules = [condition_labels(pmf.schema, parse_terms(rule, pmf.schema)) for rule in impossible]
    with tempfile.TemporaryDirectory() as folder:
        model, out = f"{folder}/model.twoway", f"{folder}/people.parquet"
        pmf.save(model)
        arguments = json.dumps([model, n, exact, rules, out])
        done = subprocess.run([sys.executable, "-c", WRITE, arguments], check=True, stdout=subprocess.PIPE)
        found = json.loads(done.stdout)
        frame = pd.read_parquet(out)
    assert pmf.counts is not None
    worst = worst_cell(frame, pmf.counts.tables, exact)
    for rule in rules:
        assert not np.logical_and.reduce([frame[name].isin(labels) for name, labels in rule.items()]).any()
    assert len(frame) == n
    assert abs(worst - found["off"]) < 1e-3 * max(1.0, worst), (worst, found["off"])
    margins = ", ".join(" × ".join(names) for names in exact)
    cost = f"{found['seconds']:.1f} | {found['cpu']:.1f} | {found['gigabytes']:.2f}"
    print(f"| {name} | {n:,} | {margins} | {worst:.1f} | {worst / n:.4%} | {cost} |", flush=True)
    for warning in found["warnings"]:
        print(f"  warning: {warning}")


def worst_cell(frame: pd.DataFrame, tables: tw.Tables, exact: Sequence[Sequence[str]]) -> float:
    """Return how far the worst cell of a file is from its table; exact margins must be within a person."""
    worst = 0.0
    for index, names in enumerate(tables.names):
        shown = [tables.schema[name].categories for name in names]
        own = pd.crosstab(*(frame[name] for name in names)).reindex(index=shown[0], columns=shown[1], fill_value=0)
        goals = tables.array(index) * (len(frame) / tables.totals[index])
        off = np.abs(own.to_numpy() - goals)
        assert names not in map(tuple, exact) or off.max() < 1.0
        assert (own.to_numpy()[goals == 0] == 0).all()
        worst = max(worst, float(off.max()))
    return worst


def adult() -> None:
    """All 28 pairs of tables of eight columns."""
    frame = adult_records()
    if frame is None:
        return
    start = time.perf_counter()
    pmf = tw.fit(tw.count(tw.Records(frame)))
    print(f"fitted in {time.perf_counter() - start:.0f} s: {pmf}")
    possible = [rule for rule in RULES if not breaks(frame, rule)]
    head()
    pairs = [["age", "sex"], ["age", "education"]]
    for n in (1000, len(frame), N_PERSONS):
        show("Adult, 28", pmf, n, [])
        show("Adult, 28", pmf, n, pairs, possible)


def breaks(frame: pd.DataFrame, rule: str) -> bool:
    """Return whether records break a rule: it cannot then be one."""
    parts = [part.split(" = ") for part in rule.split(", ")]
    return bool(np.logical_and.reduce([frame[name] == label for name, label in parts]).any())


def counties() -> None:
    """Seven published tables of some counties, as many persons as adults."""
    folder = Path(os.environ["TWOWAY_DATA"]) / "crosstabs" / "acs2012_ca_counties"
    names = ("age_by_sex", "edu", "marital_status", "nativity", "pop_by_race")
    wide = [pd.read_csv(folder / f"{name}.csv", index_col="county") for name in names]
    by_size = wide[0]["pop_age_cnt_all"].sort_values().index
    head()
    for county in by_size[[3, 28, 50, 56]]:
        tables = county_tables(*(frame.loc[county] for frame in wide))
        pmf = tw.fit(tw.Tables.from_crosstabs(tables))
        n = int(tables["age", "sex"].to_numpy().sum())
        show(f"{county.removesuffix(' County, California')}, 7", pmf, n, [["age", "sex"], ["age", "edu"]])


def many() -> None:
    """All pairs of 25 variables of six categories."""
    truth = dirichlet_rows(25, 6, 5, seed=1)
    pmf = tw.fit(tw.count(draw_records(truth, 50_000, observed=1.0)), rank=5)
    head()
    show("25 variables, 300", pmf, N_PERSONS, [])


def peers() -> None:
    """The same tables for twoway, humanleague and ipfn."""
    frame = adult_records()
    if frame is None:
        return
    if not PEERS.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        packages = ["humanleague==2.4.3", "ipfn==1.4.4"]
        subprocess.run([str(PEERS / "bin" / "pip"), "install", "--quiet", *packages], check=True)
    star = [("sex", "age"), ("age", "education"), ("age", "marital")]
    four, six = ["age", "education", "marital", "sex"], ["age", "education", "marital", "sex", "hours", "relationship"]
    jobs = {
        "4 variables, 3 tables that share age": (four, star),
        "4 variables, all 6 tables": (four, list(combinations(four, 2))),
        "6 variables, all 15 tables": (six, list(combinations(six, 2))),
        "8 variables, all 28 tables": (list(ADULT), list(combinations(ADULT, 2))),
    }
    print("| tables | cells of the joint | method | worst cell | seconds |\n|---|---:|---|---:|---:|")
    for name, (columns, pairs) in jobs.items():
        tables = tw.count(tw.Records(frame[columns])).select(pairs)
        size = f"{np.prod([float(size) for size in tables.schema.sizes]):,.0f}"
        start = time.perf_counter()
        pmf = tw.fit(tables)
        fitted = time.perf_counter() - start
        start = time.perf_counter()
        people = tw.population(pmf, len(frame))
        seconds, worst = time.perf_counter() - start, people.report.worst
        assert worst is not None
        print(f"| {name} | {size} | twoway | {worst.off:.1f} | {fitted:.1f} (fit) + {seconds:.1f} |", flush=True)
        for method in ("humanleague", "ipfn"):
            print(f"| | | {method} | {peer(method, tables)} |", flush=True)


def peer(method: str, tables: tw.Tables) -> str:
    """Return what a peer makes of tables: the worst cell and the seconds, or why it does not."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tables.npz"
        arrays = {f"t{number}": tables.array(number) for number in range(len(tables))}
        np.savez(path, sets=json.dumps(tables.sets.tolist()), sizes=np.array(tables.schema.sizes), **arrays)
        command = [str(PEERS / "bin" / "python"), "-c", PEER, method, path]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=True)
        except subprocess.TimeoutExpired:
            return f" | not done in {MOST_SECONDS}"
        except subprocess.CalledProcessError as error:
            return f"{error.stderr.strip().splitlines()[-1][:80] if error.stderr.strip() else 'ended by a signal'} | "
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return f"{found['off']:.1f} | {found['seconds']:.1f}"


if __name__ == "__main__":
    main()
