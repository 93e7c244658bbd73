"""Measure segments: likelihood and speed beside StepMix, the test of their number, and relations without bias.

    pip install "twoway[bench]"
    python benchmarks/segments.py [likelihood|test|seconds|steps|errors|coverage]

Prints the Markdown tables of docs/segments.md. "likelihood" compares the best of 20 starts with StepMix's on the data
sets of poLCA (TWOWAY_DATA, lca/), one thread each (half an hour, nearly all of it StepMix's). "test" prints how often
the bootstrap likelihood-ratio test rejects on simulated people (10 minutes), "seconds" how long it takes on election.
"steps" compares BCH and ML estimates with StepMix's, "errors" their standard errors with those of its bootstrap
(20 minutes), "coverage" how often 90 % intervals contain the truth (10 minutes).
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import twoway as tw
from twoway.segmentation.number import likelihood_ratio_test
from twoway.segmentation.search import Search

N_STARTS = 20
ITEMS = [f"x{n}" for n in range(6)]
MEANS, SLOPES = np.array([-1.0, 1.0, 0.0]), np.array([0.0, -1.0, 1.0])


def main() -> None:
    sections = {
        "likelihood": likelihood,
        "test": test,
        "seconds": seconds,
        "steps": steps,
        "errors": errors,
        "coverage": coverage,
    }
    for name in sys.argv[1:] or sections:
        sections[name]()
        print(flush=True)


def data_sets() -> dict[str, pd.DataFrame]:
    folder = Path(os.environ["TWOWAY_DATA"]) / "lca"
    frames = {name: pd.read_csv(folder / f"poLCA__{name}.csv") for name in ("carcinoma", "gss82", "election")}
    return {**frames, "election": frames["election"].iloc[:, :12]}


def likelihood() -> None:
    """The best of as many starts, by both, and the seconds that each took."""
    from stepmix import StepMix

    print("| data | segments | twoway | StepMix | twoway, s | StepMix, s | times faster |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, frame in data_sets().items():
        codes = frame.apply(lambda column: pd.Series(pd.factorize(column, sort=True)[0]))
        values = codes.where(codes >= 0).to_numpy(dtype=float)
        kind = "categorical_nan" if np.isnan(values).any() else "categorical"
        records = tw.Records(frame)
        for count in range(2, 7):
            # Compiled once, and not in what is measured; both begin with codes that were read before.
            Search(records.for_fit(), 1).best(count, n_starts=1, seed=[1])
            began = time.perf_counter()
            ours = Search(records.for_fit(), 1).best(count, n_starts=N_STARTS, seed=[0]).log_likelihood
            own = time.perf_counter() - began
            began = time.perf_counter()
            model = StepMix(count, measurement=kind, n_init=N_STARTS, random_state=0, verbose=0, progress_bar=0)
            theirs = quiet(model.fit, values).score(values) * len(values)
            other = time.perf_counter() - began
            print(
                f"| {name} | {count} | {ours:.3f} | {theirs:.3f} | {own:.3f} | {other:.1f} | {other / own:.0f} |",
                flush=True,
            )


def quiet(function: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


# Simulated people of three classes, as in Bakk and Kuha (2018)


def simulate(n: int, separation: float, random: np.random.Generator, labels: Any = None) -> tuple[pd.DataFrame, Any]:
    chances = np.array([[separation] * 6, [separation] * 3 + [1 - separation] * 3, [1 - separation] * 6])
    labels = random.integers(0, 3, n) if labels is None else labels
    return pd.DataFrame((random.random((n, 6)) < chances[labels]).astype(int), columns=ITEMS), labels


def test() -> None:
    """How often one class more is accepted at 5 %: the true number against one less, and one more than that."""
    n_samples, n_replicates = 500, 99
    print("| people | test | rejected |\n|---:|---|---:|")
    for n in (500, 1000):
        rejected = {3: 0, 4: 0}
        for sample in range(n_samples):
            frame, _ = simulate(n, 0.8, np.random.default_rng([n, sample]))
            search = Search(tw.Records(frame).for_fit(), None)
            climbs = {count: search.best(count, n_starts=20, seed=[sample]) for count in (2, 3, 4)}
            for count in rejected:
                if count == 3 and sample >= 100:
                    continue
                p_value, _ = likelihood_ratio_test(
                    search, climbs[count - 1], climbs[count], count, n_replicates, seed=sample, show=lambda done: None
                )
                rejected[count] += p_value <= 0.05
        print(f"| {n} | 4 segments against 3, the truth (size) | {rejected[4] / n_samples:.1%} |")
        print(f"| {n} | 3 segments, the truth, against 2 (power) | {rejected[3] / 100:.1%} |", flush=True)


def seconds() -> None:
    """How long 100 replicates of the test take on the election study."""
    search = Search(tw.Records(data_sets()["election"]).for_fit(), None)
    print("| test on election | ratio | p | replicates | seconds |\n|---|---:|---:|---:|---:|")
    for count in (3, 4, 5):
        fewer, more = (search.best(number, n_starts=50, seed=[0]) for number in (count - 1, count))
        began = time.perf_counter()
        p_value, n = likelihood_ratio_test(search, fewer, more, count, 100, seed=0, show=lambda done: None)
        took = time.perf_counter() - began
        ratio = 2 * (more.log_likelihood - fewer.log_likelihood)
        print(f"| {count} segments against {count - 1} | {ratio:.1f} | {p_value:.3f} | {n} | {took:.1f} |", flush=True)


def their_data(kind: str, separation: float, n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    from stepmix import datasets

    make = datasets.data_bakk_covariate if kind == "covariate" else datasets.data_bakk_response
    items, other, _ = make(n, separation, random_state=1)
    return pd.DataFrame(items.astype(int), columns=ITEMS).assign(other=other.ravel().astype(float)), items, other


def their_model(kind: str, correction: str) -> Any:
    from stepmix import StepMix

    options = {"n_components": 3, "measurement": "bernoulli", "n_steps": 3, "n_init": 10, "max_iter": 3000}
    options |= {"random_state": 0, "verbose": 0, "progress_bar": 0}
    if kind == "covariate":
        # One step of Newton's is one of the EM of "ML", but no logit with BCH weights.
        params = {"method": "newton-raphson", "max_iter": 1 if correction == "ML" else 100}
        return StepMix(structural="covariate", correction=correction, structural_params=params, **options)
    return StepMix(structural="gaussian_diag", correction=correction, **options)


def in_our_order(model: Any, found: tw.Segments) -> list[int]:
    ours = np.array([factor[1] for factor in found.pmf.factors]).T
    theirs = model.get_parameters()["measurement"]["pis"]
    return [int(np.argmin(((theirs - own) ** 2).sum(axis=1))) for own in ours]


def related(found: tw.Segments, frame: pd.DataFrame, kind: str, correction: str, replicates: int) -> Any:
    options = {"correction": correction.lower(), "replicates": replicates}
    if kind == "covariate":
        return found.covariates(frame, "other", **options)
    return found.outcomes(frame, "other", **options)["other"]


def steps() -> None:
    """Estimates beside StepMix's."""
    print("| data | separation | correction | most that an estimate differs |\n|---|---:|---|---:|")
    for kind in ("covariate", "outcome"):
        for separation in (0.8, 0.9):
            frame, items, other = their_data(kind, separation, 3000)
            found = tw.segments(frame[ITEMS], 3, replicates=0)
            for correction in ("BCH", "ML"):
                model = quiet(their_model(kind, correction).fit, items, other)
                theirs = model.get_parameters()["structural"]["beta" if kind == "covariate" else "means"]
                theirs = theirs[in_our_order(model, found)]
                answer = related(found, frame, kind, correction, 50)
                ours = answer.coefficients if kind == "covariate" else answer.estimates
                theirs = (theirs - theirs[0])[1:] if kind == "covariate" else theirs
                print(f"| {kind} | {separation} | {correction} | {np.abs(ours - theirs).max():.1e} |", flush=True)


def errors() -> None:
    """Standard errors beside those of StepMix's bootstrap."""
    n_theirs, n_ours = 150, 1000
    print("| data | correction | twoway | StepMix | most that one differs | StepMix's own chance |")
    print("|---|---|---|---|---:|---:|")
    for kind in ("covariate", "outcome"):
        frame, items, other = their_data(kind, 0.9, 3000)
        found = tw.segments(frame[ITEMS], 3, replicates=0)
        for correction in ("BCH", "ML"):
            model = their_model(kind, correction)
            model.set_params(n_init=1, abs_tol=1e-8)
            quiet(model.fit, items, other)
            order = in_our_order(model, found)
            drawn, _ = quiet(model.bootstrap, items, other, n_repetitions=n_theirs, progress_bar=False, random_state=0)
            drawn = drawn.reset_index()
            drawn = drawn[drawn["model"] == "structural"]
            if kind == "outcome":
                drawn = drawn[drawn["param"] == "means"]
            by_class = drawn.pivot_table(index="rep", columns=["class_no", "variable"], values="value")
            names = ["intercept", "feature_0"] if kind == "covariate" else ["feature_0"]
            values = by_class.to_numpy().reshape(len(by_class), 3, len(names))[:, order]
            values = values[:, 1:] - values[:, :1] if kind == "covariate" else values
            theirs = values.std(axis=0, ddof=1)
            ours = related(found, frame, kind, correction, n_ours).errors
            if kind == "covariate":
                variables = list(by_class.columns.get_level_values(1)[:2])
                theirs = theirs[
                    :, [variables.index(name) for name in sorted(variables, key=lambda v: v != "intercept")]
                ]
            chance = theirs.max() / np.sqrt(2 * n_theirs)
            shown = [", ".join(f"{value:.4f}" for value in some.ravel()) for some in (ours, theirs)]
            worst = np.abs(ours - theirs).max()
            print(f"| {kind} | {correction} | {shown[0]} | {shown[1]} | {worst:.4f} | ± {chance:.4f} |", flush=True)


def coverage() -> None:
    """How often 90 % intervals contain the truth, and the bias of each correction."""
    n_samples, n, n_replicates = 100, 1000, 100
    print("| relation | correction | bias | 90 % intervals that contain the truth |\n|---|---|---:|---:|")
    truths = {"outcome": MEANS[:2, None], "covariate": np.array([[-1.0], [1.0]])}
    results: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for sample in range(n_samples):
        random = np.random.default_rng(sample)
        z = random.integers(1, 6, n)
        logits = z[:, None] * SLOPES + np.array([0.0, 2.34459467, -3.65540533])
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        chosen = (shares.cumsum(axis=1) < random.random((n, 1))).sum(axis=1)
        for kind, labels in (("outcome", None), ("covariate", chosen)):
            frame, labels = simulate(n, 0.8, random, labels)
            frame = frame.assign(other=z.astype(float) if kind == "covariate" else random.normal(MEANS[labels]))
            found = tw.segments(frame[ITEMS], 3, starts=20, replicates=0)
            chances = np.array([[0.8] * 6, [0.8] * 3 + [0.2] * 3, [0.2] * 6])
            own = np.array([factor[1] for factor in found.pmf.factors]).T
            order = [int(np.argmin(((own - row) ** 2).sum(axis=1))) for row in chances]
            if sorted(order) != [0, 1, 2]:
                continue
            for correction in ("none", "BCH", "ML"):
                answer = related(found, frame, kind, correction, n_replicates)
                if kind == "outcome":
                    estimate, error = answer.estimates[order][:2], answer.errors[order][:2]
                else:
                    # Against the first true class, whichever segment is the reference.
                    estimate, error = against_first(found, frame, answer, order, correction)
                results.setdefault((kind, correction), []).append((estimate, error))
    for (kind, correction), drawn in results.items():
        estimates, spread = (np.array(part) for part in zip(*drawn, strict=True))
        truth = truths[kind]
        bias = np.abs(estimates.mean(axis=0) / truth - 1).max()
        inside = (np.abs(estimates - truth) <= 1.645 * spread).mean()
        print(f"| {kind} | {correction} | {bias:.1%} | {inside:.1%} |", flush=True)


def against_first(found: tw.Segments, frame: pd.DataFrame, answer: Any, order: list[int], correction: str) -> Any:
    if order[0] != 0:
        names = [found.names[place] for place in order]
        pmf = tw.JointPMF(
            found.pmf.weights[order], [factor[:, order] for factor in found.pmf.factors], found.pmf.schema
        )
        found = tw.Segments(pmf, tuple(names), found.candidates, found.quality, found.errors[:, order])
        answer, order = related(found, frame, "covariate", correction, 100), [0, 1, 2]
    places = [place - 1 for place in order[1:]]
    return answer.coefficients[places, 1:], answer.errors[places, 1:]


if __name__ == "__main__":
    main()
