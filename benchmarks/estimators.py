"""Measure the estimators against their targets.

    python benchmarks/estimators.py                  everything
    python benchmarks/estimators.py classify impute  some sections: classify, speed, impute, density, crowd
    python benchmarks/estimators.py --splits 5       fewer random splits of the classifiers' data than 20

Prints the tables of docs/estimators.md and writes them there. Every estimator has its default options. Data come from
the folder in TWOWAY_DATA.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from core import ROOT, Row, best_of, folder
from numpy.typing import NDArray

import twoway as tw

PAGE = ROOT / "docs" / "estimators.md"
# Targets of the mean accuracy.
ACCURACY = {"votes": 0.953, "car": 0.945, "nursery": 0.988, "mushroom": 0.9995}


def data() -> Path:
    path = folder("TWOWAY_DATA")
    if path is None:
        sys.exit("there is no data folder: set TWOWAY_DATA")
    return path


def uci(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return features and label, prepared as the paper's data; missing votes stay missing."""
    os.environ["TWOWAY_DATA"] = str(data())
    frame = getattr(tw.datasets, name)()
    label = frame.pop("class")
    if name == "nursery":
        frame = frame.drop(columns="finance")
        label = label.replace({"priority": "spec_prior"})
    # Declare all categories, including those that a training part happens to lack.
    return frame.astype("category"), label


def election() -> pd.DataFrame:
    """Return the survey, with age in six groups."""
    frame = pd.read_csv(data() / "lca" / "poLCA__election.csv")
    frame["AGE"] = frame["AGE"].where(frame["AGE"].isna(), np.digitize(frame["AGE"], [30, 40, 50, 60, 70]))
    return frame


def split(n_records: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 70 % for training, which the classifier splits itself, and 30 % for testing."""
    order = np.random.default_rng(seed).permutation(n_records)
    return order[: round(0.7 * n_records)], order[round(0.7 * n_records) :]


def naive_bayes(
    train: pd.DataFrame, label: pd.Series, test: pd.DataFrame, smoothing: float = 1.0
) -> NDArray[np.object_]:
    """Return predictions of scikit-learn's CategoricalNB, without the terms of missing cells."""
    classes, codes = np.unique(label, return_inverse=True)
    scores = np.tile(np.log(np.bincount(codes)), (len(test), 1))
    for name in train.columns:
        known = train[name].cat.codes.to_numpy()
        counts = np.full((len(classes), len(train[name].cat.categories)), smoothing)
        np.add.at(counts, (codes[known >= 0], known[known >= 0]), 1.0)
        terms = np.column_stack([np.log(counts / counts.sum(axis=1, keepdims=True)), np.zeros(len(classes))])
        scores += terms[:, test[name].cat.codes].T  # code -1, missing, is the column of zeros
    return classes[scores.argmax(axis=1)]


def classify(n_splits: int) -> Iterator[Row]:
    """Accuracy on complete rows, and with 30 % of the test features hidden."""
    for name, target in ACCURACY.items():
        features, label = uci(name)
        results = []
        for seed in range(n_splits):
            learn, test = split(len(features), seed)
            model = tw.JointPMFClassifier().fit(features.iloc[learn], label.iloc[learn])
            whole, truth = features.iloc[test], label.iloc[test].to_numpy()
            hidden = whole.mask(np.random.default_rng(seed).random(whole.shape) < 0.3).astype(whole.dtypes)
            results.append(
                [
                    (predicted == truth).mean()
                    for predicted in (
                        model.predict(whole),
                        model.predict(hidden),
                        naive_bayes(features.iloc[learn], label.iloc[learn], whole),
                        naive_bayes(features.iloc[learn], label.iloc[learn], hidden),
                    )
                ]
            )
        ours, holes, bayes, bayes_holes = np.mean(results, axis=0)
        spread = np.std(results, axis=0)
        yield (
            f"{name}: accuracy, {n_splits} splits (naive Bayes {bayes:.2%})",
            f"≥ {target:.2%}",
            f"{ours:.2%} ± {spread[0]:.2%}",
            bool(ours >= target),
        )
        also = " and within 2 points of complete rows" * (name == "mushroom")
        reached = holes > bayes_holes and (name != "mushroom" or ours - holes <= 0.02)
        yield (
            f"{name}: 30 % of the test features hidden",
            f"> naive Bayes, {bayes_holes:.2%}{also}",
            f"{holes:.2%} ± {spread[1]:.2%}",
            bool(reached),
        )


def speed() -> Iterator[Row]:
    """The classifier's fit against logistic regression's, on Mushroom."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    features, label = uci("mushroom")
    learn, test = split(len(features), 0)
    features_learn, label_learn = features.iloc[learn], label.iloc[learn]
    one_hot = OneHotEncoder().fit_transform(features_learn)
    # Alternate, so that load from other programs affects both.
    ours, theirs = [], []
    for _ in range(3):
        theirs.append(best_of(lambda: LogisticRegression(max_iter=1000).fit(one_hot, label_learn), 5))
        ours.append(best_of(lambda: tw.JointPMFClassifier().fit(features_learn, label_learn), 1))
    ratio = min(ours) / min(theirs)
    yield (
        "mushroom: JointPMFClassifier's fit against LogisticRegression's (one-hot)",
        "< 150 times",
        f"{ratio:.0f} times ({min(ours):.2f} s, {min(theirs) * 1e3:.0f} ms)",
        ratio < 150,
    )
    model = tw.JointPMFClassifier().fit(features_learn, label_learn)
    seconds = best_of(lambda: model.predict(features.iloc[test]), 5)
    yield f"mushroom: prediction of {len(test)} records", "", f"{seconds * 1e3:.0f} ms", True


def impute() -> Iterator[Row]:
    """Missing cells filled correctly, the loss of their probabilities, and how well calibrated these are."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, SimpleImputer

    tables = {
        "bfi": (pd.read_csv(data() / "surveys" / "bfi.csv.gz").iloc[:, :25], 0.419, 1.4),
        "election": (election(), 0.563, 0.996),
    }
    for name, (frame, least_right, most_loss) in tables.items():
        rights, losses, confidences, hits = [], [], [], []
        for seed in range(5):
            hidden = (np.random.default_rng(seed).random(frame.shape) < 0.2) & frame.notna().to_numpy()
            holes = frame.mask(hidden)
            codes = holes.apply(lambda column: column.astype("category").cat.codes).replace(-1, np.nan)
            categories = [holes[column].astype("category").cat.categories for column in holes]
            filled = {
                "ours": (model := tw.JointPMFImputer().fit(holes)).transform(holes).to_numpy()[hidden],
                "common": SimpleImputer(strategy="most_frequent").fit_transform(holes)[hidden],
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that 20 rounds were not enough to converge
                completed = IterativeImputer(max_iter=20, random_state=0).fit_transform(codes)
            rounded = np.rint(completed).astype(int)
            iterative = np.column_stack(
                [
                    known.to_numpy()[column.clip(0, len(known) - 1)]
                    for known, column in zip(categories, rounded.T, strict=True)
                ]
            )
            filled["iterative"] = iterative.astype(object)[hidden]
            truth = frame.to_numpy()[hidden]
            rights.append([(guess == truth).mean() for guess in filled.values()])
            chances = model.predict_proba(holes)
            rows, columns = np.nonzero(hidden)
            true_cells = zip(rows, frame.columns[columns], truth, strict=True)
            losses.append(-np.log([chances.at[cell] for cell in true_cells]).mean())
            best = chances.groupby(level=["row", "column"], sort=False).max()
            positions = (
                best.index.get_level_values("row"),
                frame.columns.get_indexer(best.index.get_level_values("column")),
            )
            of_hidden = hidden[positions]
            confidences.append(best.to_numpy()[of_hidden])
            guesses = model.transform(holes).to_numpy()[positions]
            hits.append((guesses == frame.to_numpy()[positions])[of_hidden])
        ours, common, iterative_right = np.mean(rights, axis=0)
        yield (
            f"{name}: 20 % of cells hidden, missing cells filled correctly",
            f"≥ {least_right:.1%}; > most common, {common:.1%}; > IterativeImputer, {iterative_right:.1%}",
            f"{ours:.1%}",
            bool(ours >= least_right and ours > max(common, iterative_right)),
        )
        loss = float(np.mean(losses))
        yield f"{name}: log-loss of the hidden cells", f"≤ {most_loss}", f"{loss:.3f}", loss <= most_loss
        error = calibration_error(np.concatenate(confidences), np.concatenate(hits))
        yield f"{name}: expected calibration error, all missing cells", "≤ 0.03", f"{error:.4f}", error <= 0.03


def calibration_error(confidence: NDArray[np.float64], hit: NDArray[np.bool_], n_bins: int = 15) -> float:
    """Return the mean gap between predicted probability and accuracy, over bins of the probability."""
    of_guess = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [
        (of_guess == one).mean() * abs(confidence[of_guess == one].mean() - hit[of_guess == one].mean())
        for one in np.unique(of_guess)
    ]
    return float(np.sum(gaps))


def density() -> Iterator[Row]:
    """Mean test log-likelihood: trained on the training part alone, all choices made on the validation part alone."""
    targets = {"nltcs": -6.0, "plants": -12.45, "pumsb_star": -23.7, "bbc": -247.0}
    for name, target in targets.items():
        train, valid, test = (
            np.loadtxt(data() / "density" / name / f"{name}.{part}.data.gz", delimiter=",", dtype=np.int64)
            for part in ("train", "valid", "test")
        )
        yield density_row(name, target, train, test, validation=valid)
    frame = election()
    order = np.random.default_rng(0).permutation(len(frame))
    train, test = frame.iloc[order[: len(frame) // 2]], frame.iloc[order[len(frame) // 2 :]]
    # Rows with a category that training lacks have no probability.
    known = [test[name].isna() | test[name].isin(train[name]) for name in frame]
    yield density_row("election", -16.92, train, test[np.logical_and.reduce(known)])


def density_row(name: str, target: float, train: Any, test: Any, **options: Any) -> Row:
    started = time.perf_counter()
    model = tw.JointPMFDensity().fit(train, **options)
    seconds = time.perf_counter() - started
    score = model.score(test)
    forms = ", ".join(f"{share:.0%} {form}" for form, share in model.forms_.items())
    what = f"{name}: mean test log-likelihood, {len(train)} records of {train.shape[1]} columns"
    return what, f"≥ {target}", f"{score:.3f} ({forms}; {seconds:.0f} s)", score >= target


def crowd() -> Iterator[Row]:
    """Labels of many annotators, by the memberships of a model whose components are the classes."""
    for name in ("bluebird", "rte"):
        given = pd.read_csv(data() / "crowd" / name / "label.csv")
        truth = pd.read_csv(data() / "crowd" / name / "truth.csv").set_index("item")["truth"]
        votes = given.pivot(index="item", columns="worker", values="label").add_prefix("worker ")
        truth = truth.loc[votes.index].to_numpy()
        share = votes.mean(axis=1).to_numpy()
        # A tie counts as half right.
        majority = float(np.mean((share > 0.5) == truth, where=share != 0.5) * (share != 0.5).mean())
        majority += 0.5 * float((share == 0.5).mean())
        schema = tw.Schema(tuple(tw.Variable(worker, (0, 1)) for worker in votes.columns))
        records = tw.Records(votes, schema=schema)
        pmf = tw.fit(records, rank=2, smoothing=2)
        agreed = pd.DataFrame({worker: [0, 1] for worker in votes.columns})
        component_of_class = pmf.memberships(agreed).argmax(axis=1)
        ours = float((pmf.memberships(records)[:, component_of_class].argmax(axis=1) == truth).mean())
        yield (
            f"{name}: labels of {votes.shape[1]} annotators",
            f"≥ majority, {majority:.1%}",
            f"{ours:.1%}",
            ours >= majority,
        )


SECTIONS = {"classify": classify, "speed": speed, "impute": impute, "density": density, "crowd": crowd}


def write(name: str, rows: list[Row]) -> None:
    """Replace a section's table on the page."""
    lines = ["| what | target | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {what} | {target} | {got} | {'' if reached else 'not reached'} |" for what, target, got, reached in rows
    ]
    begin, end = f"<!-- measured: {name} -->\n", "<!-- end -->"
    before, after = PAGE.read_text().split(begin)
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + after[after.index(end) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"{', '.join(SECTIONS)}; all by default")
    parser.add_argument("--splits", type=int, default=20)
    asked = parser.parse_args()
    for name in asked.sections or SECTIONS:
        if name not in SECTIONS:
            sys.exit(f"no section {name!r}; known: {', '.join(SECTIONS)}")
        rows = []
        for row in SECTIONS[name](asked.splits) if name == "classify" else SECTIONS[name]():
            rows.append(row)
            print(f"| {' | '.join(row[:3])} | {'' if row[3] else 'not reached'} |", flush=True)
        write(name, rows)


if __name__ == "__main__":
    main()
