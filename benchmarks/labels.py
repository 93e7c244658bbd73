"""Measure the label aggregator, and print Markdown tables; peers.py compares its accuracy with crowd-kit's.

    python benchmarks/labels.py             everything
    python benchmarks/labels.py coverage    how often 95% intervals contain the true confusions and accuracies
    python benchmarks/labels.py size        time and memory for a million labels of 10,000 annotators

Labels are simulated.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pandas as pd
from memory import resident_bytes

import twoway as tw

SEEDS = range(20)


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
    sections = {"coverage": coverage, "size": size}
    if sys.argv[1:] == ["fit"]:
        fit()
        return
    for name in sys.argv[1:] or sections:
        sections[name]()


if __name__ == "__main__":
    main()
