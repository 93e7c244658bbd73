"""Measure the label aggregator beside crowd-kit, and print Markdown tables.

    python benchmarks/labels.py             everything, about ten minutes
    python benchmarks/labels.py real        accuracy on bluebird and rte, from the folder crowd/ in TWOWAY_DATA
    python benchmarks/labels.py simulated   accuracy in simulated regimes, mean and standard error over 20 seeds
    python benchmarks/labels.py coverage    how often 95% intervals contain the true confusions and accuracies
    python benchmarks/labels.py size        time and memory for a million labels of 10,000 annotators

crowd-kit is installed into an environment of its own, .venv-crowdkit/, and runs with up to 1,000 iterations where it
would stop after 100. GLAD runs with its defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from memory import resident_bytes

import twoway as tw

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv-crowdkit"
SEEDS = range(20)
PEERS = ("MajorityVote", "DawidSkene", "OneCoinDawidSkene", "GLAD")

# What a process of crowd-kit does: labels in, an accuracy per method out.
PEER_PROGRAM = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import pandas as pd
from crowdkit import aggregation
methods = {"DawidSkene": {"n_iter": 1000}, "OneCoinDawidSkene": {"n_iter": 1000}, "GLAD": {"silent": True}}
for line in sys.stdin:
    labels, truth = line.rstrip("\\n").split("\\t")
    labels = pd.read_csv(labels).rename(columns={"item": "task", "annotator": "worker"})
    truth = pd.read_csv(truth).set_index("item")["truth"]
    found = {}
    for name in sys.argv[1:]:
        guess = getattr(aggregation, name)(**methods.get(name, {})).fit_predict(labels)
        found[name] = float((guess.loc[truth.index] == truth).mean())
    print(json.dumps(found), flush=True)
"""


def peer_python() -> str:
    """Return the Python of an environment with crowd-kit, made if it is not there."""
    python = PLACE / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "crowd-kit"], check=True)
    return str(python)


def accuracies(tables: list[tuple[pd.DataFrame, pd.Series]]) -> pd.DataFrame:
    """Return the accuracy of every method on each table, a row per table."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for number, (labels, truth) in enumerate(tables):
            paths = Path(folder) / f"labels{number}.csv", Path(folder) / f"truth{number}.csv"
            labels.to_csv(paths[0], index=False)
            truth.rename("truth").rename_axis("item").to_csv(paths[1])
            lines.append("\t".join(map(str, paths)) + "\n")
        command = [peer_python(), "-c", PEER_PROGRAM, *PEERS]
        done = subprocess.run(command, input="".join(lines), check=True, capture_output=True, text=True)
    found = pd.DataFrame([json.loads(line) for line in done.stdout.splitlines()])
    ours = [
        float((tw.LabelAggregator().fit_predict(labels).loc[truth.index] == truth).mean()) for labels, truth in tables
    ]
    return pd.concat([pd.DataFrame({"LabelAggregator": ours}), found], axis=1)


def simulated_labels(regime: str, seed: int) -> tuple[pd.DataFrame, pd.Series, np.ndarray, np.ndarray]:
    """Return the labels of a regime, the truth, the matrices (annotator, truth, label) and the class frequencies."""
    n_items, n_annotators, n_classes, per_item = REGIMES[regime]
    random = np.random.default_rng([seed, list(REGIMES).index(regime)])
    shares = np.array([0.85, 0.1, 0.05]) if regime == "skewed classes" else np.full(n_classes, 1 / n_classes)
    truth = random.choice(n_classes, n_items, p=shares)
    matrices = np.empty((n_annotators, n_classes, n_classes))
    for annotator in range(n_annotators):
        accuracy = random.beta(6, 3)
        for k in range(n_classes):
            right = np.clip(accuracy + random.normal(0, 0.1), 0.05, 0.98)
            matrices[annotator, k] = np.insert(random.dirichlet(np.full(n_classes - 1, 2.0)) * (1 - right), k, right)
        if regime == "spammers" and annotator < n_annotators // 2:
            matrices[annotator] = random.dirichlet(np.full(n_classes, 0.5))  # the same, whatever the truth
    items = np.repeat(np.arange(n_items), per_item)
    annotators = np.concatenate([random.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    above = matrices[annotators, truth[items]].cumsum(axis=1)
    labels = np.minimum((random.random(len(items))[:, None] > above).sum(axis=1), n_classes - 1)
    frame = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    return frame, pd.Series(truth), matrices, shares


# Items, annotators, classes, labels per item.
REGIMES = {
    "few labels per item": (600, 60, 4, 3),
    "spammers": (600, 60, 3, 5),
    "skewed classes": (800, 40, 3, 5),
    "ten classes": (800, 50, 10, 4),
    "many labels per item": (1000, 20, 2, 10),
}


def real() -> None:
    """Accuracy on public data."""
    if "TWOWAY_DATA" not in os.environ:
        sys.exit("set TWOWAY_DATA to the folder of the data")
    folder, tables = Path(os.environ["TWOWAY_DATA"]) / "crowd", []
    names = ("bluebird", "rte")
    for name in names:
        labels = pd.read_csv(folder / name / "label.csv").rename(columns={"worker": "annotator"})
        tables.append((labels, pd.read_csv(folder / name / "truth.csv").set_index("item")["truth"]))
    found = accuracies(tables)
    print_head("data")
    for name, (_, row) in zip(names, found.iterrows(), strict=True):
        print(f"| {name} |", " | ".join(f"{value:.4f}" for value in row), "|", flush=True)


def simulated() -> None:
    """Accuracy in simulated regimes."""
    print_head("regime")
    for regime in list(REGIMES)[:-1]:
        found = accuracies([simulated_labels(regime, seed)[:2] for seed in SEEDS])
        cells = [f"{found[name].mean():.4f} ± {found[name].sem():.4f}" for name in found]
        gaps = {name: found["LabelAggregator"] - found[name] for name in PEERS}
        print(f"| {regime} |", " | ".join(cells), "|", flush=True)
        said = (f"{name} {gap.mean():+.4f} ± {gap.sem():.4f}" for name, gap in gaps.items())
        print(f"  ours less, seed by seed: {', '.join(said)}", file=sys.stderr, flush=True)


def print_head(what: str) -> None:
    print(f"\n| {what} | LabelAggregator | {' | '.join(PEERS)} |\n|---|{'---|' * (1 + len(PEERS))}")


def coverage() -> None:
    """How often intervals contain the truth."""
    print("\n| regime | confusions | accuracies |\n|---|---|---|")
    for regime in REGIMES:
        shares: dict[str, list[float]] = {"confusions": [], "accuracies": []}
        for seed in SEEDS:
            frame, _, matrices, frequencies = simulated_labels(regime, seed)
            model = tw.LabelAggregator().fit(frame)
            true = matrices[model.annotators_]
            cells, quality = model.confusion(), model.quality()
            right = np.einsum("mkk,k->m", true, frequencies)
            shares["confusions"].append(cells["low"].le(true.ravel()).mul(cells["high"].ge(true.ravel())).mean())
            shares["accuracies"].append(quality["low"].le(right).mul(quality["high"].ge(right)).mean())
        means = (f"{np.mean(values):.1%} ± {np.std(values) / np.sqrt(len(values)):.1%}" for values in shares.values())
        print(f"| {regime} |", " | ".join(means), "|", flush=True)


def size() -> None:
    """Time and memory of a fit, in its own process."""
    done = subprocess.run([sys.executable, __file__, "fit"], check=True, capture_output=True, text=True)
    print("\n| what | target | measured | |\n|---|---|---|---|")
    for line, most in zip(done.stdout.splitlines(), (30.0, 30.0, 1.0), strict=True):
        what, value, unit = line.split("\t")
        print(f"| {what} | under {most:g} {unit} | {float(value):.2f} {unit} | {'✓' if float(value) < most else '✗'} |")


def fit() -> None:
    """Print the time and the peak of memory of a fit of a million labels."""
    random = np.random.default_rng(0)
    n_items, n_annotators, per_item, n_classes = 200_000, 10_000, 5, 4
    items = np.repeat(np.arange(n_items), per_item)
    annotators = (random.integers(0, n_annotators, n_items)[:, None] + np.arange(per_item) * 1999) % n_annotators
    truth, accuracy = random.integers(0, n_classes, n_items), random.beta(6, 3, n_annotators)
    is_right = random.random(len(items)) < accuracy[annotators.ravel()]
    labels = np.where(is_right, truth[items], random.integers(0, n_classes, len(items)))
    frame = pd.DataFrame({"item": items, "annotator": annotators.ravel(), "label": labels})
    tw.LabelAggregator().fit(frame[:5000])  # kernels are compiled, or loaded, once
    began, began_cpu = time.perf_counter(), time.process_time()
    model = tw.LabelAggregator().fit(frame)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    what = f"{len(frame):,} labels of {n_annotators:,} annotators, {n_classes} classes"
    print(f"{what}: fit, all cores\t{seconds}\ts")
    print(f"{what}: CPU time\t{cpu_seconds}\ts")
    print(f"{what}: peak memory of the process, table and libraries included\t{resident_bytes('VmHWM') / 1e9}\tGB")
    assert model.converged_


def main() -> None:
    sections = {"real": real, "simulated": simulated, "coverage": coverage, "size": size}
    if sys.argv[1:] == ["fit"]:
        fit()
        return
    for name in sys.argv[1:] or sections:
        sections[name]()


if __name__ == "__main__":
    main()
